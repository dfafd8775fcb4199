"""Functions on 64-bit integers to the same on pairs of 32-bit words, operation by operation.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.functions import entry_block
from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.pair_operations import COMPUTED, is_wide
from edgec.toolchain.ir.pairs import Pair, side_by_side, split, to_places, word_type

__all__ = ["holds_wide", "is_known", "pair_up"]

_ENDS = ("func.return", "stablehlo.return")
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
_KNOWN = {f"stablehlo.{name}" for name in (*COMPUTED, *_EACH)}
_SEEN = "iree_tensor_ext.bitcast"


def holds_wide(op: Any) -> bool:
    """Whether an operation has to do with such integers."""
    inner = (argument for r in op.regions for b in r.blocks for argument in b.arguments)
    return any(is_wide(value) for value in (*op.operands, *op.results, *inner))


def is_known(op: Any) -> bool:
    """Whether it is known on pairs: static shapes, and no floats of 64 bits."""
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


def pair_up(function: Any) -> int:
    """Rewrite a function's body, of which all is known; how many values became pairs."""
    return _Words().function(function)


class _Words:
    """One function's 64-bit values and the pairs that they became."""

    def __init__(self) -> None:
        self._pairs: dict[Any, Any] = {}

    def function(self, function: Any) -> int:
        """Rewrite its body; how many values became pairs."""

        if not list(function.regions[0].blocks):
            return 0
        block = entry_block(function)
        operations = list(block.operations)
        with ir.InsertionPoint.at_block_begin(block):
            for argument in block.arguments:
                if is_wide(argument):
                    self._pairs[argument] = _apart(argument)
        self._each(operations)
        return len(self._pairs)

    def _each(self, operations: Sequence[Any]) -> None:
        """All operations of a block; what became pairs is gone afterwards."""

        gone = []
        for view in operations:
            op = view.operation
            if not holds_wide(op):
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
                if is_wide(result):
                    self._after(op, result)
            return False
        found = self._results(op)
        for old, new in zip(op.results, found, strict=True):
            if is_wide(old):
                self._pairs[old] = new
            else:
                old.replace_all_uses_with(new)
        return True

    def _after(self, op: Any, result: Any) -> None:
        """Take apart what an operation that stays has given."""

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
        return [COMPUTED[name](op, [self._pairs.get(value, value) for value in op.operands])]

    def _moved(self, op: Any) -> Any:
        """Elements go where they went, as one array or as one of each word."""

        first = _MOVES[op.name]
        count = first or len(op.operands)
        values = list(op.operands)[:count]
        places = [
            to_places(self._pairs[value]) if value in self._pairs else value
            for value in list(op.operands)[count:]
        ]
        attributes = dict(op.attributes.items())

        def moved(operands: Sequence[Any]) -> Any:
            kind = graph.tensor(graph.shape(op.results[0]), graph.element(operands[0]))
            return graph.create(op.name, kind, [*operands, *places], attributes)

        if not is_wide(op.results[0]):
            return moved(values)
        low, high = (
            moved(words) for words in zip(*(self._pairs[v].words for v in values), strict=True)
        )
        return Pair(low=low, high=high)

    def _with_words(self, op: Any) -> Sequence[Any]:
        """An operation with two operands, results and arguments for each of 64 bits."""

        scatter = op.name == "stablehlo.scatter"
        at = (len(op.operands) - 1) // 2  # of the places that are written to
        operands: list[Any] = []
        for number, value in enumerate(op.operands):
            pair = self._pairs.get(value)
            if pair is None:
                operands.append(value)
            elif scatter and number == at:
                operands.append(to_places(pair))
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
            Pair(low=next(waiting), high=next(waiting)) if is_wide(old) else next(waiting)
            for old in op.results
        ]

    def _moved_block(self, old: Any, region: Any, *, sort: bool) -> None:
        """A block's operations in a block of another region, on pairs."""

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
                if is_wide(argument):
                    self._pairs[argument] = Pair(low=made[0], high=made[1])
                else:
                    argument.replace_all_uses_with(made[0])
        self._each(list(old.operations))
        for view in list(old.operations):
            op = view.operation
            op.detach_from_parent()
            block.append(op)


def _kinds(value: Any) -> list[Any]:
    """The types of what a value becomes."""
    if not is_wide(value):
        return [value.type]
    return [graph.tensor(graph.shape(value), word_type())] * 2


def _apart(value: Any) -> Pair:
    """An array of 64-bit integers as its words, which lie in memory with the lower one first."""
    value = graph.bitcast(value, ir.IntegerType.get_signless(64))
    return split(_seen(value, graph.tensor((*graph.shape(value), 2), word_type())))


def _together(pair: Pair, kind: Any) -> Any:
    """An array of 64-bit integers as callers know it."""
    plain = graph.tensor(graph.shape(pair.low), ir.IntegerType.get_signless(64))
    return graph.bitcast(_seen(side_by_side(pair), plain), kind.element_type)


def _seen(value: Any, kind: Any) -> Any:
    """The same memory as another type."""
    segments = ir.DenseI32ArrayAttr.get([1, 0, 0])
    return graph.create(_SEEN, kind, [value], {"operandSegmentSizes": segments})
