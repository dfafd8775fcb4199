"""Halves to f32, and back, by their bits, for targets whose code has none."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["HalfConversions"]

_SIGN, _REST, _ENDLESS = 0x8000, 0x7FFF, 0x7C00
_LARGER = 2.0**112
"""How much larger a half is than the f32 with its bits moved to where those of an f32 are."""
_LEAST_EXPONENT = 112 << 23
_LEAST_NORMAL = 113 << 23
"""The bits in f32 of the least half with a leading one, 2^-14."""
_RAISE, _RAISE_BITS = 0.5, 0x3F000000
"""A number whose last bit in f32 is the least half, 2^-24."""
_NO_NUMBER = 0x7E00
_LOAD = "util.global.load"
_MOST_FILLED = 1 << 20
"""Bytes by which the compiler lets what it computes at load be larger than what that is made of."""


@dataclass(frozen=True, kw_only=True)
class HalfConversions:
    """A conversion of f16 to f32, or back, becomes shifts and additions, where there is no f16.

    What iree-compile 3.13 makes of it for WebAssembly, browsers and node refuse. Moved to where f32
    has them, a half's bits are the number times 2^-112, also of those without a leading one;
    infinities and NaNs get the largest exponent. On the way back an f32 is rounded to the nearest
    half, of two to the even one: by an addition to its bits, or, where the half has no leading one,
    to a number whose last bit is the least half. It runs after all kernels are placed, so that
    those which widen weights as they are read find them.

    Weights that are no more than a megabyte larger as f32 are widened when the module is loaded, in
    one initializer and once for all functions. The compiler does so too, but keeps each of the
    steps in a global with an initializer of its own, since it decides on what a constant is added
    to before what makes it; and each of its passes takes a while for each initializer.

    Measured: all 65,536 halves come out exactly in WebAssembly, 200,000 numbers go in as NumPy
    rounds them, and both are refused without it. SmolLM2 from 4-bit blocks for `wasm:plain`, with
    422 arrays of 16-bit scales, has 787 initializers, and had 6,666 with steps of their own.
    """

    name = "half-conversions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "HalfConversions | None":
        """For programs with conversions where f16 has no code."""
        if situation.target.limits.f16:
            return None
        return cls() if "stablehlo.convert" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            _widen_at_load(module)
        return rewrite_each(module, ["stablehlo.convert"], _by_bits, open_sizes=True)


def _widen_at_load(module: Any) -> None:
    """Conversions of weights become loads of globals, which one initializer fills."""
    from iree.compiler import ir

    from edgec.toolchain.ir import global_values
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.weights import fixed_globals

    fixed, found = fixed_globals(module), defaultdict[str, list[Any]](list)
    for op in graph.inside(module.operation):
        symbol = _widened_weights(op)
        if symbol in fixed:
            found[symbol].append(op)
    if not found:
        return
    start = next(op for op in module.body.operations if op.operation.name == "func.func")
    with ir.InsertionPoint(start):
        for symbol, (first, *_) in found.items():
            global_values.declare(_wide_name(symbol), first.results[0].type)
        block = global_values.initializer()
    with ir.InsertionPoint(block):
        for symbol, (first, *_) in found.items():
            with first.location:
                half = global_values.load(symbol, first.operands[0].type)
                single = graph.convert(half, ir.F32Type.get())
                global_values.store(_wide_name(symbol), single)
        ir.Operation.create("util.return")
    for symbol, ops in found.items():
        for op in ops:
            (result,) = op.results
            with op.location, ir.InsertionPoint(op):
                loaded = global_values.load(_wide_name(symbol), result.type)
            result.replace_all_uses_with(loaded)
            op.erase()


def _widened_weights(op: Any) -> str:
    """The global of halves that an operation widens, if the compiler would at load; else empty."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.work import bytes_of

    if op.name != "stablehlo.convert" or not graph.is_static(*op.operands, *op.results):
        return ""
    (value,), (result,) = op.operands, op.results
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != _LOAD:
        return ""
    kinds = graph.element(value), graph.element(result)
    if not (isinstance(kinds[0], ir.F16Type) and isinstance(kinds[1], ir.F32Type)):
        return ""
    if bytes_of(result) - bytes_of(value) > _MOST_FILLED:
        return ""
    return str(ir.FlatSymbolRefAttr(value.owner.operation.attributes["global"]).value)


def _wide_name(symbol: str) -> str:
    return f"__wide.{symbol}"


def _by_bits(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,), (result,) = op.operands, op.results
    kinds = graph.element(value), graph.element(result)
    if isinstance(kinds[0], ir.F16Type) and isinstance(kinds[1], ir.F32Type):
        return [_widened(value)]
    if isinstance(kinds[0], ir.F32Type) and isinstance(kinds[1], ir.F16Type):
        return [_rounded(value)]
    return None


def _widened(value: Any) -> Any:
    """An f16 as f32."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    words, single = ir.IntegerType.get_signless(32), ir.F32Type.get()

    def number(wanted: int) -> Any:
        return graph.fill_like(value, wanted, words)

    bits = graph.convert(graph.bitcast(value, ir.IntegerType.get_signless(16)), words)
    rest = graph.binary("and", bits, number(_REST))
    sign = graph.binary("shift_left", graph.binary("and", bits, number(_SIGN)), number(16))
    moved = graph.binary("shift_left", rest, number(13))
    scaled = graph.binary(
        "multiply", graph.bitcast(moved, single), graph.fill_like(value, _LARGER, single)
    )
    endless = graph.binary("or", moved, number(0x7F800000))
    is_endless = graph.compare("GE", rest, number(_ENDLESS))
    plain = graph.select(is_endless, endless, graph.bitcast(scaled, words))
    return graph.bitcast(graph.binary("or", plain, sign), single)


def _rounded(value: Any) -> Any:
    """An f32 as f16."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    words, single = ir.IntegerType.get_signless(32), ir.F32Type.get()

    def number(wanted: int) -> Any:
        return graph.fill_like(value, wanted, words)

    def right(bits: Any, by: int) -> Any:
        return graph.binary("shift_right_logical", bits, number(by))

    bits = graph.bitcast(value, words)
    sign = graph.binary("and", right(bits, 16), number(_SIGN))
    rest = graph.binary("and", bits, number(0x7FFFFFFF))
    odd = graph.binary("and", right(rest, 13), number(1))
    up = graph.binary("add", graph.binary("add", rest, number(0xFFF - _LEAST_EXPONENT)), odd)
    whole = graph.binary("minimum", right(up, 13), number(_ENDLESS))
    raised = graph.binary(
        "add", graph.bitcast(rest, single), graph.fill_like(value, _RAISE, single)
    )
    small = graph.binary("subtract", graph.bitcast(raised, words), number(_RAISE_BITS))
    is_small = graph.compare("LT", rest, number(_LEAST_NORMAL))
    is_none = graph.compare("GT", rest, number(0x7F800000))
    chosen = graph.select(is_small, small, whole)
    chosen = graph.select(is_none, number(_NO_NUMBER), chosen)
    half = graph.convert(graph.binary("or", chosen, sign), ir.IntegerType.get_signless(16))
    return graph.bitcast(half, ir.F16Type.get())
