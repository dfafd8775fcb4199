"""The operators of TensorFlow Lite that edgec takes: what computes each, and in which numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from edgec.exporters.from_tflite import elementwise, layers, layout, reduce
from edgec.exporters.from_tflite.call import Call
from edgec.exporters.from_tflite.items import SET_ITEM, set_item

__all__ = ["OPERATORS", "RULES", "Numbers", "Operator"]


class Numbers(Enum):
    """What an operator makes of quantised tensors; the value is docs/tflite.md's word for it."""

    REAL = "real"  # numbers, rounded to the output's grid
    SUMMED = "sums"  # of whole numbers, rounded once
    MOVED = "moved"  # integers that stay what they are


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator.

    Attributes:
        function: inputs to one array or a tuple of them, in real numbers (or moved).
        numbers: what it makes of quantised tensors.
        product: for sums of products, which inputs are the data and the weights.
        bias: the input that holds sums, whose integers are wide.
        data: for moved ones, which inputs are data rather than indices; None for all.
        on_sizes: whether it also takes NumPy arrays of symbolic sizes.
        note: what it needs, as the documents say it.
    """

    function: Callable[[Call], Any]
    numbers: Numbers = Numbers.REAL
    product: tuple[int, int] | None = None
    bias: int | None = None
    data: tuple[int, ...] | None = None
    on_sizes: bool = False
    note: str = ""


def _real(function: Callable[[Call], Any], note: str = "") -> Operator:
    return Operator(function=function, note=note)


def _summed(
    function: Callable[[Call], Any],
    note: str = "",
    *,
    data: int = 0,
    weights: int = 1,
    bias: int | None = 2,
) -> Operator:
    return Operator(
        function=function, numbers=Numbers.SUMMED, product=(data, weights), bias=bias, note=note
    )


def _moved(
    function: Callable[[Call], Any],
    note: str = "",
    *,
    data: tuple[int, ...] | None = (0,),
    on_sizes: bool = False,
) -> Operator:
    return Operator(
        function=function, numbers=Numbers.MOVED, data=data, on_sizes=on_sizes, note=note
    )


def _on_sizes(function: Callable[[Call], Any], note: str = "") -> Operator:
    return Operator(function=function, on_sizes=True, note=note)


_KNOWN = "sizes and axes known while exporting"

OPERATORS: dict[str, Operator] = {
    "ABS": _real(elementwise.unary("abs")),
    "ADD": _on_sizes(elementwise.add),
    "ADD_N": _real(elementwise.add_n),
    "ARG_MAX": _moved(reduce.arg("argmax"), "the axis known while exporting"),
    "ARG_MIN": _moved(reduce.arg("argmin"), "the axis known while exporting"),
    "ATAN2": _real(elementwise.binary("arctan2")),
    "AVERAGE_POOL_2D": _real(layers.average_pool),
    "BATCH_MATMUL": _summed(layers.batch_matmul, bias=None),
    "BATCH_TO_SPACE_ND": _moved(layout.batch_to_space, _KNOWN),
    "BITWISE_XOR": _real(elementwise.binary("bitwise_xor")),
    "BROADCAST_TO": _moved(layout.broadcast_to, _KNOWN),
    "CAST": _on_sizes(elementwise.cast),
    "CEIL": _real(elementwise.unary("ceil")),
    "CONCATENATION": _moved(layout.concatenation, data=None, on_sizes=True),
    "CONV_2D": _summed(layers.conv_2d),
    "CONV_3D": _summed(layers.conv_3d),
    "COS": _real(elementwise.unary("cos")),
    "CUMSUM": _real(reduce.cumsum, "the axis known while exporting"),
    "DENSIFY": _moved(lambda call: call[0], "of a constant"),
    "DEPTHWISE_CONV_2D": _summed(layers.depthwise_conv_2d),
    "DEPTH_TO_SPACE": _moved(layout.depth_to_space),
    "DEQUANTIZE": _real(elementwise.cast),
    "DIV": _real(elementwise.divide),
    "DYNAMIC_UPDATE_SLICE": _moved(layout.dynamic_update_slice, data=(0, 1)),
    "ELU": _real(elementwise.elu),
    "EMBEDDING_LOOKUP": _moved(layout.embedding_lookup, data=(1,)),
    "EQUAL": _real(elementwise.binary("equal")),
    "EXP": _real(elementwise.unary("exp")),
    "EXPAND_DIMS": _moved(layout.expand_dims, "the axis known while exporting", on_sizes=True),
    "FAKE_QUANT": _real(elementwise.fake_quant),
    "FILL": _moved(layout.fill, _KNOWN, data=(1,)),
    "FLOOR": _real(elementwise.unary("floor")),
    "FLOOR_DIV": _real(elementwise.binary("floor_divide")),
    "FLOOR_MOD": _real(elementwise.binary("mod")),
    "FULLY_CONNECTED": _summed(layers.fully_connected, "weights not shuffled"),
    "GATHER": _moved(layout.gather, on_sizes=True),
    "GATHER_ND": _moved(layout.gather_nd),
    "GELU": _real(elementwise.gelu),
    "GREATER": _real(elementwise.binary("greater")),
    "GREATER_EQUAL": _real(elementwise.binary("greater_equal")),
    "HARD_SWISH": _real(elementwise.hard_swish),
    "L2_NORMALIZATION": _real(reduce.l2_normalization),
    "LEAKY_RELU": _real(elementwise.leaky_relu),
    "LESS": _real(elementwise.binary("less")),
    "LESS_EQUAL": _real(elementwise.binary("less_equal")),
    "LOCAL_RESPONSE_NORMALIZATION": _real(reduce.local_response_normalization),
    "LOG": _real(elementwise.unary("log")),
    "LOGICAL_AND": _real(elementwise.binary("logical_and")),
    "LOGICAL_NOT": _real(elementwise.unary("logical_not")),
    "LOGICAL_OR": _real(elementwise.binary("logical_or")),
    "LOGISTIC": _real(elementwise.logistic),
    "LOG_SOFTMAX": _real(reduce.log_softmax),
    "MAXIMUM": _real(elementwise.binary("maximum")),
    "MAX_POOL_2D": _real(layers.max_pool),
    "MEAN": _real(reduce.reduction("mean"), "axes known while exporting"),
    "MINIMUM": _real(elementwise.binary("minimum")),
    "MIRROR_PAD": _moved(layout.mirror_pad, _KNOWN),
    "MUL": _on_sizes(elementwise.multiply),
    "NEG": _real(elementwise.unary("negative")),
    "NOT_EQUAL": _real(elementwise.binary("not_equal")),
    "ONE_HOT": _moved(layout.one_hot, "the depth known while exporting", data=(2, 3)),
    "PACK": _moved(layout.pack, data=None, on_sizes=True),
    "PAD": _moved(layout.pad, _KNOWN),
    "PADV2": _moved(layout.pad, _KNOWN, data=(0, 2)),
    "POW": _real(elementwise.binary("power")),
    "PRELU": _real(elementwise.prelu),
    "QUANTIZE": _real(lambda call: call[0]),
    "RANGE": _real(layout.range_, "numbers known while exporting"),
    "RANK": _moved(layout.rank, data=(), on_sizes=True),
    "REDUCE_ALL": _real(reduce.reduction("all"), "axes known while exporting"),
    "REDUCE_ANY": _real(reduce.reduction("any"), "axes known while exporting"),
    "REDUCE_MAX": _real(reduce.reduction("max"), "axes known while exporting"),
    "REDUCE_MIN": _real(reduce.reduction("min"), "axes known while exporting"),
    "REDUCE_PROD": Operator(
        function=reduce.reduction("prod"), on_sizes=True, note="axes known while exporting"
    ),
    "RELU": _real(elementwise.relu(0, None)),
    "RELU6": _real(elementwise.relu(0, 6)),
    "RELU_0_TO_1": _real(elementwise.relu(0, 1)),
    "RELU_N1_TO_1": _real(elementwise.relu(-1, 1)),
    "RESHAPE": _moved(layout.reshape, _KNOWN, on_sizes=True),
    "RESIZE_BILINEAR": _real(layers.resize_bilinear, _KNOWN),
    "RESIZE_NEAREST_NEIGHBOR": _moved(layers.resize_nearest, _KNOWN),
    "REVERSE_V2": _moved(layout.reverse, "axes known while exporting"),
    "RIGHT_SHIFT": _real(elementwise.binary("right_shift")),
    "ROUND": _real(elementwise.round_even),
    "RSQRT": _real(elementwise.rsqrt),
    "SCATTER_ND": _moved(layout.scatter_nd, _KNOWN, data=(1,)),
    "SELECT": _moved(elementwise.select, data=(1, 2)),
    "SELECT_V2": _moved(elementwise.select_v2, data=(1, 2)),
    "SHAPE": _moved(layout.shape, data=(), on_sizes=True),
    "SIGN": _real(elementwise.unary("sign")),
    "SIN": _real(elementwise.unary("sin")),
    "SLICE": _moved(layout.slice_, "start and size known while exporting", on_sizes=True),
    "SOFTMAX": _real(reduce.softmax),
    "SPACE_TO_BATCH_ND": _moved(layout.space_to_batch, _KNOWN),
    "SPACE_TO_DEPTH": _moved(layout.space_to_depth),
    "SPLIT": _moved(layout.split, "the axis known while exporting", data=(1,)),
    "SPLIT_V": _moved(layout.split_v, _KNOWN),
    "SQRT": _real(elementwise.unary("sqrt")),
    "SQUARE": _real(elementwise.square),
    "SQUARED_DIFFERENCE": _real(elementwise.squared_difference),
    "SQUEEZE": _moved(layout.squeeze, on_sizes=True),
    "STRIDED_SLICE": _moved(
        layout.strided_slice, "start, end and stride known while exporting", on_sizes=True
    ),
    "SUB": _on_sizes(elementwise.subtract),
    "SUM": _real(reduce.reduction("sum"), "axes known while exporting"),
    "TANH": _real(elementwise.unary("tanh")),
    "TILE": _moved(layout.tile, _KNOWN),
    "TOPK_V2": _moved(reduce.top_k, "k known while exporting"),
    "TRANSPOSE": _moved(layout.transpose, "the permutation known while exporting"),
    "TRANSPOSE_CONV": _summed(layers.transpose_conv, "sizes known while exporting", data=2, bias=3),
    "UNPACK": _moved(layout.unpack, on_sizes=True),
    "ZEROS_LIKE": _real(elementwise.zeros_like),
}

RULES = {**OPERATORS, SET_ITEM: _moved(set_item, data=(0, 1))}
"""The operators, and what several of them are rewritten to."""
