"""An ONNX model and what it is called with to the value of every node, by what runs ONNX models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.inputs import OnnxInput
from edgec.exporters.from_onnx.sessions import Answers
from edgec.toolchain.framework_values import FrameworkValue, place_name, storable

__all__ = ["located", "numbers_of", "values_of"]

_SIZES = ("Shape", "Size")
"""What depends on inputs' sizes alone."""


def numbers_of(model: Any) -> dict[str, int]:
    """The number of the node that gives a value, by the value's name."""
    nodes = enumerate(model.graph.node)
    return {name: number for number, node in nodes for name in node.output if name}


def located(model: Any, numbers: Mapping[str, int]) -> Any:
    """A copy of a prepared model whose nodes are named after what they give.

    The importer writes a node's name into the locations of what it makes; a node that the model
    does not have (preparing made it) keeps its own.
    """
    copy = type(model)()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        known = [numbers[name] for name in node.output if name in numbers]
        if known:
            node.name = f"{node.name}/{place_name(known[0])}"
    return copy


def values_of(
    model: Any, function: str, given: Sequence[OnnxInput], data: Sequence[np.ndarray]
) -> tuple[FrameworkValue, ...]:
    """What each node gives that depends on inputs.

    Raises:
        ExportError: it cannot be run with every value as an output.
    """
    import onnx

    copy = type(model)()
    copy.CopyFrom(model)
    depends = {value.own for value in given}
    wanted: list[tuple[Any, str]] = []
    outputs = {value.name for value in model.graph.output}
    for node in copy.graph.node:
        if node.op_type in _SIZES or depends.isdisjoint(_read(node)):
            continue
        depends |= {name for name in node.output if name}
        wanted += [(node, name) for name in node.output if name]
    order = [value.name for value in copy.graph.output]
    for _, name in wanted:
        if name not in outputs:
            copy.graph.output.append(onnx.ValueInfoProto(name=name))
            order.append(name)
    answers = dict(zip(order, Answers(copy, function).run(given, data), strict=True))
    numbers = numbers_of(model)
    return tuple(
        FrameworkValue(
            function=function,
            number=numbers[name],
            name=name,
            operation=node.op_type,
            line=f"node {node.name or name}",
            arrays=(answers[name],),
        )
        for node, name in wanted
        if storable(answers[name]) and answers[name].size
    )


def _read(node: Any) -> set[str]:
    """The values that a node reads, also from inside of its own graphs."""
    found = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found |= _read(inner)
    return found
