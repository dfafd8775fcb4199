"""Arguments, and what others read, stay as they are where a program updates them, beside JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir, passmanager
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.legalise import own_updates
from edgec.toolchain.passes.legalise.own_updates import OwnUpdates
from edgec.toolchain.stablehlo import parse_stablehlo


def row(x: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, jnp.full((1, 8), -1, x.dtype), (i, 0))


def flat(x: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x.reshape(-1), jnp.zeros(1, x.dtype), (i,))


def half(x: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x[:32], jnp.zeros((1, 8), x.dtype), (i, 0))


def beside(x: Any, i: Any) -> Any:
    """The argument is a result, too."""
    return x, row(x, i)


def looped(x: Any, i: Any) -> Any:
    return lax.fori_loop(0, 40 + i, lambda j, x: row(x, j), x)


def nested(x: Any, i: Any) -> Any:
    def turn(j: Any, x: Any) -> Any:
        return lax.fori_loop(j, j + i, lambda k, x: row(x, k), x)

    return lax.fori_loop(0, 30 + i, turn, x)


def after_a_choice(x: Any, i: Any) -> Any:
    return row(lax.cond(i > 2, lambda x: x, lambda x: x + 1, x), i)


def after_a_loop(x: Any, i: Any) -> Any:
    """Through which the argument comes as it is."""
    kept, total = lax.fori_loop(0, 40 + i, lambda j, c: (c[0], c[1] + c[0][0]), (x, x[1]))
    return row(kept, i) + total


def twice(x: Any, i: Any) -> Any:
    return row(row(x, i), i + 1)


def of_its_own(x: Any, i: Any) -> Any:
    return row(x * 2, i)


def made_of_it(x: Any, i: Any) -> Any:
    """The only reader beside the update is one that the update needs."""
    y = x * 2
    return lax.dynamic_update_slice(y, y[3:4] + 1, (i, 0))


def read_by_others(x: Any, i: Any) -> Any:
    y = x * 2
    z = row(y, i)
    return z, y, row(x, 9).at[i].set(y.max(0))


def two_of_one(x: Any, i: Any) -> Any:
    """Equal copies of one array, each written to in another place."""
    y = x * 2
    one, other = row(y, i), row(y, i + 1)
    return one, other, y, row(one, i + 2) + one, row(other, i + 3) * other


def two_of_an_argument(x: Any, i: Any) -> Any:
    return row(x, i), row(x, i + 1)


def scattered(x: Any, i: Any) -> Any:
    y = x * 2
    return y.at[jnp.stack([i, i + 3])].add(x[:2]), y, row(x, 9).at[i].set(y.max(0))


def looped_beside(x: Any, i: Any) -> Any:
    """In each round a sum of what the round writes into is taken."""

    def turn(j: Any, carried: Any) -> Any:
        x, total = carried
        return row(x, j), total + x.sum(0)

    return lax.fori_loop(0, 40 + i, turn, (x, x[0]))


PROGRAMS = [
    *((row, 1), (flat, 1), (half, 1), (beside, 1), (looped, 1), (nested, 1)),
    *((after_a_choice, 1), (after_a_loop, 1), (twice, 1), (of_its_own, 0), (made_of_it, 0)),
    *((read_by_others, 2), (scattered, 2), (looped_beside, 1)),
    *((two_of_one, 4), (two_of_an_argument, 2)),
]


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize(("function", "copies"), PROGRAMS)
def test_arguments_are_only_read(
    function: Callable[[Any, Any], Any], copies: int, tmp_path: Path
) -> None:
    held = np.zeros(64 * 8 + 16, np.float32)
    x = held[-held.ctypes.data % 64 // 4 :][: 64 * 8].reshape(64, 8)  # shared with the device
    x[...] = np.arange(64 * 8).reshape(64, 8)
    before, i = x.copy(), np.int32(5)
    want = jax.tree.leaves(function(jnp.array(x), i))
    lowered = jax.jit(function).lower(x, i)
    text = str(lowered.compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        passmanager.PassManager.parse("builtin.module(inline)").run(module.operation)
        assert OwnUpdates().run(module) == copies
        assert module.operation.verify()
        assert OwnUpdates().run(module) == 0
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        found = jax.tree.leaves(loaded.main(x, i))
        for one, other in zip(found, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("function", [two_of_one, two_of_an_argument])
def test_equal_copies_do_not_become_one(function: Callable[[Any, Any], Any]) -> None:
    """The compiler makes one of operations that are equal."""
    text = jax.jit(function).lower(np.zeros((64, 8), np.float32), np.int32(5)).as_text()
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        passmanager.PassManager.parse("builtin.module(inline)").run(module.operation)
        copies = OwnUpdates().run(module)
        passmanager.PassManager.parse("builtin.module(cse)").run(module.operation)
        updates = [op for op in inside(module.operation) if op.name == own_updates._UPDATE]
        assert copies == len(updates) == len({op.operands[0] for op in updates})


def _long(count: int) -> str:
    """So many updates, each of what the one before gave, and each time a reader beside."""
    array, line, number = "tensor<8x4xf32>", "tensor<1x4xf32>", "tensor<i32>"
    types = f"({array}, {line}, {number}, {number}) -> {array}"
    lines = [f"%y0 = stablehlo.add %x, %x : {array}", f"%t0 = stablehlo.negate %y0 : {array}"]
    for n in range(count):
        lines += [
            f"%s{n} = stablehlo.tanh %y{n} : {array}",
            f"%y{n + 1} = stablehlo.dynamic_update_slice %y{n}, %line, %i, %i : {types}",
            f"%t{n + 1} = stablehlo.add %t{n}, %s{n} : {array}",
        ]
    body = "\n".join([*lines, f"return %t{count} : {array}"])
    return f"func.func @main(%x: {array}, %line: {line}, %i: {number}) -> {array} {{\n{body}\n}}"


def test_a_program_twice_as_long_is_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    top = own_updates._top
    monkeypatch.setattr(own_updates, "_top", lambda *given: looked_at.append(0) or top(*given))

    def work(count: int) -> int:
        looked_at.clear()
        with ir.Context() as context:
            assert OwnUpdates().run(parse_stablehlo(_long(count), context)) == count
        return len(looked_at)

    assert work(80) <= 2.1 * work(40)
