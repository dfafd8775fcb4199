from pathlib import Path
from types import SimpleNamespace

import pytest

from edgec.ondevice.failures import failure
from edgec.ondevice.transport import Answer

MODULE = SimpleNamespace(path=Path("net.vmfb"))


@pytest.mark.parametrize(
    ("code", "out", "err", "kind", "what"),
    [
        (1, "", "error: x is missing\n", 40, "net.vmfb failed on ssh:pi: x is missing"),
        (1, "error: mixed\n", "", 40, "net.vmfb failed on ssh:pi: mixed"),
        (1, "", "error: the module needs hal.x\n", 31, "does not run on ssh:pi: the module needs"),
        (1, "", "error: cannot write a: No space left on device", 40, "space: cannot write a: No"),
        (2, "", "cat: No space left on device", 40, "ran out of space: cat: No space left"),
        (126, "", "sh: ./edgert: Permission denied", 40, "does not run programs in /tmp/x: sh:"),
        (132, "", "", 40, "by an instruction that its CPU does not have"),
        (137, "", "Killed", 40, "probably the memory did not suffice"),
        (129, "", "", 40, "by signal 1"),
        (3, "", "", 40, "edgert failed on ssh:pi: exit code 3"),
    ],
)
def test_what_was_said_becomes_an_error(
    code: int, out: str, err: str, kind: int, what: str
) -> None:
    found = failure(Answer(code=code, out=out, err=err), MODULE, "ssh:pi", "/tmp/x")
    assert found.exit_code == kind
    assert what in found.what
