"""A classifier's answers in words as the numbers that they stand for: a module has no others.

A label that is text becomes its place among the classes, and a list of dictionaries, a number a
class (`ZipMap`, with which skl2onnx ends a classifier), the matrix that it is made of.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.exporters.from_onnx.classical import DOMAIN
from edgec.runtime.errors import UnsupportedOp

__all__ = ["in_numbers"]

_LOG = logging.getLogger("edgec.exporters")
_SHOWN = 8
_WORDS = "classlabels_strings"
_NUMBERS: Mapping[str, str] = {
    "LinearClassifier": "classlabels_ints",
    "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}
"""What operations with labels call those that are numbers."""


def in_numbers(model: Any, name: str) -> Any:
    """The model with tensors of numbers for its outputs; itself, where they are that already.

    The log says what became of each.

    Args:
        model: an `onnx.ModelProto`; it is not changed.
        name: what the model is called there.

    Raises:
        UnsupportedOp: an output is no tensor of numbers, and no way is known to make it one.
    """
    from onnx import TensorProto

    if all(_is_number(value, TensorProto) for value in model.graph.output):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    makers = {output: node for node in copy.graph.node for output in node.output}
    for value in copy.graph.output:
        if _is_number(value, TensorProto):
            continue
        node = makers.get(value.name)
        while node is not None and node.op_type == "Identity":
            node = makers.get(node.input[0])
        if node is None or node.domain != DOMAIN:
            raise _no_numbers(value)
        if node.op_type == "ZipMap" and value.name in node.output:
            _matrix(value, node, name)
        elif node.op_type in _NUMBERS:
            _places(value, node, name)
        else:
            raise _no_numbers(value)
    return copy


def _is_number(value: Any, kinds: Any) -> bool:
    held = value.type.WhichOneof("value")
    return bool(held == "tensor_type" and value.type.tensor_type.elem_type != kinds.STRING)


def _no_numbers(value: Any) -> UnsupportedOp:
    return UnsupportedOp(
        f"the output {value.name} of the model is no tensor of numbers",
        hint="export the part of the model that gives numbers, and name them in the app",
    )


def _matrix(value: Any, node: Any, name: str) -> None:
    from onnx import TensorProto, helper

    classes = [each for kept in node.attribute for each in helper.get_attribute_value(kept)]
    _LOG.warning(
        "%s of %s is a matrix with a column a class (%s), in the place of dictionaries (ZipMap)",
        value.name,
        name,
        _listed(classes),
    )
    node.CopyFrom(helper.make_node("Identity", [node.input[0]], [node.output[0]]))
    shape = [None, len(classes)]
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, shape))


def _places(value: Any, node: Any, name: str) -> None:
    from onnx import TensorProto, helper

    for kept in [each for each in node.attribute if each.name == _WORDS]:
        classes = helper.get_attribute_value(kept)
        _LOG.warning(
            "%s of %s is the number of the class (%s), in the place of its name",
            value.name,
            name,
            _listed([f"{at} {_text(each)}" for at, each in enumerate(classes)]),
        )
        node.attribute.remove(kept)
        numbers = list(range(len(classes)))
        node.attribute.append(helper.make_attribute(_NUMBERS[node.op_type], numbers))
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, [None]))


def _listed(classes: Sequence[Any]) -> str:
    return ", ".join([*map(_text, classes[:_SHOWN]), *(["…"] if len(classes) > _SHOWN else [])])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
