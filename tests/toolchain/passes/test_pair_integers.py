"""64-bit integers in two words: every operation is NumPy's to the last bit, on Vulkan and a CPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.pair_integers import PairIntegers

EDGES = np.array(
    [0, 1, -1, 2, -2, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 - 1, -(2**32), 2**63 - 1, -(2**63)],
    np.int64,
)
"""Where words meet, and the ends."""


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edges, and numbers of all sizes."""
    rng = np.random.default_rng(7)
    left, right = (each.ravel() for each in np.meshgrid(EDGES, EDGES))
    wide = rng.integers(-(2**63), 2**63 - 1, (2, 87)) >> rng.integers(0, 63, (2, 87))
    return np.concatenate([left, wide[0]]), np.concatenate([right, wide[1]])


X, Y = _numbers()
N = len(X)
S = (Y % 70).astype(np.int64)
"""How far a shift goes; by 64 and more nothing is left."""
F = np.array([0.0, -0.5, 1.75, -3.9, 2.0**31, -(2.0**40) - 2.0**20, 2.0**62, 1e30, -1e30, np.nan])
F = F.astype(np.float32)


def _shifted(x: np.ndarray, by: np.ndarray, kind: str) -> np.ndarray:
    if kind == "arithmetic":
        return x >> np.minimum(by, 63)
    bits = x.view(np.uint64)
    near = np.minimum(by, 63).astype(np.uint64)
    moved = bits << near if kind == "left" else bits >> near
    return np.where(by >= 64, np.uint64(0), moved).view(np.int64)


def _divided(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Python's whole numbers, cut towards 0; XLA's answers for a division by 0."""
    found = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        size, rest = divmod(abs(a), abs(b)) if b else (1, abs(a))
        sign = -1 if b == 0 or (a < 0) != (b < 0) else 1
        found.append((sign * size, -rest if a < 0 else rest))
    quotients = np.array([q & (2**64 - 1) for q, _ in found], np.uint64).view(np.int64)
    return quotients, np.array([r for _, r in found], np.int64)


def _of_bits(count: Callable[[int], int]) -> np.ndarray:
    return np.array([count(number) for number in X.view(np.uint64).tolist()], np.int64)


TYPE = f"tensor<{N}xi64>"
BINARY = {
    "add": lambda: X + Y,
    "subtract": lambda: X - Y,
    "multiply": lambda: X * Y,
    "and": lambda: X & Y,
    "or": lambda: X | Y,
    "xor": lambda: X ^ Y,
    "maximum": lambda: np.maximum(X, Y),
    "minimum": lambda: np.minimum(X, Y),
    "divide": lambda: _divided(X, Y)[0],
    "remainder": lambda: _divided(X, Y)[1],
    "shift_left": lambda: _shifted(X, S, "left"),
    "shift_right_logical": lambda: _shifted(X, S, "logical"),
    "shift_right_arithmetic": lambda: _shifted(X, S, "arithmetic"),
}
UNARY = {
    "negate": lambda: -X,
    "abs": lambda: np.abs(X),
    "not": lambda: ~X,
    "sign": lambda: np.sign(X),
    "popcnt": lambda: _of_bits(int.bit_count),
    "count_leading_zeros": lambda: _of_bits(lambda bits: 64 - bits.bit_length()),
}
COMPARE = {"EQ": "equal", "LT": "less", "GE": "greater_equal", "GT": "greater"}
NARROW = {"i32": np.int32, "i8": np.int8, "i1": np.bool_, "ui32": np.uint32, "f32": np.float32}


def _program() -> tuple[str, dict[str, np.ndarray]]:
    """One function with all operations, and NumPy's answers."""
    lines, results, expected = [], [], {}

    def give(name: str, line: str, kind: str, answer: np.ndarray) -> None:
        lines.append(f"  %r{len(lines)} = {line}")
        results.append((f"%r{len(lines) - 1}", kind))
        expected[name] = answer

    with np.errstate(all="ignore"):
        for name, answer in BINARY.items():
            other = "%s" if name.startswith("shift") else "%y"
            give(name, f"stablehlo.{name} %x, {other} : {TYPE}", TYPE, answer())
        for name, answer in UNARY.items():
            give(name, f"stablehlo.{name} %x : {TYPE}", TYPE, answer())
        for name, function in COMPARE.items():
            truths = f"tensor<{N}xi1>"
            line = f"stablehlo.compare {name}, %x, %y, SIGNED : ({TYPE}, {TYPE}) -> {truths}"
            give(name, line, truths, getattr(np, function)(X, Y))
        for name, kind in NARROW.items():
            result = f"tensor<{N}x{name}>"
            line = f"stablehlo.convert %x : ({TYPE}) -> {result}"
            give(f"to_{name}", line, result, X != 0 if name == "i1" else X.astype(kind))
    whole = np.nan_to_num(np.trunc(F.astype(np.float64)), nan=0.0)
    ends = np.iinfo(np.int64)
    clipped = [int(min(max(v, float(ends.min)), 2.0**63 - 1024)) for v in whole.tolist()]
    answer = np.where(whole >= 2.0**63, ends.max, np.array(clipped, np.int64))
    kind = f"tensor<{len(F)}xi64>"
    give("from_f32", f"stablehlo.convert %f : (tensor<{len(F)}xf32>) -> {kind}", kind, answer)
    given = f"%x: {TYPE}, %y: {TYPE}, %s: {TYPE}, %f: tensor<{len(F)}xf32>"
    kinds = ", ".join(kind for _, kind in results)
    first = f"func.func @main({given}) -> ({kinds}) {{"
    last = f"  return {', '.join(name for name, _ in results)} : {kinds}\n}}"
    return "\n".join([first, *lines, last]), expected


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("cpu", marks=pytest.mark.slow),
        pytest.param("vulkan", marks=pytest.mark.vulkan),
    ],
)
def test_every_operation_is_numpys(target: str, tmp_path: Path) -> None:
    text, expected = _program()
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        assert PairIntegers().run(module) == 3 + len(BINARY) + len(UNARY) + 1
        assert module.operation.verify()
        (tmp_path / "pairs.mlir").write_text(str(module))
    path = tmp_path / "pairs.vmfb"
    options = CompileOptions(output=path, check=False)
    toolchain.compile(tmp_path / "pairs.mlir", target, options)
    with load(path) as loaded:
        answers = loaded.main(X, Y, S, F)
    for (name, right), answer in zip(expected.items(), answers, strict=True):
        found = np.asarray(answer)
        if name == "to_f32":
            np.testing.assert_allclose(found, right, rtol=2.0**-23, err_msg=name)
        else:
            np.testing.assert_array_equal(found, right, err_msg=name)


@pytest.mark.slow
@pytest.mark.vulkan
def test_moves_and_regions_are_those_of_jax(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def everything(x: Any, places: Any) -> list[Any]:
        return [
            jnp.pad(jnp.concatenate([x, -x], 1)[:, ::3].T, 1)[::-1],
            jnp.take(x, places, axis=0, mode="clip"),
            x.at[3].set(2**50).at[:, 1].add(2**51),
            *(x.sum(0), x.max(1), jnp.cumsum(x, 1)),
            *(jnp.sort(x, 1), jnp.argsort(x, 1)),
            lax.fori_loop(0, 5, lambda i, y: y * 3 + (i + 2**40), x),
            lax.cond(x[0, 0] < 0, lambda y: y + 2**40, lambda y: y, x),
            lax.bitcast_convert_type(x * 3**30, jnp.uint32),
            jnp.clip(x.astype(jnp.uint64), 5, np.uint64(2**63)) // 7 > 2**40,
        ]

    given = (X[:128] ^ (Y[:128] << 7)).reshape(8, 16), np.array([3, -1, 2**40], np.int64)
    with jax.enable_x64(True):
        program = export(everything, given)
        expected = [np.asarray(each) for each in jax.jit(everything)(*given)]
    options = CompileOptions(output=tmp_path / "moves.vmfb")
    made = toolchain.compile_with_report(program, "vulkan", options)
    assert any("two words of 32 bits" in note for note in made.report.notes)
    with load(tmp_path / "moves.vmfb") as loaded:
        answers = loaded.main(*given)
    for place, (found, right) in enumerate(zip(answers, expected, strict=True)):
        np.testing.assert_array_equal(np.asarray(found), right, err_msg=str(place))


@pytest.mark.vulkan
def test_what_a_caller_gave_in_64_bits_comes_back_so(tmp_path: Path) -> None:
    """Nothing but its arguments' type says that more is meant, and no check finds it."""
    import torch

    given = np.arange(16, dtype=np.int64) * ((1 << 40) + 12345)
    program = export(
        lambda x: (x * 7 + 1, x.remainder(97), x >> 7, x.to(torch.int32)), (torch.tensor(given),)
    )
    options = CompileOptions(output=tmp_path / "wide.vmfb", check=False)
    made = toolchain.compile(program, "vulkan", options)
    expected = given * 7 + 1, given % 97, given >> 7, given.astype(np.int32)
    with load(made) as loaded:
        for answer, right in zip(loaded.main(given), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(answer), right)
