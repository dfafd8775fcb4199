"""An ONNX graph with what is constant in it computed: by onnx.reference, a node at a time.

onnxruntime's own folding knows only what onnxruntime knows, and a model that it refuses is not
folded at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["folded"]

_LARGEST = 1 << 24
"""Bytes of a result; what is larger is rather computed than stored."""

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"} | {
    "RandomUniformLike"
}

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
"""Types of weights that stay as they are held: kernels that multiply bytes are found by them."""


def folded(model: Any) -> Any:
    """The model with constants for nodes whose inputs are constant, and chosen branches of `If`.

    Args:
        model: an `onnx.ModelProto` with its shapes inferred; it is changed.
    """
    work = _Work(model)
    nodes = work.through(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


class _Work:
    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self._model = model
        self._graph = model.graph
        self._constants: dict[str, np.ndarray] = {
            t.name: numpy_helper.to_array(t) for t in self._graph.initializer
        }
        self._shapes = _static_shapes(self._graph)
        self._outputs = {value.name for value in self._graph.output}

    def through(self, nodes: Sequence[Any]) -> list[Any]:
        """The nodes that are left."""
        kept: list[Any] = []
        for node in nodes:
            branch = self._branch(node)
            if branch is not None:
                kept.extend(self.through(branch))
                continue
            values = self._values(node)
            if values is None or any(name in self._outputs for name in node.output):
                kept.extend([node] if values is None else self._constant_nodes(node, values))
                continue
            for name, value in zip(node.output, values, strict=False):
                if name:
                    self._keep(name, value)
        return kept

    def _constant_nodes(self, node: Any, values: Sequence[np.ndarray]) -> list[Any]:
        """What gives known results of the model: no operation computes them."""
        from onnx import helper, numpy_helper

        made = []
        for name, value in zip(node.output, values, strict=False):
            self._constants[name] = value
            made.append(
                helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
            )
        return made

    def _keep(self, name: str, value: np.ndarray) -> None:
        from onnx import numpy_helper

        self._constants[name] = value
        self._graph.initializer.append(numpy_helper.from_array(value, name))

    def _branch(self, node: Any) -> list[Any] | None:
        """The nodes in the place of an `If` whose condition is known."""
        from onnx import helper

        if node.op_type != "If" or node.input[0] not in self._constants:
            return None
        wanted = "then_branch" if bool(self._constants[node.input[0]].item()) else "else_branch"
        (graph,) = (a.g for a in node.attribute if a.name == wanted)
        for tensor in graph.initializer:
            self._graph.initializer.append(tensor)
        passed = [
            helper.make_node("Identity", [inner.name], [outer])
            for inner, outer in zip(graph.output, node.output, strict=True)
        ]
        return [*graph.node, *passed]

    def _values(self, node: Any) -> list[np.ndarray] | None:
        """What a node gives, or None where that is not known here."""
        if node.domain not in ("", "ai.onnx") or node.op_type in _RANDOM:
            return None
        held = self._constants.get(node.input[0]) if node.input else None
        if node.op_type == "DequantizeLinear" and held is not None and held.dtype in _BYTES:
            return None
        if node.op_type in ("Shape", "Size") and node.input[0] in self._shapes:
            given = {node.input[0]: _blank(self._shapes[node.input[0]])}
            return self._run(node, given)
        if any(a.HasField("g") or a.graphs for a in node.attribute):
            return None
        names = [name for name in node.input if name]
        if any(name not in self._constants for name in names):
            return None
        return self._run(node, {name: self._constants[name] for name in names})

    def _run(self, node: Any, given: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        from onnx.reference import ReferenceEvaluator

        versions = {o.domain: o.version for o in self._model.opset_import}
        try:
            # The evaluator of one node takes what onnx itself implements, functions included.
            found = ReferenceEvaluator(node, opsets=versions).run(None, dict(given))
        except Exception:  # noqa: BLE001 - what it cannot compute is left as it is
            return None
        if any(isinstance(value, list) for value in found):
            return None  # a sequence is no tensor, though its tensors may make one
        values = [np.asarray(value) for value in found]
        if any(v.nbytes > _LARGEST or v.dtype.kind in "OUS" for v in values):
            return None
        return values


def _blank(shape: tuple[int, ...]) -> np.ndarray:
    """An array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def _static_shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for value in (*graph.value_info, *graph.input):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            found[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    return found
