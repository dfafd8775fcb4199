"""ONNX models that onnxruntime or the importer refuses, compared with onnx.reference."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from edgec.exporters import export, export_source
from edgec.exporters.from_onnx.by_data import sized_by_data
from edgec.exporters.from_onnx.fold import folded
from edgec.exporters.from_onnx.statics import deciding_inputs
from edgec.exporters.from_onnx.unroll import unrolled
from edgec.runtime.errors import FileError, UnsupportedOp
from edgec.toolchain.program import Program

RANDOM = np.random.default_rng(5)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})

Replay = Callable[[Program], float]


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] = NOTHING,
    opset: int = 20,
    shapes: Sequence[Sequence[int]] = (),
) -> Any:
    """A model of nodes; without the shapes of its outputs, `onnx.reference` says them."""

    def spec(name: str, array: np.ndarray) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    graph = helper.make_graph(
        nodes,
        "test",
        [spec(name, array) for name, array in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    known = shapes or [a.shape for a in ReferenceEvaluator(model).run(None, dict(inputs))]
    for value, shape in zip(graph.output, known, strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, FLOAT, shape))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def golden(program: Program) -> np.ndarray:
    assert program.golden is not None
    return program.golden.calls[0].outputs[0]


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(
    ("node", "inputs", "constants"),
    [
        # A function of ONNX' own, which torch-mlir has not.
        (
            helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1),
            {"q": normal(1, 2, 4, 8), "k": normal(1, 2, 6, 8), "v": normal(1, 2, 6, 8)},
            {},
        ),
        (
            helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=3, strides=[2, 2]),
            {"x": normal(1, 2, 6, 6)},
            {},
        ),
        (
            helper.make_node(
                "Resize",
                ["x", "roi", "", "sizes"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize",
            ),
            {"x": normal(1, 1, 6, 8)},
            {
                "roi": np.array([0, 0, 0.2, 0.3, 1, 1, 0.8, 0.9], np.float32),
                "sizes": np.array([1, 1, 4, 5]),
            },
        ),
        (
            helper.make_node("DFT", ["x", "", "axis"], ["y"], onesided=1),
            {"x": normal(2, 9, 3, 1)},
            {"axis": np.array(1)},
        ),
        (
            helper.make_node("STFT", ["x", "step", "window"], ["y"]),
            {"x": normal(1, 40, 1)},
            {"step": np.array(6), "window": np.hanning(16).astype(np.float32)},
        ),
        (
            helper.make_node("Col2Im", ["x", "image", "block"], ["y"], strides=[2, 2]),
            {"x": normal(1, 8, 9)},
            {"image": np.array([6, 6]), "block": np.array([2, 2])},
        ),
        (
            helper.make_node("BitCast", ["x"], ["y"], to=FLOAT),
            {"x": RANDOM.integers(0, 1 << 30, (3, 4), np.uint32)},
            {},
        ),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)
def test_what_the_importer_refuses_is_written_in_other_operations(
    node: Any,
    inputs: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    replay: Replay,
) -> None:
    opset = max(23, onnx.defs.get_schema(node.op_type).since_version)
    model = model_of([node], inputs, ["y"], constants, opset=opset)
    program = export(model, tuple(inputs.values()))
    (expected,) = ReferenceEvaluator(model).run(None, dict(inputs))
    np.testing.assert_allclose(golden(program), expected, rtol=1e-4, atol=1e-5)
    assert replay(program) < 1e-4


def test_an_opset_that_onnxruntime_does_not_know(replay: Replay) -> None:
    newest = onnx.defs.onnx_opset_version()
    inputs = {"x": normal(3, 4)}
    model = model_of([helper.make_node("Sinh", ["x"], ["y"])], inputs, ["y"], opset=newest)
    program = export(model, tuple(inputs.values()))
    np.testing.assert_allclose(golden(program), np.sinh(inputs["x"]), rtol=1e-6)
    assert replay(program) < 1e-5


def test_inputs_that_decide_shapes_become_part_of_the_program(
    replay: Replay, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = {"x": normal(3, 4, 5), "axes": np.array([1])}
    model = model_of([helper.make_node("ReduceMax", ["x", "axes"], ["y"])], inputs, ["y"])
    program = export(model, tuple(inputs.values()))
    assert "axes of main decide shapes" in caplog.text
    (function,) = program.info.functions
    assert [spec.name for spec in function.signature.inputs] == ["x"]
    np.testing.assert_array_equal(golden(program), inputs["x"].max(1, keepdims=True))
    assert replay(program) == 0


def test_an_input_that_only_gives_its_shape_decides_nothing() -> None:
    nodes = [
        helper.make_node("Shape", ["like"], ["s"]),
        helper.make_node("Cast", ["wanted"], ["w"], to=INT64),
        helper.make_node("Expand", ["x", "s"], ["a"]),
        helper.make_node("Reshape", ["a", "w"], ["y"]),
    ]
    inputs = {"x": normal(4), "like": normal(2, 4), "wanted": np.array([8], np.int32)}
    assert deciding_inputs(model_of(nodes, inputs, ["y"])) == ["wanted"]


def test_inputs_beside_a_file_are_used(tmp_path: Path) -> None:
    inputs = {"x": np.array([[0.5, 2.0]], np.float32)}
    onnx.save(model_of([helper.make_node("Log", ["x"], ["y"])], inputs, ["y"]), tmp_path / "m.onnx")
    data = tmp_path / "test_data_set_0"
    data.mkdir()
    tensor = numpy_helper.from_array(inputs["x"], "x").SerializeToString()
    (data / "input_0.pb").write_bytes(tensor)
    program = export_source(str(tmp_path / "m.onnx"))
    assert program.golden is not None
    np.testing.assert_array_equal(program.golden.calls[0].inputs[0], inputs["x"])
    np.testing.assert_allclose(golden(program), np.log(inputs["x"]), rtol=1e-6)


def test_made_up_inputs_are_positive_where_others_give_no_numbers(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Log", ["x"], ["y"])], {"x": np.ones(64, np.float32)}, ["y"])
    onnx.save(model, tmp_path / "m.onnx")
    assert np.isfinite(golden(export_source(str(tmp_path / "m.onnx")))).all()


def test_what_is_constant_is_computed_once() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ReduceProd", ["s"], ["n"], keepdims=0),
        helper.make_node("Cast", ["n"], ["f"], to=FLOAT),
        helper.make_node("Div", ["x", "f"], ["y"]),
    ]
    inputs = {"x": normal(3, 4)}
    model = folded(onnx.shape_inference.infer_shapes(model_of(nodes, inputs, ["y"])))
    assert [node.op_type for node in model.graph.node] == ["Div"]
    (found,) = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(found, inputs["x"] / 12, rtol=1e-6)


def test_a_scan_of_known_length_is_written_out() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "x"], ["t"]),
            helper.make_node("Mul", ["t", "two"], ["o"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("s", "x")],
        [helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("t", "o")],
        [numpy_helper.from_array(np.array(2, np.float32), "two")],
    )
    node = helper.make_node(
        "Scan",
        ["s0", "xs"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_directions=[1],
        scan_output_axes=[1],
    )
    inputs = {"s0": normal(2), "xs": normal(4, 2)}
    model = model_of([node], inputs, ["last", "all"], shapes=[(2,), (2, 4)])
    expected_last = inputs["s0"] + inputs["xs"].sum(0)
    sums = inputs["s0"] + np.cumsum(inputs["xs"][::-1], 0)
    model = onnx.shape_inference.infer_shapes(model)
    assert unrolled(model, {"Scan"})
    last, all_steps = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(last, expected_last, rtol=1e-5)
    np.testing.assert_allclose(all_steps, 2 * sums.T, rtol=1e-5)


def test_inputs_are_given_by_name(tmp_path: Path) -> None:
    inputs = {"x": normal(3), "y": normal(3)}
    onnx.save(
        model_of([helper.make_node("Sub", ["x", "y"], ["z"])], inputs, ["z"]), tmp_path / "m.onnx"
    )
    program = export_source(str(tmp_path / "m.onnx"), inputs=inputs)
    np.testing.assert_array_equal(golden(program), inputs["x"] - inputs["y"])


def test_weights_that_are_not_beside_the_model_are_asked_for(tmp_path: Path) -> None:
    x = normal(1, 4)
    weights = {"w": normal(4, 512)}
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x}, ["y"], weights)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data")
    program = export_source(str(tmp_path / "m.onnx"))
    assert program.info.functions[0].signature.inputs[0].shape == (1, 4)
    (tmp_path / "m.onnx.data").unlink()
    with pytest.raises(FileError, match="keeps its weights in") as caught:
        export_source(str(tmp_path / "m.onnx"))
    assert caught.value.hint == f"put it at {tmp_path / 'm.onnx.data'}"


def test_classical_machine_learning_is_refused_in_its_own_words() -> None:
    node = helper.make_node(
        "FeatureVectorizer", ["x"], ["y"], domain="ai.onnx.ml", inputdimensions=[3]
    )
    graph = helper.make_graph(
        [node],
        "vectorizer",
        [helper.make_tensor_value_info("x", FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    with pytest.raises(UnsupportedOp, match="FeatureVectorizer") as caught:
        export(model)
    assert "skl2onnx" in (caught.value.hint or "")


def test_a_slope_for_each_channel_of_an_old_file(replay: Replay) -> None:
    """Before opset 7 one slope a channel needed no shape of its own."""
    x, slopes = normal(2, 3, 4, 5), np.array([0.1, -0.5, 2], np.float32)
    graph = helper.make_graph(
        [helper.make_node("PRelu", ["x", "s"], ["y"])],
        "old",
        [helper.make_tensor_value_info("x", FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", FLOAT, x.shape)],
        [numpy_helper.from_array(slopes, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=4)
    program = export(model, (x,))
    expected = np.where(x < 0, slopes[:, None, None] * x, x)
    np.testing.assert_array_equal(golden(program), expected)
    assert replay(program) == 0


def test_a_model_that_nothing_runs_is_at_fault_and_not_its_inputs() -> None:
    x = np.ones((2, 2), np.float32)
    model = model_of(
        [helper.make_node("Nonesuch", ["x"], ["y"], domain="somebody")],
        {"x": x},
        ["y"],
        shapes=[[2, 2]],
    )
    model.opset_import.append(helper.make_opsetid("somebody", 1))
    with pytest.raises(
        UnsupportedOp, match=r"nothing here runs main: onnxruntime: .*Nonesuch"
    ) as caught:
        export(model)
    assert "--inputs" not in (caught.value.hint or "")


def test_what_gives_a_branch_its_open_size_is_found() -> None:
    x = np.array([[0, 1, 2], [3, 0, 4]], np.float32)
    branches = {
        f"{way}_branch": helper.make_graph(
            [helper.make_node("Neg", [value], [way])],
            way,
            [],
            [helper.make_tensor_value_info(way, FLOAT, None)],
        )
        for way, value in (("then", "some"), ("else", "x"))
    }
    nodes = [
        helper.make_node("Compress", ["x", "which"], ["some"], axis=1, name="chosen"),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "one"], ["many"]),
        helper.make_node("If", ["many"], ["y"], **branches),
    ]
    inputs = {"x": x, "which": np.array([True, False, True])}
    model = model_of(nodes, inputs, ["y"], {"one": np.array(1, np.float32)}, shapes=[(2, 2)])
    found = sized_by_data(model, "If")
    assert found is not None
    assert found.name == "chosen"
    assert sized_by_data(model, "ReduceSum") is None


def test_dropping_at_random_is_refused_with_its_node() -> None:
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"], seed=0)
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    model = model_of([node], {"x": normal(4)}, ["y"], constants)
    with pytest.raises(UnsupportedOp, match="Dropout in training mode") as refusal:
        export(model, (normal(4),))
    assert refusal.value.where == "node y"
