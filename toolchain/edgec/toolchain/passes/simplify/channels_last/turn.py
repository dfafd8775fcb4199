"""One block's operations turned to channels last, as far as each allows.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.literal import attribute_of
from edgec.toolchain.ir.read import convolution_layout, integers, shape_of
from edgec.toolchain.ir.resample import axis_attribute, axis_of, is_resample
from edgec.toolchain.ir.weights import Weights
from edgec.toolchain.match.convolution import read_convolution
from edgec.toolchain.match.norm import Norm
from edgec.toolchain.passes.simplify.channels_last.norms import image_norms, turned_norm

__all__ = ["turn_block"]

_ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (  # noqa: SIM905 - a list of words
        "abs add and atan2 cbrt ceil clamp compare convert cosine divide exponential "
        "exponential_minus_one floor is_finite log log_plus_one logistic maximum minimum multiply "
        "negate not or power reduce_precision remainder round_nearest_afz round_nearest_even rsqrt "
        "select sign sine sqrt subtract tan tanh xor"
    ).split()
) | {"chlo.erf", "chlo.square"}


def turn_block(block: Any, weights: Weights) -> int:
    """Turn what can be turned in one block of a module with such weights; how many operations."""
    turning = _Turning(image_norms(block), weights)
    for op in list(block.operations):
        turning.visit(op.operation)
    turning.finish()
    return turning.count


def _order(rank: int) -> list[int]:
    """The permutation that puts dimension 1 last."""
    return [0, *range(2, rank), 1]


class _Turning:
    """Values of one block that have a twin with the channels last."""

    def __init__(self, norms: Sequence[Norm], weights: Weights) -> None:
        self.weights = weights
        self.norms = {norm.value.owner.operation: norm for norm in norms}
        self.inside_norms = {op: norm for norm in norms for op in norm.operations}
        self.twins: dict[Any, Any] = {}
        self.made: dict[Any, Any] = {}
        self.dead: list[Any] = []
        self.count = 0
        self.rules: dict[str, Callable[[Any], bool]] = {
            "stablehlo.convolution": self._convolution,
            "stablehlo.pad": self._pad,
            "stablehlo.slice": self._slice,
            "stablehlo.reduce_window": self._reduce_window,
            "stablehlo.reduce": self._reduce,
            "stablehlo.concatenate": self._concatenate,
            "stablehlo.reverse": self._reverse,
            "stablehlo.reshape": self._reshape,
            "stablehlo.transpose": self._transpose,
            "stablehlo.broadcast_in_dim": self._broadcast,
            "stablehlo.custom_call": self._resample,
        }

    def visit(self, op: Any) -> None:
        """Make the twin of an operation if a rule is for it."""
        if op in self.inside_norms and self.inside_norms[op].source in self.twins:
            self._norm(op)
            return
        rule = self.rules.get(op.name)
        if op.name in _ELEMENTWISE:
            rule = self._elementwise
        if rule is None or not _is_static(op):
            return
        known = any(v in self.twins for v in op.operands)
        if not known and _is_turned(op):
            self.twins[op.results[0]] = op.operands[0]
            self.dead.append(op)
            return
        if op.name != "stablehlo.convolution" and not known:
            return
        with ir.InsertionPoint(op), op.location:
            if rule(op):
                self.count += 1
                self.dead.append(op)

    def finish(self) -> None:
        """Turn back what is still used as it was, and erase what has a twin."""
        dead = set(self.dead)
        for value, twin in self.twins.items():
            users = [use for use in value.uses if use.owner.operation not in dead]
            if not users:
                continue
            with ir.InsertionPoint.after(twin.owner.operation), twin.owner.operation.location:
                order = _order(len(shape_of(value)))
                back = _transposed(twin, [order.index(i) for i in range(len(order))])
            for use in users:
                use.owner.operation.operands[use.operand_number] = back
        for op in reversed(self.dead):
            op.erase()

    def _norm(self, op: Any) -> None:
        """The twin of a norm where it ends; what is done before is left out."""
        norm = self.norms.get(op)
        if norm is None:
            return
        with ir.InsertionPoint(op), op.location:
            twin = turned_norm(norm, self.twins[norm.source])
        if twin is not None:
            self.twins[norm.value] = twin
            self.dead.append(op)
            self.count += 1

    def last(self, value: Any) -> Any:
        """The value with its channels last: its twin, or one made here."""
        if value in self.twins:
            return self.twins[value]
        if value not in self.made:
            self.made[value] = self._make(value)
        return self.made[value]

    def _make(self, value: Any) -> Any:
        order = _order(len(shape_of(value)))
        if not isinstance(value.owner, ir.Block):
            op = value.owner.operation
            if op.name == "stablehlo.broadcast_in_dim":
                return self._wider(op)
            splat = _splat(op, order)
            if splat is not None:
                return splat
        return _transposed(value, order)

    def _wider(self, op: Any) -> Any:
        """A broadcast to the channels-last shape, from the source as it is."""
        (source,) = op.operands
        kind = op.results[0].type
        order = _order(len(kind.shape))
        where = [order.index(d) for d in integers(op, "broadcast_dimensions")]
        if len(where) == len(order) and source in self.twins:
            source, where = self.twins[source], list(range(len(order)))
        elif where != sorted(where):
            ranks = sorted(range(len(where)), key=where.__getitem__)
            source, where = _transposed(source, ranks), sorted(where)
        return ir.Operation.create(
            "stablehlo.broadcast_in_dim",
            results=[_permuted(kind, order)],
            operands=[source],
            attributes={"broadcast_dimensions": ir.DenseI64ArrayAttr.get(where)},
        ).result

    def _twin(self, op: Any, operands: Sequence[Any], kinds: Sequence[Any], **changed: Any) -> bool:
        """Clone an operation with other operands, result types and attributes."""
        twin = op.clone()
        for index, operand in enumerate(operands):
            twin.operands[index] = operand
        for name, attribute in changed.items():
            twin.attributes[name] = attribute
        for old, new, kind in zip(op.results, twin.results, kinds, strict=True):
            new.set_type(kind)
            self.twins[old] = new
        return True

    def _convolution(self, op: Any) -> bool:
        one, two, three = convolution_layout(op)
        spatial = [str(i) for i in range(len(one) - 2)]
        if not spatial or one != ["b", "f", *spatial] or three != one:
            return False
        found = read_convolution(op)
        if found is not None and found.is_wide and not self.weights.holds(found.weight):
            return False  # Its pixels are the weights of another, which are no image.
        source = self.last(op.operands[0])
        kernel = _transposed(op.operands[1], [two.index(x) for x in (*spatial, "i", "o")])
        axes = ", ".join(spatial)
        layout = f"[b, {axes}, f]x[{axes}, i, o]->[b, {axes}, f]"
        numbers = ir.Attribute.parse(f"#stablehlo.conv<{layout}>")
        kind = _permuted(op.results[0].type, _order(len(one)))
        return self._twin(op, [source, kernel], [kind], dimension_numbers=numbers)

    def _elementwise(self, op: Any) -> bool:
        rank = len(shape_of(op.results[0]))
        if rank < 3:
            return False
        operands = [v if not shape_of(v) else self.last(v) for v in op.operands]
        kinds = [_permuted(v.type, _order(rank)) for v in op.results]
        return self._twin(op, operands, kinds)

    def _lists(self, op: Any, *names: str) -> bool:
        """The twin of an operation whose attributes hold one number a dimension."""
        order = _order(len(shape_of(op.results[0])))
        changed = {
            name: ir.DenseI64ArrayAttr.get([integers(op, name)[i] for i in order])
            for name in names
            if name in op.attributes
        }
        operands = [v if not shape_of(v) else self.last(v) for v in op.operands]
        kinds = [_permuted(v.type, order) for v in op.results]
        return self._twin(op, operands, kinds, **changed)

    def _pad(self, op: Any) -> bool:
        return self._lists(op, "edge_padding_low", "edge_padding_high", "interior_padding")

    def _slice(self, op: Any) -> bool:
        return self._lists(op, "start_indices", "limit_indices", "strides")

    def _reduce_window(self, op: Any) -> bool:
        lists = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        if not self._lists(op, *lists):
            return False
        if "padding" in op.attributes:
            order = _order(len(shape_of(op.results[0])))
            flat = integers(op, "padding")
            rows = ", ".join(f"[{flat[2 * i]}, {flat[2 * i + 1]}]" for i in order)
            self.twins[op.results[0]].owner.operation.attributes["padding"] = ir.Attribute.parse(
                f"dense<[{rows}]> : tensor<{len(order)}x2xi64>"
            )
        return True

    def _reduce(self, op: Any) -> bool:
        rank = len(shape_of(op.operands[0]))
        order = _order(rank)
        gone = integers(op, "dimensions")
        kept = [d for d in order if d not in gone]
        if kept != sorted(kept):
            return False
        half = len(op.operands) // 2
        operands = [self.last(v) for v in list(op.operands)[:half]]
        twin = op.clone()
        for index, operand in enumerate(operands):
            twin.operands[index] = operand
        twin.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(
            sorted(order.index(d) for d in gone)
        )
        for old, new in zip(op.results, twin.results, strict=True):
            old.replace_all_uses_with(new)
        return True

    def _concatenate(self, op: Any) -> bool:
        rank = len(shape_of(op.results[0]))
        order = _order(rank)
        axis = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64), order.index(integers(op, "dimension")[0])
        )
        operands = [self.last(v) for v in op.operands]
        return self._twin(op, operands, [_permuted(op.results[0].type, order)], dimension=axis)

    def _reverse(self, op: Any) -> bool:
        order = _order(len(shape_of(op.results[0])))
        axes = ir.DenseI64ArrayAttr.get([order.index(d) for d in integers(op, "dimensions")])
        kind = _permuted(op.results[0].type, order)
        return self._twin(op, [self.last(op.operands[0])], [kind], dimensions=axes)

    def _resample(self, op: Any) -> bool:
        """A resampling goes on along the same axis, wherever that stands now."""
        if not is_resample(op):
            return False
        order = _order(len(shape_of(op.results[0])))
        axis = axis_attribute(order.index(axis_of(op)))
        kind = _permuted(op.results[0].type, order)
        return self._twin(op, [self.last(op.operands[0])], [kind], **{"edgec.axis": axis})

    def _reshape(self, op: Any) -> bool:
        """Rows and columns merged or split, or images of one pixel flattened."""
        before, after = shape_of(op.operands[0]), shape_of(op.results[0])
        if len(after) >= 3 and before[:2] == after[:2]:
            kind = _permuted(op.results[0].type, _order(len(after)))
            return self._twin(op, [self.last(op.operands[0])], [kind])
        if all(size == 1 for size in before[2:]):
            op.operands[0] = self.last(op.operands[0])
        return False

    def _transpose(self, op: Any) -> bool:
        twin = self.twins[op.operands[0]]
        order = _order(len(shape_of(twin)))
        turn = [order.index(i) for i in integers(op, "permutation")]
        result = twin if turn == sorted(turn) else _transposed(twin, turn)
        op.results[0].replace_all_uses_with(result)
        return True

    def _broadcast(self, op: Any) -> bool:
        """From one value a channel to a whole image."""
        source, result = op.operands[0], op.results[0]
        if len(shape_of(source)) != len(shape_of(result)):
            return False
        if integers(op, "broadcast_dimensions") != list(range(len(shape_of(result)))):
            return False
        self.twins[result] = self._wider(op)
        return True


def _is_turned(op: Any) -> bool:
    """Whether an operation makes an image of what has its channels last already.

    With one axis of pixels it may be a matrix as well; what is reshaped to more is an image.
    """
    if op.name != "stablehlo.transpose" or isinstance(op.operands[0].owner, ir.Block):
        return False
    rank = len(shape_of(op.results[0]))
    order = _order(rank)
    if rank < 3 or integers(op, "permutation") != [order.index(i) for i in range(rank)]:
        return False
    sizes = shape_of(op.results[0])
    users = [use.owner.operation for use in op.results[0].uses]
    return rank > 3 or all(
        user.name == "stablehlo.reshape"
        and len(shape_of(user.results[0])) > 3
        and shape_of(user.results[0])[:2] == sizes[:2]
        for user in users
    )


def _is_static(op: Any) -> bool:
    return all(None not in shape_of(v) for v in (*op.operands, *op.results))


def _permuted(kind: Any, order: Sequence[int]) -> Any:
    """The tensor type with its dimensions in another order."""
    return ir.RankedTensorType.get([kind.shape[i] for i in order], kind.element_type)


def _splat(op: Any, order: Sequence[int]) -> Any:
    """The constant of another shape, if all its elements are equal; None for anything else."""
    if op.name != "stablehlo.constant":
        return None
    value = attribute_of(op)
    if value is None or not value.is_splat:
        return None
    kind = _permuted(op.results[0].type, order)
    return ir.Operation.create(
        "stablehlo.constant",
        results=[kind],
        attributes={"value": ir.DenseElementsAttr.get_splat(kind, value.get_splat_value())},
    ).result


def _transposed(value: Any, order: Sequence[int]) -> Any:
    """The value with its dimensions in another order; a reshape where only sizes of one move."""
    if list(order) == sorted(order):
        return value
    wide = [i for i in order if value.type.shape[i] != 1]
    if wide == sorted(wide):
        kind = _permuted(value.type, order)
        return ir.Operation.create("stablehlo.reshape", results=[kind], operands=[value]).result
    return ir.Operation.create(
        "stablehlo.transpose",
        results=[_permuted(value.type, order)],
        operands=[value],
        attributes={"permutation": ir.DenseI64ArrayAttr.get(list(order))},
    ).result
