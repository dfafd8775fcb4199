"""TensorFlow Lite's operators that move elements and compute nothing; integers stay what they are.

Those that work on sizes (`RESHAPE`, `PACK`, …) also take NumPy arrays of symbols.
"""

from typing import Any

import numpy as np

from edgec.exporters.from_tflite.call import Call

__all__ = [
    "batch_to_space",
    "broadcast_to",
    "concatenation",
    "depth_to_space",
    "dynamic_update_slice",
    "embedding_lookup",
    "expand_dims",
    "fill",
    "gather",
    "gather_nd",
    "mirror_pad",
    "one_hot",
    "pack",
    "pad",
    "range_",
    "rank",
    "reshape",
    "reverse",
    "scatter_nd",
    "shape",
    "slice_",
    "space_to_batch",
    "space_to_depth",
    "split",
    "split_v",
    "squeeze",
    "strided_slice",
    "tile",
    "transpose",
    "unpack",
]

_INSIDE = "promise_in_bounds"  # TensorFlow Lite refuses indices outside when it runs


def reshape(call: Call) -> Any:
    """RESHAPE to a known shape, in which one size may be -1."""
    given = call.option("newShape", None)
    sizes = call.sizes(1) if call.has(1) else [int(d) for d in given]
    return call.xp.reshape(call[0], sizes)


def squeeze(call: Call) -> Any:
    """SQUEEZE of the axes named, or of all of size 1."""
    x = call[0]
    given = call.option("squeezeDims", None)
    axes = [] if given is None else [int(a) % x.ndim for a in given]
    if not axes:
        axes = [a for a, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    return call.xp.squeeze(x, tuple(axes))


def expand_dims(call: Call) -> Any:
    """EXPAND_DIMS at the axis in input 1."""
    return call.xp.expand_dims(call[0], int(call.constant(1).item()))


def transpose(call: Call) -> Any:
    """TRANSPOSE by the permutation in input 1."""
    return call.xp.transpose(call[0], call.axes(1, call[0].ndim))


def concatenation(call: Call) -> Any:
    """CONCATENATION along an axis; an activation is fused into models without quantisation."""
    joined = call.xp.concatenate(list(call.values), axis=int(call.option("axis", 0)))
    if call.activation() != "none" and joined.dtype.kind != "f":
        call.refuse("of integers with a fused activation")
    return call.activated(joined)


def pack(call: Call) -> Any:
    """PACK: a new axis."""
    return call.xp.stack(list(call.values), axis=int(call.option("axis", 0)))


def unpack(call: Call) -> Any:
    """UNPACK: one output for each index of an axis."""
    axis = int(call.option("axis", 0))
    x = call.xp.moveaxis(call[0], axis, 0)
    return tuple(x[i] for i in range(len(call.outputs)))


def split(call: Call) -> Any:
    """SPLIT into equal parts along the axis in input 0."""
    (axis,) = call.axes(0, call[1].ndim)
    return tuple(call.xp.split(call[1], len(call.outputs), axis=axis))


def split_v(call: Call) -> Any:
    """SPLIT_V into parts of the sizes in input 1; one of them may be -1."""
    x, sizes = call[0], call.sizes(1)
    (axis,) = call.axes(2, x.ndim)
    if -1 in sizes:
        rest = x.shape[axis] - sum(s for s in sizes if s != -1)
        sizes = [rest if s == -1 else s for s in sizes]
    return tuple(call.xp.split(x, np.cumsum(sizes)[:-1].tolist(), axis=axis))


def slice_(call: Call) -> Any:
    """SLICE from a start, of a size; -1 is all that is left."""
    x = call[0]
    parts = []
    for start, size, whole in zip(call.sizes(1), call.sizes(2), x.shape, strict=True):
        end = whole if isinstance(size, int) and size == -1 else start + size
        parts.append(slice(start, end))
    return x[tuple(parts)]


def strided_slice(call: Call) -> Any:
    """STRIDED_SLICE with masks for begin, end, the ellipsis, new and dropped axes."""
    starts, ends, steps = call.sizes(1), call.sizes(2), call.sizes(3)
    masks = {
        name: int(call.option(f"{name}Mask", 0))
        for name in ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")
    }
    parts: list[Any] = []
    for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        bit = 1 << axis
        if masks["ellipsis"] & bit:
            parts.append(Ellipsis)
        elif masks["newAxis"] & bit:
            parts.append(None)
        elif masks["shrinkAxis"] & bit:
            parts.append(start)
        else:
            end = start + end if call.option("offset", False) else end
            first = None if masks["begin"] & bit else start
            parts.append(slice(first, None if masks["end"] & bit else end, step))
    return call[0][tuple(parts)]


def pad(call: Call) -> Any:
    """PAD and PADV2: by zero (what stands for it) or by the value in input 2."""
    value = call[2].reshape(()) if call.has(2) else _zero(call)
    widths = [tuple(int(n) for n in row) for row in call.constant(1)]
    return call.xp.pad(call[0], widths, constant_values=value)


def mirror_pad(call: Call) -> Any:
    """MIRROR_PAD, with or without the border itself."""
    widths = [tuple(int(n) for n in row) for row in call.constant(1)]
    mode = "symmetric" if call.option("mode", 0) else "reflect"
    return call.xp.pad(call[0], widths, mode=mode)


def tile(call: Call) -> Any:
    """TILE."""
    return call.xp.tile(call[0], call.sizes(1))


def broadcast_to(call: Call) -> Any:
    """BROADCAST_TO."""
    return call.xp.broadcast_to(call[0], call.sizes(1))


def fill(call: Call) -> Any:
    """FILL: one value in a known shape."""
    return call.xp.broadcast_to(call[1].reshape(()), call.sizes(0))


def range_(call: Call) -> Any:
    """RANGE between known numbers."""
    ends = [call.constant(i).item() for i in range(3)]
    return call.xp.arange(*ends, dtype=call.outputs[0].dtype)


def shape(call: Call) -> Any:
    """SHAPE: numbers, and symbols for dynamic dimensions."""
    sizes = call[0].shape
    known = all(isinstance(d, int) for d in sizes)
    return np.array(sizes, call.outputs[0].dtype if known else object)


def rank(call: Call) -> Any:
    """RANK."""
    return np.array(len(call[0].shape), call.outputs[0].dtype)


def gather(call: Call) -> Any:
    """GATHER along an axis, with leading batch dimensions."""
    x, places = call[0], call[1]
    axis = int(call.option("axis", 0)) % x.ndim
    if call.xp is np:
        return np.take(x, places, axis=axis)
    import jax

    batch = int(call.option("batchDims", 0))
    batch += places.ndim if batch < 0 else 0

    def take(values: Any, indices: Any) -> Any:
        return call.xp.take(values, indices, axis=axis - batch, mode="clip")

    for _ in range(batch):
        take = jax.vmap(take)
    return take(x, places)


def gather_nd(call: Call) -> Any:
    """GATHER_ND: each row of input 1 is an index."""
    return call[0].at[_rows(call, 1)].get(mode=_INSIDE)


def scatter_nd(call: Call) -> Any:
    """SCATTER_ND: updates added where the rows of input 0 say, zeros elsewhere."""
    zeros = call.xp.zeros(call.sizes(2), call[1].dtype)
    return zeros.at[_rows(call, 0)].add(call[1], mode=_INSIDE)


def embedding_lookup(call: Call) -> Any:
    """EMBEDDING_LOOKUP: rows of the table in input 1."""
    return call.xp.take(call[1], call[0], axis=0, mode="clip")


def dynamic_update_slice(call: Call) -> Any:
    """DYNAMIC_UPDATE_SLICE: a part replaced from a place that is computed."""
    from jax import lax

    places = call[2]
    return lax.dynamic_update_slice(call[0], call[1], [places[i] for i in range(call[0].ndim)])


def one_hot(call: Call) -> Any:
    """ONE_HOT along an axis of known depth."""
    depth = int(call.constant(1).item())
    axis = int(call.option("axis", -1))
    places = call.xp.expand_dims(call[0], axis)
    sizes = [1] * places.ndim
    sizes[axis] = depth
    hot = places == np.arange(depth, dtype=call[0].dtype).reshape(sizes)
    return call.xp.where(hot, call[2].reshape(()), call[3].reshape(()))


def reverse(call: Call) -> Any:
    """REVERSE_V2 along the axes in input 1."""
    return call.xp.flip(call[0], call.axes(1, call[0].ndim))


def space_to_depth(call: Call) -> Any:
    """SPACE_TO_DEPTH: blocks of NHWC into channels."""
    n, h, w, c = call[0].shape
    b = int(call.option("blockSize", 1))
    x = call[0].reshape(n, h // b, b, w // b, b, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, b * b * c)


def depth_to_space(call: Call) -> Any:
    """DEPTH_TO_SPACE: channels of NHWC into blocks."""
    n, h, w, c = call[0].shape
    b = int(call.option("blockSize", 1))
    x = call[0].reshape(n, h, w, b, b, c // (b * b))
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, c // (b * b))


def space_to_batch(call: Call) -> Any:
    """SPACE_TO_BATCH_ND: padded blocks of the spatial axes into the batch."""
    blocks = [int(b) for b in call.constant(1)]
    pads = [tuple(int(n) for n in row) for row in call.constant(2)]
    count = len(blocks)
    rest = call[0].ndim - 1 - count
    x = call.xp.pad(call[0], [(0, 0), *pads, *[(0, 0)] * rest], constant_values=_zero(call))
    n, spatial, tail = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    split = [part for size, b in zip(spatial, blocks, strict=True) for part in (size // b, b)]
    x = x.reshape(n, *split, *tail)
    inner = [2 * i + 2 for i in range(count)]
    outer = [2 * i + 1 for i in range(count)]
    x = x.transpose(*inner, 0, *outer, *range(2 * count + 1, x.ndim))
    sizes = [size // b for size, b in zip(spatial, blocks, strict=True)]
    return x.reshape(n * int(np.prod(blocks)), *sizes, *tail)


def batch_to_space(call: Call) -> Any:
    """BATCH_TO_SPACE_ND: the inverse, with crops."""
    blocks = [int(b) for b in call.constant(1)]
    crops = [tuple(int(n) for n in row) for row in call.constant(2)]
    count = len(blocks)
    x = call[0]
    n, spatial, tail = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    x = x.reshape(*blocks, n // int(np.prod(blocks)), *spatial, *tail)
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    x = x.transpose(*order, *range(2 * count + 1, x.ndim))
    sizes = [size * b for size, b in zip(spatial, blocks, strict=True)]
    x = x.reshape(n // int(np.prod(blocks)), *sizes, *tail)
    cuts = [slice(a, size - b) for (a, b), size in zip(crops, sizes, strict=True)]
    return x[(slice(None), *cuts)]


def _rows(call: Call, index: int) -> tuple[Any, ...]:
    """The columns of an array of indices, one for each axis that they speak of."""
    places = call[index]
    return tuple(places[..., i] for i in range(places.shape[-1]))


def _zero(call: Call) -> int:
    """What stands for zero in the first input as it is here: in integers, or in real numbers."""
    tensor = call.inputs[0]
    if tensor is None or tensor.quantization is None or call[0].dtype.kind == "f":
        return 0
    return tensor.quantization.zero_points[0]
