"""Philox random bits in 32-bit arithmetic, for GPUs without 64-bit integers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["PhiloxBits"]

# Philox4x32 with ten rounds: Salmon and others, "Parallel random numbers: as easy as 1, 2, 3".
_ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)


@dataclass(frozen=True, kw_only=True)
class PhiloxBits:
    """`rng_bit_generator` with the Philox algorithm is written out with 32-bit integers.

    iree-compile 3.13 computes its products in 64 bits, which it emulates wrongly in SPIR-V: every
    number of JAX's `rbg` keys is another than on the CPU. High halves of products are made of
    16-bit parts here. The counter is the state's two numbers, the second counted up; the first is
    the key (found by comparing with XLA's numbers).

    Measured on llvmpipe: numbers of every width are JAX's own with it; without it none is.
    """

    name = "philox-bits"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "PhiloxBits | None":
        """For programs in StableHLO with such a generator that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.rng_bit_generator" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many generators."""
        return rewrite_each(module, ["stablehlo.rng_bit_generator"], _written_out)


def _written_out(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    state, bits = op.operands[0], op.results[1]
    kind, wide = graph.element(bits), graph.element(state)
    if "THREE_FRY" in str(op.attributes["rng_algorithm"]) or not isinstance(kind, ir.IntegerType):
        return None
    if graph.shape(state) != (2,) or wide.width != 64:
        return None
    word = ir.IntegerType.get_unsigned(32)
    words = graph.create("stablehlo.bitcast_convert", graph.tensor((2, 2), word), [state])
    flat = graph.reshape(words, (4,))
    key_low, key_high, low, high = (graph.slice_(flat, [n], [n + 1]) for n in range(4))
    count = math.prod(graph.shape(bits))
    used = count * (2 if kind.width == 64 else 1)
    turns = -(-used // 4)

    def each(value: Any) -> Any:
        return graph.broadcast(graph.reshape(value, ()), (turns,))

    index = graph.iota((turns,), 0, word)
    counter = [*_counted(each(low), each(high), index), each(key_low), each(key_high)]
    random = _philox(counter, [each(key_low), each(key_high)])
    columns = [graph.reshape(value, (turns, 1)) for value in random]
    row = graph.reshape(graph.concatenate(columns, 1), (4 * turns,))
    row = graph.slice_(row, [0], [used])
    if kind.width == 64:
        pairs = graph.reshape(row, (count, 2))
        row = graph.create("stablehlo.bitcast_convert", graph.tensor((count,), kind), [pairs])
    elif kind.width == 32:
        row = graph.bitcast(row, kind)
    else:
        narrow = ir.IntegerType.get_unsigned(kind.width)
        row = graph.bitcast(graph.convert(row, narrow), kind)
    ahead = graph.fill(turns, (1,), word)
    following = graph.concatenate([key_low, key_high, *_counted(low, high, ahead)], 0)
    after = graph.create(
        "stablehlo.bitcast_convert", state.type, [graph.reshape(following, (2, 2))]
    )
    return [after, graph.reshape(row, graph.shape(bits))]


def _counted(low: Any, high: Any, ahead: Any) -> tuple[Any, Any]:
    """A 64-bit number in two words, and 32 bits added to it."""
    from edgec.toolchain.ir import write as graph

    sum_ = graph.binary("add", low, ahead)
    carry = graph.convert(graph.compare("LT", sum_, low), graph.element(low))
    return sum_, graph.binary("add", high, carry)


def _philox(counter: Sequence[Any], key: Sequence[Any]) -> list[Any]:
    from edgec.toolchain.ir import write as graph

    a, b, c, d = counter
    first, second = key
    sizes, kind = graph.shape(a), graph.element(a)
    for _ in range(_ROUNDS):
        high_a, low_a = _product(a, _FACTORS[0])
        high_c, low_c = _product(c, _FACTORS[1])
        a = graph.binary("xor", graph.binary("xor", high_c, b), first)
        c = graph.binary("xor", graph.binary("xor", high_a, d), second)
        b, d = low_c, low_a
        first = graph.binary("add", first, graph.fill(_STEPS[0], sizes, kind))
        second = graph.binary("add", second, graph.fill(_STEPS[1], sizes, kind))
    return [a, b, c, d]


def _product(value: Any, factor: int) -> tuple[Any, Any]:
    """The high and the low word of a product, from products of 16 bits each."""
    from edgec.toolchain.ir import write as graph

    sizes, kind = graph.shape(value), graph.element(value)

    def number(n: int) -> Any:
        return graph.fill(n, sizes, kind)

    def upper(word: Any) -> Any:
        return graph.binary("shift_right_logical", word, number(16))

    def lower(word: Any) -> Any:
        return graph.binary("and", word, number(0xFFFF))

    top, bottom = upper(value), lower(value)
    low_low = graph.binary("multiply", bottom, number(factor & 0xFFFF))
    low_high = graph.binary("multiply", bottom, number(factor >> 16))
    high_low = graph.binary("multiply", top, number(factor & 0xFFFF))
    high_high = graph.binary("multiply", top, number(factor >> 16))
    middle = graph.binary("add", upper(low_low), lower(low_high))
    middle = graph.binary("add", middle, lower(high_low))
    high = graph.binary("add", high_high, upper(low_high))
    high = graph.binary("add", graph.binary("add", high, upper(high_low)), upper(middle))
    return high, graph.binary("multiply", value, number(factor))
