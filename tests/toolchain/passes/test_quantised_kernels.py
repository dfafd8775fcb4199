"""Quantised networks in bytes: the program before and after, and answers beside onnxruntime's."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from iree.compiler import ir
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.runtime import load
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.kernels.cpu.quantised_dequantised import as_bytes
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit, dot_unit
from edgec.toolchain.kernels.cpu.source.epilogue import Step
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.expression import Source
from edgec.toolchain.passes.place.quantised_kernels import QuantisedKernels
from edgec.toolchain.passes.simplify.channels_last import ChannelsLast
from edgec.toolchain.stablehlo import parse_stablehlo

X86 = DotUnit(vectors=VectorUnit(lanes=16, registers=32, broadcasts=True), signed=False)
ARM = DotUnit(vectors=VectorUnit(lanes=4, registers=32), signed=True)
SUM = (Source.SUM, 0)

BEFORE = """
func.func @main(%x: tensor<1x8x8x16xf32>) -> tensor<1x8x8x32xf32> {
  %w = stablehlo.constant dense<3> : tensor<3x3x16x32xi8>
  %d = stablehlo.constant dense<2> : tensor<3x3x1x32xi8>
  %ws = stablehlo.constant dense<0.01> : tensor<32xf32>
  %s = stablehlo.constant dense<0.02> : tensor<1x8x8x16xf32>
  %z = stablehlo.constant dense<7.0> : tensor<1x8x8x16xf32>
  %low = stablehlo.constant dense<0.0> : tensor<1x8x8x16xf32>
  %high = stablehlo.constant dense<255.0> : tensor<1x8x8x16xf32>
  %t = stablehlo.constant dense<0.3> : tensor<1x8x8x32xf32>
  %low2 = stablehlo.constant dense<0.0> : tensor<1x8x8x32xf32>
  %high2 = stablehlo.constant dense<255.0> : tensor<1x8x8x32xf32>
  %0 = stablehlo.divide %x, %s : tensor<1x8x8x16xf32>
  %1 = stablehlo.round_nearest_even %0 : tensor<1x8x8x16xf32>
  %2 = stablehlo.add %1, %z : tensor<1x8x8x16xf32>
  %3 = stablehlo.clamp %low, %2, %high : tensor<1x8x8x16xf32>
  %4 = stablehlo.subtract %3, %z : tensor<1x8x8x16xf32>
  %5 = stablehlo.multiply %4, %s : tensor<1x8x8x16xf32>
  %6 = stablehlo.convert %w : (tensor<3x3x16x32xi8>) -> tensor<3x3x16x32xf32>
  %7 = stablehlo.broadcast_in_dim %ws, dims = [3] : (tensor<32xf32>) -> tensor<3x3x16x32xf32>
  %8 = stablehlo.multiply %6, %7 : tensor<3x3x16x32xf32>
  %9 = stablehlo.convolution(%5, %8) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x16xf32>, tensor<3x3x16x32xf32>) -> tensor<1x8x8x32xf32>
  %10 = stablehlo.divide %9, %t : tensor<1x8x8x32xf32>
  %11 = stablehlo.round_nearest_even %10 : tensor<1x8x8x32xf32>
  %12 = stablehlo.clamp %low2, %11, %high2 : tensor<1x8x8x32xf32>
  %13 = stablehlo.multiply %12, %t : tensor<1x8x8x32xf32>
  %14 = stablehlo.convert %d : (tensor<3x3x1x32xi8>) -> tensor<3x3x1x32xf32>
  %15 = stablehlo.broadcast_in_dim %ws, dims = [3] : (tensor<32xf32>) -> tensor<3x3x1x32xf32>
  %16 = stablehlo.multiply %14, %15 : tensor<3x3x1x32xf32>
  %17 = stablehlo.convolution(%13, %16) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 32 : i64}
    : (tensor<1x8x8x32xf32>, tensor<3x3x1x32xf32>) -> tensor<1x8x8x32xf32>
  return %17 : tensor<1x8x8x32xf32>
}
"""


def rewritten(text: str, unit: DotUnit) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = QuantisedKernels(unit=unit).run(module)
        module.operation.verify()
        return str(module), count


@pytest.mark.parametrize(
    ("unit", "instruction"), [(X86, "vpdpbusd.512"), (ARM, "neon.sdot.v4i32.v16i8")]
)
def test_what_lies_between_two_convolutions_is_bytes(unit: DotUnit, instruction: str) -> None:
    after, count = rewritten(BEFORE, unit)
    assert count == 2
    assert instruction in after
    function = after[after.index("func.func @main") :]
    assert "stablehlo.convolution" not in function
    first, second = re.findall(r"flow\.dispatch .*", function)
    assert "(tensor<1x10x10x16xi8>" in first  # padded with the zero point, by an operation
    assert first.endswith("-> tensor<1x10x10x32xi8>")  # with the border that the next one reads
    assert "(tensor<1x10x10x32xi8>" in second
    assert second.endswith("-> tensor<1x8x8x32xf32>")
    assert function.count("stablehlo.round_nearest_even") == 1  # the input's


@pytest.mark.parametrize(("unit", "byte"), [(X86, 7), (ARM, -121)])
def test_zero_is_the_zero_point_in_the_bytes_that_the_processor_multiplies(
    unit: DotUnit, byte: int
) -> None:
    after, _ = rewritten(BEFORE, unit)
    assert f"stablehlo.constant dense<{byte}> : tensor<i8>" in after
    # Each of 32 sums begins with the zero point's share: 16 channels of 9 weights of 3.
    assert f"dense<{-byte * 16 * 9 * 3}> : tensor<32xi32>" in after


@pytest.mark.parametrize(
    ("key", "cut"),
    [
        ("edgec_byte_convolution_3x3_8x8x16x32", Cut(rows=2, columns=2, split=(1, 1))),
        ("edgec_byte_depthwise_3x3_8x8x32", Cut(columns=2, split=(1, 1))),
    ],
)
def test_measured_tiles_are_taken_for_kernels_of_bytes(key: str, cut: Cut) -> None:
    def made(cuts: dict[str, Cut]) -> str:
        with ir.Context():
            module = ir.Module.parse(BEFORE)
            QuantisedKernels(unit=X86, cuts=cuts).run(module)
            return str(module)

    plain = made({})
    assert f"@{key}" in plain
    assert made({key: cut}) != plain
    assert made({key.replace("byte_", ""): cut}) == plain


def test_bytes_in_groups_of_channels_are_left_to_f32_with_a_reason() -> None:
    text = BEFORE.replace("3x3x1x32", "3x3x2x32").replace(
        "feature_group_count = 32", "feature_group_count = 16"
    )
    with ir.Context():
        module = ir.Module.parse(text)
        made = QuantisedKernels(unit=X86)
        assert made.run(module) == 1
        (answer,) = made.answers
    assert answer.outcome == Declined(reason="bytes in 16 groups of channels: computed in f32")


def test_values_that_are_no_bytes_stay_as_they_are() -> None:
    wide = BEFORE.replace(
        "dense<255.0> : tensor<1x8x8x16xf32>", "dense<300.0> : tensor<1x8x8x16xf32>"
    )
    after, count = rewritten(wide, X86)
    assert count == 1  # the second convolution's input is bytes still
    assert after.count("stablehlo.convolution") == 1


def test_weights_beyond_a_byte_stay_as_they_are() -> None:
    wide = BEFORE.replace("dense<3> : tensor<3x3x16x32xi8>", "dense<300> : tensor<3x3x16x32xi16>")
    wide = wide.replace("(tensor<3x3x16x32xi8>)", "(tensor<3x3x16x32xi16>)")
    _, count = rewritten(wide, X86)
    assert count == 1


@pytest.mark.parametrize(
    ("name", "signed"),
    [("cpu:arm64-v8.2", True), ("cpu:arm64", None), ("cpu:x86-64-v3", None), ("cuda", None)],
)
def test_targets_that_multiply_bytes(name: str, signed: bool | None) -> None:
    unit = dot_unit(find(name))
    assert (None if unit is None else unit.signed) is signed


def rewritten_program(path: Path) -> tuple[str, int]:
    """What the pass makes of a program for x86, after the pass that puts channels last."""
    with ir.Context() as context:
        module = parse_stablehlo(path.read_bytes(), context)
        ChannelsLast().run(module)
        count = QuantisedKernels(unit=X86).run(module)
        return str(module), count


def step(name: str, *operands: tuple[Source, float]) -> Step:
    return Step(name=name, operands=operands)


def before(number: int) -> tuple[Source, float]:
    return (Source.STEP, number)


def number(value: float) -> tuple[Source, float]:
    return (Source.SCALAR, value)


CHAINS = {
    "scale, bias, activation, quantise": (
        [
            step("arith.addf", SUM, (Source.ROW, 0)),
            step("arith.maximumf", before(0), number(0.0)),
            step("arith.minimumf", before(1), number(6.0)),
            step("arith.divf", before(2), number(0.03)),
            step("math.roundeven", before(3)),
            step("arith.addf", before(4), number(5.0)),
            step("arith.maximumf", before(5), number(0.0)),
            step("arith.minimumf", before(6), number(255.0)),
        ],
        6,  # multiply and add, two bounds, rounding in two, the zero point
    ),
    "quantise, dequantise, add, quantise": (
        [
            step("arith.divf", SUM, number(0.0513)),
            step("math.roundeven", before(0)),
            step("arith.maximumf", before(1), number(-128.0)),
            step("arith.minimumf", before(2), number(127.0)),
            step("arith.mulf", before(3), number(0.0513)),
            step("arith.addf", before(4), (Source.TENSOR, 0)),
            step("arith.divf", before(5), number(0.0831)),
            step("math.roundeven", before(6)),
            step("arith.subf", before(7), number(3.0)),
            step("arith.maximumf", before(8), number(0.0)),
            step("arith.minimumf", before(9), number(255.0)),
        ],
        13,
    ),
    "a sign, a bias after an activation, a channel's slope": (
        [
            step("arith.negf", SUM),
            step("arith.maximumf", before(0), number(-1.5)),
            step("arith.addf", before(1), (Source.ROW, 0)),
            step("arith.mulf", (Source.ROW, 1), before(2)),
            step("arith.subf", number(1.0), before(3)),
            step("math.exp", before(4)),
            step("arith.mulf", before(5), before(4)),
        ],
        None,
    ),
}


def evaluated(steps, total, channels, tensors):
    """The steps in NumPy, in the precision of what is given."""
    made = {
        "arith.addf": np.add,
        "arith.subf": np.subtract,
        "arith.mulf": np.multiply,
        "arith.divf": np.divide,
        "arith.maximumf": np.maximum,
        "arith.minimumf": np.minimum,
        "arith.negf": np.negative,
        "math.roundeven": np.rint,
        "math.exp": np.exp,
        "math.fma": lambda a, b, c: a * b + c,
    }
    done = []
    find_one = {
        Source.SUM: lambda n: total,
        Source.STEP: lambda n: done[int(n)],
        Source.SCALAR: lambda n: n,
        Source.ROW: lambda n: channels[int(n)],
        Source.TENSOR: lambda n: tensors[int(n)],
    }
    for each in steps:
        done.append(made[each.name](*(find_one[kind](n) for kind, n in each.operands)))
    return done[-1]


@pytest.mark.parametrize("name", CHAINS)
def test_fewer_steps_mean_the_same(name: str) -> None:
    from edgec.toolchain.kernels.cpu.quantised_lines import Line, simplify

    steps, most = CHAINS[name]
    random = np.random.default_rng(3)
    sums, slope = random.integers(-900, 900, (50, 8)), random.uniform(0.001, 0.01, 8)
    channels = [random.normal(size=8).astype(np.float32) for _ in range(2)]
    tensor = random.integers(0, 256, (50, 8))
    total = Line(base=SUM, slope=slope)
    other = Line(base=(Source.TENSOR, 0), slope=0.0217, offset=-1.2987)
    made, last = simplify(steps, total, channels, [other])
    value = made.make(last)
    assert value == (Source.STEP, len(made.steps) - 1)
    want = evaluated(steps, sums * slope, channels, [tensor * 0.0217 - 1.2987])
    # In f32, where a large number rounds what it is added to.
    got = evaluated(made.steps, np.float32(sums), made.channels, [np.float32(tensor)])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    if most is not None:
        assert len(made.steps) <= most


def pair(x: str, s: str, z: str, axis: int = 1) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [x, s, z], [f"{x}_q"], axis=axis),
        helper.make_node("DequantizeLinear", [f"{x}_q", s, z], [f"{x}_d"], axis=axis),
    ]


def network(kind: type, channels: int) -> onnx.ModelProto:
    """Convolutions of all kinds, a residual, an average, a product: every value quantised."""
    random = np.random.default_rng(9)
    centre = 0 if kind is np.int8 else 128
    constants: dict[str, np.ndarray] = {"z": np.array(centre + 3, kind)}
    nodes: list[onnx.NodeProto] = []

    def quantised(x: str, scale: float) -> str:
        constants[f"{x}_s"] = np.array(scale, np.float32)
        nodes.extend(pair(x, f"{x}_s", "z"))
        return f"{x}_d"

    def weights(name: str, *shape: int, axis: int = 0) -> str:
        count = shape[axis]
        constants[name] = random.integers(-127, 128, shape).astype(np.int8)
        constants[f"{name}_s"] = random.uniform(5e-4, 2e-3, count).astype(np.float32)
        constants[f"{name}_z"] = np.zeros(count, np.int8)
        names = [name, f"{name}_s", f"{name}_z"]
        nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_d"], axis=axis))
        return f"{name}_d"

    def layer(x: str, name: str, shape: tuple[int, ...], **attributes: object) -> str:
        constants[f"{name}_b"] = random.normal(size=shape[0]).astype(np.float32) / 4
        w = weights(f"{name}_w", *shape)
        nodes.append(helper.make_node("Conv", [x, w, f"{name}_b"], [name], **attributes))
        return name

    x = quantised("x", 0.02)
    a = quantised(layer(x, "a", (channels, 3, 3, 3), pads=[1] * 4, strides=[2, 2]), 0.01)
    b = quantised(layer(a, "b", (channels, 1, 3, 3), pads=[1] * 4, group=channels), 0.01)
    c = quantised(layer(b, "c", (channels, channels, 1, 1)), 0.012)
    nodes.append(helper.make_node("Add", [a, c], ["sum"]))
    nodes.append(helper.make_node("Relu", ["sum"], ["e"]))
    e = quantised("e", 0.015)
    f = layer(e, "f", (2 * channels, channels, 3, 3), pads=[1] * 4, strides=[2, 2])
    h = layer(e, "h", (2 * channels, channels, 1, 1), strides=[2, 2])
    nodes.append(helper.make_node("Add", [quantised(f, 0.02), quantised(h, 0.01)], ["both"]))
    i = quantised("both", 0.02)
    nodes.append(helper.make_node("GlobalAveragePool", [i], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    g = quantised("flat", 0.01)
    w = weights("g_w", 2 * channels, 40, axis=1)
    nodes.append(helper.make_node("MatMul", [g, w], ["y"]))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 15, 15))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("kind", "channels"), [(np.uint8, 24), (np.int8, 18)])
def test_a_network_answers_as_onnxruntime_does(kind: type, channels: int, tmp_path: Path) -> None:
    model = network(kind, channels)
    x = np.random.default_rng(1).standard_normal((2, 3, 15, 15)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (want,) = session.run(None, {"x": x})
    path = tmp_path / "m.vmfb"
    program = export(model, (x,)).save(tmp_path / "m.mlirbc")
    after, count = rewritten_program(tmp_path / "m.mlirbc")
    assert count == 6
    assert "stablehlo.convolution" not in after
    compile(program, "cpu:host", CompileOptions(output=path, cache=False, check=False))
    with load(path) as module:
        got = np.asarray(module["main"].call_flat([x])[0].numpy())
    # Roundings that go the other way add up; onnxruntime's optimised answers are as far off.
    assert np.abs(got - want).max() <= 0.03 * np.abs(want).max()


LAYERS = {
    "strided": ((20, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "wide": ((40, 18, 3, 3), {"pads": [0, 1, 2, 0]}),
    "deep": ((18, 1, 5, 5), {"pads": [2, 2, 2, 2], "group": 18}),
    "point": ((70, 18, 1, 1), {}),
    "skipping": ((7, 18, 1, 1), {"strides": [2, 2]}),
    "dilated": ((33, 18, 3, 3), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
}


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_each_layer_is_right_to_a_quantum(kind: type, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    zero = 131 if kind is np.uint8 else 4
    constants = {"z": np.array(zero, kind), "s": np.array(0.0217, np.float32)}
    constants["t"] = np.array(0.0313, np.float32)
    nodes = []
    for x in ("x3", "x18"):
        nodes += pair(x, "s", "z")
    for name, (shape, attributes) in LAYERS.items():
        count, depth = shape[0], attributes.get("group", shape[1])
        constants[f"{name}_w"] = random.integers(-128, 128, shape).astype(np.int8)
        constants[f"{name}_s"] = random.uniform(1e-3, 4e-3, count).astype(np.float32)
        constants[f"{name}_z"] = np.zeros(count, np.int8)
        constants[f"{name}_b"] = random.normal(size=count).astype(np.float32)
        names = [f"{name}_w", f"{name}_s", f"{name}_z"]
        nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_d"], axis=0))
        operands = [f"x{depth}_d", f"{name}_d", f"{name}_b"]
        nodes.append(helper.make_node("Conv", operands, [f"{name}_c"], **attributes))
        nodes.append(helper.make_node("QuantizeLinear", [f"{name}_c", "t", "z"], [name]))
    inputs = {f"x{n}": random.normal(size=(1, n, 11, 9)).astype(np.float32) for n in (3, 18)}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in inputs.items()],
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None
            )
            for name in LAYERS
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    path = tmp_path / "m.vmfb"
    program = export(model, tuple(inputs.values())).save(tmp_path / "m.mlirbc")
    assert rewritten_program(tmp_path / "m.mlirbc")[1] == len(LAYERS)
    compile(program, "cpu:host", CompileOptions(output=path, cache=False, check=False))
    with load(path) as module:
        answers = [out.numpy() for out in module["main"].call_flat(list(inputs.values()))]
    for name, got, want in zip(LAYERS, answers, session.run(None, inputs), strict=True):
        off = np.abs(np.asarray(got).astype(int) - want)
        assert off.max() <= 1, name
        assert (off == 0).mean() > 0.99, name
        assert np.ptp(want.astype(int)) > 200, name  # the case spans the bytes


def test_kernels_of_f32_round_every_number_to_the_nearest_even(tmp_path: Path) -> None:
    values = [n / 4 for n in range(-40, 40)]
    for power in (2.0**22, 2.0**23, 2.0**24, 1e10):
        values += [power, power + 1, power - 0.5, -power - 0.5, 0.49999997]
    x = np.resize(np.array(values, np.float32), (4, 64))
    program = export(lambda x: jnp.round(x @ np.eye(64, dtype=np.float32)), (x,))
    path = tmp_path / "m.vmfb"
    compile(program, "cpu:host", CompileOptions(output=path, cache=False, check=False))
    with load(path) as module:
        got = np.asarray(module[next(iter(module.signatures))].call_flat([x])[0].numpy())
    np.testing.assert_array_equal(got, np.rint(x))


def test_a_clip_at_infinity_is_no_byte() -> None:
    text = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %high = stablehlo.constant dense<5.0> : tensor<f32>
  %0 = stablehlo.clamp %low, %x, %high
    : (tensor<f32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        (block,) = module.body.operations[0].regions[0].blocks
        clamp = next(op for op in block.operations if op.operation.name == "stablehlo.clamp")
        assert as_bytes(clamp.operation.results[0], Constants()) is None
