"""Sequences of tensors whose number is known to their tensors alone.

Compiled programs have no sequences, and the importer takes few operations on them. What decides
which tensor is taken, put in or left out, is a constant here: `statics` makes inputs that do part
of the model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["sequence_left", "without_sequences"]


def without_sequences(model: Any) -> bool:
    """Whether all sequences of the graph were taken apart; if so, the model is changed.

    A sequence that comes from outside, goes there or into a branch or loop, whose length or a
    place in it is not known, leaves all as it is.

    Args:
        model: a prepared `onnx.ModelProto`, its shapes inferred.
    """
    if sequence_left(model) is None:
        return False
    count = len(model.graph.initializer)
    work = _Sequences(model)
    try:
        for node in model.graph.node:
            work.take(node)
    except _Unknown:
        del model.graph.initializer[count:]
        return False
    del model.graph.node[:]
    model.graph.node.extend(work.nodes)
    return True


def sequence_left(model: Any) -> Any:
    """The first node of the graph that has to do with a sequence; None if none has."""
    return next((node for node in model.graph.node if "Sequence" in node.op_type), None)


class _Unknown(Exception):
    """What happens to a sequence is not known."""


class _Sequences(Rewriting):
    """The nodes as they are written without sequences; `held` are the tensors of each by name."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.held: dict[str, list[str]] = {}
        self.outputs = {value.name for value in model.graph.output}

    def take(self, node: Any) -> None:
        """Write a node, or what it does to tensors.

        Raises:
            _Unknown: it does something else to a sequence.
        """
        rule = getattr(self, f"_{node.op_type}", None) if "Sequence" in node.op_type else None
        if rule is not None:
            rule(node)
            if self.outputs & self.held.keys():
                raise _Unknown
            return
        if "Sequence" in node.op_type or any(name in self.held for name in _reads(node)):
            raise _Unknown
        self.nodes.append(node)

    def _SequenceEmpty(self, node: Any) -> None:  # noqa: N802 - ONNX' names, here and below
        self.held[node.output[0]] = []

    def _SequenceConstruct(self, node: Any) -> None:  # noqa: N802
        self.held[node.output[0]] = list(node.input)

    def _SequenceInsert(self, node: Any) -> None:  # noqa: N802
        tensors = list(self._tensors(node))
        tensors.insert(self._place(node, 2, len(tensors), len(tensors)), node.input[1])
        self.held[node.output[0]] = tensors

    def _SequenceErase(self, node: Any) -> None:  # noqa: N802
        tensors = list(self._tensors(node))
        del tensors[self._place(node, 1, len(tensors) - 1, len(tensors) - 1)]
        self.held[node.output[0]] = tensors

    def _SequenceAt(self, node: Any) -> None:  # noqa: N802
        tensors = self._tensors(node)
        at = self._place(node, 1, len(tensors) - 1, None)
        self.node("Identity", tensors[at], output=node.output[0])

    def _SequenceLength(self, node: Any) -> None:  # noqa: N802
        length = self.constant(np.array(len(self._tensors(node)), np.int64))
        self.node("Identity", length, output=node.output[0])

    def _ConcatFromSequence(self, node: Any) -> None:  # noqa: N802
        attributes, tensors = self.attributes(node), self._tensors(node)
        axis = attributes["axis"]
        if attributes.get("new_axis", 0):
            tensors = [self.node("Unsqueeze", each, self.numbers(axis)) for each in tensors]
        if not tensors:
            raise _Unknown
        self.node("Concat", *tensors, output=node.output[0], axis=axis)

    def _SplitToSequence(self, node: Any) -> None:  # noqa: N802
        attributes = self.attributes(node)
        axis, keeps = attributes.get("axis", 0), attributes.get("keepdims", 1)
        sizes = self._sizes(node, axis)
        is_split = len(node.input) > 1 and bool(node.input[1])
        lengths = self.numbers(*sizes)
        parts = self.nodes_of("Split", [node.input[0], lengths], len(sizes), {"axis": axis})
        if not is_split and not keeps:
            parts = [self.node("Squeeze", part, self.numbers(axis)) for part in parts]
        self.held[node.output[0]] = parts

    def _sizes(self, node: Any, axis: int) -> list[int]:
        """How long each part of a split is."""
        shape = self.shapes.get(node.input[0])
        if shape is None:
            raise _Unknown
        if len(node.input) < 2 or not node.input[1]:
            return [1] * shape[axis]
        split = self.known(node, 1)
        if split is None:
            raise _Unknown
        if split.ndim:
            return [int(size) for size in split]
        each, length = int(split), shape[axis]
        return [min(each, length - at) for at in range(0, length, each)]

    def _tensors(self, node: Any) -> Sequence[str]:
        tensors = self.held.get(node.input[0])
        if tensors is None:
            raise _Unknown
        return tensors

    def _place(self, node: Any, position: int, most: int, default: int | None) -> int:
        """A place in a sequence, counted from its beginning; the default where none is said."""
        if position >= len(node.input) or not node.input[position]:
            if default is None or default < 0:
                raise _Unknown
            return default
        number = self.known(node, position)
        if number is None or number.size != 1:
            raise _Unknown
        at = int(number.reshape(()))
        at += len(self._tensors(node)) if at < 0 else 0
        if not 0 <= at <= most:
            raise _Unknown
        return at


def _reads(node: Any) -> set[str]:
    """All that a node reads, and the graphs inside of it."""
    found = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found |= _reads(inner)
    return found
