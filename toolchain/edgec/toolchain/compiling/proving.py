"""Kernels of the user's own in a program, each proved against its reference on the target's device.

A kernel is compiled alone, as a program whose golden answers are its reference's, and checked as
every module is. What a program's own golden answers say is too little: a small error of a kernel
may be lost in what follows.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.runtime.errors import WrongAnswer
from edgec.toolchain import isolate
from edgec.toolchain.compiling.progress import Clock
from edgec.toolchain.compiling.report import Compiled
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.load import load_program

__all__ = ["prove_kernels"]

_TIMEOUT = 600.0


def prove_kernels(task: Task, scratch: Path, make: Callable[[Task], Compiled]) -> tuple[str, ...]:
    """Compile and check each kernel alone; what the user should know of those not proved.

    Args:
        task: a program with kernels, its target and options.
        scratch: a folder for files.
        make: compiles and checks a task.

    Raises:
        WrongAnswer: a kernel computes something else than its reference.
        As `compile`, where a kernel alone cannot be compiled.
    """
    program = task.program
    if not task.options.check or program.info.provenance.source == _ALONE:
        return ()
    source = scratch / "kernels.mlirbc"
    source.write_bytes(program.bytecode)
    found = isolate.call(
        "own_kernels",
        {"source": str(source), "folder": str(scratch)},
        subject=task.name,
        timeout=_TIMEOUT,
    )
    notes = []
    for each in found:
        if problem := each["problem"] or _proved(task, each, make):
            notes.append(f"kernel {each['name']}: not proved alone: {problem}")
    return tuple(notes)


_ALONE = "a kernel alone"
"""The source of the programs that are made here."""


def _proved(task: Task, found: dict[str, Any], make: Callable[[Task], Compiled]) -> str:
    """Why a kernel was not proved; empty where it was."""
    kernel = load_program(found["file"], cache=False)
    info = replace(kernel.info, provenance=replace(kernel.info.provenance, source=_ALONE))
    options = replace(
        task.options,
        output=None,
        keep_temps=None,
        tuned=None,
        outside=None,
        seeded=None,
        taps=False,
    )
    alone = Task(
        program=replace(kernel, info=info),
        target=task.target,
        options=options,
        clock=Clock(target=task.target.name, progress=None),
    )
    try:
        check = make(alone).report.check
    except WrongAnswer as error:
        _, _, how = error.what.partition(": ")
        raise WrongAnswer(
            f"the kernel {found['name']} computes something else than its reference: "
            f"{how or error.what}",
            where=task.place(found["where"] or None),
            hint="mend the kernel or its reference, and export the model again; "
            "--disable-pass=own-kernels computes the references",
        ) from error
    return check.removeprefix("unchecked: ") if check.startswith("unchecked") else ""
