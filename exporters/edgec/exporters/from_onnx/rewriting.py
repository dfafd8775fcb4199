"""An ONNX graph while its operations are written anew: nodes, constants, shapes, fresh names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Rewriting", "Rule", "rewritten"]


class Rewriting:
    """The nodes written so far, and what is known of the values.

    Attributes:
        nodes: what is written so far.
        changed: whether anything was replaced.
        constants: constant tensors by name.
        shapes: known shapes by name.
        kinds: element types by name, as NumPy has them; None for others.
        versions: the version of each domain's operations.
    """

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self.graph = model.graph
        self.versions = {o.domain: o.version for o in model.opset_import}
        self.nodes: list[Any] = []
        self.changed = False
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.kinds: dict[str, Any] = {}
        for value in (*self.graph.value_info, *self.graph.input, *self.graph.output):
            self.kinds[value.name] = _kind(value.type.tensor_type.elem_type)
            known = value.type.tensor_type.HasField("shape")  # else there is no telling the rank
            dims = value.type.tensor_type.shape.dim
            if known and all(d.HasField("dim_value") for d in dims):
                self.shapes[value.name] = tuple(d.dim_value for d in dims)
        self.shapes.update({name: array.shape for name, array in self.constants.items()})
        self.kinds.update({name: array.dtype for name, array in self.constants.items()})
        self._number = 0
        self._taken = {name for node in self.graph.node for name in node.output}
        self._taken |= set(self.constants)

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

    def nodes_of(
        self, kind: str, inputs: Sequence[str], count: int, attributes: Mapping[str, Any]
    ) -> list[str]:
        """Write a node of several outputs; their names."""
        from onnx import helper

        names = [self.fresh(kind) for _ in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def fresh(self, what: str) -> str:
        """A name that nothing has."""
        self._number += 1
        name = f"edgec_{what}_{self._number}"
        return self.fresh(what) if name in self._taken else name

    def reshape(self, value: str, shape: Sequence[int], output: str = "") -> str:
        """Write a reshape; its output."""
        return self.node("Reshape", value, self.constant(np.array(shape, np.int64)), output=output)

    def constant(self, value: np.ndarray) -> str:
        """Write a constant; its name."""
        from onnx import numpy_helper

        name = self.fresh("constant")
        # A number stays one: `ascontiguousarray` would make a list of it.
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        self.shapes[name] = value.shape
        return name

    def number(self, value: float) -> str:
        """Write a number; its name."""
        return self.constant(np.array(value, np.float32))

    def numbers(self, *values: int) -> str:
        """Write a list of whole numbers; its name."""
        return self.constant(np.array(values, np.int64))

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


Rule = Callable[[Rewriting, Any], bool]
"""Writes a node anew; whether it did."""


def rewritten(model: Any, rules: Mapping[str, Rule]) -> bool:
    """Whether a rule for its type replaced a node of the graph; the model is changed."""
    work = Rewriting(model)
    for node in list(model.graph.node):
        rule = rules.get(node.op_type)
        before = len(work.nodes)
        if rule is None or not rule(work, node):
            del work.nodes[before:]
            work.nodes.append(node)
        else:
            work.changed = True
    del model.graph.node[:]
    model.graph.node.extend(work.nodes)
    return work.changed


def _kind(number: int) -> Any:
    from onnx import helper

    try:
        return helper.tensor_dtype_to_np_dtype(number)
    except KeyError:
        return None
