"""64-bit integers computed as two words of 32 bits, for GPUs whose shaders have no others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.functions import entry_block, functions, inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.precision import Integers
from edgec.toolchain.program import STATE_FUNCTION

__all__ = ["PairIntegers"]

_ENDS = ("func.return", "stablehlo.return")
_BITWISE = ("and", "or", "xor", "not")
_SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
_MOVES = {
    "stablehlo.broadcast_in_dim": 0,
    "stablehlo.concatenate": 0,
    "stablehlo.dynamic_slice": 1,
    "stablehlo.dynamic_update_slice": 2,
    "stablehlo.gather": 1,
    "stablehlo.pad": 0,
    "stablehlo.reshape": 0,
    "stablehlo.reverse": 0,
    "stablehlo.slice": 0,
    "stablehlo.transpose": 0,
}
"""What moves elements, and from which operand on these are places; 0: none of them."""
_EACH = (
    *("reduce", "reduce_window", "sort", "scatter", "map", "while", "if", "case"),
    "optimization_barrier",
)
"""What has words as operands, results and arguments of its regions, as it has numbers."""
_COMPUTED = (
    *("constant", "iota", "convert", "bitcast_convert", "add", "subtract", "multiply", "negate"),
    *("abs", "sign", "compare", "select", "clamp", "maximum", "minimum", "divide", "remainder"),
)
_KNOWN = {f"stablehlo.{name}" for name in (*_COMPUTED, *_BITWISE, *_SHIFTS, *_EACH)}
_SEEN = "iree_tensor_ext.bitcast"


@dataclass(frozen=True, kw_only=True)
class PairIntegers:
    """Every 64-bit integer inside a program becomes two words of 32 bits.

    JAX counts what it draws in u64, hashes and generators of random numbers multiply in 64 bits,
    and phones' GPUs have 32. The compiler emulates that and refuses most of what it emulates
    ("failed to legalize operation 'vector.insert_strided_slice'": `jax.random.bits` of 128 x 256),
    and `narrow-integers` leaves alone what means more than 32 bits. Here sums carry, products are
    made of halves, and quotients are found bit by bit: all numbers are those of 64 bits, and no
    kernel ever holds one. Arguments and results stay what they were.

    Measured on Mesa's llvmpipe: a 64-bit linear congruential generator of 64 x 128 numbers is
    refused without it, and right to the last bit with it.
    """

    name = "pair-integers"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "PairIntegers | None":
        """Where the compile asks for it: plain code was refused or wrong, and 32 bits as well."""
        return cls() if situation.integers is Integers.PAIRS else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place.

        Returns:
            How many values became pairs; 0 where the program is left as it is.
        """
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            changing = [f for n, f in functions(module).items() if n != STATE_FUNCTION]
            wide = [op for f in changing for op in inside(f) if _wide(op)]
            if not wide or not all(_can_change(op) for op in wide):
                return 0
            return sum(_Words().function(function) for function in changing)


def _is_wide(value: Any) -> bool:
    from iree.compiler import ir

    kind = value.type
    if isinstance(kind, ir.RankedTensorType):
        kind = kind.element_type
    return isinstance(kind, ir.IntegerType) and kind.width == 64


def _wide(op: Any) -> bool:
    """Whether an operation has to do with such integers."""
    inner = (argument for r in op.regions for b in r.blocks for argument in b.arguments)
    return any(_is_wide(value) for value in (*op.operands, *op.results, *inner))


def _can_change(op: Any) -> bool:
    """Whether it is known on pairs: static shapes, and no floats of 64 bits."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.literal import literal

    if op.name in (*_ENDS, _SEEN):
        return True
    if op.name not in _KNOWN and op.name not in _MOVES:
        return False
    if op.name == "stablehlo.constant" and literal(op) is None:
        return False
    return graph.is_static(*op.operands, *op.results) and not any(
        str(graph.element(value)) in ("f64", "complex<f32>", "complex<f64>")
        for value in (*op.operands, *op.results)
    )


class _Words:
    """One function's 64-bit values and the pairs that they became."""

    def __init__(self) -> None:
        self._pairs: dict[Any, Any] = {}

    def function(self, function: Any) -> int:
        """Rewrite its body; how many values became pairs."""
        from iree.compiler import ir

        if not list(function.regions[0].blocks):
            return 0
        block = entry_block(function)
        operations = list(block.operations)
        with ir.InsertionPoint.at_block_begin(block):
            for argument in block.arguments:
                if _is_wide(argument):
                    self._pairs[argument] = _apart(argument)
        self._each(operations)
        return len(self._pairs)

    def _each(self, operations: Sequence[Any]) -> None:
        """All operations of a block; what became pairs is gone afterwards."""
        from iree.compiler import ir

        gone = []
        for view in operations:
            op = view.operation
            if not _wide(op):
                for region in op.regions:
                    for inner in region.blocks:
                        self._each(list(inner.operations))
                continue
            with ir.InsertionPoint(op), op.location:
                if self._replaced(op):
                    gone.append(op)
        for op in reversed(gone):
            op.erase()

    def _replaced(self, op: Any) -> bool:
        """Write what an operation is on pairs before it; whether nothing needs it any more."""
        if op.name == "func.return" or op.name == _SEEN:
            for number, value in enumerate(op.operands):
                if value in self._pairs:
                    op.operands[number] = _together(self._pairs[value], value.type)
            for result in op.results:
                if _is_wide(result):
                    self._after(op, result)
            return False
        found = self._results(op)
        for old, new in zip(op.results, found, strict=True):
            if _is_wide(old):
                self._pairs[old] = new
            else:
                old.replace_all_uses_with(new)
        return True

    def _after(self, op: Any, result: Any) -> None:
        """Take apart what an operation that stays has given."""
        from iree.compiler import ir

        block = op.block
        following = False
        for view in block.operations:
            if following:
                with ir.InsertionPoint(view):
                    self._pairs[result] = _apart(result)
                return
            following = view.operation == op

    def _results(self, op: Any) -> Sequence[Any]:
        """A value for each result of an operation, pairs for those of 64 bits."""
        name = op.name.removeprefix("stablehlo.")
        if op.name in _MOVES:
            return [self._moved(op)]
        if name in _EACH or op.name in _ENDS:
            return self._with_words(op)
        return [_COMPUTE[name](op, [self._pairs.get(value, value) for value in op.operands])]

    def _moved(self, op: Any) -> Any:
        """Elements go where they went, as one array or as one of each word."""
        from edgec.toolchain.ir import pairs
        from edgec.toolchain.ir import write as graph

        first = _MOVES[op.name]
        count = first or len(op.operands)
        values = list(op.operands)[:count]
        places = [
            pairs.to_places(self._pairs[value]) if value in self._pairs else value
            for value in list(op.operands)[count:]
        ]
        attributes = dict(op.attributes.items())

        def moved(operands: Sequence[Any]) -> Any:
            kind = graph.tensor(graph.shape(op.results[0]), graph.element(operands[0]))
            return graph.create(op.name, kind, [*operands, *places], attributes)

        if not _is_wide(op.results[0]):
            return moved(values)
        low, high = (
            moved(words) for words in zip(*(self._pairs[v].words for v in values), strict=True)
        )
        return pairs.Pair(low=low, high=high)

    def _with_words(self, op: Any) -> Sequence[Any]:
        """An operation with two operands, results and arguments for each of 64 bits."""
        from iree.compiler import ir

        from edgec.toolchain.ir import pairs

        scatter = op.name == "stablehlo.scatter"
        at = (len(op.operands) - 1) // 2  # of the places that are written to
        operands: list[Any] = []
        for number, value in enumerate(op.operands):
            pair = self._pairs.get(value)
            if pair is None:
                operands.append(value)
            elif scatter and number == at:
                operands.append(pairs.to_places(pair))
            else:
                operands += pair.words
        made = ir.Operation.create(
            op.name,
            results=[kind for result in op.results for kind in _kinds(result)],
            operands=operands,
            attributes=dict(op.attributes.items()),
            regions=len(op.regions),
        )
        for old, new in zip(op.regions, made.regions, strict=True):
            self._moved_block(old.blocks[0], new, sort=op.name == "stablehlo.sort")
        waiting = iter(made.results)
        return [
            pairs.Pair(low=next(waiting), high=next(waiting)) if _is_wide(old) else next(waiting)
            for old in op.results
        ]

    def _moved_block(self, old: Any, region: Any, *, sort: bool) -> None:
        """A block's operations in a block of another region, on pairs."""
        from edgec.toolchain.ir import pairs

        arguments = list(old.arguments)
        # A sort compares left with right, operand by operand; words are operands then.
        together = 2 if sort else 1
        groups = [arguments[n : n + together] for n in range(0, len(arguments), together)]
        kinds = [kind for group in groups for kind in _kinds(group[0]) for _ in group]
        block = region.blocks.append(*kinds)
        waiting = iter(block.arguments)
        for group in groups:
            words = [[next(waiting) for _ in group] for _ in _kinds(group[0])]
            for argument, *made in zip(group, *words, strict=True):
                if _is_wide(argument):
                    self._pairs[argument] = pairs.Pair(low=made[0], high=made[1])
                else:
                    argument.replace_all_uses_with(made[0])
        self._each(list(old.operations))
        for view in list(old.operations):
            op = view.operation
            op.detach_from_parent()
            block.append(op)


def _kinds(value: Any) -> list[Any]:
    """The types of what a value becomes."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if not _is_wide(value):
        return [value.type]
    return [graph.tensor(graph.shape(value), ir.IntegerType.get_signless(32))] * 2


def _apart(value: Any) -> Any:
    """The words of an array as they lie in memory, the lower one first."""
    from iree.compiler import ir

    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(value)
    value = graph.bitcast(value, ir.IntegerType.get_signless(64))
    kind = graph.tensor((*sizes, 2), ir.IntegerType.get_signless(32))
    words = _seen(value, kind)
    ends = [(0, size) for size in sizes]
    low, high = (
        graph.reshape(
            graph.slice_(words, [a for a, _ in ends] + [n], [b for _, b in ends] + [n + 1]), sizes
        )
        for n in (0, 1)
    )
    return pairs.Pair(low=low, high=high)


def _together(pair: Any, kind: Any) -> Any:
    """An array of 64-bit integers as callers know it."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(pair.low)
    words = graph.concatenate([graph.reshape(w, (*sizes, 1)) for w in pair.words], len(sizes))
    plain = ir.IntegerType.get_signless(64)
    return graph.bitcast(_seen(words, graph.tensor(sizes, plain)), kind.element_type)


def _seen(value: Any, kind: Any) -> Any:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    segments = ir.DenseI32ArrayAttr.get([1, 0, 0])
    return graph.create(_SEEN, kind, [value], {"operandSegmentSizes": segments})


# What is computed


def _is_signed(value: Any) -> bool:
    from edgec.toolchain.ir import write as graph

    return not graph.is_unsigned(graph.element(value))


def _constant(op: Any, _: Sequence[Any]) -> Any:
    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir.literal import literal

    return pairs.constant(np.asarray(literal(op)))


def _iota(op: Any, _: Sequence[Any]) -> Any:
    from iree.compiler import ir

    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir import write as graph

    axis = int(ir.IntegerAttr(op.attributes["iota_dimension"]).value)
    word = ir.IntegerType.get_signless(32)
    sizes = graph.shape(op.results[0])
    return pairs.Pair(low=graph.iota(sizes, axis, word), high=graph.fill(0, sizes, word))


def _convert(op: Any, operands: Sequence[Any]) -> Any:
    from iree.compiler import ir

    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir import write as graph

    (value,), result = operands, op.results[0]
    kind = graph.element(result)
    if not isinstance(value, pairs.Pair):
        if isinstance(graph.element(value), ir.IntegerType):
            return pairs.extend(value)
        return pairs.from_floats(value, signed=_is_signed(result))
    if _is_wide(result):
        return value
    if isinstance(kind, ir.IntegerType):
        return pairs.shorten(value, kind)
    return pairs.to_floats(value, kind, signed=_is_signed(op.operands[0]))


def _bitcast(op: Any, operands: Sequence[Any]) -> Any:
    """Between 64-bit types nothing changes; others are as they lie in memory."""
    from iree.compiler import ir

    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir import write as graph

    (value,), result = operands, op.results[0]
    if isinstance(value, pairs.Pair) and _is_wide(result):
        return value
    word = ir.IntegerType.get_signless(32)
    if not isinstance(value, pairs.Pair):
        sizes = graph.shape(result)
        words = value if graph.shape(value) == (*sizes, 2) else None
        if words is None:
            words = graph.create(op.name, graph.tensor((*sizes, 2), word), [value])
        words = graph.bitcast(words, word)
        parts = [
            graph.reshape(graph.slice_(words, [0] * len(sizes) + [n], [*sizes, n + 1]), sizes)
            for n in (0, 1)
        ]
        return pairs.Pair(low=parts[0], high=parts[1])
    sizes = graph.shape(value.low)
    words = graph.concatenate([graph.reshape(w, (*sizes, 1)) for w in value.words], len(sizes))
    if graph.shape(result) == (*sizes, 2):
        return graph.bitcast(words, graph.element(result))
    return graph.create(op.name, result.type, [words])


def _compare(op: Any, operands: Sequence[Any]) -> Any:
    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir import write as graph

    left, right = operands
    direction = str(op.attributes["comparison_direction"]).rpartition(" ")[2].strip(">")
    signed = "UNSIGNED" not in str(op.attributes.get("compare_type", "")) and _is_signed(
        op.operands[0]
    )
    if direction in ("EQ", "NE"):
        found = pairs.equal(left, right)
    elif direction in ("LT", "GE"):
        found = pairs.less(left, right, signed=signed)
    else:
        found = pairs.less(right, left, signed=signed)
    return graph.unary("not", found) if direction in ("NE", "GE", "LE") else found


def _select(op: Any, operands: Sequence[Any]) -> Any:
    from edgec.toolchain.ir import pairs

    test, then, otherwise = operands
    return pairs.select(_as_large(test, then), then, otherwise)


def _as_large(test: Any, like: Any) -> Any:
    """A test for all elements, where one may do for all."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(like.low)
    return test if graph.shape(test) == sizes else graph.broadcast(test, sizes)


def _largest(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    return _larger(left, right, signed=_is_signed(op.operands[0]))


def _least(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    return _smaller(left, right, signed=_is_signed(op.operands[0]))


def _larger(left: Any, right: Any, *, signed: bool) -> Any:
    from edgec.toolchain.ir import pairs

    return pairs.select(pairs.less(left, right, signed=signed), right, left)


def _smaller(left: Any, right: Any, *, signed: bool) -> Any:
    from edgec.toolchain.ir import pairs

    return pairs.select(pairs.less(right, left, signed=signed), right, left)


def _clamp(op: Any, operands: Sequence[Any]) -> Any:
    from edgec.toolchain.ir import pairs
    from edgec.toolchain.ir import write as graph

    low, value, high = operands
    sizes = graph.shape(value.low)

    def large(bound: Any) -> Any:
        words = [w if graph.shape(w) == sizes else graph.broadcast(w, sizes) for w in bound.words]
        return pairs.Pair(low=words[0], high=words[1])

    signed = _is_signed(op.operands[1])
    return _smaller(_larger(value, large(low), signed=signed), large(high), signed=signed)


def _quotient(part: int) -> Callable[[Any, Sequence[Any]], Any]:
    def found(op: Any, operands: Sequence[Any]) -> Any:
        from edgec.toolchain.ir import pairs

        left, right = operands
        return pairs.divide(left, right, signed=_is_signed(op.operands[0]))[part]

    return found


def _on_pairs(name: str) -> Callable[[Any, Sequence[Any]], Any]:
    """An operation that `ir.pairs` has by a name of its own."""

    def found(_: Any, operands: Sequence[Any]) -> Any:
        from edgec.toolchain.ir import pairs

        return getattr(pairs, name)(*operands)

    return found


def _with_name(function: str, name: str) -> Callable[[Any, Sequence[Any]], Any]:
    def found(_: Any, operands: Sequence[Any]) -> Any:
        from edgec.toolchain.ir import pairs

        return getattr(pairs, function)(name, *operands)

    return found


def _table() -> Iterator[tuple[str, Callable[[Any, Sequence[Any]], Any]]]:
    yield from (("constant", _constant), ("iota", _iota), ("convert", _convert))
    yield from (("bitcast_convert", _bitcast), ("compare", _compare), ("select", _select))
    yield from (("maximum", _largest), ("minimum", _least), ("clamp", _clamp))
    yield from (("divide", _quotient(0)), ("remainder", _quotient(1)))
    yield from ((name, _on_pairs(name)) for name in ("add", "subtract", "multiply", "negate"))
    yield from (("abs", _on_pairs("absolute")), ("sign", _on_pairs("sign")))
    yield from ((name, _with_name("each", name)) for name in _BITWISE)
    yield from ((name, _with_name("shift", name)) for name in _SHIFTS)


_COMPUTE = dict(_table())
