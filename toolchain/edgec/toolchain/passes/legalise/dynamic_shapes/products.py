"""Matrix products and convolutions with dynamic shapes, as `linalg.generic` contractions.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import (
    convolution_layout,
    element_type,
    integers,
    is_float,
    is_unsigned,
    numbers_of,
    shape_of,
)
from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter, axes
from edgec.toolchain.passes.legalise.dynamic_shapes.moves import padded
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import Size, constant

__all__ = ["convolution", "dot_general"]


def dot_general(e: Emitter) -> bool:
    """Any product of two tensors; the compiler's own way takes plain matrices only."""
    numbers = numbers_of(e.op.attributes["dot_dimension_numbers"])
    left_batch = numbers.get("lhs_batching_dimensions", [])
    right_batch = numbers.get("rhs_batching_dimensions", [])
    left_gone = numbers.get("lhs_contracting_dimensions", [])
    right_gone = numbers.get("rhs_contracting_dimensions", [])
    shape = e.sizes.of(e.op.results[0])
    own = e.sizes.of(e.op.operands[0])
    is_matrix = not left_batch and all(len(shape_of(v)) <= 2 for v in e.op.operands)
    hidden = _hidden_batch(e, [own[i] for i in left_gone], len(left_batch)) if shape else 0
    if not _is_summable(e) or (is_matrix and len(left_gone) == 1 and not hidden):
        return False
    left, right = e.operand(0), e.operand(1)
    left_free = [i for i in range(len(shape_of(left))) if i not in left_batch + left_gone]
    right_free = [i for i in range(len(shape_of(right))) if i not in right_batch + right_gone]
    kept = hidden + len(shape)
    left_map = dict(zip(left_batch + left_free, range(hidden, kept), strict=False))
    right_map = dict(zip(right_batch, range(hidden, kept), strict=False))
    right_map |= dict(zip(right_free, range(hidden + len(left_map), kept), strict=True))
    for loop, (i, j) in enumerate(zip(left_gone, right_gone, strict=True), start=kept):
        left_map[i] = right_map[j] = loop
    ones = [e.sizes.opaque(e.hidden(1)) for _ in range(hidden)]
    one_axes = axes(range(hidden))
    total = _contract(
        e,
        [_with_ones(e, v, ones) for v in (left, right)],
        [_between(axes(m[i] for i in range(len(m))), one_axes) for m in (left_map, right_map)],
        _between(shape, ones),
        _between(axes(range(hidden, kept)), one_axes),
        len(left_gone),
    )
    e.finish(_without_ones(e, total, shape, ones))
    return True


def _hidden_batch(e: Emitter, summed: Sequence[Size], batch: int) -> int:
    """How many batch dimensions to add, of a size 1 that the compiler cannot see.

    Data tiling (iree-compile 3.13) fails on a product that sums over a dynamic dimension and whose
    operand is computed before it ("no basis element may be statically non-positive"). It leaves
    products alone that have two batch dimensions apart from each other, and those still get a
    matrix product's code. Its SPIR-V is wrong of some such products, and knows no data tiling.
    """
    if not e.hides_batches or all(size.number is not None for size in summed):
        return 0
    owners = [v.owner for v in e.op.operands]
    if all(isinstance(o, ir.Block) and o.owner.name == "func.func" for o in owners):
        return 0
    return max(0, 2 - batch)


def _between(items: Sequence[Any], extra: Sequence[Any]) -> list[Any]:
    """The items with one extra before the last, and a second before the first."""
    if not extra:
        return list(items)
    *most, last = items
    return [*extra[1:], *most, *extra[:1], last]


def _groups(rank: int, count: int) -> list[list[int]]:
    """For each of `rank` axes, the axes that it and the `count` ones before it become."""
    marks = _between(list(range(rank)), [None] * count)
    groups: list[list[int]] = [[]]
    for place, mark in enumerate(marks):
        groups[-1].append(place)
        if mark is not None and mark < rank - 1:
            groups.append([])
    return groups


def _with_ones(e: Emitter, value: Any, ones: Sequence[Size]) -> Any:
    """The value with those dimensions between its own."""
    if not ones:
        return value
    own = e.sizes.of(value)
    groups = _groups(len(own), len(ones))
    loose = [s if len(g) == 1 else None for s, g in zip(shape_of(value), groups, strict=True)]
    kind = e.tensor(loose, element_type(value))
    if kind != value.type:
        value = e.create("tensor.cast", kind, [value])
    return e.expand(value, groups, _between(own, ones))


def _without_ones(e: Emitter, value: Any, shape: Sequence[Size], ones: Sequence[Size]) -> Any:
    """The inverse of `_with_ones`."""
    if not ones:
        return value
    merged = []
    full = _between(shape, ones)
    for group in (groups := _groups(len(shape), len(ones))):
        size = constant(1)
        for place in group:
            size = size * full[place]
        merged.append(size)
    return e.collapse(value, groups, merged)


def _is_summable(e: Emitter) -> bool:
    return all(
        is_float(element_type(v)) or isinstance(element_type(v), ir.IntegerType)
        for v in (*list(e.op.operands)[:2], e.op.results[0])
    )


def _contract(
    e: Emitter,
    operands: Sequence[Any],
    maps: Sequence[Sequence[Any]],
    shape: Sequence[Size],
    into_map: Sequence[Any],
    reduced: int,
) -> Any:
    """Sums of products in the result's type, or in f32 where that is a narrower float."""
    final = element_type(e.result_type())
    narrow = is_float(final) and ir.FloatType(final).width < 32
    wide = ir.F32Type.get() if narrow else final
    unsigned = [is_unsigned(element_type(v)) for v in list(e.op.operands)[:2]]

    def multiply_add(arguments: Sequence[Any]) -> Sequence[Any]:
        a, b = (_widen(e, v, wide, u) for v, u in zip(arguments[:2], unsigned, strict=True))
        if is_float(wide):
            return [e.arith("addf", arguments[2], e.arith("mulf", a, b))]
        return [e.arith("addi", arguments[2], e.arith("muli", a, b))]

    loops = len(into_map) + reduced
    into = e.filled(shape, e.zero(wide))
    total = e.generic(operands, maps, into, into_map, loops, multiply_add, reduced=reduced)
    if not narrow:
        return total
    rank = len(shape)
    every = axes(range(rank))
    return e.generic(
        [total],
        [every],
        e.empty(shape, final),
        every,
        rank,
        lambda arguments: [e.create("arith.truncf", final, [arguments[0]])],
    )


def _widen(e: Emitter, value: Any, kind: Any, unsigned: bool) -> Any:
    if value.type == kind:
        return value
    if is_float(value.type):
        wider = ir.FloatType(value.type).width < ir.FloatType(kind).width
        return e.create("arith.extf" if wider else "arith.truncf", kind, [value])
    if is_float(kind):
        return e.create("arith.uitofp" if unsigned else "arith.sitofp", kind, [value])
    if ir.IntegerType(value.type).width > ir.IntegerType(kind).width:
        return e.create("arith.trunci", kind, [value])
    return e.create("arith.extui" if unsigned else "arith.extsi", kind, [value])


def convolution(e: Emitter) -> bool:
    """Grouped, depthwise and dynamically sized or padded convolutions.

    The compiler's own way takes the others.
    """
    inputs, kernel, outputs = convolution_layout(e.op)
    count = len(inputs) - 2
    (groups,) = integers(e.op, "feature_group_count", [1])
    spatial = [shape_of(e.op.operands[0])[inputs.index(str(i))] for i in range(count)]
    plain = groups == 1 and None not in spatial and e.op.name == "stablehlo.convolution"
    if plain and _is_pointwise(e, kernel, count):
        return _pointwise(e, inputs, kernel, outputs)
    if plain or integers(e.op, "batch_group_count", [1]) != [1] or not _is_summable(e):
        return False
    if None in shape_of(e.op.operands[1]) or shape_of(e.op.operands[0])[inputs.index("f")] is None:
        return False
    stride, base, spread = (
        integers(e.op, name, [1] * count)
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    weights = e.operand(1)
    turned = [
        kernel.index(str(i))
        for i, turn in enumerate(integers(e.op, "window_reversal", [0] * count))
        if turn
    ]
    if turned:
        dimensions = {"dimensions": ir.DenseI64ArrayAttr.get(turned)}
        weights = e.create("stablehlo.reverse", weights.type, [weights], dimensions)
    data = _padded_input(e, inputs, base)

    # loops: batch, space, group, features of a group | window, channels of a group
    channels = shape_of(weights)[kernel.index("i")] or 1
    features = (shape_of(weights)[kernel.index("o")] or 1) // groups
    space = list(range(1, count + 1))
    group, feature = count + 1, count + 2
    window = list(range(count + 3, 2 * count + 3))
    channel = 2 * count + 3
    at = axes(range(channel + 1))
    data, data_map = _split(e, data, inputs, "f", groups, channels, (at[group], at[channel]))
    weights, weights_map = _split(
        e, weights, kernel, "o", groups, features, (at[group], at[feature])
    )
    read = {"b": at[0], "i": at[channel]}
    for i in range(count):
        read[str(i)] = at[space[i]] * stride[i] + at[window[i]] * spread[i]
    over = {str(i): at[window[i]] for i in range(count)} | {"i": at[channel]}
    into_map: list[Any] = []
    shape: list[Size] = []
    sizes = dict(zip(outputs, e.sizes.of(e.op.results[0]), strict=True))
    for letter in outputs:
        if letter == "f":
            into_map += [at[group], at[feature]]
            shape += [constant(groups), constant(features)]
        else:
            into_map.append(at[0] if letter == "b" else at[space[int(letter)]])
            shape.append(sizes[letter])
    total = _contract(
        e,
        (data, weights),
        [
            [read[m] if isinstance(m, str) else m for m in data_map],
            [over[m] if isinstance(m, str) else m for m in weights_map],
        ],
        shape,
        into_map,
        count + 1,
    )
    merged, place = [], 0
    for letter in outputs:
        width = 2 if letter == "f" else 1
        merged.append(list(range(place, place + width)))
        place += width
    e.finish(e.collapse(total, merged, [sizes[letter] for letter in outputs]))
    return True


def _is_pointwise(e: Emitter, kernel: Sequence[str], count: int) -> bool:
    """Whether a convolution is a matrix product of something computed before it."""
    window = [shape_of(e.op.operands[1])[kernel.index(str(i))] for i in range(count)]
    steps = [
        *integers(e.op, "window_strides", [1] * count),
        *integers(e.op, "lhs_dilation", [1] * count),
        *(n + 1 for n in integers(e.op, "padding", [0] * 2 * count)),
    ]
    owner = e.op.operands[0].owner
    computed = not isinstance(owner, ir.Block) and owner.name != "flow.tensor.tie_shape"
    if not computed or None in shape_of(e.op.operands[1]):
        return False
    return all(n == 1 for n in (*window, *steps)) and _is_summable(e)


def _pointwise(
    e: Emitter, inputs: Sequence[str], kernel: Sequence[str], outputs: Sequence[str]
) -> bool:
    """A product without data tiling, which fails on what another kernel computes (3.13)."""
    shape = e.sizes.of(e.op.results[0])
    weights = e.operand(1)
    order = [letter for letter in kernel if letter in "io"]
    sides = [constant(shape_of(weights)[kernel.index(letter)] or 0) for letter in order]
    kind = e.tensor(sides, element_type(weights))
    weights = e.create("stablehlo.reshape", kind, [weights])
    e.sizes.set(weights, sides)
    count = 2 if e.hides_batches else 0
    ones = [e.sizes.opaque(e.hidden(1)) for _ in range(count)]
    at = axes(range(count + len(outputs) + 1))
    loop = {letter: at[count + i] for i, letter in enumerate(outputs)}
    read = [at[-1] if letter == "f" else loop[letter] for letter in inputs]
    total = _contract(
        e,
        [_with_ones(e, v, ones) for v in (e.operand(0), weights)],
        [
            _between(read, at[:count]),
            _between([at[-1] if letter == "i" else loop["f"] for letter in order], at[:count]),
        ],
        _between(shape, ones),
        _between([loop[letter] for letter in outputs], at[:count]),
        1,
    )
    e.finish(_without_ones(e, total, shape, ones))
    return True


def _padded_input(e: Emitter, inputs: Sequence[str], base: Sequence[int]) -> Any:
    zero = constant(0)
    low, high, interior = ([zero] * len(inputs) for _ in range(3))
    if e.op.name == "stablehlo.dynamic_conv":
        padding: Sequence[Size] = e.sizes.elements(e.op.operands[2])
    else:
        padding = [constant(n) for n in integers(e.op, "padding", [0] * 2 * len(base))]
    for i, dilation in enumerate(base):
        axis = inputs.index(str(i))
        low[axis], high[axis] = padding[2 * i], padding[2 * i + 1]
        interior[axis] = constant(dilation - 1)
    data = e.operand(0)
    return padded(e, data, low, high, interior, e.zero(element_type(data)))


def _split(
    e: Emitter,
    value: Any,
    letters: Sequence[str],
    which: str,
    groups: int,
    rest: int,
    maps: tuple[Any, Any],
) -> tuple[Any, list[Any]]:
    """Split one axis into (group, rest); its map, with the other axes' letters in place."""
    own = e.sizes.of(value)
    shape: list[Size] = []
    split: list[list[int]] = []
    access: list[Any] = []
    for letter, size in zip(letters, own, strict=True):
        width = 2 if letter == which else 1
        split.append(list(range(len(shape), len(shape) + width)))
        shape += [constant(groups), constant(rest)] if letter == which else [size]
        access += list(maps) if letter == which else [letter]
    return e.expand(value, split, shape), access
