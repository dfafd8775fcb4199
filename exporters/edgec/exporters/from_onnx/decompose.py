"""ONNX operations that the importer refuses, written in ones that it takes.

Only what has no definition by ONNX' own functions (`functions.py`) stands here. An operation that
is linear in its first input becomes a product with a constant matrix; onnx.reference gives the
matrix, so that it means what the specification says, whatever the mode.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["decomposed"]

_LARGEST = 1 << 26
"""Bytes of a matrix."""


def decomposed(model: Any, kinds: Collection[str]) -> bool:
    """Whether operations of these kinds (of all, if none) were rewritten; the model is changed.

    Args:
        model: a prepared `onnx.ModelProto`, its shapes inferred.
        kinds: types of operations.
    """
    work = _Work(model)
    for node in list(model.graph.node):
        rule = _RULES.get(node.op_type) if not kinds or node.op_type in kinds else None
        before = len(work.nodes)
        if rule is None or not rule(work, node):
            del work.nodes[before:]
            work.nodes.append(node)
        else:
            work.changed = True
    del model.graph.node[:]
    model.graph.node.extend(work.nodes)
    return work.changed


class _Work:
    """The nodes written so far, and what is known of the values."""

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self.graph = model.graph
        self.versions = {o.domain: o.version for o in model.opset_import}
        self.nodes: list[Any] = []
        self.changed = False
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for value in (*self.graph.value_info, *self.graph.input, *self.graph.output):
            dims = value.type.tensor_type.shape.dim
            if all(d.HasField("dim_value") for d in dims):
                self.shapes[value.name] = tuple(d.dim_value for d in dims)
        self.shapes.update({name: array.shape for name, array in self.constants.items()})
        self._number = 0

    def attributes(self, node: Any) -> dict[str, Any]:
        """The attributes of a node, bytes as text."""
        from onnx import helper

        found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Write a node; its output."""
        from onnx import helper

        name = output or self.fresh(kind)
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def fresh(self, what: str) -> str:
        """A name that nothing has."""
        self._number += 1
        return f"edgec_{what}_{self._number}_{len(self.graph.initializer)}"

    def reshape(self, value: str, shape: Sequence[int], output: str = "") -> str:
        """Write a reshape; its output."""
        return self.node("Reshape", value, self.constant(np.array(shape, np.int64)), output=output)

    def constant(self, value: np.ndarray) -> str:
        """Write a constant; its name."""
        from onnx import numpy_helper

        name = self.fresh("constant")
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        self.shapes[name] = value.shape
        return name

    def number(self, value: float) -> str:
        """Write a number; its name."""
        return self.constant(np.array(value, np.float32))

    def known(self, node: Any, position: int) -> np.ndarray | None:
        """The value of a constant operand; None where it is absent or computed."""
        if position >= len(node.input):
            return None
        return self.constants.get(node.input[position])

    def run(self, node: Any, feed: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """What onnx.reference gives for a node, its constant operands filled in."""
        from onnx.reference import ReferenceEvaluator

        constants = {n: self.constants[n] for n in node.input if n in self.constants}
        try:
            evaluator = ReferenceEvaluator(node, opsets=self.versions)
            return np.asarray(evaluator.run(None, {**constants, **feed})[0])
        except Exception:  # noqa: BLE001 - what the reference refuses is not rewritten
            return None


def _linear(work: _Work, node: Any, axes: Sequence[int]) -> bool:
    """A product with a matrix in the place of a node that is linear along some axes.

    Args:
        work: where the nodes go.
        node: reads nothing but constants besides its first input.
        axes: those that the operation mixes; along all others it does the same to each.
    """
    value, result = node.input[0], node.output[0]
    shape, after = work.shapes.get(value), work.shapes.get(result)
    if shape is None or after is None or len(shape) != len(after):
        return False
    if any(name not in work.constants for name in node.input[1:] if name):
        return False
    others = [axis for axis in range(len(shape)) if axis not in axes]
    order = [*others, *axes]
    width, height = (int(np.prod([s[a] for a in axes])) for s in (shape, after))
    if 4 * width * height > _LARGEST or not others:
        return False
    # A unit vector for each place along the first of the other axes.
    ones = [1] * (len(others) - 1)
    units = np.eye(width, dtype=np.float32).reshape([width, *ones, *(shape[a] for a in axes)])
    found = work.run(node, {value: np.transpose(units, np.argsort(order))})
    if found is None:
        return False
    matrix = np.transpose(found, order).reshape(width, height).astype(np.float32)
    kept = [shape[a] for a in others]
    moved = work.node("Transpose", value, perm=order)
    product = work.node("MatMul", work.reshape(moved, [*kept, width]), work.constant(matrix))
    split = work.reshape(product, [*kept, *(after[a] for a in axes)])
    work.node("Transpose", split, output=result, perm=[int(p) for p in np.argsort(order)])
    return True


def _dft(work: _Work, node: Any) -> bool:
    shape = work.shapes.get(node.input[0])
    if shape is None:
        return False
    axis = work.known(node, 2)
    chosen = int(axis.item()) if axis is not None else work.attributes(node).get("axis")
    if chosen is None:
        chosen = -2 if work.versions.get("", 0) >= 20 else 1
    return _linear(work, node, [chosen % len(shape), len(shape) - 1])


def _resize(work: _Work, node: Any) -> bool:
    shape, after = work.shapes.get(node.input[0]), work.shapes.get(node.output[0])
    if shape is None or after is None:
        return False
    transform = work.attributes(node).get("coordinate_transformation_mode")
    cropped = transform == "tf_crop_and_resize"
    axes = [axis for axis in range(len(shape)) if cropped or shape[axis] != after[axis]]
    return bool(axes) and _resized(work, node, axes, shape, after)


def _resized(
    work: _Work, node: Any, axes: Sequence[int], shape: Sequence[int], after: Sequence[int]
) -> bool:
    """A product along each axis, whose matrix comes from a row of unit vectors, resized."""
    attributes = work.attributes(node)
    rank = len(shape)
    named = [int(a) % rank for a in attributes.pop("axes", range(rank))]
    axes = [axis for axis in axes if axis in named]
    scales, roi = work.known(node, 2), work.known(node, 1)
    if attributes.pop("keep_aspect_ratio_policy", "stretch") != "stretch":
        scales = None
    if attributes.get("extrapolation_value"):
        return False
    value = node.input[0]
    for number, axis in enumerate(axes):
        place = named.index(axis)
        scale = float(scales[place]) if scales is not None and scales.size else None
        region = None
        if roi is not None and roi.size:
            region = float(roi[place]), float(roi[place + len(named)])
        matrix = _row(work, attributes, shape[axis], after[axis], scale, region)
        if matrix is None:
            return False
        last = number == len(axes) - 1
        value = _along(work, value, matrix, axis, rank, node.output[0] if last else "")
    return True


def _row(
    work: _Work,
    attributes: Mapping[str, Any],
    old: int,
    new: int,
    scale: float | None,
    region: tuple[float, float] | None,
) -> np.ndarray | None:
    """The matrix of a resize along one axis, from onnx.reference."""
    from onnx import helper

    feed = {"x": np.eye(old, dtype=np.float32)}
    names = ["x", "", "", ""]
    if region is not None:
        names[1], feed["roi"] = "roi", np.array([0, region[0], 1, region[1]], np.float32)
    if scale is not None and int(old * scale) == new:
        names[2], feed["scales"] = "scales", np.array([1, scale], np.float32)
        names.pop()
    else:
        names[3], feed["sizes"] = "sizes", np.array([old, new], np.int64)
    found = work.run(helper.make_node("Resize", names, ["y"], **attributes), feed)
    return found if found is not None and found.shape == (old, new) else None


def _along(work: _Work, value: str, matrix: np.ndarray, axis: int, rank: int, output: str) -> str:
    """A product along an axis."""
    if axis == rank - 1:
        return work.node("MatMul", value, work.constant(matrix), output=output)
    order = [a for a in range(rank) if a != axis] + [axis]
    moved = work.node("Transpose", value, perm=order)
    product = work.node("MatMul", moved, work.constant(matrix))
    back = [int(p) for p in np.argsort(order)]
    return work.node("Transpose", product, output=output, perm=back)


def _col2im(work: _Work, node: Any) -> bool:
    """Windows back into an image: each channel's window a matrix' column."""
    shape, after = work.shapes.get(node.input[0]), work.shapes.get(node.output[0])
    block = work.known(node, 2)
    if shape is None or after is None or block is None or work.known(node, 1) is None:
        return False
    batch, rows, places = shape
    window = int(np.prod(block))
    channels, pixels = rows // window, int(np.prod(after[2:]))
    if 4 * window * places * pixels > _LARGEST:
        return False
    units = np.eye(window * places, dtype=np.float32).reshape(-1, window, places)
    found = work.run(node, {node.input[0]: units})
    if found is None:
        return False
    matrix = found.reshape(window * places, pixels)
    flat = work.reshape(node.input[0], [batch, channels, window * places])
    work.reshape(work.node("MatMul", flat, work.constant(matrix)), after, node.output[0])
    return True


def _stft(work: _Work, node: Any) -> bool:
    """Frames, each times the matrix of window and Fourier transform."""
    shape = work.shapes.get(node.input[0])
    step, window = work.known(node, 1), work.known(node, 2)
    if shape is None or step is None or (len(shape) == 3 and shape[2] != 1):
        return False
    name = node.input[2] if len(node.input) > 2 else ""
    if name and window is None and len(work.shapes.get(name, ())) != 1:
        return False
    length = work.known(node, 3)
    if not name and length is None:
        return False
    size = work.shapes[name][0] if name else int(np.asarray(length).item())
    weights = np.ones(size) if window is None else np.asarray(window, np.float64)
    # Not as inferred: ONNX' inference forgets that one side is the default.
    bins = size // 2 + 1 if work.attributes(node).get("onesided", 1) else size
    frames = (shape[1] - size) // int(step.item()) + 1
    angle = -2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / size
    matrix = np.stack([np.cos(angle), np.sin(angle)], -1) * weights[:, None, None]
    starts = np.arange(frames)[:, None] * int(step.item()) + np.arange(size)
    plain = work.reshape(node.input[0], shape[:2])
    framed = work.node("Gather", plain, work.constant(starts.astype(np.int64)), axis=1)
    if name and window is None:  # computed, or an input
        framed = work.node("Mul", framed, name)
    transform = work.constant(matrix.reshape(size, -1).astype(np.float32))
    product = work.node("MatMul", framed, transform)
    work.reshape(product, [shape[0], frames, bins, 2], node.output[0])
    return True


def _lp_pool(work: _Work, node: Any) -> bool:
    """The root of the sum of powers: a mean over the window times its size."""
    attributes = work.attributes(node)
    power = float(attributes.pop("p", 2))
    count = float(np.prod(attributes["kernel_shape"]))
    raised = work.node("Pow", work.node("Abs", node.input[0]), work.number(power))
    mean = work.node("AveragePool", raised, count_include_pad=1, **attributes)
    total = work.node("Mul", mean, work.number(count))
    work.node("Pow", total, work.number(1 / power), output=node.output[0])
    return True


_RULES: Mapping[str, Callable[[_Work, Any], bool]] = {
    "Col2Im": _col2im,
    "DFT": _dft,
    "LpPool": _lp_pool,
    "Resize": _resize,
    "STFT": _stft,
}
