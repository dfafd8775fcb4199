"""Inputs of an ONNX graph whose values decide the shapes in it, made part of the graph.

A compiled program has the shapes that it was exported with; so what `Reshape`, `Slice` or
`ReduceSum` read as sizes, places or axes must be known then.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["choosing_inputs", "deciding_inputs", "with_constants"]

# Which operands of an operation decide the shape of its result, or are attributes by nature.
_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}

_COUNTS = (0, 1)
"""Operands of a loop that collects a row of each turn: how many turns, and whether there is one."""

_SHAPES_ONLY = {"Shape", "Size"}
"""Operations that read nothing of their input but its shape."""


def deciding_inputs(model: Any) -> list[str]:
    """The graph's inputs that an operand which decides shapes is computed from, in their order.

    What branches and bodies of loops read counts where it is whole numbers: others are data, of
    which a part of the model makes a size that only this part has.
    """
    nodes = list(_all_nodes(model.graph))
    producers = {name: node for node in nodes for name in node.output if name}
    weights = {t.name for t in model.graph.initializer}
    given = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    outer = _leading_to(producers, _deciding(model.graph.node), lambda node: node.input)
    inner = _leading_to(producers, _deciding(nodes), _reads)
    return [
        name
        for name, kind in given.items()
        if name not in weights and (name in outer or (name in inner and kind in _WHOLE))
    ]


def choosing_inputs(model: Any) -> list[str]:
    """The graph's whole numbers and bools that a branch is chosen by, in their order.

    Two branches, for sounds of two sampling rates for one, may have no size of the inputs in
    common; then which one is meant must be known.
    """
    nodes = list(_all_nodes(model.graph))
    producers = {name: node for node in nodes for name in node.output if name}
    weights = {t.name for t in model.graph.initializer}
    tests = [node.input[0] for node in nodes if node.op_type == "If"]
    leading = _leading_to(producers, tests, lambda node: node.input)
    return [
        value.name
        for value in model.graph.input
        if value.name in leading - weights and value.type.tensor_type.elem_type in (*_WHOLE, _BOOL)
    ]


_BOOL = 9
"""ONNX' number of bool."""

_WHOLE = (6, 7)
"""ONNX' numbers of int32 and int64."""


def _all_nodes(graph: Any) -> Iterable[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


def _reads(node: Any) -> Iterable[str]:
    """All that a node reads, and what is inside of it."""
    yield from node.input
    for attribute in node.attribute:
        for inner in _all_nodes(attribute.g):
            yield from inner.input


def _leading_to(
    producers: Mapping[str, Any], names: Iterable[str], reads: Callable[[Any], Iterable[str]]
) -> set[str]:
    """All values that some are computed from, and these."""
    pending, seen = list(names), set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        node = producers.get(name)
        if node is not None and node.op_type not in _SHAPES_ONLY:
            pending += [value for value in reads(node) if value]
    return seen


def _deciding(nodes: Iterable[Any]) -> Iterable[str]:
    for node in nodes:
        collects = node.op_type == "Loop" and len(node.output) > len(node.input) - 2
        for position in _COUNTS if collects else _OPERANDS.get(node.op_type, ()):
            if position < len(node.input) and node.input[position]:
                yield node.input[position]


def with_constants(model: Any, values: Mapping[str, np.ndarray]) -> Any:
    """A copy of the model in which some inputs are constants."""
    from onnx import numpy_helper

    copy = type(model)()
    copy.CopyFrom(model)
    for name, value in values.items():
        (given,) = (v for v in copy.graph.input if v.name == name)
        copy.graph.input.remove(given)
        copy.graph.initializer.append(numpy_helper.from_array(value, name))
    return copy
