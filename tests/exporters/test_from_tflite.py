"""`.tflite` files give LiteRT's answers, operator by operator and as whole models."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors import safe_open

from edgec.exporters import export_source
from edgec.exporters.from_tflite.check import check_operators
from edgec.exporters.from_tflite.graph import compute
from edgec.exporters.from_tflite.model import read_model
from edgec.exporters.from_tflite.operators import OPERATORS
from edgec.runtime.errors import EdgecError, ExportError, FileError, SourceError, UnsupportedOp
from edgec.runtime.signature import Dim
from edgec.toolchain.program import Program
from tests.exporters.tflite_cases import CASES, QUANTIZED, Case, Const, grid, ints, litert, normal
from tests.exporters.tflite_models import Graph

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(11)


def computed(data: bytes, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What the exported operators give, run by XLA."""
    graphs = read_model(data, "a test").subgraphs
    check_operators(graphs[0], "a test", graphs)
    with jax.enable_x64(True):
        run = jax.jit(lambda *inputs: compute(graphs[0], inputs, {}, graphs))
        return [np.asarray(result) for result in run(*arrays)]


# Operators


@pytest.mark.parametrize("kind", OPERATORS)
def test_an_operator_gives_litert_s_answers(kind: str) -> None:
    for case in CASES[kind]:
        data = case.file()
        for got, want in zip(computed(data, case.arrays), case.answers(data), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
            else:
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", QUANTIZED)
def test_a_quantised_operator_is_off_by_a_step_at_most(name: str) -> None:
    case = QUANTIZED[name]
    data = case.file()
    for got, want in zip(computed(data, case.arrays), litert(data, case.arrays), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        step = 1e-6 if want.dtype.kind == "f" else 1
        assert np.abs(got.astype(np.float64) - want.astype(np.float64)).max() <= step
        assert len(np.unique(want)) > 1 or want.size == 1


@pytest.mark.parametrize("name", [n for n in QUANTIZED if n.startswith(("CONV", "DEPTH", "FULLY"))])
def test_quantised_sums_are_exact(name: str) -> None:
    case = QUANTIZED[name]
    data = case.file()
    np.testing.assert_array_equal(computed(data, case.arrays)[0], litert(data, case.arrays)[0])


def test_weights_of_8_bits_for_real_activations_are_taken_for_what_they_stand_for() -> None:
    values = RNG.integers(-127, 128, (5, 3, 3, 4)).astype(np.int8)
    scales = np.array([0.01, 0.02, 0.005, 0.03, 0.01], np.float32)
    image, bias = normal(1, 7, 6, 4), Const(normal(5))
    options = {"Conv2DOptions": {"strideH": 1, "strideW": 1}}
    narrow = Case("CONV_2D", [image, Const(values, scales, [0] * 5), bias], options)
    real = Const((values * scales[:, None, None, None]).astype(np.float32))
    wide = Case("CONV_2D", [image, real, bias], options)
    (got,) = computed(narrow.file(), [image])
    np.testing.assert_allclose(got, litert(wide.file(), [image])[0], rtol=2e-5, atol=2e-5)


def test_the_page_lists_the_operators_of_the_table() -> None:
    spec = importlib.util.spec_from_file_location("tflite_page", ROOT / "scripts/tflite_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs/tflite.md").read_text(encoding="utf-8")
    assert page == module.page(), "run scripts/tflite_page.py"


# Whole models


def classifier(quantized: bool) -> bytes:
    """Convolution, depthwise convolution, pool, product, softmax; in f32, or in int8 throughout."""
    graph = Graph()

    def tensor(name: str, shape: tuple[int, ...], scale: float, zero: int) -> int:
        if not quantized:
            return graph.tensor(name, shape)
        return graph.tensor(name, shape, "int8", quantized=(scale, zero))

    def weights(name: str, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
        count = shape[axis]
        if not quantized:
            bias = graph.constant(f"{name}_bias", normal(count))
            return graph.constant(name, normal(*shape) * 0.2), bias
        scales, zeros = RNG.uniform(0.002, 0.004, count), [0] * count
        values = RNG.integers(-127, 128, shape).astype(np.int8)
        sums = RNG.integers(-2000, 2000, count).astype(np.int32)
        bias = graph.constant(f"{name}_bias", sums, quantized=(scales * 0.05, zeros))
        return graph.constant(name, values, quantized=(scales, zeros), axis=axis), bias

    image = tensor("serving_default_image:0", (1, 12, 12, 4), 0.05, 3)
    first = tensor("first", (1, 6, 6, 16), 0.05, -128)
    same = {"padding": 0, "fusedActivationFunction": 3}
    graph.operator(
        "CONV_2D",
        [image, *weights("conv", (16, 3, 3, 4), 0)],
        [first],
        Conv2DOptions={**same, "strideH": 2, "strideW": 2},
    )
    second = tensor("second", (1, 6, 6, 16), 0.05, -128)
    graph.operator(
        "DEPTHWISE_CONV_2D",
        [first, *weights("depthwise", (1, 3, 3, 16), 3)],
        [second],
        DepthwiseConv2DOptions={**same, "strideH": 1, "strideW": 1, "depthMultiplier": 1},
    )
    pooled = tensor("pooled", (1, 1, 1, 16), 0.05, -128)
    graph.operator(
        "AVERAGE_POOL_2D",
        [second],
        [pooled],
        Pool2DOptions={
            **{"padding": 1, "filterHeight": 6, "filterWidth": 6},
            **{"strideH": 1, "strideW": 1},
        },
    )
    logits = tensor("logits", (1, 10), 0.05, 3)
    graph.operator(
        "FULLY_CONNECTED",
        [pooled, *weights("dense", (10, 16), 0)],
        [logits],
        FullyConnectedOptions={},
    )
    chances = tensor("StatefulPartitionedCall:0", (1, 10), 1 / 256, -128)
    graph.operator("SOFTMAX", [logits], [chances], SoftmaxOptions={"beta": 1.0})
    names = ({"image": image}, {"chances": chances})
    return graph.file([image], [chances], signature=("serving_default", *names))


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Program]:
    """`exported(bytes, **options)` → the program of a file."""

    def export(data: bytes, **options: Any) -> Program:
        path = tmp_path / "model.tflite"
        path.write_bytes(data)
        return export_source(str(path), **options)

    return export


def test_a_classifier_compiles_and_agrees(
    exported: Callable[..., Program], replay: Callable[[Program], float]
) -> None:
    program = exported(classifier(quantized=False))
    assert replay(program) < 1e-5
    (signature,) = [f.signature for f in program.info.functions]
    assert str(signature) == ("serving_default(image: f32[1, 12, 12, 4]) -> (chances: f32[1, 10])")
    assert signature.inputs[0].original == "serving_default_image:0"
    assert program.info.provenance.framework == "tflite"


def test_a_quantised_classifier_keeps_its_integers(exported: Callable[..., Program]) -> None:
    data = classifier(quantized=True)
    program = exported(data)
    (signature,) = [f.signature for f in program.info.functions]
    assert str(signature) == ("serving_default(image: i8[1, 12, 12, 4]) -> (chances: i8[1, 10])")
    assert signature.inputs[0].quantization.zero_points == (3,)
    (call,) = program.golden.calls
    assert call.within[0] >= 1
    (got,) = computed(data, list(call.inputs))
    assert np.abs(got.astype(np.int32) - call.outputs[0].astype(np.int32)).max() <= 1
    assert len(np.unique(got)) > 3


def counting(*, first: Any) -> bytes:
    """A variable that sums what it is given, from a value that a subgraph sets once."""
    graph = Graph()
    init = len(graph.operators)
    named = {"VarHandleOptions": {"sharedName": b"total", "container": b""}}
    handle = graph.tensor("once", (), "resource")
    graph.operator("VAR_HANDLE", [], [handle], **named)
    graph.operator("ASSIGN_VARIABLE", [handle, graph.constant("first", first)], [])
    end = len(graph.operators)
    x, old, new = (graph.tensor(name, (1, 4)) for name in ("x", "old", "new"))
    handle = graph.tensor("total", (), "resource")
    graph.operator("CALL_ONCE", [], [], CallOnceOptions={"initSubgraphIndex": 1})
    graph.operator("VAR_HANDLE", [], [handle], **named)
    graph.operator("READ_VARIABLE", [handle], [old], ReadVariableOptions={})
    graph.operator("ADD", [old, x], [new], AddOptions={})
    graph.operator("ASSIGN_VARIABLE", [handle, new], [], AssignVariableOptions={})
    return graph.file([x], [new], inner=[(init, end, [], [])])


def test_a_variable_is_state_from_its_first_value_on(
    exported: Callable[..., Program], replay: Callable[[Program], float]
) -> None:
    start = normal(1, 4)
    program = exported(counting(first=start))
    assert [(s.name, s.shape) for s in program.info.states] == [("total", (1, 4))]
    one, two = program.golden.calls  # LiteRT's, one after the other
    np.testing.assert_allclose(one.outputs[0], start + one.inputs[0], rtol=1e-6)
    np.testing.assert_allclose(two.outputs[0], one.outputs[0] + two.inputs[0], rtol=1e-6)
    assert replay(program) < 1e-6


def test_a_sound_s_length_is_such_that_no_window_is_empty(exported: Callable[..., Program]) -> None:
    graph = Graph()
    sound = graph.tensor("sound", (1, 1, -1, 1))
    windows, loudest = graph.tensor("windows", (1, 1, -1, 2)), graph.tensor("loudest", ())
    weights = graph.constant("weights", normal(2, 1, 100, 1))
    zero = graph.constant("zero", np.zeros(2, np.float32))
    options = {"padding": 1, "strideH": 1, "strideW": 50}
    graph.operator("CONV_2D", [sound, weights, zero], [windows], Conv2DOptions=options)
    axes = graph.constant("axes", np.arange(4, dtype=np.int32))
    graph.operator("REDUCE_MAX", [windows, axes], [loudest], ReducerOptions={})
    program = exported(graph.file([sound], [loudest]))
    assert (
        str(program.info.functions[0].signature)
        == "main(sound: f32[1, 1, 128, 1]) -> (loudest: f32[])"
    )


def test_quantised_layers_are_seen_as_products_of_bytes(exported: Callable[..., Program]) -> None:
    from iree.compiler import ir

    from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
    from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
    from edgec.toolchain.passes.place.quantised_kernels import QuantisedKernels
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    unit = DotUnit(vectors=VectorUnit(lanes=16, registers=32, broadcasts=True), signed=False)
    program = exported(classifier(quantized=True))
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        InlineCalls().run(module)
        # The convolutions; the last product has fewer channels than a vector.
        assert QuantisedKernels(unit=unit).run(module) == 2


def test_an_operation_is_called_by_its_operator(exported: Callable[..., Program]) -> None:
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import inside
    from edgec.toolchain.stablehlo import parse_stablehlo

    with ir.Context() as context:
        module = parse_stablehlo(exported(classifier(quantized=False)).bytecode, context)
        found = [str(op.location) for op in inside(module.operation) if "convol" in op.name]
    assert ["/CONV_2D first/" in found[0], "/DEPTHWISE_CONV_2D second/" in found[1]] == [True, True]


def test_sizes_follow_a_dynamic_batch(
    exported: Callable[..., Program],
    replay: Callable[[Program], float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Keras' Flatten asks for the batch when it runs: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    graph = Graph()
    x = graph.tensor("x", (-1, 3, 4))
    whole = graph.tensor("whole", (3,), "int32")
    graph.operator("SHAPE", [x], [whole], ShapeOptions={"outType": 2})
    ends = [graph.constant(f"end{i}", np.array([i], np.int32)) for i in (0, 1)]
    batch = graph.tensor("batch", (), "int32")
    graph.operator(
        "STRIDED_SLICE",
        [whole, *ends, ends[1]],
        [batch],
        StridedSliceOptions={"shrinkAxisMask": 1},
    )
    rest = graph.constant("rest", np.array(12, np.int32))
    sizes = graph.tensor("sizes", (2,), "int32")
    graph.operator("PACK", [batch, rest], [sizes], PackOptions={"valuesCount": 2, "axis": 0})
    flat = graph.tensor("flat", (-1, 12))
    graph.operator("RESHAPE", [x, sizes], [flat], ReshapeOptions={})
    y = graph.tensor("y", (-1, 5))
    weights = graph.constant("w", normal(5, 12))
    graph.operator("FULLY_CONNECTED", [flat, weights, -1], [y], FullyConnectedOptions={})
    data = graph.file([x], [y])
    program = exported(data, dynamic=["batch=1..4"])
    (signature,) = [f.signature for f in program.info.functions]
    dim = Dim(name="batch", minimum=1, maximum=4)
    assert (signature.inputs[0].shape, signature.outputs[0].shape) == ((dim, 3, 4), (dim, 5))
    assert {call.inputs[0].shape[0] for call in program.golden.calls} == {1, 4}
    assert replay(program) < 1e-5
    (said,) = caplog.messages
    assert "computes 4 of batch at a time" in said
    assert exported(data).info.functions[0].signature.inputs[0].shape == (1, 3, 4)
    assert "x:0 is 1; --dynamic='x:0=n=1..' keeps one open" in caplog.text


def test_branches_are_chosen_when_the_model_runs() -> None:
    graph = Graph()
    choice, x = graph.tensor("choice", (1,), "bool"), graph.tensor("x", (3,))
    y, once, twice = (graph.tensor(name, (3,)) for name in ("y", "once", "twice"))
    graph.operator("NEG", [x], [once], NegOptions={})
    graph.operator("ADD", [x, x], [twice], AddOptions={})
    graph.operator(
        "IF", [choice, x], [y], IfOptions={"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}
    )
    inner = [(0, 1, [x], [once]), (1, 2, [x], [twice])]
    data = graph.file([choice, x], [y], inner=inner)
    for chosen in (True, False):
        arrays = [np.array([chosen]), normal(3)]
        np.testing.assert_allclose(computed(data, arrays)[0], litert(data, arrays)[0])


def test_weights_can_lie_beside_the_program(
    exported: Callable[..., Program], tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    data = classifier(quantized=False)
    program = exported(data, external_weights=path, folder=tmp_path)
    assert program.info.weights.names == ("conv",)
    with safe_open(path, "numpy") as file:
        kept = file.get_tensor("conv")
    (tensor,) = [t for t in read_model(data, "x").subgraphs[0].tensors if t.name == "conv"]
    np.testing.assert_array_equal(kept, tensor.data)


# Refusals


def one_operator(kind: str, **options: Any) -> bytes:
    graph = Graph()
    x, y = graph.tensor("x", (1, 4)), graph.tensor("y", (1, 4))
    graph.operator(kind, [x], [y], **options)
    return graph.file([x], [y])


def test_operators_that_are_not_in_the_table_are_named(
    exported: Callable[..., Program],
) -> None:
    with pytest.raises(UnsupportedOp, match=r"Lite's CUSTOM MyLayer in .* not supported") as caught:
        exported(one_operator("CUSTOM", custom="MyLayer"))
    assert caught.value.where == "the operator that computes y"
    with pytest.raises(UnsupportedOp, match="CUSTOM FlexErf") as caught:
        exported(one_operator("CUSTOM", custom="FlexErf"))
    assert "without Flex" in str(caught.value.hint)


def test_every_unknown_operator_is_said_at_once(exported: Callable[..., Program]) -> None:
    graph = Graph()
    x, y, z = (graph.tensor(name, (1, 4)) for name in "xyz")
    graph.operator("CUSTOM", [x], [y], custom="One")
    graph.operator("CUSTOM", [y], [z], custom="Two")
    with pytest.raises(UnsupportedOp, match=r"CUSTOM One .* nor are CUSTOM Two"):
        exported(graph.file([x], [z]))


def test_sizes_that_are_computed_of_the_data_are_refused_by_name(
    exported: Callable[..., Program],
) -> None:
    graph = Graph()
    x, sizes = graph.tensor("x", (2, 6)), graph.tensor("sizes", (2,), "int32")
    y = graph.tensor("y", (3, 4))
    graph.operator("RESHAPE", [x, sizes], [y], ReshapeOptions={})
    with pytest.raises(UnsupportedOp, match=r"RESHAPE with input 1 \(sizes\) computed") as caught:
        exported(graph.file([x, sizes], [y]))
    assert caught.value.where == "the operator that computes y"


def test_a_form_that_is_not_taken_is_refused_by_name(exported: Callable[..., Program]) -> None:
    data = Case(
        "CONCATENATION",
        [grid(1, 4)],
        {"ConcatenationOptions": {"axis": 1, "fusedActivationFunction": 1}},
        (("int8", 0.05, 4),),
    )._file([(1, 4)])
    with pytest.raises(UnsupportedOp, match="CONCATENATION of integers with a fused activation"):
        exported(data)


def test_a_signature_that_is_not_there(exported: Callable[..., Program]) -> None:
    with pytest.raises(SourceError, match="no signature train") as caught:
        exported(classifier(quantized=False), signatures=["train"])
    assert caught.value.hint == "it has serving_default"
    renamed = exported(classifier(quantized=False), signatures=["main=serving_default"])
    assert [f.signature.name for f in renamed.info.functions] == ["main"]


def test_a_batch_that_the_file_does_not_allow_is_refused(
    exported: Callable[..., Program],
) -> None:
    data = Case("RESHAPE", [normal(1, 6), ints(2, 3)], {"ReshapeOptions": {}}).file()
    with pytest.raises(ExportError, match="LiteRT cannot run main"):
        exported(data, dynamic=["batch=1..4"])


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "bad.tflite"
    with pytest.raises(FileError):
        export_source(str(path))
    path.write_bytes(b"hello, this is no model at all")
    with pytest.raises(SourceError, match=r"is no \.tflite file"):
        export_source(str(path))


@pytest.mark.parametrize("index", [0, 1, 7])
def test_subgraphs_that_run_themselves_or_are_not_there(index: int) -> None:
    graph = Graph()
    choice, x = graph.tensor("choice", (1,), "bool"), graph.tensor("x", (3,))
    y = graph.tensor("y", (3,))
    both = {"thenSubgraphIndex": index, "elseSubgraphIndex": index}
    graph.operator("IF", [choice, x], [y], IfOptions=both)
    graph.operator("IF", [choice, x], [y], IfOptions=both)
    data = graph.file([choice, x], [y], inner=[(0, 1, [choice, x], [y])])
    with pytest.raises(SourceError, match=r"without end|names no subgraph|no sound"):
        graphs = read_model(data, "a test").subgraphs
        check_operators(graphs[0], "a test", graphs)


def test_damaged_files_are_refused_and_nothing_else(tmp_path: Path) -> None:
    data = Case("ADD", [normal(2, 3), normal(2, 3)], {"AddOptions": {}}).file()
    path = tmp_path / "damaged.tflite"
    refused, random = 0, np.random.default_rng(1)
    for number in range(200):
        copy = bytearray(data)
        for at in random.integers(8, len(copy), 3):
            copy[at] ^= 1 << int(random.integers(8))
        path.write_bytes(copy if number % 4 else copy[: number * len(copy) // 200])
        try:
            check_operators(read_model(path.read_bytes(), "x").subgraphs[0], "x")
        except EdgecError:
            refused += 1
    assert refused > 50
