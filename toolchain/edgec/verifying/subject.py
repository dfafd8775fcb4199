"""A program or a module to what is verified: a module, and calls of it with known answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.runtime.errors import ModuleError, ProgramError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.module import Module
from edgec.runtime.seeded_calls import SeededCalls
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain.compiling import CompileOptions, compile_with_report
from edgec.toolchain.load import load_program
from edgec.toolchain.program import Program

__all__ = ["Calls", "Subject", "open_subject", "refuse_other"]

Calls = Golden | SeededCalls
"""Answers in full, or what a module itself brings of them."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is verified.

    Attributes:
        module: the module.
        calls: calls in order, with their answers.
        source: who gave the answers.
        tolerance: how far answers may be off; None for each type's default.
        program: what the module was compiled of just now; None where a module was given.
    """

    module: Module
    calls: Calls
    source: str
    tolerance: Tolerance | None
    program: Program | None

    @property
    def asked(self) -> list[tuple[str, tuple[np.ndarray, ...]]]:
        """Each call's function and inputs."""
        if isinstance(self.calls, Golden):
            return [(call.signature, call.inputs) for call in self.calls.calls]
        return [
            (call.function, tuple(given.array() for given in call.inputs))
            for call in self.calls.calls
        ]


def open_subject(
    path: Path | str,
    *,
    is_program: bool,
    target: str | None,
    golden: Path | str | None,
    options: CompileOptions,
    key: bytes | None = None,
    ask: Callable[[Module], Golden] | None = None,
) -> Subject:
    """Read what was named, and compile it if it is a program.

    Args:
        path: a program or a module.
        is_program: which of them it is.
        target: what a program is compiled for; None for this machine's CPU.
        golden: a file of golden answers; None for the one beside `path`, or what the module brings.
        options: how a program is compiled; `output` says where its module goes.
        key: a public key, 32 bytes, that must have signed a module.
        ask: makes calls without answers where there are no golden ones; None to refuse that.

    Raises:
        ProgramError, ModuleError: there are no answers to compare with, or a file is damaged.
        FileError: a file cannot be read.
        CompileError: a program cannot be compiled.
    """
    path = Path(path)
    if is_program:
        program = load_program(path)
        known = program.golden if golden is None else Golden.load(golden)
        if (known is None or not known.calls) and ask is None:
            raise ProgramError(
                f"{path} has no golden answers to be verified by",
                hint="export the model with edgec, which records them, or name them with --golden",
            )
        made = compile_with_report(program, target or "cpu", options)
        return Subject(
            module=made.module,
            calls=known if known is not None and known.calls else _asked(ask, made.module),
            source=program.info.provenance.framework,
            tolerance=made.report.tolerance,
            program=program,
        )
    module = Module.read(path, key=key)
    beside = Path(golden or Golden.path_for(path))
    if golden is not None or beside.exists():
        answers = Golden.load(beside)
        refuse_other(module, answers.calls, beside)
        return Subject(
            module=module, calls=answers, source=str(beside), tolerance=None, program=None
        )
    if module.golden:
        seeded = SeededCalls.read(module.golden)
        return Subject(
            module=module, calls=seeded, source=seeded.source, tolerance=None, program=None
        )
    if ask is not None:
        return Subject(module=module, calls=ask(module), source="", tolerance=None, program=None)
    raise ModuleError(
        f"{path} brings no golden answers, and there is no {beside}",
        hint="name them with --golden, or compile with --embed-golden",
    )


def _asked(ask: Callable[[Module], Golden] | None, module: Module) -> Golden:
    return Golden(calls=()) if ask is None else ask(module)


def refuse_other(module: Module, calls: Sequence[GoldenCall], file: Path) -> None:
    """Refuse answers that are another program's.

    Raises:
        ModuleError: a call does not fit the module.
    """
    for call in calls:
        signature = module.signatures.get(call.signature)
        if (
            signature is None
            or len(signature.inputs) != len(call.inputs)
            or len(signature.outputs) != len(call.outputs)
        ):
            raise ModuleError(
                f"{file} calls {call.signature}, which {module.path} has not in this form",
                hint="use the golden answers that were exported with its program",
            )
