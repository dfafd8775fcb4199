"""Writes StableHLO operations at an insertion point: what the rewrites of operations build with.

Every function takes and gives `ir.Value`s of static ranked tensor types. A module imported only by
a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

__all__ = [
    "FENCE",
    "apply",
    "binary",
    "bitcast",
    "broadcast",
    "clamp",
    "compare",
    "complex_",
    "concatenate",
    "constant",
    "convert",
    "copied",
    "count_up",
    "create",
    "cut",
    "dynamic_slice",
    "dynamic_update",
    "element",
    "fence",
    "fence_off",
    "fill",
    "flag",
    "inside",
    "integers",
    "iota",
    "is_elementwise",
    "is_static",
    "is_unsigned",
    "loop",
    "numbers",
    "owned",
    "pad",
    "part",
    "product",
    "reduce",
    "reshape",
    "reverse",
    "select",
    "shape",
    "slice_",
    "taken",
    "tensor",
    "transpose",
    "unary",
    "within",
]

FENCE = "iree_tensor_ext.compute_barrier.start"
"""What `fence` writes."""


def inside(operation: Any) -> Iterator[Any]:
    """Every operation in the regions of one, inner ones first, as they were when asked."""
    for region in operation.regions:
        for block in region.blocks:
            for op in list(block.operations):
                inner = op.operation
                if len(inner.regions):
                    yield from inside(inner)
                yield inner


# Types


def shape(value: Any) -> tuple[int, ...]:
    """A tensor's sizes."""
    return tuple(value.type.shape)


def element(value: Any) -> Any:
    """A tensor's element type."""
    return value.type.element_type


def is_static(*values: Any) -> bool:
    """Whether all are ranked tensors of known sizes."""
    return all(isinstance(v.type, ir.RankedTensorType) and v.type.has_static_shape for v in values)


def is_unsigned(kind: Any) -> bool:
    """Whether an element type is an unsigned integer."""
    return isinstance(kind, ir.IntegerType) and bool(kind.is_unsigned)


def tensor(sizes: Sequence[int], kind: Any) -> Any:
    """A tensor type."""
    return ir.RankedTensorType.get(list(sizes), kind)


# Attributes


def integers(op: Any, name: str, default: Sequence[int] | None = None) -> list[int]:
    """An attribute that is a list of integers."""
    if name not in op.attributes:
        return list(default or [])
    attribute = op.attributes[name]
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    return [int(n) for n in np.array(attribute).ravel()]


def flag(op: Any, name: str) -> bool:
    """An attribute that is a truth; false where absent."""
    return name in op.attributes and bool(ir.BoolAttr(op.attributes[name]).value)


def numbers(attribute: Any, name: str) -> list[int]:
    """A field of a dimension numbers attribute, by its printed name; empty where absent."""
    text = str(attribute)
    at = text.find(f" {name} = ") if f" {name} = " in text else text.find(f"<{name} = ")
    if at < 0:
        return []
    rest = text[at + len(name) + 4 :]
    if not rest.startswith("["):
        return [int(rest.split(",")[0].split(">")[0])]
    listed = rest[1 : rest.index("]")]
    return [int(n) for n in listed.split(",") if n.strip()]


# Operations


def create(
    name: str, result: Any, operands: Sequence[Any] = (), attributes: dict[str, Any] | None = None
) -> Any:
    """An operation with one result, which is returned."""
    return ir.Operation.create(
        name, results=[result], operands=list(operands), attributes=attributes or {}
    ).results[0]


def _indices(values: Sequence[int]) -> Any:
    return ir.DenseI64ArrayAttr.get([int(v) for v in values])


def fill(number: float | int | str, sizes: Sequence[int], kind: Any) -> Any:
    """A constant of one number; text is taken as MLIR writes it (`0x7F800000`)."""
    plain = ir.IntegerType.get_signless(kind.width) if is_unsigned(kind) else kind
    text = number
    if isinstance(kind, ir.ComplexType):  # the bindings know no complex constants
        inner = kind.element_type
        return complex_(fill(number, sizes, inner), fill(0, sizes, inner))
    if isinstance(number, (float, int)) and not isinstance(plain, ir.IntegerType):
        text = f"{float(number):.17e}" if np.isfinite(number) else _infinity(plain, number)
    elif isinstance(number, bool) or str(plain) == "i1":
        text = "true" if number else "false"
    value = ir.Attribute.parse(f"dense<{text}> : {tensor(sizes, kind)}")
    return create("stablehlo.constant", tensor(sizes, kind), [], {"value": value})


def fill_like(value: Any, number: float | int, kind: Any) -> Any:
    """A constant of one number with the sizes of a value, which may be open."""
    if is_static(value):
        return fill(number, shape(value), kind)
    is_whole = isinstance(kind, ir.IntegerType)
    make = ir.IntegerAttr.get if is_whole else ir.FloatAttr.get
    result = tensor(shape(value), kind)
    return create("chlo.constant_like", result, [value], {"value": make(kind, number)})


def sign_bits(value: Any) -> Any:
    """Whole numbers of a float's width, of which each has the float's sign bit alone."""
    width = element(value).width
    bits = ir.IntegerType.get_signless(width)
    return binary("and", bitcast(value, bits), fill_like(value, -(1 << (width - 1)), bits))


def _infinity(kind: Any, number: float) -> str:
    bits = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}[str(kind)]
    width = {"f16": 4, "bf16": 4, "f32": 8, "f64": 16}[str(kind)]
    if number < 0:
        bits |= 1 << (width * 4 - 1)
    elif number != number:
        bits |= bits >> 1
    return f"0x{bits:0{width}X}"


def constant(values: np.ndarray, kind: Any) -> Any:
    """A constant of an array's values; its NumPy type must be the kind's own."""
    result = tensor(values.shape, kind)
    attribute = ir.DenseElementsAttr.get(np.ascontiguousarray(values), type=result)
    return create("stablehlo.constant", result, [], {"value": attribute})


def iota(sizes: Sequence[int], axis: int, kind: Any) -> Any:
    """Counts along an axis."""
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    return create("stablehlo.iota", tensor(sizes, kind), [], {"iota_dimension": number})


def unary(name: str, value: Any) -> Any:
    """An operation that keeps the type."""
    return create(f"stablehlo.{name}", value.type, [value])


def binary(name: str, left: Any, right: Any) -> Any:
    """An operation on two values of one type."""
    return create(f"stablehlo.{name}", left.type, [left, right])


def compare(direction: str, left: Any, right: Any, *, total: bool = False) -> Any:
    """EQ, NE, LT, LE, GT or GE by the operands' type.

    With `total` floats that are no numbers have their places, too, and -0 is before 0.
    """
    kind = element(left)
    if isinstance(kind, ir.IntegerType):
        sort = "UNSIGNED" if is_unsigned(kind) or kind.width == 1 else "SIGNED"
    else:
        sort = "TOTALORDER" if total else "FLOAT"
    attributes = {
        "comparison_direction": ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>"),
        "compare_type": ir.Attribute.parse(f"#stablehlo<comparison_type {sort}>"),
    }
    result = tensor(shape(left), ir.IntegerType.get_signless(1))
    return create("stablehlo.compare", result, [left, right], attributes)


def select(test: Any, then: Any, otherwise: Any) -> Any:
    """Elementwise choice."""
    return create("stablehlo.select", then.type, [test, then, otherwise])


def clamp(low: Any, value: Any, high: Any) -> Any:
    """`min(max(value, low), high)`; the bounds are of its shape or scalars."""
    return create("stablehlo.clamp", value.type, [low, value, high])


def convert(value: Any, kind: Any) -> Any:
    """Another element type by value."""
    if element(value) == kind:
        return value
    return create("stablehlo.convert", tensor(shape(value), kind), [value])


def bitcast(value: Any, kind: Any) -> Any:
    """Another element type of the same width by bits."""
    if element(value) == kind:
        return value
    return create("stablehlo.bitcast_convert", tensor(shape(value), kind), [value])


def part(name: str, value: Any) -> Any:
    """`real` or `imag` of complex numbers."""
    kind = ir.ComplexType(element(value)).element_type
    return create(f"stablehlo.{name}", tensor(shape(value), kind), [value])


def complex_(real: Any, imaginary: Any) -> Any:
    """Complex numbers of two tensors of floats."""
    kind = ir.ComplexType.get(element(real))
    return create("stablehlo.complex", tensor(shape(real), kind), [real, imaginary])


def reshape(value: Any, sizes: Sequence[int]) -> Any:
    """The same elements in order with other sizes."""
    if shape(value) == tuple(sizes):
        return value
    return create("stablehlo.reshape", tensor(sizes, element(value)), [value])


def transpose(value: Any, order: Sequence[int]) -> Any:
    """Axis i of the result is axis `order[i]` of the value."""
    if list(order) == list(range(len(order))):
        return value
    sizes = [shape(value)[axis] for axis in order]
    result = tensor(sizes, element(value))
    return create("stablehlo.transpose", result, [value], {"permutation": _indices(order)})


def broadcast(value: Any, sizes: Sequence[int], axes: Sequence[int] = ()) -> Any:
    """Axis i of the value becomes axis `axes[i]` of the result."""
    if shape(value) == tuple(sizes) and list(axes) == list(range(len(sizes))):
        return value
    return create(
        "stablehlo.broadcast_in_dim",
        tensor(sizes, element(value)),
        [value],
        {"broadcast_dimensions": _indices(axes)},
    )


def reverse(value: Any, axes: Sequence[int]) -> Any:
    """The value back to front along some axes."""
    return create("stablehlo.reverse", value.type, [value], {"dimensions": _indices(axes)})


def slice_(
    value: Any, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """A slice of known bounds."""
    strides = strides or [1] * len(starts)
    sizes = [-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True)]
    if tuple(sizes) == shape(value):
        return value
    attributes = {
        "start_indices": _indices(starts),
        "limit_indices": _indices(limits),
        "strides": _indices(strides),
    }
    return create("stablehlo.slice", tensor(sizes, element(value)), [value], attributes)


def cut(value: Any, axis: int, begin: int, end: int) -> Any:
    """A slice along one axis."""
    starts, limits = [0] * len(shape(value)), list(shape(value))
    starts[axis], limits[axis] = begin, end
    return slice_(value, starts, limits)


def pad(
    value: Any,
    filler: Any,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> Any:
    """Elements added around and between; `filler` is a scalar tensor, widths may be negative."""
    interior = list(interior or [0] * len(low))
    if not any([*low, *high, *interior]):
        return value
    sizes = [
        a + b + n + max(n - 1, 0) * i
        for n, a, b, i in zip(shape(value), low, high, interior, strict=True)
    ]
    attributes = {
        "edge_padding_low": _indices(low),
        "edge_padding_high": _indices(high),
        "interior_padding": _indices(interior),
    }
    return create("stablehlo.pad", tensor(sizes, element(value)), [value, filler], attributes)


def concatenate(values: Sequence[Any], axis: int) -> Any:
    """The values one after another along an axis."""
    if len(values) == 1:
        return values[0]
    sizes = list(shape(values[0]))
    sizes[axis] = sum(shape(v)[axis] for v in values)
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    result = tensor(sizes, element(values[0]))
    return create("stablehlo.concatenate", result, list(values), {"dimension": number})


def product(
    left: Any, right: Any, contracting: tuple[Sequence[int], Sequence[int]], like: Any = None
) -> Any:
    """`dot_general` without batch dimensions.

    Args:
        left, right: what is multiplied.
        contracting: the axes of each that are summed.
        like: an operation whose precision it has, and whose result's element type.
    """
    first, second = (list(axes) for axes in contracting)
    sizes = [n for axis, n in enumerate(shape(left)) if axis not in first]
    sizes += [n for axis, n in enumerate(shape(right)) if axis not in second]
    numbers_ = ir.Attribute.parse(
        f"#stablehlo.dot<lhs_contracting_dimensions = {first}, "
        f"rhs_contracting_dimensions = {second}>"
    )
    attributes = {"dot_dimension_numbers": numbers_}
    if like is not None and "precision_config" in like.attributes:
        attributes["precision_config"] = like.attributes["precision_config"]
    kind = element(left if like is None else like.results[0])
    return create("stablehlo.dot_general", tensor(sizes, kind), [left, right], attributes)


def reduce(
    values: Sequence[Any],
    firsts: Sequence[Any],
    axes: Sequence[int],
    body: Callable[[Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """`stablehlo.reduce`; the body goes from scalars (accumulators, elements) to accumulators."""
    sizes = [n for axis, n in enumerate(shape(values[0])) if axis not in axes]
    op = ir.Operation.create(
        "stablehlo.reduce",
        results=[tensor(sizes, element(v)) for v in values],
        operands=[*values, *firsts],
        attributes={"dimensions": _indices(axes)},
        regions=1,
    )
    scalars = [tensor((), element(v)) for v in values]
    block = op.regions[0].blocks.append(*scalars, *scalars)
    with ir.InsertionPoint(block):
        results = body(list(block.arguments))
        ir.Operation.create("stablehlo.return", operands=list(results))
    return list(op.results)


def dynamic_slice(value: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """A slice whose starts are scalar tensors; they are kept in bounds."""
    result = tensor(sizes, element(value))
    attributes = {"slice_sizes": _indices(sizes)}
    return create("stablehlo.dynamic_slice", result, [value, *starts], attributes)


def dynamic_update(value: Any, update: Any, starts: Sequence[Any]) -> Any:
    """The value with a slice replaced; the starts are kept in bounds."""
    return create("stablehlo.dynamic_update_slice", value.type, [value, update, *starts])


def taken(value: Any, rows: Any) -> Any:
    """Rows of an array, as many as there are numbers in `rows` ([count], all inside)."""
    sizes, count = shape(value), shape(rows)[0]
    return create(
        "stablehlo.gather",
        tensor([count, *sizes[1:]], element(value)),
        [value, reshape(rows, [count, 1])],
        {
            "dimension_numbers": ir.Attribute.parse(
                f"#stablehlo.gather<offset_dims = {list(range(1, len(sizes)))}, "
                "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>"
            ),
            "slice_sizes": ir.DenseI64ArrayAttr.get([1, *sizes[1:]]),
            "indices_are_sorted": ir.BoolAttr.get(False),
        },
    )


def within(numbers: Any, count: int) -> Any:
    """Whole numbers as i32, each the nearest one of 0 to `count - 1`."""
    narrow = ir.IntegerType.get_signless(32)
    if element(numbers).width < narrow.width:  # which may not hold the last one
        numbers = convert(numbers, narrow)
    kind = element(numbers)
    return convert(clamp(fill(0, (), kind), numbers, fill(count - 1, (), kind)), narrow)


def loop(
    count: int, carried: Sequence[Any], body: Callable[[Any, Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """A loop of `count` turns; the body goes from the turn (a scalar i32) and the carried values
    to new ones."""
    kind = ir.IntegerType.get_signless(32)
    return count_up([fill(0, (), kind), *carried], fill(count, (), kind), 1, body)[1:]


def count_up(
    carried: Sequence[Any],
    end: Any,
    step: int,
    body: Callable[[Any, Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """A loop whose first carried value, a scalar, grows by `step` as long as it is below `end`.

    The body goes from it and the other values to new ones of these. `end` is worked out before the
    loop: iree-compile 3.13 refuses one whose test adds.
    """
    types = [value.type for value in carried]
    op = ir.Operation.create("stablehlo.while", results=types, operands=list(carried), regions=2)
    test = op.regions[0].blocks.append(*types)
    with ir.InsertionPoint(test):
        ir.Operation.create("stablehlo.return", operands=[compare("LT", test.arguments[0], end)])
    block = op.regions[1].blocks.append(*types)
    with ir.InsertionPoint(block):
        turn, *values = block.arguments
        results = body(turn, values)
        following = binary("add", turn, fill(step, (), element(turn)))
        ir.Operation.create("stablehlo.return", operands=[following, *results])
    return list(op.results)


_VIEWS = ("stablehlo.reshape", "stablehlo.bitcast_convert", "stablehlo.optimization_barrier")


def owned(value: Any) -> Any:
    """The value for an operation that works in place: a copy if it may be an argument's memory.

    iree-compile 3.13 sorts and scatters into an argument's own buffer, which is the caller's
    array where that is shared (`x` is sorted after `main(x)`, if it lies at a multiple of 64).
    """
    root = value
    while not isinstance(root, ir.BlockArgument):
        op = root.owner.operation
        if op.name not in _VIEWS:
            return value
        root = op.operands[ir.OpResult(root).result_number if len(op.operands) > 1 else 0]
    return copied(value)


def fence(value: Any) -> Any:
    """The value, with a barrier between the kernel that makes it and those that read it.

    StableHLO's own barrier would also make the host wait for what is before, and hide what sizes
    are; these may be known in the call only.
    """
    return ir.Operation.create(FENCE, [value.type], [value, *_open_sizes(value)]).result


def fence_off(value: Any) -> None:
    """Have all that reads an operation's result now read it behind a `fence`."""
    uses = list(value.uses)
    with value.owner.location, ir.InsertionPoint.after(value.owner):
        behind = fence(value)
    for use in uses:
        use.owner.operands[use.operand_number] = behind


def seen_as(value: Any, kind: Any) -> Any:
    """The memory of a value as that of elements of another type, as wide as its own.

    Unlike `bitcast` it is no part of the kernels around it, so that these read and write `kind`.
    """
    sizes = _open_sizes(value)
    segments = ir.DenseI32ArrayAttr.get([1, len(sizes), len(sizes)])
    return ir.Operation.create(
        "iree_tensor_ext.bitcast",
        [ir.RankedTensorType.get(value.type.shape, kind)],
        [value, *sizes, *sizes],
        attributes={"operandSegmentSizes": segments},
    ).result


def _open_sizes(value: Any) -> list[Any]:
    """The sizes of a value that only a call knows."""
    index = ir.IndexType.get()
    sizes = []
    for axis in range(value.type.rank):
        if value.type.is_dynamic_dim(axis):
            at = ir.IntegerAttr.get(index, axis)
            number = ir.Operation.create("arith.constant", [index], attributes={"value": at})
            sizes.append(ir.Operation.create("tensor.dim", [index], [value, number.result]).result)
    return sizes


def copied(value: Any, number: int = 0) -> Any:
    """The value in memory of its own, for an operation that works in place.

    A zero that the compiler cannot see keeps the copy from being taken out again. A barrier alone
    would not do: behind it, too, the operation works in the memory that others read.

    Args:
        value: what is copied.
        number: another one for each copy of equal values, which would become one otherwise.
    """
    kind = element(value)
    if isinstance(kind, ir.ComplexType):
        return complex_(*(copied(part(name, value), number) for name in ("real", "imag")))
    bits = kind
    if not isinstance(kind, ir.IntegerType) or is_unsigned(kind):
        bits = ir.IntegerType.get_signless(kind.width)
    whole = ir.IntegerType.get_signless(32)
    hidden = unary("optimization_barrier", fill(number, (), whole))
    zero = convert(binary("xor", hidden, fill(number, (), whole)), bits)
    same = binary("or", bitcast(value, bits), broadcast(zero, shape(value)))
    return bitcast(same, kind)


def is_elementwise(region: Any) -> bool:
    """Whether `apply` can take a region's block to tensors."""
    return all(_is_on_scalars(each.operation) for each in region.blocks[0].operations)


def _is_on_scalars(op: Any) -> bool:
    return not list(op.regions) and op.name not in ("stablehlo.custom_call", "func.call")


def apply(region: Any, arguments: Sequence[Any]) -> list[Any]:
    """The results of a region's one block on tensors, elementwise: its scalars become tensors.

    Every argument has the same shape; the block's operations are on scalars.

    Raises:
        ValueError: the block has an operation that does not work elementwise.
    """
    block = region.blocks[0]
    sizes = shape(arguments[0])
    known: dict[Any, Any] = dict(zip(block.arguments, arguments, strict=True))
    results: list[Any] = []
    for each in block.operations:
        op = each.operation
        if op.name == "stablehlo.return":
            results = [_seen(v, known, sizes) for v in op.operands]
            continue
        if not _is_on_scalars(op):
            raise ValueError(op.name)
        if op.name == "stablehlo.constant":
            copy = op.clone(ip=ir.InsertionPoint.current)
            known[op.results[0]] = broadcast(copy.results[0], sizes)
            continue
        operands = [_seen(v, known, sizes) for v in op.operands]
        made = ir.Operation.create(
            op.name,
            results=[tensor(sizes, element(r)) for r in op.results],
            operands=operands,
            attributes=dict(op.attributes.items()),
        )
        known.update(zip(op.results, made.results, strict=True))
    return results


def _seen(value: Any, known: dict[Any, Any], sizes: Sequence[int]) -> Any:
    """A value in the block, or one from outside of it as a tensor."""
    return known[value] if value in known else broadcast(value, sizes)
