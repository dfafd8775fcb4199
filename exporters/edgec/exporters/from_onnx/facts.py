"""What is known of the values of an ONNX graph before it is run: constants, shapes, types."""

from typing import Any

import numpy as np

__all__ = ["Facts", "initializers"]


def initializers(model: Any) -> dict[str, np.ndarray]:
    """The constant tensors of a model by name."""
    from onnx import numpy_helper

    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


class Facts:
    """What is known of the values of a graph: constants, and shapes with None where unknown."""

    def __init__(self, model: Any) -> None:
        from onnx import TensorProto, helper, numpy_helper

        graph = model.graph
        self.constants = initializers(model)
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.shapes: dict[str, list[int | None]] = {}
        for value in (*graph.value_info, *graph.input, *graph.output):
            if value.type.tensor_type.HasField("shape"):
                self.shapes[value.name] = [
                    d.dim_value if d.HasField("dim_value") else None
                    for d in value.type.tensor_type.shape.dim
                ]
        self.bools = {
            value.name
            for value in (*graph.value_info, *graph.input)
            if value.type.tensor_type.elem_type == TensorProto.BOOL
        }
        self._attribute_value = helper.get_attribute_value

    def attributes(self, node: Any) -> dict[str, Any]:
        """The attributes of a node, bytes as text."""
        found = {a.name: self._attribute_value(a) for a in node.attribute}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}
