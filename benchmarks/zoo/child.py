"""The work on one model, each step in a process of its own; the result is one JSON object.

python -m benchmarks.zoo.child list KIND
python -m benchmarks.zoo.child build KIND NAME     in the model's folder: whether its library can
python -m benchmarks.zoo.child export KIND NAME    in the same folder
python -m benchmarks.zoo.child onnx KIND NAME      in the same folder: the model for the peers
python -m benchmarks.zoo.child run TARGET          in the same folder
python -m benchmarks.zoo.child beside TARGET       in the same folder: on IREE's driver and edgert's
python -m benchmarks.zoo.child compile TARGET      in the same folder: how long compiling takes
python -m benchmarks.zoo.child arm KIND NAME       in the same folder: instructions on 64-bit Arm
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.row import LACKS, OUT, UNSETTLED
from benchmarks.zoo.settled import unsettled
from benchmarks.zoo.subject import Left
from edgec.runtime.errors import CompileError, EdgecError

PROGRAM = Path("model.mlirbc")
ONNX = Path("model.onnx")
BUILT = Path("built")
"""There once its library has built the model; what fails before is not edgec's doing."""


def compiled(target: str, folder: Path) -> Path:
    """Where a model's module lies once it is compiled."""
    return folder / f"model.{target}.vmfb"


def listed(kind: str) -> Any:
    """The names of a kind's models."""
    from benchmarks.zoo.catalogue import kind_of

    return kind_of(kind).names()


def built(kind: str, name: str) -> dict[str, Any]:
    """Build the model, and nothing else; it leaves why there is none."""
    from benchmarks.zoo.catalogue import kind_of

    kind_of(kind).build(name)
    return {}


def exported(kind: str, name: str) -> dict[str, Any]:
    """Build the model and save its program with golden answers."""
    from benchmarks.zoo.catalogue import kind_of
    from edgec.exporters import export, export_source

    built = kind_of(kind).build(name)
    BUILT.touch()
    begin = time.monotonic()
    if isinstance(built.model, str):
        try:
            program = export_source(built.model, folder=Path.cwd())
        except EdgecError as error:
            why = "" if built.proof is None else unsettled(built.model, *built.proof)
            if not why:
                raise
            return {"error": UNSETTLED, "what": f"{why}; refused: {error.what}"}
    else:
        program = export(built.model, built.inputs, example_kwargs=built.kwargs, folder=Path.cwd())
    program.save(PROGRAM)
    if built.proof is not None:
        _prove_by(*built.proof)
    return {"seconds": round(time.monotonic() - begin, 2), "dialect": program.info.dialect.value}


def _prove_by(inputs: Sequence[np.ndarray], answers: Sequence[np.ndarray]) -> None:
    """Others' answers in the place of those that edgec had made, if the inputs are theirs.

    Inputs that decide sizes are part of the program, and those that are left are in their order.
    Answers that are edgec's own (its framework's) but for what lies behind some decimal prove less.
    """
    from edgec.runtime import Golden

    path = Golden.path_for(PROGRAM)
    (call,) = Golden.load(path).calls
    left = iter(inputs)
    theirs = all(any(_same(one, other) for other in left) for one in call.inputs)
    if theirs and not all(map(_rounded, call.outputs, answers)):
        Golden(calls=(replace(call, outputs=tuple(answers)),)).save(path)


_DECIMALS = (3, 4, 5, 6)


def _rounded(own: np.ndarray, other: np.ndarray) -> bool:
    """Whether the other have so many decimals, and are our own but for the last of them."""
    if own.dtype.kind != "f" or own.dtype != other.dtype or own.shape != other.shape:
        return False
    wide, apart = other.astype(np.float64), np.abs(own.astype(np.float64) - other)
    return any(
        np.array_equal(wide.round(digits).astype(own.dtype), other)
        and bool((apart <= 1.01 * 0.1**digits).all())
        for digits in _DECIMALS
    )


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def written(kind: str, name: str) -> dict[str, Any]:
    """Build the model and write it as ONNX."""
    from benchmarks.zoo.catalogue import kind_of

    built = kind_of(kind).build(name)
    if built.onnx is None:
        return {"error": "Missing", "what": "there is no ONNX form of it"}
    part = ONNX.with_suffix(".part.onnx")
    built.onnx(str(part))
    if isinstance(built.model, str) and PROGRAM.exists():
        _decide(part)
    part.replace(ONNX)
    return {}


def _decide(file: Path) -> None:
    from benchmarks.zoo.decided import without_decided
    from edgec.runtime import Golden
    from edgec.toolchain import load_program

    (function,) = load_program(PROGRAM).info.functions
    call = Golden.load(Golden.path_for(PROGRAM)).calls[0]
    without_decided(file, [spec.name for spec in function.signature.inputs], call.inputs)


def ran(target: str) -> dict[str, Any]:
    """Compile the program, run its golden calls, and compare every answer."""
    from benchmarks.zoo.accuracy import proofs
    from edgec import runtime, targets, toolchain
    from edgec.runtime.fitness import driver_uri
    from edgec.toolchain.early_refusals import refuse_missing_types

    program = toolchain.load_program(PROGRAM)
    device = driver_uri(targets.find(target).driver)  # where a user's module runs
    try:
        refuse_missing_types(program.info, targets.find(target))  # as compiling does
    except CompileError as error:
        return {"error": LACKS, "what": error.what}
    os.environ["EDGEC_VALIDATE"] = "1"  # what a kernel stands for is compared, too
    output = compiled(target, Path())
    options = toolchain.CompileOptions(output=output, check=False, cache=False)
    begin = time.monotonic()
    made = toolchain.compile_with_report(program, target, options)
    seconds = round(time.monotonic() - begin, 2)
    module, share = made.module, made.module.facts.kernels
    golden = runtime.Golden.load(runtime.Golden.path_for(PROGRAM))
    # As the check after compiling compares: products of halves are no more precise than these.
    result = runtime.check_golden(module, golden, made.report.tolerance, device=device)
    problem = ""
    if not result.ok and result.worst is not None:
        function, name, comparison = result.worst
        problem = f"{name or function}: {comparison.problem}"
    return {
        "ok": result.ok,
        "seconds": seconds,
        "max_abs": result.max_abs,
        "problem": problem,
        "proves": proofs(golden),
        "device": runtime.Device.open(device).name,
        "own": None if share is None or not share.flops else share.own_flops / share.flops,
    }


def beside(target: str) -> dict[str, Any]:
    """Compile the program, and compare IREE's driver with edgert's."""
    from benchmarks.zoo.beside import on_both

    return on_both(PROGRAM, target, compiled(target, Path()))


def timed(target: str) -> dict[str, Any]:
    """How long compiling the program takes, beside the compiler alone."""
    from benchmarks.zoo.compile_time import beside_plain

    return beside_plain(PROGRAM, target, Path())


def on_arm(kind: str, name: str) -> dict[str, Any]:
    """How many instructions a call takes on 64-bit Arm, with edgec and its peers."""
    from benchmarks.zoo.arm.instructions import counted
    from benchmarks.zoo.catalogue import FILES_OF_TFLITE, kind_of

    is_tflite = kind in FILES_OF_TFLITE or name.endswith(".tflite")
    file = Path(kind_of(kind).build(name).model) if is_tflite else None
    return counted(PROGRAM, ONNX, file)


def main(words: Sequence[str] | None = None) -> int:
    """Do a step, and leave what it came to in result.json in the current folder."""
    step, *arguments = sys.argv[1:] if words is None else words
    steps = {
        **{"list": listed, "build": built, "export": exported, "onnx": written, "run": ran},
        **{"beside": beside, "compile": timed, "arm": on_arm},
    }
    try:
        found = steps[step](*arguments)
    except EdgecError as error:
        found = {"error": error.code, "what": error.what, "where": error.where or ""}
    except Left as reason:
        found = {"error": OUT, "what": str(reason)}
    Path("result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
