"""One step of an LSTM, a GRU or a plain recurrent layer, as the body of an ONNX scan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.recurrent_products import Weights
from edgec.exporters.from_onnx.step_activations import Activation

__all__ = ["Steps"]


@dataclass(kw_only=True)
class Steps:
    """What the steps of one direction are.

    Attributes:
        kind: LSTM, GRU or RNN.
        hidden: the width of the state.
        dtype: the element type.
        weights: what the state is multiplied by, [hidden, gates * hidden], outside of the scan;
            of an LSTM they may be bytes.
        bias: what is added to that product, where it is not added to the inputs; or empty.
        peepholes: of an LSTM, [3 * hidden] for input, output and forget gate; or empty.
        activations: as many as the kind has.
        clip: how large what an activation takes may be; 0 for no bound.
        coupled: whether an LSTM forgets as much as it does not take in.
        apart: whether a GRU resets its state after the product and not before it.
        masked: whether a step may lie beyond a sequence's end.
    """

    kind: str
    hidden: int
    dtype: Any
    weights: Weights
    bias: str
    peepholes: str
    activations: Sequence[Activation]
    clip: float
    coupled: bool
    apart: bool
    masked: bool
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def graph(self, batch: int) -> Any:
        """The body: states and this step's row (and mask) to new states and what the step gives.

        Names inside say nothing of the layer, so that equal steps are equal graphs but for what
        they read from outside.
        """
        from onnx import TensorProto, helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        before = ["edgec_h", "edgec_c"] if self.kind == "LSTM" else ["edgec_h"]
        after = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.kind]()
        given = after[0]
        if self.masked:
            after = [
                self._write("Where", "edgec_inside", new, old)
                for new, old in zip(after, before, strict=True)
            ]
            given = self._write("Where", "edgec_inside", given, self._number(0.0))
        sizes = [batch, self.hidden]
        width = {"LSTM": 4, "GRU": 3, "RNN": 1}[self.kind] * self.hidden
        inputs = [helper.make_tensor_value_info(name, kind, sizes) for name in before]
        inputs.append(helper.make_tensor_value_info("edgec_row", kind, [batch, width]))
        if self.masked:
            inside = helper.make_tensor_value_info("edgec_inside", TensorProto.BOOL, [batch, 1])
            inputs.append(inside)
        outputs = []
        for number, name in enumerate([*after, given]):
            own = self._write("Identity", name, output=f"edgec_result_{number}")
            outputs.append(helper.make_tensor_value_info(own, kind, sizes))
        return helper.make_graph(self.nodes, "step", inputs, outputs, self.constants)

    def _lstm(self) -> list[str]:
        """The new state and cell; gates lie as input, output, forget, cell."""
        f, g, h = self.activations
        product = self.weights.times(self._write_all, "edgec_h")
        i, o, forget, cell = self._parts(self._write("Add", "edgec_row", product), 4)
        seen = self._parts(self.peepholes, 3) if self.peepholes else [""] * 3
        i = self._act(f, self._peeped(i, seen[0], "edgec_c"))
        if self.coupled:
            forget = self._write("Sub", self._number(1.0), i)
        else:
            forget = self._act(f, self._peeped(forget, seen[2], "edgec_c"))
        kept = self._write("Mul", forget, "edgec_c")
        cell = self._write("Add", kept, self._write("Mul", i, self._act(g, cell)))
        o = self._act(f, self._peeped(o, seen[1], cell))
        return [self._write("Mul", o, h.written(self._write, self._number, cell)), cell]

    def _gru(self) -> list[str]:
        """The new state; gates lie as update, reset, hidden."""
        f, g = self.activations
        size = self.hidden
        z, r, new = self._parts("edgec_row", 3)
        if self.apart:
            product = self.weights.times(self._write_all, "edgec_h")
            if self.bias:
                product = self._write("Add", product, self.bias)
            by_z, by_r, by_new = self._parts(product, 3)
            z, r = (self._act(f, self._write("Add", a, b)) for a, b in ((z, by_z), (r, by_r)))
            new = self._write("Add", new, self._write("Mul", r, by_new))
        else:
            first = self._cut(self.weights.value, 0, 2 * size)
            by_z, by_r = self._parts(self._write("MatMul", "edgec_h", first), 2)
            z, r = (self._act(f, self._write("Add", a, b)) for a, b in ((z, by_z), (r, by_r)))
            reset = self._write("Mul", r, "edgec_h")
            second = self._cut(self.weights.value, 2 * size, 3 * size)
            new = self._write("Add", new, self._write("MatMul", reset, second))
        new = self._act(g, new)
        fresh = self._write("Mul", self._write("Sub", self._number(1.0), z), new)
        return [self._write("Add", fresh, self._write("Mul", z, "edgec_h"))]

    def _rnn(self) -> list[str]:
        (f,) = self.activations
        product = self.weights.times(self._write_all, "edgec_h")
        return [self._act(f, self._write("Add", "edgec_row", product))]

    def _act(self, activation: Activation, value: str) -> str:
        if self.clip:
            low, high = self._number(-self.clip), self._number(self.clip)
            value = self._write("Clip", value, low, high)
        return activation.written(self._write, self._number, value)

    def _peeped(self, value: str, weight: str, cell: str) -> str:
        if not weight:
            return value
        return self._write("Add", value, self._write("Mul", weight, cell))

    def _parts(self, value: str, count: int) -> list[str]:
        """A value's equal parts along its last axis."""
        return [self._cut(value, n * self.hidden, (n + 1) * self.hidden) for n in range(count)]

    def _cut(self, value: str, low: int, high: int) -> str:
        bounds = (self._constant(np.array([n], np.int64)) for n in (low, high, -1))
        return self._write("Slice", value, *bounds)

    def _write(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or f"edgec_step_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _write_all(
        self, kind: str, inputs: Sequence[str], count: int, attributes: Mapping[str, Any]
    ) -> list[str]:
        from onnx import helper

        names = [f"edgec_step_{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def _number(self, value: float) -> str:
        return self._constant(np.array(value, self.dtype))

    def _constant(self, value: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"edgec_number_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name
