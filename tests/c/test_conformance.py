"""edgert gives the very bits that the reference runtime gives, on one thread and on several."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession
from tests.c.programs import PROGRAMS, Program


def reference(path: Path, program: Program) -> list[list[np.ndarray]]:
    """What IREE's own runtime answers, call by call."""
    answers = []
    with runtime.load(path, device="local-sync") as loaded:
        for call in program.calls:
            outputs = loaded[call.function].call_flat(call.arguments)
            answers.append([np.array(output.numpy()) for output in outputs])
    return answers


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_bits_are_those_of_the_reference(
    program: Program,
    threads: int,
    library: object,
    compile_text: Callable[..., Path],
    same_bits: Callable[[np.ndarray, np.ndarray], bool],
) -> None:
    path = compile_text(program.text)
    device = EdgertDevice(threads=threads, library=library)
    session = EdgertSession(EdgertModule(path, library=library), device)
    for call, expected in zip(program.calls, reference(path, program), strict=True):
        actual = session.call(call.function, call.arguments)
        assert len(actual) == len(expected)
        for found, wanted in zip(actual, expected, strict=True):
            assert same_bits(found, wanted), f"{call.function}: {found} is not {wanted}"
    session.close()
