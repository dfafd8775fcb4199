"""Results lie in arguments that are given away, where no element of these is lost by it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.runtime.module import OVERWRITTEN_ATTRIBUTE
from edgec.runtime.vmfb import parse
from edgec.toolchain import CompileOptions, compile

KIND = "tensor<16x16xf32>"
ADDED = f"%r = stablehlo.add %p, %q : {KIND}"
TAKEN = f"%s = stablehlo.subtract %p, %q : {KIND}"


def _made(tmp_path: Path, lines: Sequence[str], given: Sequence[str]) -> Path:
    """A module of `%p` and `%q`, which may both be written into, whose results have these names."""
    results = ", ".join([KIND] * len(given))
    source = tmp_path / "program.mlir"
    source.write_text(
        f"func.func public @main(%p: {KIND}, %q: {KIND}) -> ({results}) {{\n"
        + "\n".join([*lines, f"return {', '.join(given)} : {results}", "}"])
    )
    donated = dict(zip(range(2), range(len(given)), strict=False))
    options = CompileOptions(output=tmp_path / "module.vmfb", donated=donated, check=False)
    return compile(source, "cpu", options).path


def _written(path: Path) -> str:
    (export,) = parse(memoryview(path.read_bytes()), path.name).exports[:1]
    return export.attributes.get(OVERWRITTEN_ATTRIBUTE, "00")


@pytest.mark.parametrize(
    ("lines", "given", "written"),
    [
        ([ADDED], ["%r"], "10"),
        ([ADDED, TAKEN], ["%r", "%s"], "10"),  # the last one that is read is written into
        ([ADDED], ["%p", "%r"], "01"),
        ([ADDED], ["%r", "%p"], "00"),
        ([f"%r = stablehlo.reverse %p, dims = [0] : {KIND}"], ["%r"], "00"),
        (
            [
                f"%t = stablehlo.transpose %p, dims = [1, 0] : ({KIND}) -> {KIND}",
                f"%r = stablehlo.add %t, %p : {KIND}",
            ],
            ["%r"],
            "00",
        ),
        ([], ["%q", "%p"], "00"),
    ],
)
def test_what_is_written_into(
    tmp_path: Path, lines: Sequence[str], given: Sequence[str], written: str
) -> None:
    assert _written(_made(tmp_path, lines, given)) == written


@pytest.mark.parametrize("device", ["edgert", "local-sync"])
def test_a_caller_that_gives_nothing_away_keeps_what_it_has(tmp_path: Path, device: str) -> None:
    path = _made(tmp_path, [ADDED, f"%s = stablehlo.multiply %q, %q : {KIND}"], ["%r", "%s"])
    assert _written(path) == "11"
    whole = np.arange(16 * 16 + 16, dtype=np.float32)
    p = whole[-whole.ctypes.data % 64 // 4 :][: 16 * 16].reshape(16, 16)  # shared, not copied
    before, q = p.copy(), np.ones((16, 16), np.float32) * 3
    with runtime.load(path, device=device) as program:
        for _ in range(2):
            r, s = program.main(p, q)
            np.testing.assert_array_equal(r, before + 3)
            np.testing.assert_array_equal(s, q * 3)
            again, _ = program.main(r, q)
            np.testing.assert_array_equal(again, before + 6)
            np.testing.assert_array_equal(r, before + 3)
        np.testing.assert_array_equal(p, before)
