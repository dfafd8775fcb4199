"""Recurrent layers of ONNX that run backwards, or both ways, as layers that run forwards."""

from typing import Any

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["forward_only"]

_ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
"""How many activations a direction has."""
_X, _LENGTHS = 0, 4


def forward_only(work: Rewriting, node: Any) -> bool:
    """Each direction a layer of its own, what is read backwards turned round before and after."""
    attributes = work.attributes(node)
    direction = attributes.pop("direction", "forward")
    shape = work.shapes.get(node.input[_X])
    own_lengths = len(node.input) > _LENGTHS and node.input[_LENGTHS]
    if direction == "forward" or shape is None or own_lengths or attributes.get("layout", 0):
        return False
    steps = work.numbers(*range(shape[0] - 1, -1, -1))
    backward = [direction == "reverse"] if direction == "reverse" else [False, True]
    activations = attributes.pop("activations", None)
    count = _ACTIVATIONS[node.op_type]
    outputs: list[list[str]] = []
    for number, turned in enumerate(backward):
        inputs = [node.input[_X], *(_of(work, name, number, backward) for name in node.input[1:])]
        if turned:
            inputs[_X] = work.node("Gather", inputs[_X], steps, axis=0)
        own = dict(attributes)
        if activations is not None:
            own["activations"] = activations[number * count :][:count]
        names = work.nodes_of(node.op_type, inputs, len(node.output), own)
        if turned:
            names[0] = work.node("Gather", names[0], steps, axis=0)
        outputs.append(names)
    for place, result in enumerate(node.output):
        parts = [names[place] for names in outputs]
        if not result:
            continue
        if len(parts) == 1:
            work.node("Identity", *parts, output=result)
        else:
            work.node("Concat", *parts, output=result, axis=0 if place else 1)
    return True


def _of(work: Rewriting, name: str, number: int, directions: list[bool]) -> str:
    """A direction's part of weights or first states."""
    if not name or len(directions) == 1:
        return name
    return work.node("Slice", name, *(work.numbers(n) for n in (number, number + 1, 0)))
