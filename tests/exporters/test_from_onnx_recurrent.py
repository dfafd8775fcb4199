"""Recurrent layers of ONNX written as scans: compared with onnxruntime's own layers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.exporters.from_onnx.prepare import inferred, prepare
from edgec.exporters.from_onnx.recurrent_steps import scanned
from edgec.exporters.from_onnx.sessions import overflows
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Dialect

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return (0.7 * RANDOM.standard_normal(shape)).astype(np.float32)


def layer(
    kind: str, *parts: str, direction: str = "forward", **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one layer, and its inputs: bias, lengths, states and peepholes if asked for."""
    ways, gates = 1 + (direction == "bidirectional"), GATES[kind]
    values = {
        "x": normal(STEPS, BATCH, WIDTH),
        "w": normal(ways, gates * HIDDEN, WIDTH),
        "r": normal(ways, gates * HIDDEN, HIDDEN),
        "bias": normal(ways, 2 * gates * HIDDEN),
        "lengths": np.array([5, 1, 3], np.int32),
        "state": normal(ways, BATCH, HIDDEN),
        "cell": normal(ways, BATCH, HIDDEN),
        "peepholes": normal(ways, 3 * HIDDEN),
    }
    order = list(values) if kind == "LSTM" else list(values)[:6]
    inputs = {name: values[name] for name in order if name in ("x", "w", "r", *parts)}
    names = [name if name in inputs else "" for name in order]
    outputs = ["y", "last", "cell_last"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(
        kind, names, outputs, hidden_size=HIDDEN, direction=direction, **attributes
    )
    return model_of(node, inputs, outputs), inputs


def model_of(
    node: onnx.NodeProto, inputs: Mapping[str, np.ndarray], outputs: list[str]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "layer",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


exact = pytest.mark.skipif(
    overflows(), reason="onnxruntime's sums of bytes overflow on this processor (no VNNI)"
)


def answers(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # several round parts of a batch by themselves
    found = ort.InferenceSession(model.SerializeToString(), options).run(None, dict(inputs))
    return [np.asarray(answer) for answer in found]


def as_scans(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    made = prepare(model, {name: value.shape for name, value in inputs.items()})
    assert scanned(made)
    assert not {"LSTM", "GRU", "RNN"} & {node.op_type for node in made.graph.node}
    found: onnx.ModelProto = inferred(made)
    return found


PARTS = ((), ("bias",), ("bias", "lengths"), ("bias", "state", "cell"), ("lengths", "state"))
WAYS = ("forward", "reverse", "bidirectional")
PLAIN = [(kind, way, parts, {}) for kind in GATES for way in WAYS for parts in PARTS]
FORMS: list[tuple[str, str, tuple[str, ...], dict[str, Any]]] = [
    *PLAIN,
    *(("GRU", way, parts, {"linear_before_reset": 1}) for way in WAYS for parts in PARTS),
    *((kind, "forward", ("bias",), {"clip": 0.3}) for kind in GATES),
    ("LSTM", "bidirectional", ("bias", "peepholes", "state", "cell"), {}),
    ("LSTM", "reverse", ("peepholes", "lengths"), {}),
    ("LSTM", "forward", ("bias",), {"input_forget": 1}),
    (
        "LSTM",
        "bidirectional",
        ("bias",),
        {
            "activations": ["Sigmoid", "Relu", "Elu", "Affine", "ScaledTanh", "Tanh"],
            "activation_alpha": [0.7, 0.5, 1.5],
            "activation_beta": [0.1, 0.8],
        },
    ),
    (
        "GRU",
        "forward",
        ("bias",),
        {
            "activations": ["HardSigmoid", "Softsign"],
            "activation_alpha": [0.3],
            "activation_beta": [0.4],
        },
    ),
    ("RNN", "forward", (), {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
    ("RNN", "reverse", (), {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}),
    ("RNN", "forward", (), {"activations": ["Softplus"]}),
]


def test_every_form_of_a_layer_is_a_scan() -> None:
    for kind, way, parts, attributes in FORMS:
        model, inputs = layer(kind, *parts, direction=way, **attributes)
        for found, wanted in zip(
            answers(as_scans(model, inputs), inputs), answers(model, inputs), strict=True
        ):
            np.testing.assert_allclose(
                found, wanted, rtol=1e-5, atol=2e-6, err_msg=f"{kind} {way} {parts} {attributes}"
            )


@pytest.mark.parametrize("kind", list(GATES))
def test_a_batch_in_front_is_the_same_turned_round(kind: str) -> None:
    """onnxruntime has no such layers, so the same layer with steps in front says what is right."""
    model, inputs = layer(kind, "bias", "lengths", "state", "cell", direction="bidirectional")
    turned = {
        name: value.swapaxes(0, 1).copy() if name in ("x", "state", "cell") else value
        for name, value in inputs.items()
    }
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node[0].attribute.append(helper.make_attribute("layout", 1))
    for value in other.graph.input:
        sizes = value.type.tensor_type.shape.dim
        for dim, size in zip(sizes, turned[value.name].shape, strict=True):
            dim.dim_value = size
    every, *last = answers(model, inputs)
    wanted = [every.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in last)]
    for found, right in zip(answers(as_scans(other, turned), turned), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=2e-6)


def test_an_unknown_activation_is_refused_by_name() -> None:
    model, _ = layer("RNN", activations=["Sine"])
    with pytest.raises(UnsupportedOp, match="activation sine"):
        scanned(inferred(model))


def test_a_layer_of_unequal_sequences_is_stablehlo_and_right(replay: Any) -> None:
    model, inputs = layer("LSTM", "bias", "lengths", direction="bidirectional")
    program = export(model, tuple(inputs.values()))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-5


def quantised_layer(
    kind: type[np.integer[Any]], direction: str, *, by_columns: bool
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """As onnxruntime's dynamic quantisation writes an LSTM, and its inputs."""
    ways, gates = 1 + (direction == "bidirectional"), 4 * HIDDEN
    signed = np.issubdtype(kind, np.signedinteger)
    sizes = (ways, gates) if by_columns else (ways,)
    zeros = np.zeros(sizes) if signed else RANDOM.integers(120, 136, sizes)
    values = {"x": normal(STEPS, BATCH, WIDTH), "b": normal(ways, 2 * gates)}
    values |= {"h": normal(ways, BATCH, HIDDEN), "c": normal(ways, BATCH, HIDDEN)}
    for name, width in (("w", WIDTH), ("r", HIDDEN)):
        info = np.iinfo(kind)
        values[name] = RANDOM.integers(info.min, info.max, (ways, width, gates), kind)
        values[f"{name}_scale"] = RANDOM.uniform(0.002, 0.02, sizes).astype(np.float32)
        values[f"{name}_zero"] = zeros.astype(kind)
    names = ["x", "w", "r", "b", "", "h", "c", "", "w_scale", "w_zero", "r_scale", "r_zero"]
    outputs = ["y", "last", "cell_last"]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        names,
        outputs,
        domain="com.microsoft",
        hidden_size=HIDDEN,
        direction=direction,
    )
    inputs = {name: values.pop(name) for name in ("x", "h", "c")}
    model = model_of(node, inputs, outputs)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in values.items())
    return model, inputs


@pytest.mark.parametrize(
    ("kind", "direction", "by_columns"),
    [
        pytest.param(np.int8, "forward", False, marks=exact),
        pytest.param(np.int8, "bidirectional", True, marks=exact),
        (np.uint8, "reverse", False),
        (np.uint8, "bidirectional", False),
    ],
)
def test_a_quantised_layer_rounds_as_onnxruntime(
    kind: type[np.integer[Any]], direction: str, by_columns: bool
) -> None:
    model, inputs = quantised_layer(kind, direction, by_columns=by_columns)
    made = prepare(model, {name: value.shape for name, value in inputs.items()})
    assert {node.domain for node in made.graph.node} <= {""}
    for found, wanted in zip(answers(made, inputs), answers(model, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@exact
def test_a_quantised_layer_is_stablehlo_and_right(replay: Any) -> None:
    model, inputs = quantised_layer(np.int8, "bidirectional", by_columns=False)
    program = export(model, tuple(inputs.values()))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 0.02  # a step of a byte: a sum between two may go either way
