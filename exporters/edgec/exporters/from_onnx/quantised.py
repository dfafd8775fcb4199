"""ONNX' quantised operations in plain ones: division, rounding, clipping, casts, f32 products.

`QuantizeLinear` becomes `Clip(Round(x / scale) + zero point)`, whose value stays f32 for whoever
dequantises it again, with a cast beside it for whoever wants the bytes. So quantised models take
the same road as others, and a compiler that knows what rounding and clipping mean sees which
values are bytes. Semantics are ONNX' own: halves are rounded to even, values out of range saturate,
and scales and zero points are one number, or one for each place along an axis.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.recurrent_steps import QUANTISED

__all__ = ["is_quantised", "plain_quantised"]

_BOUNDED = tuple(np.dtype(kind) for kind in ("int8", "uint8", "int16", "uint16"))
_EXACT = 2**24
"""Up to here f32 holds every integer."""


def is_quantised(model: Any) -> bool:
    """Whether an operation of the model's main graph rounds to bytes or computes with them."""
    return any(node.op_type in {*_RULES, QUANTISED} for node in model.graph.node)


def plain_quantised(model: Any) -> Any:
    """A model without quantised operations, as far as they have a plain form.

    Args:
        model: an `onnx.ModelProto` with its inner types and shapes inferred; it is changed.
    """
    work = _Plain(model)
    for node in list(model.graph.node):
        rule = _RULES.get(node.op_type)
        if rule is None or not rule(work, node):
            work.nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(_used(work.nodes, {value.name for value in model.graph.output}))
    return model


def _used(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """The nodes without those whose results nobody reads: bytes that are dequantised at once."""
    kept: list[Any] = []
    for node in reversed(nodes):
        if node.op_type == "Cast" and node.output[0] not in wanted:
            continue
        kept.append(node)
        wanted.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                wanted.update(name for inner in attribute.g.node for name in inner.input)
    return kept[::-1]


class _Plain:
    """The nodes written so far, and what is known of the values."""

    def __init__(self, model: Any) -> None:
        from onnx import helper, numpy_helper

        self.graph = model.graph
        self.nodes: list[Any] = []
        self.integers: dict[str, str] = {}  # values of bytes to the same integers in f32
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.kinds: dict[str, np.dtype[Any]] = {n: a.dtype for n, a in self.constants.items()}
        self.ranks: dict[str, int] = {n: a.ndim for n, a in self.constants.items()}
        self.shapes: dict[str, tuple[int, ...]] = {n: a.shape for n, a in self.constants.items()}
        for value in (*self.graph.value_info, *self.graph.input, *self.graph.output):
            kind = value.type.tensor_type
            if kind.elem_type:
                self.kinds[value.name] = helper.tensor_dtype_to_np_dtype(kind.elem_type)
            if kind.HasField("shape"):
                self.ranks[value.name] = len(kind.shape.dim)
                if all(dim.HasField("dim_value") for dim in kind.shape.dim):
                    self.shapes[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Write a node; its output."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        """A new initialiser; its name."""
        from onnx import numpy_helper

        self.constants[name] = np.asarray(value)
        self.graph.initializer.append(numpy_helper.from_array(self.constants[name], name))
        return name

    def cast(self, value: str, kind: Any, output: str) -> str:
        """The value in another type."""
        from onnx import helper

        return self.node(
            "Cast", [value], output, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        )

    def along(self, value: str, rank: int, axis: int, kind: Any, output: str) -> str:
        """A scale or zero point as `kind`, shaped so that it lies along `axis` of `rank` axes."""
        sizes = [1] * rank
        known = self.constants.get(value)
        if known is not None:
            if known.size == 1:
                sizes = []
            elif known.ndim == 1:
                sizes[axis] = known.size
            else:
                sizes = list(known.shape)
            return self.constant(output, known.reshape(sizes).astype(kind))
        if self.kinds.get(value) != np.dtype(kind):
            given, value = value, self.cast(value, kind, f"{output}:cast")
            self.ranks[value] = self.ranks.get(given, 0)
        if self.ranks.get(value, 0) != 1 or rank < 2:
            return value
        sizes[axis] = -1
        shape = self.constant(f"{output}:shape", np.array(sizes, np.int64))
        return self.node("Reshape", [value, shape], output)

    def repeated(self, value: str, block: int, like: str, axis: int, output: str) -> str | None:
        """A scale or zero point of blocks along an axis, for each element of `like` its own.

        None where a shape is not known.
        """
        shape, whole = self.shapes.get(value), self.shapes.get(like)
        if shape is None or whole is None or len(shape) != len(whole):
            return None
        axis %= len(whole)
        before, (count, *behind) = shape[:axis], shape[axis:]
        steps = (
            ("Reshape", (*before, count, 1, *behind)),
            ("Expand", (*before, count, block, *behind)),
            ("Reshape", (*before, count * block, *behind)),
        )
        for number, (kind, sizes) in enumerate(steps):
            wanted = self.constant(f"{output}:sizes{number}", np.array(sizes, np.int64))
            made = self.node(kind, [value, wanted], f"{output}:{number}")
            self.kinds[made], value = self.kinds[value], made
        bounds = [
            self.constant(f"{output}:{which}", np.array([number], np.int64))
            for which, number in (("first", 0), ("end", whole[axis]), ("axis", axis))
        ]
        made = self.node("Slice", [value, *bounds], output)
        self.kinds[made], self.ranks[made] = self.kinds[value], len(whole)
        return made

    def is_zero(self, value: str) -> bool:
        """Whether there is no such zero point, or it is all zeros."""
        return not value or (value in self.constants and not self.constants[value].any())

    def quantise(
        self, value: str, scale: str, zero: str, kind: np.dtype[Any], axis: int, output: str
    ) -> None:
        """`output`: the value, which is floating, in integers of a kind."""
        rank = self.ranks.get(value, self.ranks.get(output, 0))
        if self.kinds.get(value, np.dtype("float32")) != np.dtype("float32"):
            value = self.cast(value, "float32", f"{output}:wide")
        steps = self.along(scale, rank, axis, "float32", f"{output}:scale")
        made = self.node("Div", [value, steps], f"{output}:steps")
        made = self.node("Round", [made], f"{output}:rounded")
        if not self.is_zero(zero):
            shift = self.along(zero, rank, axis, "float32", f"{output}:zero")
            made = self.node("Add", [made, shift], f"{output}:shifted")
        bounds = [
            self.constant(f"{output}:{which}", np.float32(number))
            for which, number in (("least", np.iinfo(kind).min), ("most", np.iinfo(kind).max))
        ]
        self.integers[output] = self.node("Clip", [made, *bounds], f"{output}:integers")
        self.cast(self.integers[output], kind, output)

    def dequantise(
        self, value: str, scale: str, zero: str, axis: int, output: str, *, wide: bool = False
    ) -> None:
        """`output`: what integers mean, in the scale's type, or in f32 where it is `wide`."""
        rank = self.ranks.get(value, self.ranks.get(output, 0))
        kind = self.kinds.get(scale, np.dtype("float32"))
        plain = wide or kind == np.dtype("float32")
        made = self.centred(value, zero, rank, axis, np.dtype("float32"), output)
        steps = self.along(scale, rank, axis, "float32", f"{output}:scale")
        made = self.node("Mul", [made, steps], output if plain else f"{output}:wide")
        if not plain:
            self.cast(made, kind, output)

    def centred(
        self, value: str, zero: str, rank: int, axis: int, kind: np.dtype[Any], output: str
    ) -> str:
        """Integers less their zero point, in a type that holds them."""
        if kind == np.dtype("float32") and value in self.integers:
            made = self.integers[value]
        else:
            made = self.cast(value, kind, f"{output}:{kind.name}")
        if self.is_zero(zero):
            return made
        shift = self.along(zero, rank, axis, kind, f"{output}:zero")
        return self.node("Sub", [made, shift], f"{output}:centred")


def _given(node: Any, number: int) -> str:
    """An operand's name; empty where it is left out."""
    return str(node.input[number]) if number < len(node.input) else ""


def _attribute(node: Any, name: str, default: int) -> int:
    found = [a.i for a in node.attribute if a.name == name]
    return int(found[0]) if found else default


def _quantise(work: _Plain, node: Any) -> bool:
    from onnx import helper

    value, scale, zero = (_given(node, i) for i in range(3))
    asked = _attribute(node, "output_dtype", 0)
    kind = work.kinds.get(zero) if zero else np.dtype("uint8")
    if asked and not zero:
        kind = helper.tensor_dtype_to_np_dtype(asked)
    if kind not in _BOUNDED:
        return False
    axis, block = _attribute(node, "axis", 1), _attribute(node, "block_size", 0)
    steps = _of_blocks(work, (scale, zero), block, value, axis, node.output[0])
    if steps is None:
        return False
    work.quantise(value, *steps, kind, axis, node.output[0])
    return True


def _of_blocks(
    work: _Plain, steps: tuple[str, str], block: int, like: str, axis: int, output: str
) -> tuple[str, str] | None:
    """Scale and zero point, each element's own where they are of blocks; None: not known."""
    if not block:
        return steps
    scale = work.repeated(steps[0], block, like, axis, f"{output}:scales")
    if not steps[1]:
        return None if scale is None else (scale, "")
    zero = work.repeated(steps[1], block, like, axis, f"{output}:zeros")
    return None if scale is None or zero is None else (scale, zero)


def _dequantise(work: _Plain, node: Any) -> bool:
    value, scale, zero = (_given(node, i) for i in range(3))
    if work.kinds.get(value) not in (*_BOUNDED, np.dtype("int32")):
        return False
    axis, block = _attribute(node, "axis", 1), _attribute(node, "block_size", 0)
    if not block and work.ranks.get(scale, 0) > 1:
        return False
    steps = _of_blocks(work, (scale, zero), block, value, axis, node.output[0])
    if steps is None:
        return False
    work.dequantise(value, *steps, axis, node.output[0])
    return True


def _product(work: _Plain, node: Any) -> bool:
    """`QLinearMatMul`."""
    output = node.output[0]
    names = [_given(node, i) for i in range(8)]
    kind = work.kinds.get(names[7])
    if kind not in _BOUNDED:
        return False
    left, right = f"{output}:left", f"{output}:right"
    rows, columns = max(work.ranks.get(names[0], 2) - 2, 0), work.ranks.get(names[3], 2) - 1
    work.dequantise(names[0], names[1], names[2], rows, left, wide=True)
    work.dequantise(names[3], names[4], names[5], columns, right, wide=True)
    product = work.node("MatMul", [left, right], f"{output}:product")
    work.ranks[product] = work.ranks.get(output, max(work.ranks.get(n, 2) for n in (left, right)))
    work.quantise(product, names[6], names[7], kind, work.ranks[product] - 1, output)
    return True


def _convolution(work: _Plain, node: Any) -> bool:
    """`QLinearConv`; its bias has the product of the scales for a scale."""
    output = node.output[0]
    names = [_given(node, i) for i in range(9)]
    kind = work.kinds.get(names[7])
    if kind not in _BOUNDED:
        return False
    work.dequantise(names[0], names[1], names[2], 1, f"{output}:left")
    work.dequantise(names[3], names[4], names[5], 0, f"{output}:right")
    operands = [f"{output}:left", f"{output}:right"]
    if names[8]:
        both = work.node("Mul", [names[1], names[4]], f"{output}:scales")
        if names[1] in work.constants and names[4] in work.constants:
            work.nodes.pop()
            value = np.ravel(work.constants[names[1]] * work.constants[names[4]])
            work.constant(both, value if value.size > 1 else value[0])
        wide = work.cast(names[8], "float32", f"{output}:bias_wide")
        operands.append(work.node("Mul", [wide, both], f"{output}:bias"))
    made = work.node("Conv", operands, f"{output}:product")
    work.nodes[-1].attribute.extend(node.attribute)
    work.ranks[made] = work.ranks.get(output, work.ranks.get(names[0], 4))
    work.quantise(made, names[6], names[7], kind, 1, output)
    return True


def _integer_product(work: _Plain, node: Any) -> bool:
    """`MatMulInteger`: products of i32, which ONNX has."""
    output, (left, right, *zeros) = node.output[0], node.input
    zeros += [""] * (2 - len(zeros))
    kind = np.dtype("int32")
    operands = []
    for value, zero, rows, name in (
        (left, zeros[0], True, f"{output}:left"),
        (right, zeros[1], False, f"{output}:right"),
    ):
        rank = work.ranks.get(value, 2)
        axis = max(rank - 2, 0) if rows else rank - 1
        operands.append(work.centred(value, zero, rank, axis, kind, name))
    work.node("MatMul", operands, output)
    return True


def _integer_convolution(work: _Plain, node: Any) -> bool:
    """`ConvInteger`: ONNX convolves no integers, so in f32 where that is exact, else in f64."""
    output, (value, weight, *zeros) = node.output[0], node.input
    zeros += [""] * (2 - len(zeros))
    most = np.inf
    known, centre = work.constants.get(weight), work.constants.get(zeros[1], np.zeros(1))
    if known is not None and centre.size == 1 and (not zeros[1] or zeros[1] in work.constants):
        spread = np.abs(known.astype(np.int64) - int(centre.ravel()[0]))
        most = float(spread.reshape(len(known), -1).sum(1).max()) * 255
    kind = np.dtype("float32" if most < _EXACT else "float64")
    rank = work.ranks.get(value, 4)
    operands = [
        work.centred(value, zeros[0], rank, 1, kind, f"{output}:left"),
        work.centred(weight, zeros[1], rank, 0, kind, f"{output}:right"),
    ]
    made = work.node("Conv", operands, f"{output}:product")
    work.nodes[-1].attribute.extend(node.attribute)
    work.cast(made, "int32", output)
    return True


def _dynamic(work: _Plain, node: Any) -> bool:
    """`DynamicQuantizeLinear`: u8 whose scale and zero point span the values and zero."""
    value, (output, scale, zero) = node.input[0], node.output
    none = work.constant(f"{output}:none", np.float32(0))
    ends = []
    for which, reduce, bound in (("low", "ReduceMin", "Min"), ("high", "ReduceMax", "Max")):
        end = work.node(reduce, [value], f"{output}:{which}_seen", keepdims=0)
        ends.append(work.node(bound, [end, none], f"{output}:{which}"))
    span = work.node("Sub", [ends[1], ends[0]], f"{output}:span")
    count = work.constant(f"{output}:count", np.float32(255))
    step = work.node("Div", [span, count], f"{output}:step")
    one = work.constant(f"{output}:one", np.float32(1))
    empty = work.node("Equal", [span, none], f"{output}:empty")
    work.node("Where", [empty, one, step], scale)
    below = work.node("Div", [ends[0], scale], f"{output}:below")
    raised = work.node("Neg", [below], f"{output}:raised")
    held = work.node("Clip", [raised, none, count], f"{output}:held")
    work.integers[zero] = work.node("Round", [held], f"{zero}:integers")
    work.cast(work.integers[zero], "uint8", zero)
    work.kinds[zero], work.ranks[zero] = np.dtype("uint8"), 0
    work.kinds[scale], work.ranks[scale] = np.dtype("float32"), 0
    work.quantise(value, scale, zero, np.dtype("uint8"), 1, output)
    return True


_RULES: dict[str, Callable[[_Plain, Any], bool]] = {
    "QuantizeLinear": _quantise,
    "DequantizeLinear": _dequantise,
    "QLinearConv": _convolution,
    "QLinearMatMul": _product,
    "ConvInteger": _integer_convolution,
    "MatMulInteger": _integer_product,
    "DynamicQuantizeLinear": _dynamic,
}
