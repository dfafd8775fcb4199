"""`Scan` and `Loop` of ONNX with a known number of steps, written out.

The importer has no `Scan`, and takes a `Loop` only where nothing in it changes its shape.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

__all__ = ["unrolled"]

_MOST = 4000
"""Operations that a loop may become."""


def unrolled(model: Any, kinds: Collection[str]) -> bool:
    """Whether loops of these kinds (of all, if none) were written out; the model is changed.

    Args:
        model: a prepared `onnx.ModelProto`, its shapes inferred.
        kinds: types of operations.
    """
    work = _Work(model)
    changed = False
    for node in list(model.graph.node):
        rule = {"Scan": work.scan, "Loop": work.loop}.get(node.op_type)
        if rule is None or (kinds and node.op_type not in kinds) or not rule(node):
            work.nodes.append(node)
        else:
            changed = True
    del model.graph.node[:]
    model.graph.node.extend(work.nodes)
    return changed


class _Work:
    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self.graph = model.graph
        self.opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        self.nodes: list[Any] = []
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.shapes: dict[str, list[int]] = {n: list(a.shape) for n, a in self.constants.items()}
        for value in (*self.graph.value_info, *self.graph.input):
            dims = value.type.tensor_type.shape.dim
            if all(d.HasField("dim_value") for d in dims):
                self.shapes[value.name] = [d.dim_value for d in dims]

    def scan(self, node: Any) -> bool:
        """Write a scan's steps."""
        given = _attributes(node)
        body, count = given["body"], given["num_scan_inputs"]
        states, scanned = list(node.input[:-count]), list(node.input[-count:])
        results = len(node.output) - len(states)
        axes = given.get("scan_input_axes", [0] * count)
        backward = given.get("scan_input_directions", [0] * count)
        out_axes = given.get("scan_output_axes", [0] * results)
        out_backward = given.get("scan_output_directions", [0] * results)
        shape = self.shapes.get(scanned[0])
        if self.opset < 9 or shape is None or shape[axes[0]] * len(body.node) > _MOST:
            return False
        steps = shape[axes[0]]
        collected: list[list[str]] = [[] for _ in range(results)]
        for step in range(steps):
            slices = []
            for value, axis, back in zip(scanned, axes, backward, strict=True):
                at = self._constant(np.array(steps - 1 - step if back else step, np.int64))
                slices.append(self._node("Gather", value, at, axis=axis))
            found = self._step(body, [*states, *slices])
            states = found[: len(states)]
            for place, name in zip(collected, found[len(states) :], strict=True):
                place.append(name)
        self._finish(node, states, collected, out_axes, out_backward)
        return True

    def loop(self, node: Any) -> bool:
        """Write a loop's steps, if their number is known and nothing ends it before."""
        body = _attributes(node)["body"]
        trips = self.constants.get(node.input[0])
        if trips is None or int(trips.item()) * len(body.node) > _MOST:
            return False
        if node.input[1] and not self._is_true(node.input[1]):
            return False
        ends = body.output[0].name
        makers = {name: inner for inner in body.node for name in inner.output}
        while ends in makers and makers[ends].op_type in ("Identity", "Cast"):
            ends = makers[ends].input[0]
        fixed = {t.name: t for t in body.initializer}
        if ends != body.input[1].name and not self._says_true(makers.get(ends), fixed.get(ends)):
            return False
        states = list(node.input[2:])
        going = self._constant(np.array(True))
        collected: list[list[str]] = [[] for _ in node.output[len(states) :]]
        for step in range(int(trips.item())):
            at = self._constant(np.array(step, np.int64))
            found = self._step(body, [at, going, *states])[1:]
            states = found[: len(states)]
            for place, name in zip(collected, found[len(states) :], strict=True):
                place.append(name)
        self._finish(node, states, collected, [0] * len(collected), [0] * len(collected))
        return all(collected) if collected else True

    def _is_true(self, name: str) -> bool:
        value = self.constants.get(name)
        return value is not None and bool(value.all())

    @staticmethod
    def _says_true(maker: Any, tensor: Any) -> bool:
        from onnx import numpy_helper

        if tensor is None and maker is not None and maker.op_type == "Constant":
            tensor = maker.attribute[0].t
        return tensor is not None and bool(numpy_helper.to_array(tensor).all())

    def _step(self, body: Any, values: list[str]) -> list[str]:
        """Write the body once, its inputs being these values; its outputs' names."""
        names = {v.name: value for v, value in zip(body.input, values, strict=True)}
        for tensor in body.initializer:
            copy = type(tensor)()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name] = self._fresh()
            self.graph.initializer.append(copy)
        for node in body.node:
            self.nodes.append(_renamed(node, names, self._fresh))
        return [names.get(output.name, output.name) for output in body.output]

    def _finish(
        self,
        node: Any,
        states: list[str],
        collected: list[list[str]],
        axes: list[int],
        backward: list[int],
    ) -> None:
        for name, state in zip(node.output, states, strict=False):
            if name:
                self._node("Identity", state, output=name)
        results = node.output[len(states) :]
        for name, parts, axis, back in zip(results, collected, axes, backward, strict=True):
            at = self._constant(np.array([axis], np.int64))
            rows = [self._node("Unsqueeze", part, at) for part in parts]
            self._node("Concat", *(rows[::-1] if back else rows), output=name, axis=axis)

    def _node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or self._fresh()
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _constant(self, value: np.ndarray) -> str:
        from onnx import numpy_helper

        name = self._fresh()
        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _fresh(self) -> str:
        return f"edgec_step_{len(self.nodes)}_{len(self.graph.initializer)}"


def _renamed(node: Any, names: dict[str, str], fresh: Any) -> Any:
    """A copy of a body's node that reads and gives the step's own values."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    for number, name in enumerate(node.output):
        if name:
            names[name] = copy.output[number] = f"{fresh()}_{number}"
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            _rename_captured(attribute.g, names)
    return copy


def _rename_captured(graph: Any, names: Mapping[str, str]) -> None:
    """Let an inner graph read the step's values where it reads the body's."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        node.input[:] = [name if name in own else names.get(name, name) for name in node.input]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_captured(attribute.g, {k: v for k, v in names.items() if k not in own})
    for output in graph.output:
        if output.name not in own:
            output.name = names.get(output.name, output.name)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}
