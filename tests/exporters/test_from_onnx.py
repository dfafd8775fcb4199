"""ONNX models, made here and shipped in packages: compiled and compared with onnxruntime."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec import toolchain
from edgec.exporters import export, export_source
from edgec.exporters.from_onnx import lower
from edgec.exporters.from_onnx.prepare import OPSET, prepare
from edgec.runtime.errors import ExportError, SourceError, UnsupportedOp, UsageError
from edgec.runtime.signature import Dim
from edgec.toolchain.program import Dialect, Parameter, Program

RANDOM = np.random.default_rng(11)
TARGETS = ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]
FLOAT = TensorProto.FLOAT

Value = tuple[str, Sequence[int | str | None]]


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Mapping[str, np.ndarray] = MappingProxyType({}),
    opset: int = 17,
    kind: int = FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def answers(model: onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def check_of(program: Program, target: str, folder: Path) -> str:
    """Compile, which runs the golden calls in a process of its own, and what it says of them."""
    options = toolchain.CompileOptions(output=folder / f"{target}.vmfb", cache=False)
    return toolchain.compile(program, target, options).facts.check


def perceptron(batch: int | str = "N") -> onnx.ModelProto:
    node = helper.make_node
    return model_of(
        [
            node("Gemm", ["x:0", "dense/kernel", "dense/bias"], ["h"], transB=1),
            node("Relu", ["h"], ["r"]),
            node("MatMul", ["r", "out/kernel"], ["logits"]),
            node("Softmax", ["logits"], ["probs"], axis=-1),
        ],
        [("x:0", [batch, 20])],
        [("probs", [batch, 5]), ("logits", [batch, 5])],
        {
            "dense/kernel": normal(32, 20),
            "dense/bias": normal(32),
            "out/kernel": normal(32, 5) / 5,
        },
    )


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_gives_the_answers_of_onnxruntime(target: str, tmp_path: Path) -> None:
    path = tmp_path / "perceptron.onnx"
    onnx.save(perceptron(), path)
    program = export_source(str(path))
    assert program.info.dialect is Dialect.STABLEHLO
    (main,) = program.info.functions
    assert str(main.signature) == "main(x_0: f32[1, 20]) -> (probs: f32[1, 5], logits: f32[1, 5])"
    assert main.signature.result == {"probs": 0, "logits": 1}
    assert check_of(program, target, tmp_path).startswith("checked on")


def test_the_batch_can_be_dynamic(replay) -> None:
    model = perceptron()
    program = export(model, normal(3, 20), dynamic="batch=1..8")
    (main,) = program.info.functions
    batch = Dim(name="batch", minimum=1, maximum=8)
    assert main.signature.inputs[0].shape == (batch, 20)
    assert main.signature.outputs[0].shape == (batch, 5)
    assert program.golden is not None
    assert [call.inputs[0].shape[0] for call in program.golden.calls] == [3, 8, 1]
    for call in program.golden.calls:
        for own, again in zip(call.outputs, answers(model, *call.inputs), strict=True):
            np.testing.assert_array_equal(own, again)
    assert replay(program) <= 1e-4


def test_large_initialisers_are_parameters_by_name(tmp_path: Path, replay) -> None:
    weights = tmp_path / "w.safetensors"
    program = export(perceptron(), normal(2, 20), external_weights=weights)
    roles = program.info.functions[0].arguments
    assert [r.name for r in roles if isinstance(r, Parameter)] == ["dense/kernel"]
    assert weights.exists()
    assert replay(program) <= 1e-4


@pytest.mark.parametrize("version", [3, 4, 9])
def test_weights_that_are_inputs_too_are_weights(version: int, replay) -> None:
    """As PyTorch wrote them for years, and still does with keep_initializers_as_inputs."""
    model = perceptron(3)
    model.ir_version = version
    model.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
    )
    program = export(model, (normal(3, 20),))
    assert [spec.name for spec in program.info.functions[0].signature.inputs] == ["x_0"]
    assert replay(program) <= 1e-4


def test_reflecting_pads_and_strides_that_leave_a_rest(replay) -> None:
    node = helper.make_node
    model = model_of(
        [
            node("Pad", ["x", "pads"], ["p"], mode="reflect"),
            node("Conv", ["p", "kernel"], ["c"], strides=[3, 2], pads=[0, 0, 1, 0]),
            node("Relu", ["c"], ["y"]),
        ],
        [("x", [1, 2, 9, 10])],
        [("y", ["a", "b", "c", "d"])],
        {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 1], np.int64), "kernel": normal(4, 2, 3, 3)},
    )
    assert replay(export(model, normal(1, 2, 9, 10))) <= 1e-4


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_pads_that_crop_at_one_end_and_repeat_at_the_other(mode: str) -> None:
    model = model_of(
        [helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)],
        [("x", [1, 2, 5, 6])],
        [("y", ["a", "b", "c", "d"])],
        {"pads": np.array([0, 0, 2, -1, 0, 0, -2, 2], np.int64)},
    )
    x = normal(1, 2, 5, 6)
    prepared = prepare(model, {"x": [1, 2, 5, 6]})
    np.testing.assert_array_equal(answers(prepared, x)[0], answers(model, x)[0])
    assert export(model, x).info.dialect is Dialect.STABLEHLO


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [
        ([-1, 3], [-(1 << 63), 0], [-1, -2]),
        ([100, 1], [-6, 100], [-3, 2]),
        ([2, -1], [-5, -5], [-1, -1]),
        ([4, 0], [0, 4], [-1, 1]),
    ],
)
def test_slices_that_step_backward(starts: list[int], ends: list[int], steps: list[int]) -> None:
    lists = {"starts": starts, "ends": ends, "axes": [2, -1], "steps": steps}
    model = model_of(
        [helper.make_node("Slice", ["x", *lists], ["y"]), helper.make_node("Relu", ["x"], ["z"])],
        [("x", [1, 2, 5, 6])],
        [("y", ["a", "b", "c", "d"]), ("z", ["e", "f", "g", "h"])],
        {name: np.array(values, np.int64) for name, values in lists.items()},
    )
    x = normal(1, 2, 5, 6)
    prepared = prepare(model, {"x": [1, 2, 5, 6]})
    np.testing.assert_array_equal(answers(prepared, x)[0], answers(model, x)[0])
    assert "Slice" not in {node.op_type for node in prepared.graph.node}


@pytest.mark.parametrize("transform", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("rounding", ["floor", "round_prefer_ceil"])
def test_resizing_to_the_nearest_is_a_gather(transform: str, rounding: str) -> None:
    resize = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode=transform,
        nearest_mode=rounding,
    )
    scales = np.array([1, 1, 2.5, 3], np.float32)
    model = model_of(
        [resize], [("x", [1, 2, 4, 3])], [("y", ["a", "b", "c", "d"])], {"scales": scales}
    )
    prepared = prepare(model, {"x": [1, 2, 4, 3]})
    assert {n.op_type for n in prepared.graph.node} == {"Gather"}
    x = normal(1, 2, 4, 3)
    np.testing.assert_array_equal(answers(prepared, x)[0], answers(model, x)[0])


def test_a_bool_becomes_a_float_by_a_choice(replay) -> None:
    node = helper.make_node
    model = model_of(
        [
            node("Unsqueeze", ["tokens", "last"], ["column"]),
            node("Equal", ["column", "range"], ["same"]),
            node("Cast", ["same"], ["one_hot"], to=FLOAT),
            node("MatMul", ["one_hot", "table"], ["y"]),
        ],
        [("tokens", [64])],
        [("y", [64, 16])],
        {
            "last": np.array([1], np.int64),
            "range": np.arange(33, dtype=np.int32),
            "table": normal(33, 16),
        },
        kind=TensorProto.INT32,
    )
    prepared = prepare(model, {"tokens": [64]})
    assert "Cast" not in {n.op_type for n in prepared.graph.node}
    assert replay(export(model, RANDOM.integers(0, 33, 64).astype(np.int32))) <= 1e-4


def test_an_if_over_constants_and_an_old_opset(replay) -> None:
    node = helper.make_node
    branches = {
        name: helper.make_graph(
            [node(op, ["x"], ["b"])], name, [], [helper.make_tensor_value_info("b", FLOAT, None)]
        )
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    model = model_of(
        [node("If", ["always"], ["i"], **branches), node("Unsqueeze", ["i"], ["y"], axes=[0])],
        [("x", [3, 4])],
        [("y", [1, 3, 4])],
        {"always": np.array(True)},
        opset=11,
    )
    prepared = prepare(model, {"x": [3, 4]})
    assert "If" not in {n.op_type for n in prepared.graph.node}
    assert max(o.version for o in prepared.opset_import) == OPSET
    assert replay(export(model, normal(3, 4))) <= 1e-4


def test_a_recurrent_layer(replay) -> None:
    model = model_of(
        [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=6)],
        [("x", [5, 1, 4])],
        [("y", [5, 1, 1, 6]), ("h", [1, 1, 6]), ("c", [1, 1, 6])],
        {"w": normal(1, 24, 4), "r": normal(1, 24, 6), "b": normal(1, 48)},
    )
    assert replay(export(model, normal(5, 1, 4))) <= 1e-4


def test_sizes_of_one_name_are_equal_in_example_inputs(tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        [("a", ["n", "length"]), ("b", ["n", "length"])],
        [("y", ["n", "length"])],
    )
    onnx.save(model, tmp_path / "add.onnx")
    program = export_source(str(tmp_path / "add.onnx"))
    assert [s.shape for s in program.info.functions[0].signature.inputs] == [(1, 64), (1, 64)]


# Real models


def shipped(name: str) -> Path:
    spec = importlib.util.find_spec("basic_pitch")
    if spec is None or spec.origin is None:
        pytest.skip("the package basic-pitch, which ships a trained model, is not installed")
    return Path(spec.origin).parent / "saved_models" / "icassp_2022" / name


@pytest.mark.parametrize(
    "target", ["cpu", pytest.param("vulkan", marks=[pytest.mark.vulkan, pytest.mark.slow])]
)
def test_a_trained_pitch_detector(target: str, tmp_path: Path) -> None:
    program = export_source(str(shipped("nmp.onnx")))
    assert program.info.dialect is Dialect.STABLEHLO
    assert [s.shape for s in program.info.functions[0].signature.outputs] == [
        (1, 172, 88),
        (1, 172, 88),
        (1, 172, 264),
    ]
    assert check_of(program, target, tmp_path).startswith("checked on")


# Refusals


def test_operations_of_another_domain_are_named() -> None:
    gelu = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft", name="gelu_3")
    model = model_of([gelu], [("x", [2])], [("y", [2])])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnsupportedOp, match=r"com\.microsoft\.Gelu") as caught:
        export(model, normal(2))
    assert caught.value.where == "node gelu_3"


def test_an_operation_without_a_lowering_is_named() -> None:
    drawn = helper.make_node("RandomUniformLike", ["x"], ["y"], seed=1.0, name="noise")
    model = model_of([drawn], [("x", [2, 3])], [("y", [2, 3])])
    with pytest.raises(UnsupportedOp, match="RandomUniformLike") as caught:
        export(model, (normal(2, 3),))
    assert caught.value.where == "node noise"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="children are forked on Linux alone")
def test_the_importer_is_a_fork_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower.subprocess, "run", None)  # who calls it fails
    export(
        model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])]), normal(2)
    )


def test_the_importer_has_a_process_of_its_own_without_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lower.fork_server, "run", lambda *_, **__: None)
    export(
        model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])]), normal(2)
    )


def test_an_operation_that_kills_the_importer_is_an_error() -> None:
    unique = helper.make_node("Unique", ["x"], ["y"], sorted=1)
    with pytest.raises(UnsupportedOp, match="cannot be imported"):
        export(model_of([unique], [("x", [6])], [("y", ["n"])]), normal(6))


def test_what_kills_the_importer_kills_a_fork_alone_where_all_work_is_forked() -> None:
    program = (
        "from onnx import TensorProto, helper\n"
        "from edgec.exporters import export\n"
        "from edgec.runtime.errors import UnsupportedOp\n"
        "from edgec.toolchain import forking, isolated\n"
        "import numpy as np\n"
        "run, ended = forking.run, []\n"
        "forking.run = lambda *given, **named: ended.append(run(*given, **named)) or ended[-1]\n"
        "unique = helper.make_node('Unique', ['x'], ['y'], sorted=1)\n"
        "tensor = helper.make_tensor_value_info\n"
        "x, y = (tensor(n, TensorProto.FLOAT, s) for n, s in (('x', [6]), ('y', ['n'])))\n"
        "model = helper.make_model(helper.make_graph([unique], 'g', [x], [y]),\n"
        "    opset_imports=[helper.make_opsetid('', 17)], ir_version=8)\n"
        "with forking.everything_forked(isolated.main):\n"
        "    try:\n"
        "        export(model, np.zeros(6, np.float32))\n"
        "    except UnsupportedOp as error:\n"
        "        print(ended[-1], 'cannot be imported' in str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    status, said = done.stdout.split()
    assert int(status) < 0  # a signal
    assert said == "True"


def test_strings_are_refused() -> None:
    model = model_of(
        [helper.make_node("StringNormalizer", ["x"], ["y"])],
        [("x", [2])],
        [],
        kind=TensorProto.STRING,
    )
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.STRING, [2]))
    with pytest.raises(UnsupportedOp, match="no tensor of numbers"):
        export(model, np.array(["a", "b"]))


def test_example_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        export(perceptron(), (normal(1, 20), normal(1)))
    with pytest.raises(ExportError, match="cannot be run"):
        export(perceptron(), normal(1, 21))


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x00not a model")
    with pytest.raises(SourceError, match="no sound ONNX model"):
        export_source(str(tmp_path / "bad.onnx"))
