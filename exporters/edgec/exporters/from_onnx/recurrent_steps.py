"""Recurrent layers of ONNX as scans of one step, so that they become loops of StableHLO.

What a layer multiplies that it does not carry (x W) is one product before the scan. A direction is
a scan of its own. Sequences of unequal length are turned round by gathering rows; a step beyond a
sequence's end keeps the state and gives zeros.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.recurrent_products import Weights
from edgec.exporters.from_onnx.rewriting import Rewriting, rewritten
from edgec.exporters.from_onnx.step_activations import Activation, activations_of
from edgec.exporters.from_onnx.steps import Steps

__all__ = ["QUANTISED", "quantised_scanned", "scanned"]

QUANTISED = "DynamicQuantizeLSTM"
"""The recurrent layer of onnxruntime that dynamic quantisation makes of an `LSTM`."""

_X, _W, _R, _B, _LENGTHS, _H, _C, _PEEPHOLES = range(8)
_W_SCALE, _W_ZERO, _R_SCALE, _R_ZERO = range(8, 12)
"""The inputs of a layer; those of the second line are the quantised one's alone."""


def scanned(model: Any) -> bool:
    """Whether recurrent layers were written as scans; the model is changed.

    Args:
        model: a prepared `onnx.ModelProto`, its shapes inferred; layers of unknown shape stay.
    """
    return rewritten(model, dict.fromkeys(("GRU", "LSTM", "RNN"), _layer))


def quantised_scanned(model: Any) -> bool:
    """As `scanned`, for onnxruntime's quantised layers."""
    return rewritten(model, {QUANTISED: _layer})


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """What all directions of a layer have in common.

    Attributes:
        kind: LSTM, GRU or RNN.
        given: the node's attributes.
        inputs: names by position, as many as there may be; empty where absent.
        sizes: steps, batch, hidden.
        dtype: the element type.
        quantised: whether weights are bytes; they lie as [width, gates * hidden] then.
        inside: for sequences of unequal length, which steps are in them, [steps, batch, 1].
        turned: for these, the row that each one changes places with, [steps * batch].
    """

    kind: str
    given: Mapping[str, Any]
    inputs: Sequence[str]
    sizes: tuple[int, int, int]
    dtype: Any
    quantised: bool
    inside: str = ""
    turned: str = ""


def _layer(work: Rewriting, node: Any) -> bool:
    """One recurrent node: each direction a scan, their results side by side."""
    given = work.attributes(node)
    inputs = [*node.input, *[""] * (_R_ZERO + 1 - len(node.input))]
    quantised = node.op_type == QUANTISED
    sizes, weights = work.shapes.get(inputs[_X]), work.shapes.get(inputs[_R])
    dtype = work.kinds.get(inputs[_X])
    if sizes is None or weights is None or dtype is None or not all((*sizes, *weights)):
        return False
    if len(sizes) != 3:  # of a branch that is never taken
        return False
    last_axis = bool(given.get("layout", 0))
    if last_axis:
        inputs[_X] = work.node("Transpose", inputs[_X], perm=[1, 0, 2])
        sizes = (sizes[1], sizes[0], sizes[2])
        for place in (_H, _C):
            if inputs[place]:
                inputs[place] = work.node("Transpose", inputs[place], perm=[1, 0, 2])
    steps, batch, _ = sizes
    inside, turned = _unequal(work, inputs[_LENGTHS], steps, batch)
    layer = _Layer(
        kind="LSTM" if quantised else node.op_type,
        given=given,
        inputs=inputs,
        sizes=(steps, batch, weights[1] if quantised else weights[2]),
        dtype=dtype,
        quantised=quantised,
        inside=inside,
        turned=turned,
    )
    direction = given.get("direction", "forward")
    backward = {"forward": [False], "reverse": [True]}.get(direction, [False, True])
    found = [_direction(work, layer, number, way) for number, way in enumerate(backward)]
    for place, result in enumerate(node.output):
        if not result:
            continue
        # [steps, batch, hidden] of each direction, or its last [batch, hidden].
        axis = (2 if last_axis else 1) if place == 0 else (1 if last_axis else 0)
        parts = [names[place] for names in found]
        if place == 0 and last_axis:
            parts = [work.node("Transpose", part, perm=[1, 0, 2]) for part in parts]
        rows = [work.node("Unsqueeze", part, work.numbers(axis)) for part in parts]
        work.node("Concat", *rows, output=result, axis=axis)
    return True


def _unequal(work: Rewriting, lengths: str, steps: int, batch: int) -> tuple[str, str]:
    """Which steps are inside of sequences of these lengths, and what turns each of them round."""
    if not lengths:
        return "", ""
    lengths = work.node("Cast", lengths, to=_I64)
    step = work.constant(np.arange(steps, dtype=np.int64)[:, None])
    inside = work.node("Less", step, lengths)
    one = work.constant(np.array(1, np.int64))
    opposite = work.node("Sub", work.node("Sub", lengths, one), step)
    row = work.node("Where", inside, opposite, step)
    width = work.constant(np.array(batch, np.int64))
    place = work.node("Add", work.node("Mul", row, width), work.constant(np.arange(batch)))
    return work.reshape(inside, [steps, batch, 1]), work.reshape(place, [-1])


def _direction(work: Rewriting, layer: _Layer, number: int, backward: bool) -> list[str]:
    """A direction's results: all steps, the last state, and an LSTM's last cell."""
    _, batch, hidden = layer.sizes
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[layer.kind]

    def own(place: int) -> str:
        """A direction's part of an input."""
        name = layer.inputs[place]
        at = work.constant(np.array(number, np.int64))
        return work.node("Gather", name, at, axis=0) if name else ""

    if layer.quantised:
        weights = Weights(value=own(_W), scale=own(_W_SCALE), zero=own(_W_ZERO))
        carried = Weights(value=own(_R), scale=own(_R_SCALE), zero=own(_R_ZERO))
    else:
        weights, carried = (
            Weights(value=work.node("Transpose", own(place), perm=[1, 0])) for place in (_W, _R)
        )
    rows = weights.times(work.nodes_of, layer.inputs[_X])
    apart = layer.kind == "GRU" and bool(layer.given.get("linear_before_reset", 0))
    inner = ""
    if layer.inputs[_B]:
        outer, inner = _halves(work, own(_B), gates * hidden)
        rows = work.node("Add", rows, outer)
        if not apart:
            rows, inner = work.node("Add", rows, inner), ""
    unequal = backward and layer.turned
    if unequal:
        rows = _turned(work, layer, rows, gates * hidden)
    zeros = work.constant(np.zeros((batch, hidden), layer.dtype))
    states = [own(_H) if layer.inputs[_H] else zeros]
    if layer.kind == "LSTM":
        states.append(own(_C) if layer.inputs[_C] else zeros)
    body = Steps(
        kind=layer.kind,
        hidden=hidden,
        dtype=layer.dtype,
        weights=carried,
        bias=inner,
        peepholes=own(_PEEPHOLES) if layer.kind == "LSTM" else "",
        activations=_activations(layer, number),
        clip=float(layer.given.get("clip", 0.0)),
        coupled=bool(layer.given.get("input_forget", 0)),
        apart=apart,
        masked=bool(layer.inside),
    ).graph(batch)
    scans = [rows, layer.inside] if layer.inside else [rows]
    way = int(backward and not unequal)
    *last, every = work.nodes_of(
        "Scan",
        [*states, *scans],
        len(states) + 1,
        {
            "body": body,
            "num_scan_inputs": len(scans),
            "scan_input_directions": [way] * len(scans),
            "scan_output_directions": [way],
        },
    )
    return [_turned(work, layer, every, hidden) if unequal else every, *last]


def _halves(work: Rewriting, value: str, size: int) -> tuple[str, str]:
    """The two halves of a list."""
    bounds = ((0, size), (size, 2 * size))
    first, second = (
        work.node("Slice", value, work.numbers(low), work.numbers(high)) for low, high in bounds
    )
    return first, second


def _turned(work: Rewriting, layer: _Layer, value: str, width: int) -> str:
    """Each sequence turned round within its own length."""
    steps, batch, _ = layer.sizes
    rows = work.node("Gather", work.reshape(value, [-1, width]), layer.turned, axis=0)
    return work.reshape(rows, [steps, batch, width])


def _activations(layer: _Layer, number: int) -> Sequence[Activation]:
    """A direction's activations: those of all directions lie one after another."""
    each = {"LSTM": 3, "GRU": 2, "RNN": 1}[layer.kind]
    return activations_of(layer.kind, layer.given)[number * each :][:each]


_I64 = 7
"""ONNX' number of int64."""
