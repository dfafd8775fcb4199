"""The cuts of attention of many queries, for all sizes and processors."""

import itertools

import numpy as np
import pytest

from edgec.toolchain.kernels.cpu.source.attention import Attention, Term, View
from edgec.toolchain.kernels.cpu.source.attention_tiling import query_tiling
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.turned import turned
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

UNITS = (
    VectorUnit(lanes=16, registers=32),
    VectorUnit(lanes=8, registers=16),
    VectorUnit(lanes=4, registers=32),
    VectorUnit(lanes=4, registers=16, fused=False),
)


def attention(queries, keys, width, *, column=1, terms=()):
    def view(rows):
        return View(size=rows * width, heads=(0,), row=width, column=column)

    return Attention(
        heads=(2,),
        queries=queries,
        keys=keys,
        width=width,
        depth=width,
        scale=1.0,
        q=view(queries),
        k=view(keys),
        v=view(keys),
        out=view(queries),
        terms=terms,
        stack=32768,
    )


@pytest.mark.parametrize("unit", UNITS)
def test_every_cut_covers_all_keys_and_queries_and_fits_registers_and_stack(unit):
    lengths = [*range(unit.lanes, 70), 197, 255, 256, 257, 1024, 1301, 1500, 4099]
    bias = Term(view=View(size=1 << 24, heads=(0,), row=4100, column=1))
    for length, terms in itertools.product(lengths, ((), (bias,))):
        cut = query_tiling(attention(length, length, 64, terms=terms), unit)
        assert cut is not None
        assert cut.tile * (cut.tiles - 1) < length <= cut.tile * cut.tiles
        assert cut.tile <= length
        rest = length % cut.block
        assert cut.keys <= cut.block <= length and (rest == 0 or rest >= cut.keys)
        assert 4 * cut.tile * cut.block <= 32768
        assert cut.tile % cut.rows == 0
        assert cut.keys * cut.vectors + cut.vectors < unit.registers
        assert cut.rows * cut.columns + cut.columns < unit.registers
        assert (cut.keys <= cut.bends <= length) if terms else cut.bends == 0


def test_few_queries_and_elements_that_are_no_neighbours_are_for_the_other_kernel():
    unit = UNITS[0]
    assert query_tiling(attention(15, 200, 64), unit) is None
    assert query_tiling(attention(200, 200, 8), unit) is None
    assert query_tiling(attention(64, 64, 16, column=3), unit) is None


@pytest.mark.parametrize("count", [4, 8, 16])
def test_squares_are_turned(count):
    kind = f"vector<{count}xf32>"
    body = Body(Writer(name="turn", workgroups=(1, 1, 1), sizes=[1]), fused=True)
    square = np.arange(count * count).reshape(count, count)
    values = {f"%row{i}": square[i] for i in range(count)}
    names = turned(body, list(values), kind)
    for line in body.lines:
        name, _, operation = line.partition(" = ")
        words = operation.removeprefix("vector.shuffle ").partition(" [")
        one, two = words[0].split(", ")
        picks = [int(n) for n in words[2].partition("]")[0].split(",")]
        values[name] = np.concatenate([values[one], values[two]])[picks]
    np.testing.assert_array_equal([values[name] for name in names], square.T)
