"""A program to calls with inputs from a seed, and their answers by the compiler's plain CPU code.

A module's golden calls have to be small, and their answers must not come from what they prove. So
inputs are described and not stored, and the answers are those of another module: the program
compiled for this machine's CPU without any kernel of edgec's own, which first gave the framework's
answers to the framework's inputs, on IREE's runtime where that is here.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime import Device, Golden, GoldenCall, load
from edgec.runtime.conditioning import answers_beside, apart, unsettled
from edgec.runtime.errors import CompileError, DeviceMissing
from edgec.runtime.seeded_input import SeededInput
from edgec.toolchain import isolate
from edgec.toolchain.compiling import CompileOptions, compile_with_report
from edgec.toolchain.passes import PLACING
from edgec.toolchain.program import Program
from edgec.toolchain.seeded import Answered, Seeded

__all__ = ["answer_seeds", "run_seeded"]

_DEVICES = ("local-task", "cpu")
_TRIES = 3
_CPU = "cpu"


def answer_seeds(program: Program, options: CompileOptions) -> Seeded:
    """Make golden calls from seeds, like those of a program's own, and answer them.

    Args:
        program: with golden answers.
        options: whether to use the cache, and how long things may take.

    Raises:
        CompileError: the program has no golden answers, cannot be compiled for this machine's CPU
            without edgec's kernels, or gives no numbers.
        WrongAnswer: that module does not give the golden answers.
        DeviceError: it dies.
    """
    golden = program.golden
    if golden is None or not golden.calls:
        raise CompileError(
            f"{program.path or program.name} has no golden answers, after which golden calls "
            "could be made",
            hint="export the model with edgec, which records them",
        )
    first = {call.signature: call for call in reversed(golden.calls)}
    order = list(dict.fromkeys(call.signature for call in golden.calls))
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        module = Path(folder, "plain.vmfb")
        _compile_plainly(program, options, module)
        for seed in range(1, _TRIES + 1):
            inputs = [_inputs(first[name], seed) for name in order]
            asked = Golden(
                calls=tuple(
                    GoldenCall(signature=name, inputs=tuple(i.array() for i in given), outputs=())
                    for name, given in zip(order, inputs, strict=True)
                )
            )
            answered, runtime = _run(module, asked, Path(folder), options.check_timeout)
            if all(_proves(value) for call in answered.calls for value in call.outputs):
                break
        else:
            raise CompileError(
                f"the answers of {program.name} to inputs from a seed are no numbers, or none",
                hint="leave out --embed-golden",
            )
    return Seeded(
        calls=tuple(
            Answered(inputs=given, call=call)
            for given, call in zip(inputs, answered.calls, strict=True)
        ),
        source=f"{runtime} on the CPU without edgec's kernels, which gave the framework's answers "
        f"to {len(golden.calls)} golden calls",
        is_stateful=bool(program.info.states),
    )


def _compile_plainly(program: Program, options: CompileOptions, module: Path) -> None:
    plain = CompileOptions(
        output=module,
        disabled=tuple(step.name for step in PLACING),
        cache=options.cache,
        progress=options.progress,
        timeout=options.timeout,
        memory=options.memory,
        check_timeout=options.check_timeout,
        tolerance=options.tolerance,
    )
    report = compile_with_report(program, _CPU, plain).report
    if report.check.startswith("unchecked"):
        raise CompileError(
            f"who answers golden calls could not be checked itself ({report.check})",
            hint="leave out --embed-golden",
        )


def _inputs(call: GoldenCall, seed: int) -> tuple[SeededInput, ...]:
    return tuple(
        SeededInput.like(np.asarray(value), seed=1000 * seed + number)
        for number, value in enumerate(call.inputs)
    )


def _proves(value: np.ndarray) -> bool:
    return not value.size or value.dtype.kind in "biu" or bool(np.isfinite(value).all())


def _run(module: Path, asked: Golden, folder: Path, timeout: float) -> tuple[Golden, str]:
    """The calls with their answers, and what computed them."""
    question, answer = folder / "asked.npz", folder / "answered.npz"
    asked.save(question)
    runtime = isolate.call(
        "seeded",
        {"module": str(module), "asked": str(question), "answered": str(answer)},
        subject=str(module),
        timeout=timeout,
        died=lambda how: CompileError(
            f"answering golden calls on the CPU {how}", hint="leave out --embed-golden"
        ),
    )
    return Golden.load(answer), str(runtime)


def run_seeded(arguments: Mapping[str, Any]) -> str:
    """The child's part: make the calls, and again with inputs that differ in their last digits."""
    asked = Golden.load(Path(arguments["asked"]))
    with load(Path(arguments["module"]), device=_device()) as loaded:
        calls = []
        for call in asked.calls:
            run = partial(_answers, loaded[call.signature])
            answers = run(call.inputs)
            others = [] if loaded.state() else answers_beside(run, call.inputs, answers)
            calls.append(_settled(call, answers, others))
        Golden(calls=tuple(calls)).save(Path(arguments["answered"]))
        return loaded.device.runtime


def _device() -> Device:
    for uri in _DEVICES[:-1]:
        try:
            return Device.open(uri)
        except DeviceMissing:
            continue
    return Device.open(_DEVICES[-1])


def _answers(function: Any, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(result.numpy()) for result in function.call_flat(inputs))


def _settled(
    call: GoldenCall, answers: tuple[np.ndarray, ...], others: Sequence[Sequence[np.ndarray]]
) -> GoldenCall:
    same = [o for o in others if [a.shape for a in o] == [a.shape for a in answers]]
    pairs = [[other[number] for other in same] for number in range(len(answers))]
    return replace(
        call,
        outputs=answers,
        within=tuple(apart(a, found) for a, found in zip(answers, pairs, strict=True)),
        open=tuple(unsettled(a, found) for a, found in zip(answers, pairs, strict=True)),
    )
