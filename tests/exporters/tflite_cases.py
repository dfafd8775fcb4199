"""One small file for every operator that edgec takes from TensorFlow Lite, and its inputs.

Real-number cases are in `CASES`, quantised ones in `QUANTIZED`; `QUANTIZED` names the operator and
the form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.exporters.tflite_models import Graph

RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Const:
    """An input whose value is in the file."""

    value: np.ndarray
    scales: Any = None
    zeros: Any = 0
    axis: int = 0


@dataclass(frozen=True)
class Sparse:
    """An input of which the file holds some values, as `Graph.sparse` takes it."""

    shape: Sequence[int]
    values: np.ndarray
    levels: Sequence[Any]
    order: Sequence[int]
    blocks: Sequence[int] = ()


@dataclass(frozen=True)
class Grid:
    """A quantised input that the caller gives."""

    value: np.ndarray
    scale: float
    zero: int


@dataclass(frozen=True)
class Case:
    """One operator: its inputs (arrays are the caller's), options, the types of its outputs."""

    kind: str
    inputs: Sequence[Any]
    options: dict[str, Any]
    outputs: Sequence[Any] = ("float32",)

    @property
    def arrays(self) -> list[np.ndarray]:
        """What the caller gives."""
        given = [v.value if isinstance(v, Grid) else v for v in self.inputs]
        return [v for v in given if isinstance(v, np.ndarray)]

    def file(self) -> bytes:
        """The `.tflite` file, with the outputs' shapes as LiteRT finds them."""
        data = self._file([()] * len(self.outputs))
        answers = self.answers(data)
        return self._file([answer.shape for answer in answers])

    def answers(self, data: bytes) -> list[np.ndarray]:
        """LiteRT's answers; XNNPACK takes sparse constants as weights of its own alone."""
        plain = any(isinstance(value, Sparse) for value in self.inputs)
        return litert(data, self.arrays, delegates=not plain)

    def _file(self, shapes: Sequence[tuple[int, ...]]) -> bytes:
        graph = Graph()
        inputs, given = [], []
        for number, value in enumerate(self.inputs):
            name = f"in{number}"
            if isinstance(value, Const):
                grid = None if value.scales is None else (value.scales, value.zeros)
                inputs.append(graph.constant(name, value.value, quantized=grid, axis=value.axis))
            elif isinstance(value, Sparse):
                inputs.append(graph.sparse(name, **vars(value)))
            else:
                array = value.value if isinstance(value, Grid) else value
                grid = (value.scale, value.zero) if isinstance(value, Grid) else None
                inputs.append(graph.tensor(name, array.shape, str(array.dtype), quantized=grid))
                given.append(inputs[-1])
        outputs = []
        for number, (kind, shape) in enumerate(zip(self.outputs, shapes, strict=True)):
            dtype, grid = (kind, None) if isinstance(kind, str) else (kind[0], kind[1:])
            outputs.append(graph.tensor(f"out{number}", shape, dtype, quantized=grid))
        graph.operator(self.kind, inputs, outputs, **self.options)
        return graph.file(given, outputs)


def litert(
    data: bytes, arrays: Sequence[np.ndarray], *, delegates: bool = True
) -> list[np.ndarray]:
    """LiteRT's answers, by its own kernels or those of its delegates."""
    kinds = OpResolverType
    kernels = kinds.AUTO if delegates else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=data, num_threads=1, experimental_op_resolver_type=kernels
    )
    interpreter.allocate_tensors()
    for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return (np.abs(RNG.normal(size=shape)) + 0.1).astype(np.float32)


def ints(*values: Any) -> Const:
    return Const(np.array(values, np.int32))


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-20, 20, shape).astype(np.int32)


def bits(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype(np.bool_)


def grid(*shape: int, scale: float = 0.05, zero: int = 4, dtype: str = "int8") -> Grid:
    limits = np.iinfo(dtype)
    return Grid(RNG.integers(limits.min, limits.max + 1, shape).astype(dtype), scale, zero)


IMAGE = normal(1, 7, 6, 4)
SAME = {"padding": 0, "strideH": 2, "strideW": 2}
VALID = {"padding": 1, "strideH": 1, "strideW": 2}


def _unary(kind: str, value: np.ndarray | None = None, **options: Any) -> Case:
    return Case(kind, [normal(2, 5) * 3 if value is None else value], options)


def _binary(kind: str, out: str = "float32", **options: Any) -> Case:
    return Case(kind, [normal(2, 1, 5), positive(3, 1)], options, (out,))


def _reduce(
    kind: str, axes: Sequence[int], *, keep: bool, value: Any = None, out: str = ""
) -> Case:
    value = normal(2, 3, 4) if value is None else value
    return Case(
        kind, [value, ints(*axes)], {"ReducerOptions": {"keepDims": keep}}, (out or "float32",)
    )


ROWS = np.array([[0, 1], [2, 0]], np.int32)

CASES: dict[str, list[Case]] = {
    "ABS": [_unary("ABS")],
    "ADD": [
        _binary("ADD", AddOptions={"fusedActivationFunction": 1}),
        Case("ADD", [whole(3), whole(2, 3)], {"AddOptions": {}}, ("int32",)),
    ],
    "ADD_N": [Case("ADD_N", [normal(2, 3), normal(2, 3), normal(2, 3)], {"AddNOptions": {}})],
    "ARG_MAX": [
        Case("ARG_MAX", [normal(3, 5), ints(-1)], {"ArgMaxOptions": {"outputType": 4}}, ("int64",))
    ],
    "ARG_MIN": [
        Case("ARG_MIN", [normal(3, 5), ints(0)], {"ArgMinOptions": {"outputType": 2}}, ("int32",))
    ],
    "ATAN2": [Case("ATAN2", [normal(2, 5), normal(2, 5)], {})],
    "AVERAGE_POOL_2D": [
        Case(
            "AVERAGE_POOL_2D",
            [IMAGE],
            {"Pool2DOptions": {**p, "filterHeight": 3, "filterWidth": 2}},
        )
        for p in (SAME, VALID)
    ],
    "BATCH_MATMUL": [
        Case(
            "BATCH_MATMUL",
            [normal(2, 3, 4), normal(2, 5, 4)],
            {"BatchMatMulOptions": {"adjY": True}},
        ),
        Case(
            "BATCH_MATMUL", [normal(2, 4, 3), normal(4, 5)], {"BatchMatMulOptions": {"adjX": True}}
        ),
    ],
    "BATCH_TO_SPACE_ND": [
        Case(
            "BATCH_TO_SPACE_ND",
            [normal(4, 3, 2, 5), ints(2, 2), ints([1, 0], [0, 1])],
            {"BatchToSpaceNDOptions": {}},
        )
    ],
    "BITWISE_XOR": [
        Case("BITWISE_XOR", [whole(4), whole(4)], {"BitwiseXorOptions": {}}, ("int32",))
    ],
    "BROADCAST_TO": [Case("BROADCAST_TO", [normal(3, 1), ints(2, 3, 4)], {"version": 2})],
    "CAST": [
        Case(
            "CAST",
            [normal(9) * 5],
            {"CastOptions": {"inDataType": 0, "outDataType": 2}},
            ("int32",),
        ),
        Case("CAST", [whole(9)], {"CastOptions": {"inDataType": 2, "outDataType": 0}}),
    ],
    "CEIL": [_unary("CEIL")],
    "CONCATENATION": [
        Case("CONCATENATION", [normal(2, 3), normal(2, 1)], {"ConcatenationOptions": {"axis": -1}})
    ],
    "CONV_2D": [
        Case(
            "CONV_2D",
            [IMAGE, Const(normal(5, 3, 3, 4)), Const(normal(5))],
            {"Conv2DOptions": {**SAME, "fusedActivationFunction": 3}},
        ),
        Case(
            "CONV_2D",
            [IMAGE, Const(normal(6, 2, 3, 2)), Const(normal(6))],
            {"Conv2DOptions": {"padding": 1, "strideH": 1, "strideW": 1, "dilationHFactor": 2}},
        ),
    ],
    "CONV_3D": [
        Case(
            "CONV_3D",
            [normal(1, 4, 5, 6, 2), Const(normal(2, 3, 2, 2, 3)), Const(normal(3))],
            {"Conv3DOptions": {"padding": 0, "strideD": 1, "strideH": 2, "strideW": 1}},
        )
    ],
    "COS": [_unary("COS")],
    "CUMSUM": [
        Case("CUMSUM", [normal(2, 5), ints(1)], {"CumsumOptions": {"exclusive": e, "reverse": r}})
        for e, r in ((False, True), (True, False))
    ],
    "DENSIFY": [
        Case("DENSIFY", [sparse], {"DensifyOptions": {}})
        for sparse in (
            Sparse((4, 4), normal(6), [4, ([0, 3, 4, 5, 6], [0, 2, 3, 1, 2, 3])], [0, 1]),
            Sparse((4, 4), normal(6), [4, ([0, 1, 2, 4, 6], [0, 1, 0, 2, 0, 3])], [1, 0]),
            Sparse((4, 4), normal(12), [2, ([0, 2, 3], [0, 1, 1]), 2, 2], [0, 1, 2, 3], [0, 1]),
            Sparse((3, 1, 8), normal(12), [3, 1, ([0, 1, 1, 3], [1, 0, 1]), 4], [0, 1, 2, 3], [2]),
        )
    ],
    "DEPTHWISE_CONV_2D": [
        Case(
            "DEPTHWISE_CONV_2D",
            [IMAGE, Const(normal(1, 3, 3, 8)), Const(normal(8))],
            {"DepthwiseConv2DOptions": {**SAME, "depthMultiplier": 2}},
        ),
        Case(
            "DEPTHWISE_CONV_2D",
            [IMAGE, Const(normal(1, 3, 2, 4)), Const(normal(4))],
            {
                "DepthwiseConv2DOptions": {
                    "padding": 1,
                    "strideH": 1,
                    "strideW": 1,
                    "depthMultiplier": 1,
                    "dilationWFactor": 2,
                    "fusedActivationFunction": 1,
                }
            },
        ),
    ],
    "DEPTH_TO_SPACE": [
        Case("DEPTH_TO_SPACE", [normal(1, 2, 3, 8)], {"DepthToSpaceOptions": {"blockSize": 2}})
    ],
    "DEQUANTIZE": [Case("DEQUANTIZE", [normal(4).astype(np.float16)], {"DequantizeOptions": {}})],
    "DIV": [
        _binary("DIV", DivOptions={}),
        Case(
            "DIV",
            [whole(6), np.array([3, -3, 7, 2, -2, 5], np.int32)],
            {"DivOptions": {}},
            ("int32",),
        ),
    ],
    "DYNAMIC_UPDATE_SLICE": [
        Case(
            "DYNAMIC_UPDATE_SLICE",
            [normal(4, 5), normal(2, 3), np.array([1, 2], np.int32)],
            {"DynamicUpdateSliceOptions": {}},
        )
    ],
    "ELU": [_unary("ELU")],
    "EMBEDDING_LOOKUP": [
        Case("EMBEDDING_LOOKUP", [np.array([2, 0, 3], np.int32), Const(normal(4, 6))], {})
    ],
    "EQUAL": [Case("EQUAL", [whole(40) // 8, whole(40) // 8], {"EqualOptions": {}}, ("bool",))],
    "EXP": [_unary("EXP")],
    "EXPAND_DIMS": [Case("EXPAND_DIMS", [normal(2, 3), ints(-1)], {"ExpandDimsOptions": {}})],
    "FAKE_QUANT": [_unary("FAKE_QUANT", FakeQuantOptions={"min": -2.0, "max": 3.1, "numBits": 8})],
    "FILL": [Case("FILL", [ints(2, 3), normal(1).reshape(())], {"FillOptions": {}})],
    "FLOOR": [_unary("FLOOR")],
    "FLOOR_DIV": [
        Case(
            "FLOOR_DIV",
            [whole(6), np.array([3, -3, 7, 2, -2, 5], np.int32)],
            {"FloorDivOptions": {}},
            ("int32",),
        ),
        _binary("FLOOR_DIV", FloorDivOptions={}),
    ],
    "FLOOR_MOD": [
        Case(
            "FLOOR_MOD",
            [whole(6), np.array([3, -3, 7, 2, -2, 5], np.int32)],
            {"FloorModOptions": {}},
            ("int32",),
        ),
    ],
    "FULLY_CONNECTED": [
        Case(
            "FULLY_CONNECTED",
            [normal(2, 3, 4), Const(normal(5, 4)), Const(normal(5))],
            {"FullyConnectedOptions": {"keepNumDims": keep, "fusedActivationFunction": 1}},
        )
        for keep in (True, False)
    ],
    "GATHER": [
        Case(
            "GATHER",
            [normal(2, 4, 3), np.array([3, 0, 1], np.int32)],
            {"GatherOptions": {"axis": 1}},
        ),
        Case(
            "GATHER",
            [normal(2, 4, 3), np.array([[3, 0], [1, 2]], np.int32)],
            {"GatherOptions": {"axis": 1, "batchDims": 1}},
        ),
    ],
    "GATHER_ND": [Case("GATHER_ND", [normal(3, 4, 2), ROWS], {"GatherNdOptions": {}})],
    "GELU": [_unary("GELU", GeluOptions={"approximate": a}) for a in (True, False)],
    "GREATER": [_binary("GREATER", "bool", GreaterOptions={})],
    "GREATER_EQUAL": [_binary("GREATER_EQUAL", "bool", GreaterEqualOptions={})],
    "HARD_SWISH": [_unary("HARD_SWISH", HardSwishOptions={})],
    "L2_NORMALIZATION": [_unary("L2_NORMALIZATION", normal(1, 2, 2, 5), L2NormOptions={})],
    "LEAKY_RELU": [_unary("LEAKY_RELU", LeakyReluOptions={"alpha": 0.2})],
    "LESS": [_binary("LESS", "bool", LessOptions={})],
    "LESS_EQUAL": [_binary("LESS_EQUAL", "bool", LessEqualOptions={})],
    "LOCAL_RESPONSE_NORMALIZATION": [
        _unary(
            "LOCAL_RESPONSE_NORMALIZATION",
            normal(1, 2, 2, 9),
            LocalResponseNormalizationOptions={"radius": 2, "bias": 1.0, "alpha": 0.3, "beta": 0.6},
        )
    ],
    "LOG": [_unary("LOG", positive(2, 5))],
    "LOGICAL_AND": [Case("LOGICAL_AND", [bits(8), bits(8)], {"LogicalAndOptions": {}}, ("bool",))],
    "LOGICAL_NOT": [Case("LOGICAL_NOT", [bits(8)], {"LogicalNotOptions": {}}, ("bool",))],
    "LOGICAL_OR": [Case("LOGICAL_OR", [bits(8), bits(8)], {"LogicalOrOptions": {}}, ("bool",))],
    "LOGISTIC": [_unary("LOGISTIC")],
    "LOG_SOFTMAX": [_unary("LOG_SOFTMAX", LogSoftmaxOptions={})],
    "MAXIMUM": [_binary("MAXIMUM", MaximumMinimumOptions={})],
    "MAX_POOL_2D": [
        Case("MAX_POOL_2D", [IMAGE], {"Pool2DOptions": {**p, "filterHeight": 3, "filterWidth": 2}})
        for p in (SAME, VALID)
    ],
    "MEAN": [_reduce("MEAN", [1, -1], keep=False), _reduce("MEAN", [0], keep=True)],
    "MINIMUM": [_binary("MINIMUM", MaximumMinimumOptions={})],
    "MIRROR_PAD": [
        Case("MIRROR_PAD", [normal(3, 4), ints([1, 2], [0, 3])], {"MirrorPadOptions": {"mode": m}})
        for m in (0, 1)
    ],
    "MUL": [_binary("MUL", MulOptions={"fusedActivationFunction": 2})],
    "NEG": [_unary("NEG")],
    "NOT_EQUAL": [
        Case("NOT_EQUAL", [whole(40) // 8, whole(40) // 8], {"NotEqualOptions": {}}, ("bool",))
    ],
    "ONE_HOT": [
        Case(
            "ONE_HOT",
            [
                np.array([2, -1, 0], np.int32),
                Const(np.array(4, np.int32)),
                Const(np.array(2.5, np.float32)),
                Const(np.array(-1, np.float32)),
            ],
            {"OneHotOptions": {"axis": axis}},
        )
        for axis in (-1, 0)
    ],
    "PACK": [
        Case("PACK", [normal(2, 3), normal(2, 3)], {"PackOptions": {"valuesCount": 2, "axis": 1}})
    ],
    "PAD": [Case("PAD", [normal(2, 3), ints([1, 0], [2, 1])], {"PadOptions": {}})],
    "PADV2": [
        Case(
            "PADV2",
            [normal(2, 3), ints([1, 0], [2, 1]), Const(np.array([-3.5], np.float32))],
            {"PadV2Options": {}},
        )
    ],
    "POW": [Case("POW", [positive(2, 5), normal(2, 5)], {"PowOptions": {}})],
    "PRELU": [Case("PRELU", [normal(1, 3, 3, 4), Const(normal(1, 1, 4))], {})],
    "QUANTIZE": [
        Case("QUANTIZE", [normal(3, 7) * 3], {"QuantizeOptions": {}}, (("int8", 0.05, 4),))
    ],
    "RANGE": [
        Case(
            "RANGE",
            [Const(np.array(v, np.int32)) for v in (3, 17, 4)],
            {"RangeOptions": {}},
            ("int32",),
        )
    ],
    "RANK": [Case("RANK", [normal(2, 3, 1)], {"RankOptions": {}}, ("int32",))],
    "REDUCE_ALL": [_reduce("REDUCE_ALL", [1], keep=False, value=bits(4, 3), out="bool")],
    "REDUCE_ANY": [_reduce("REDUCE_ANY", [1], keep=True, value=bits(4, 3), out="bool")],
    "REDUCE_MAX": [_reduce("REDUCE_MAX", [0, 2], keep=False)],
    "REDUCE_MIN": [_reduce("REDUCE_MIN", [-1], keep=True)],
    "REDUCE_PROD": [_reduce("REDUCE_PROD", [1], keep=False)],
    "RELU": [_unary("RELU")],
    "RELU6": [_unary("RELU6")],
    "RELU_0_TO_1": [_unary("RELU_0_TO_1")],
    "RELU_N1_TO_1": [_unary("RELU_N1_TO_1")],
    "RESHAPE": [
        Case("RESHAPE", [normal(2, 6), ints(3, -1)], {"ReshapeOptions": {}}),
        Case(
            "RESHAPE", [normal(2, 6)], {"ReshapeOptions": {"newShape": np.array([4, 3], np.int32)}}
        ),
    ],
    "RESIZE_BILINEAR": [
        Case(
            "RESIZE_BILINEAR",
            [normal(1, 3, 4, 2), ints(*size)],
            {"ResizeBilinearOptions": {"alignCorners": a, "halfPixelCenters": h}},
        )
        for a, h in ((False, False), (True, False), (False, True))
        for size in ((7, 5), (2, 3))
    ],
    "RESIZE_NEAREST_NEIGHBOR": [
        Case(
            "RESIZE_NEAREST_NEIGHBOR",
            [normal(1, 3, 4, 2), ints(*size)],
            {"ResizeNearestNeighborOptions": {"alignCorners": a, "halfPixelCenters": h}},
        )
        for a, h in ((False, False), (True, False), (False, True))
        for size in ((7, 5), (2, 3))
    ],
    "REVERSE_V2": [Case("REVERSE_V2", [normal(2, 3, 4), ints(1)], {"ReverseV2Options": {}})],
    "RIGHT_SHIFT": [
        Case(
            "RIGHT_SHIFT",
            [whole(4), np.array([1, 2, 0, 3], np.int32)],
            {"RightShiftOptions": {}},
            ("int32",),
        )
    ],
    "ROUND": [_unary("ROUND", np.array([0.5, 1.5, -2.5, 2.4, -0.6], np.float32))],
    "RSQRT": [_unary("RSQRT", positive(2, 5))],
    "SCATTER_ND": [
        Case(
            "SCATTER_ND",
            [np.array([[1], [3], [1]], np.int32), normal(3, 2), ints(5, 2)],
            {"ScatterNdOptions": {}},
        )
    ],
    "SELECT": [Case("SELECT", [bits(3), normal(3, 4), normal(3, 4)], {"SelectOptions": {}})],
    "SELECT_V2": [
        Case("SELECT_V2", [bits(3, 1), normal(3, 4), normal(1)], {"SelectV2Options": {}})
    ],
    "SHAPE": [Case("SHAPE", [normal(2, 3)], {"ShapeOptions": {"outType": 2}}, ("int32",))],
    "SIGN": [_unary("SIGN", SignOptions={})],
    "SIN": [_unary("SIN")],
    "SLICE": [Case("SLICE", [normal(3, 5), ints(1, 2), ints(2, -1)], {"SliceOptions": {}})],
    "SOFTMAX": [_unary("SOFTMAX", SoftmaxOptions={"beta": 0.7})],
    "SPACE_TO_BATCH_ND": [
        Case(
            "SPACE_TO_BATCH_ND",
            [normal(1, 3, 5, 2), ints(2, 3), ints([0, 1], [1, 0])],
            {"SpaceToBatchNDOptions": {}},
        )
    ],
    "SPACE_TO_DEPTH": [
        Case("SPACE_TO_DEPTH", [normal(1, 4, 6, 2)], {"SpaceToDepthOptions": {"blockSize": 2}})
    ],
    "SPLIT": [
        Case(
            "SPLIT",
            [Const(np.array(1, np.int32)), normal(2, 6)],
            {"SplitOptions": {"numSplits": 3}},
            ("float32",) * 3,
        )
    ],
    "SPLIT_V": [
        Case(
            "SPLIT_V",
            [normal(2, 6), ints(1, -1, 2), Const(np.array(1, np.int32))],
            {"SplitVOptions": {"numSplits": 3}},
            ("float32",) * 3,
        )
    ],
    "SQRT": [_unary("SQRT", positive(2, 5))],
    "SQUARE": [_unary("SQUARE", SquareOptions={})],
    "SQUARED_DIFFERENCE": [_binary("SQUARED_DIFFERENCE", SquaredDifferenceOptions={})],
    "SQUEEZE": [
        Case("SQUEEZE", [normal(1, 3, 1)], {"SqueezeOptions": {"squeezeDims": axes}})
        for axes in (np.array([0], np.int32), None)
    ],
    "STRIDED_SLICE": [
        Case(
            "STRIDED_SLICE",
            [normal(4, 5, 6), ints(1, -1, 0), ints(3, 0, 9), ints(1, -2, 2)],
            {"StridedSliceOptions": {"endMask": 2}},
        ),
        Case(
            "STRIDED_SLICE",
            [normal(4, 5, 6), ints(2, 1, 0), ints(3, 4, 0), ints(1, 1, 1)],
            {"StridedSliceOptions": {"shrinkAxisMask": 1, "endMask": 4}},
        ),
        Case(
            "STRIDED_SLICE",
            [normal(4, 5, 6), ints(0, 1), ints(0, 4), ints(1, 2)],
            {"StridedSliceOptions": {"ellipsisMask": 1}},
        ),
        Case(
            "STRIDED_SLICE",
            [normal(4, 5), ints(0, 0, 1), ints(3, 0, 4), ints(1, 1, 1)],
            {"StridedSliceOptions": {"newAxisMask": 2}},
        ),
    ],
    "SUB": [_binary("SUB", SubOptions={})],
    "SUM": [_reduce("SUM", [1], keep=False)],
    "TANH": [_unary("TANH")],
    "TILE": [Case("TILE", [normal(2, 3), ints(2, 1)], {"TileOptions": {}})],
    "TOPK_V2": [
        Case(
            "TOPK_V2",
            [normal(2, 7), Const(np.array(3, np.int32))],
            {"TopKV2Options": {}},
            ("float32", "int32"),
        )
    ],
    "TRANSPOSE": [Case("TRANSPOSE", [normal(2, 3, 4), ints(2, 0, 1)], {"TransposeOptions": {}})],
    "TRANSPOSE_CONV": [
        Case(
            "TRANSPOSE_CONV",
            [ints(1, 6, 8, 3), Const(normal(3, 3, 3, 2)), normal(1, 3, 4, 2)],
            {"TransposeConvOptions": {"padding": 0, "strideH": 2, "strideW": 2}},
        ),
        Case(
            "TRANSPOSE_CONV",
            [ints(1, 7, 6, 3), Const(normal(3, 3, 3, 2)), normal(1, 3, 4, 2), Const(normal(3))],
            {"TransposeConvOptions": {"padding": 1, "strideH": 2, "strideW": 1}, "version": 3},
        ),
    ],
    "UNPACK": [
        Case(
            "UNPACK", [normal(2, 3, 4)], {"UnpackOptions": {"num": 3, "axis": 1}}, ("float32",) * 3
        )
    ],
    "ZEROS_LIKE": [_unary("ZEROS_LIKE", ZerosLikeOptions={})],
}

Q = ("int8", 0.07, -3)
SAME_Q = ("int8", 0.05, 4)


def _weights(*shape: int, axis: int | None = None) -> Const:
    values = RNG.integers(-127, 128, shape).astype(np.int8)
    if axis is None:
        return Const(values, 0.02, 0)
    count = shape[axis]
    return Const(values, RNG.uniform(0.005, 0.03, count), [0] * count, axis)


def _bias(weights: Const, scale: float = 0.05) -> Const:
    scales = np.atleast_1d(weights.scales) * scale
    count = weights.value.shape[0 if weights.axis == 0 else weights.axis]
    values = RNG.integers(-3000, 3000, count).astype(np.int32)
    return Const(values, scales, [0] * len(scales))


def _conv(kind: str, weights: Const, options: dict[str, Any], out: Any = ("int8", 0.9, -3)) -> Case:
    data = grid(1, 7, 6, 4) if kind != "FULLY_CONNECTED" else grid(3, 12)
    return Case(kind, [data, weights, _bias(weights)], options, (out,))


def _legacy(*shape: int) -> Const:
    return Const(RNG.integers(0, 256, shape).astype(np.uint8), 0.02, 117)


QUANTIZED: dict[str, Case] = {
    "CONV_2D per tensor": _conv("CONV_2D", _weights(5, 3, 3, 4), {"Conv2DOptions": SAME}),
    "CONV_2D per channel": _conv(
        "CONV_2D",
        _weights(5, 3, 3, 4, axis=0),
        {"Conv2DOptions": {**VALID, "fusedActivationFunction": 1}},
    ),
    "CONV_2D relu6": _conv(
        "CONV_2D",
        _weights(5, 1, 1, 4, axis=0),
        {"Conv2DOptions": {**SAME, "fusedActivationFunction": 3}},
        ("int8", 6 / 255, -128),
    ),
    "CONV_2D unsigned": Case(
        "CONV_2D",
        [
            grid(1, 7, 6, 4, zero=131, dtype="uint8"),
            _legacy(5, 3, 3, 4),
            Const(RNG.integers(-3000, 3000, 5).astype(np.int32), 0.001, 0),
        ],
        {"Conv2DOptions": SAME},
        (("uint8", 0.9, 120),),
    ),
    "DEPTHWISE_CONV_2D per channel": _conv(
        "DEPTHWISE_CONV_2D",
        _weights(1, 3, 3, 8, axis=3),
        {"DepthwiseConv2DOptions": {**SAME, "depthMultiplier": 2}},
        ("int8", 0.4, -3),
    ),
    "FULLY_CONNECTED": _conv(
        "FULLY_CONNECTED", _weights(5, 12), {"FullyConnectedOptions": {}}, ("int8", 0.3, 7)
    ),
    "ADD": Case("ADD", [grid(2, 9), grid(2, 9, scale=0.03, zero=-8)], {"AddOptions": {}}, (Q,)),
    "SUB": Case("SUB", [grid(2, 9), grid(2, 9, scale=0.03, zero=-8)], {"SubOptions": {}}, (Q,)),
    "MUL": Case(
        "MUL", [grid(2, 9), grid(2, 9, scale=0.03)], {"MulOptions": {}}, (("int8", 0.2, 0),)
    ),
    "AVERAGE_POOL_2D": Case(
        "AVERAGE_POOL_2D",
        [grid(1, 7, 6, 4)],
        {"Pool2DOptions": {**SAME, "filterHeight": 3, "filterWidth": 2}},
        (SAME_Q,),
    ),
    "MAX_POOL_2D": Case(
        "MAX_POOL_2D",
        [grid(1, 7, 6, 4)],
        {"Pool2DOptions": {**SAME, "filterHeight": 3, "filterWidth": 2}},
        (SAME_Q,),
    ),
    "MEAN": Case(
        "MEAN", [grid(1, 5, 6, 4), ints(1, 2)], {"ReducerOptions": {"keepDims": True}}, (Q,)
    ),
    "SOFTMAX": Case(
        "SOFTMAX", [grid(2, 9)], {"SoftmaxOptions": {"beta": 1.0}}, (("int8", 1 / 256, -128),)
    ),
    "LOGISTIC": Case("LOGISTIC", [grid(2, 9)], {}, (("int8", 1 / 256, -128),)),
    "TANH": Case("TANH", [grid(2, 9)], {}, (("int8", 1 / 128, 0),)),
    "HARD_SWISH": Case("HARD_SWISH", [grid(2, 9)], {"HardSwishOptions": {}}, (Q,)),
    "LEAKY_RELU": Case("LEAKY_RELU", [grid(2, 9)], {"LeakyReluOptions": {"alpha": 0.2}}, (Q,)),
    "RELU": Case("RELU", [grid(2, 9)], {}, (Q,)),
    "PAD": Case("PAD", [grid(2, 3), ints([1, 0], [2, 1])], {"PadOptions": {}}, (SAME_Q,)),
    "CONCATENATION": Case(
        "CONCATENATION", [grid(2, 3), grid(2, 2)], {"ConcatenationOptions": {"axis": 1}}, (SAME_Q,)
    ),
    "RESHAPE": Case("RESHAPE", [grid(2, 6), ints(3, 4)], {"ReshapeOptions": {}}, (SAME_Q,)),
    "TRANSPOSE": Case("TRANSPOSE", [grid(2, 6), ints(1, 0)], {"TransposeOptions": {}}, (SAME_Q,)),
    "RESIZE_BILINEAR": Case(
        "RESIZE_BILINEAR",
        [grid(1, 3, 4, 2), ints(6, 8)],
        {"ResizeBilinearOptions": {"halfPixelCenters": True}},
        (SAME_Q,),
    ),
    "QUANTIZE again": Case("QUANTIZE", [grid(2, 9)], {"QuantizeOptions": {}}, (Q,)),
    "QUANTIZE to unsigned": Case(
        "QUANTIZE", [grid(2, 9)], {"QuantizeOptions": {}}, (("uint8", 0.05, 132),)
    ),
    "DEQUANTIZE": Case("DEQUANTIZE", [grid(2, 9)], {"DequantizeOptions": {}}),
    "TRANSPOSE_CONV": Case(
        "TRANSPOSE_CONV",
        [ints(1, 6, 8, 3), _weights(3, 3, 3, 2, axis=0), grid(1, 3, 4, 2)],
        {"TransposeConvOptions": {"padding": 0, "strideH": 2, "strideW": 2}},
        (("int8", 0.3, 2),),
    ),
    "BATCH_MATMUL": Case(
        "BATCH_MATMUL",
        [grid(2, 3, 4), grid(2, 4, 5, scale=0.03)],
        {"BatchMatMulOptions": {}},
        (("int8", 0.3, 2),),
    ),
    "SUM": Case("SUM", [grid(2, 9), ints(1)], {"ReducerOptions": {}}, (("int8", 0.5, 2),)),
    "MAXIMUM": Case("MAXIMUM", [grid(2, 9), grid(2, 9)], {"MaximumMinimumOptions": {}}, (SAME_Q,)),
    "GREATER": Case("GREATER", [grid(2, 9), grid(2, 9)], {"GreaterOptions": {}}, ("bool",)),
}
