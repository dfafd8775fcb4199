"""iree-compile alone still fails where edgec's passes make programs right.

Each row is a small program that the compiler refuses, or whose module is wrong, with edgec's own
flags and without its passes. A row that fails here tells good news: the compiler takes the program
now, and the pass, or that part of it, may go.
"""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec.runtime as er
from edgec.targets import find
from edgec.toolchain.flags import command_line, compile_flags
from edgec.toolchain.passes import CATALOGUE
from edgec.toolchain.process import compiler_path
from tests.js.node import need_node, run_node, write_runtime_once
from tests.toolchain.passes.test_both_branches import CHOICES
from tests.toolchain.passes.test_chosen_once import MASKED_TWICE
from tests.toolchain.passes.test_chosen_once import answers as masked_twice
from tests.toolchain.passes.test_complex_apart import TURNED
from tests.toolchain.passes.test_complex_numbers import TURNS
from tests.toolchain.passes.test_flatten_scatters import WINDOWS
from tests.toolchain.passes.test_loop_order import MEETING
from tests.toolchain.passes.test_plain_depthwise import of as depthwise_of
from tests.toolchain.passes.test_separate_pads import PADDED_TWICE
from tests.toolchain.passes.test_separate_reductions import SPREAD, quotient
from tests.toolchain.passes.test_separate_slices import sliced
from tests.toolchain.passes.test_signless_integers import WINDOW
from tests.toolchain.passes.test_sliced_joins import INPUT as JOINED
from tests.toolchain.passes.test_sliced_joins import JOINED_TWICE
from tests.toolchain.passes.test_sliced_joins import answer as joined_twice
from tests.toolchain.passes.test_sort_networks import SORT as SORTED
from tests.toolchain.passes.test_split_scatters import MANY as SCATTERED
from tests.toolchain.passes.test_spread_windows import LARGEST
from tests.toolchain.passes.test_strided_slices import COLUMN, FILTER, reversed_slice
from tests.toolchain.passes.test_whole_scatters import PADDED as SCATTERED_AND_PADDED
from tests.toolchain.passes.test_wide_sums import MEAN
from tests.toolchain.passes.test_widened_rows import CENTRED

PATIENCE = 30.0
"""Seconds: with its pass the program takes 5."""

RNG = np.random.default_rng(5)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A program that the compiler gets wrong.

    Attributes:
        name: the pass that makes it right.
        text: the program.
        target: what it is compiled for.
        says: a part of the refusal; None where there is a module.
        inputs: what its module is called with.
        right: the answer by NumPy; None where the call itself fails.
        holds: what is wrong in the code itself, for devices that are not here: a pattern of bytes.
        ends: whether the compiler ends within `PATIENCE` seconds.
    """

    name: str
    text: str
    target: str = "cpu"
    says: str | None = None
    inputs: tuple[np.ndarray, ...] = ()
    right: Callable[..., Any] | None = None
    holds: bytes | None = None
    ends: bool = True

    @property
    def id(self) -> str:
        return f"{self.name}-{self.target}"


def _function(arguments: str, result: str, body: str) -> str:
    return f"func.func public @main({arguments}) -> {result} {{\n{body}\n}}\n"


def _binary(operation: str, kind: str) -> str:
    return _function(
        f"%x: tensor<{kind}>, %y: tensor<{kind}>",
        f"tensor<{kind}>",
        f"  %0 = stablehlo.{operation} %x, %y : tensor<{kind}>\n  return %0 : tensor<{kind}>",
    )


def _convert(source: str, result: str) -> str:
    return _function(
        f"%x: tensor<{source}>",
        f"tensor<{result}>",
        f"  %0 = stablehlo.convert %x : (tensor<{source}>) -> tensor<{result}>\n"
        f"  return %0 : tensor<{result}>",
    )


def _reduced(step: str, kind: str, first: str, before: str = "", source: str = "") -> str:
    """All of `%x`, or of `%y` that is computed before."""
    element = kind.partition("x")[2]
    given = source or kind
    types = f"(tensor<{given}>) -> tensor<{kind}>" if "convert" in before else ""
    types = types or f"tensor<{given}>, tensor<{kind}>"
    return _function(
        f"%x: tensor<{given}>",
        f"tensor<{element}>",
        (f"  {before} : {types}\n" if before else "")
        + f"  %first = stablehlo.constant dense<{first}> : tensor<{element}>\n"
        f"  %0 = stablehlo.reduce({'%y' if before else '%x'} init: %first) applies "
        f"stablehlo.{step} across dimensions = [0] : (tensor<{kind}>, tensor<{element}>) "
        f"-> tensor<{element}>\n"
        f"  return %0 : tensor<{element}>",
    )


def _long_tail(times: int, each: int) -> str:
    """A sum and much that is computed of it, then of a slice, each step from what came before."""
    wide, narrow = "tensor<256x8xf32>", "tensor<176x3xf32>"
    lines = []
    for start, kind in (("v", wide), ("s", narrow)):
        last = f"%{start}"
        for n in range(times):
            here = last
            for m in range(each):
                name = f"{start}{n}_{m}"
                lines.append(f"  %p{name} = stablehlo.multiply {here}, {last} : {kind}")
                lines.append(f"  %q{name} = stablehlo.maximum %p{name}, {here} : {kind}")
                here = f"%q{name}"
            last = f"%c{start}{n}"
            lines.append(f"  {last} = stablehlo.add {here}, %{start} : {kind}")
        if start == "v":
            lines.append(f"  %s = stablehlo.slice {last} [43:219, 2:5] : ({wide}) -> {narrow}")
    return _function(
        "%x: tensor<256x64x8xf32>",
        narrow,
        f"""  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %v = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<256x64x8xf32>, tensor<f32>) -> {wide}
"""
        + "\n".join([*lines, f"  return {last} : {narrow}"]),
    )


# Mesa's llvmpipe ends every loop after 65,535 rounds.
MANY = _function(
    "%x: tensor<131072xf32>",
    "tensor<f32>",
    """  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<131072xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>""",
)
LONG = _function(
    "%x: tensor<131072xf32>",
    "tensor<131072xf32>",
    """  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 131072>, padding = dense<[[131071, 0]]> : tensor<1x2xi64>}
    : (tensor<131072xf32>, tensor<f32>) -> tensor<131072xf32>
  return %0 : tensor<131072xf32>""",
)
DYNAMIC = _function(
    "%x: tensor<?x?xf32>",
    "tensor<f32>",
    """  %0 = stablehlo.dot_general %x, %x, contracting_dims = [0, 1] x [0, 1]
    : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<f32>
  return %0 : tensor<f32>""",
)
NAMED = _function(
    "%x: tensor<2x4x8xbf16>, %y: tensor<2x8x5xbf16>",
    "tensor<2x4x5xf32>",
    """  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1],
    algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32,
      lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
      allow_imprecise_accumulation = false>
    : (tensor<2x4x8xbf16>, tensor<2x8x5xbf16>) -> tensor<2x4x5xf32>
  return %0 : tensor<2x4x5xf32>""",
)
FOURIER = _function(
    "%x: tensor<6xcomplex<f32>>",
    "tensor<6xcomplex<f32>>",
    """  %0 = stablehlo.fft %x, type = FFT, length = [6]
    : (tensor<6xcomplex<f32>>) -> tensor<6xcomplex<f32>>
  return %0 : tensor<6xcomplex<f32>>""",
)


HASHED = _function(
    "%x: tensor<64x128xui32>",
    "tensor<64x128xui32>",
    """  %c = stablehlo.constant dense<5> : tensor<64x128xui64>
  %s = stablehlo.constant dense<32> : tensor<64x128xui64>
  %0 = stablehlo.convert %x : (tensor<64x128xui32>) -> tensor<64x128xui64>
  %1 = stablehlo.multiply %0, %c : tensor<64x128xui64>
  %2 = stablehlo.shift_right_logical %1, %s : tensor<64x128xui64>
  %3 = stablehlo.convert %2 : (tensor<64x128xui64>) -> tensor<64x128xui32>
  return %3 : tensor<64x128xui32>""",
)


def _product(left: str, right: str, result: str, more: str = "") -> str:
    return _function(
        f"%x: tensor<{left}>, %y: tensor<{right}>",
        f"tensor<{result}>",
        f"""  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]{more}
    : (tensor<{left}>, tensor<{right}>) -> tensor<{result}>
  return %0 : tensor<{result}>""",
    )


POOLING = _function(
    "%x: tensor<5x6xf32>, %y: tensor<3x5xf32>",
    "tensor<5x6xf32>",
    """  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %y, %i) <{window_dimensions = array<i64: 3, 2>,
      window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<5x6xf32>, tensor<3x5xf32>, tensor<f32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>""",
)
WORDS = _function(
    "%x: tensor<3xui64>",
    "tensor<3x2xui32>",
    """  %0 = stablehlo.bitcast_convert %x : (tensor<3xui64>) -> tensor<3x2xui32>
  return %0 : tensor<3x2xui32>""",
)
GUARDED = _function(
    "%x: tensor<4x5xui8>, %y: tensor<5x4xui8>",
    "tensor<4x4xi32>",
    """  %a = stablehlo.convert %x : (tensor<4x5xui8>) -> tensor<4x5xi32>
  %b = stablehlo.convert %y : (tensor<5x4xui8>) -> tensor<5x4xi32>
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x5xi32>, tensor<5x4xi32>) -> tensor<4x4xi32>
  return %0 : tensor<4x4xi32>""",
)
SORT = _function(
    "%x: tensor<40xi32>",
    "tensor<40xi32>",
    """  %y = stablehlo.iota dim = 0 : tensor<40xi32>
  %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare GT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<40xi32>, tensor<40xi32>) -> (tensor<40xi32>, tensor<40xi32>)
  return %0#1 : tensor<40xi32>""",
)
ROWS = _function(
    "%x: tensor<5x3xf32>, %i: tensor<4x1xi32>",
    "tensor<4x3xf32>",
    """  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>""",
)
SELECT = _function(
    "%p: tensor<4xi1>, %x: tensor<4xcomplex<f32>>, %y: tensor<4xcomplex<f32>>",
    "tensor<4xcomplex<f32>>",
    """  %0 = stablehlo.select %p, %x, %y : tensor<4xi1>, tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>""",
)
SINE = _function(
    "%x: tensor<4xf64>",
    "tensor<4xf64>",
    "  %0 = stablehlo.sine %x : tensor<4xf64>\n  return %0 : tensor<4xf64>",
)
GROUPS = _function(
    "%x: tensor<1x6x6x4xf32>, %w: tensor<3x3x2x8xf32>",
    "tensor<1x4x4x8xf32>",
    """  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<1x6x6x4xf32>, tensor<3x3x2x8xf32>) -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>""",
)
THREE_OF_FOUR = """
func.func @main(%x: tensor<1x4x16x8xf32>) -> tensor<1x1x8x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 3, 2, 1>,
    window_strides = array<i64: 1, 3, 2, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<1x4x16x8xf32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  return %0 : tensor<1x1x8x8xf32>
}"""
HIDDEN = """
#left = affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d0, d4)>
#right = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4, d0, d3)>
#into = affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d0, d3)>
func.func public @main(%x: tensor<2x2x?xf32>, %y: tensor<2x?x3xf32>) -> tensor<2x2x3xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %one = util.optimization_barrier %c1 : index
  %k = tensor.dim %x, %c2 : tensor<2x2x?xf32>
  %a = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [2, 2, %one, %k]
    : tensor<2x2x?xf32> into tensor<2x2x?x?xf32>
  %loose = tensor.cast %y : tensor<2x?x3xf32> to tensor<2x?x?xf32>
  %b = tensor.expand_shape %loose [[0], [1], [2, 3]] output_shape [2, %k, %one, 3]
    : tensor<2x?x?xf32> into tensor<2x?x?x3xf32>
  %empty = tensor.empty(%one) : tensor<2x2x?x3xf32>
  %none = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x2x?x3xf32>) -> tensor<2x2x?x3xf32>
  %sum = linalg.generic {indexing_maps = [#left, #right, #into],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<2x2x?x?xf32>, tensor<2x?x?x3xf32>) outs(%none : tensor<2x2x?x3xf32>) {
  ^bb0(%p: f32, %q: f32, %before: f32):
    %product = arith.mulf %p, %q : f32
    %after = arith.addf %before, %product : f32
    linalg.yield %after : f32
  } -> tensor<2x2x?x3xf32>
  %flat = tensor.collapse_shape %sum [[0], [1], [2, 3]]
    : tensor<2x2x?x3xf32> into tensor<2x2x?xf32>
  %result = tensor.cast %flat : tensor<2x2x?xf32> to tensor<2x2x3xf32>
  return %result : tensor<2x2x3xf32>
}
"""
"""A product with a batch, and one more of a size 1 that the compiler does not see, which is how
`dynamic-shapes` keeps products from data tiling: not for SPIR-V, where all answers are 0."""
ZEROS = _function(
    "%x: tensor<4xi8>",
    "tensor<4xi8>",
    "  %0 = stablehlo.count_leading_zeros %x : tensor<4xi8>\n  return %0 : tensor<4xi8>",
)


def _grouped(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(0, 1))
    halves = [
        np.einsum("hwcij,ijco->hwo", windows[:, :, 2 * g : 2 * g + 2], w[..., 4 * g : 4 * g + 4])
        for g in (0, 1)
    ]
    return np.concatenate(halves, 2)[None]


def _normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _random(kind: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max, shape, kind, endpoint=True)


def _wide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.astype(np.int32) @ y.astype(np.int32)


FAULTS = (
    Fault(name="dynamic-shapes", text=DYNAMIC, says="dot_general"),
    Fault(
        name="dynamic-shapes",
        text=HIDDEN,
        target="vulkan",
        inputs=(_normal(2, 2, 8), _normal(2, 8, 3)),
        right=np.matmul,
    ),
    Fault(name="fourier-products", text=FOURIER, says="stablehlo.fft"),
    Fault(
        name="complex-products",
        text=_product("4x8xcomplex<f32>", "8x4xcomplex<f32>", "4x4xcomplex<f32>"),
        says="padding vector elemental type",
    ),
    Fault(name="spread-selected", text=POOLING, says="select_and_scatter"),
    Fault(name="spread-windows", text=LARGEST, says="expected number of yield values"),
    Fault(
        name="brain-conversions",
        text=_convert("64xi32", "64xbf16"),
        target="vulkan",
        says="bitwidth",
    ),
    Fault(
        name="scale-floats",
        text=_function(
            "%x: tensor<4xf32>",
            "tensor<4xi8>",
            """  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf8E8M0FNU>
  %1 = stablehlo.bitcast_convert %0 : (tensor<4xf8E8M0FNU>) -> tensor<4xi8>
  return %1 : tensor<4xi8>""",
        ),
        inputs=(np.array([1.9, 3, 0, -1], np.float32),),
        right=lambda x: np.array([-128, -127, -1, -1], np.int8),
    ),
    Fault(
        name="brain-floats",
        text=_product("4x32xbf16", "32x64xbf16", "4x64xbf16"),
        target="vulkan",
        says="vector.bitcast",
    ),
    Fault(
        name="half-floats",
        text=_function(
            "%x: tensor<8xf16>",
            "tensor<8xf16>",
            "  %0 = stablehlo.add %x, %x : tensor<8xf16>\n  return %0 : tensor<8xf16>",
        ),
        target="wasm",
    ),
    Fault(
        name="split-conversions",
        text=_convert("4xi64", "4xf32"),
        target="cpu:armv7",
        says="__aeabi_l2f",
    ),
    Fault(name="signless-integers", text=WINDOW, says="unresolved target materialization"),
    Fault(
        name="free-bitcasts",
        text=WORDS,
        target="vulkan",
        inputs=(np.array([1, 2**32, 2**33 + 3], np.uint64),),
        right=lambda x: x.view(np.uint32).reshape(3, 2),
    ),
    Fault(
        name="guard-products",
        text=GUARDED,
        inputs=(_random(np.uint8, 4, 5), _random(np.uint8, 5, 4)),
        right=_wide,
    ),
    Fault(name="plain-products", text=NAMED, says="dot_general"),
    Fault(name="strided-slices", text=reversed_slice(3, 2), says="unrealized_conversion_cast"),
    Fault(name="strided-slices", text=COLUMN, says="unrealized_conversion_cast"),
    Fault(name="strided-slices", text=FILTER, target="cuda:sm_90", says="bufferize"),
    Fault(name="flatten-scatters", text=WINDOWS, says="expected indices"),
    Fault(
        name="stable-sorts",
        text=SORT,
        inputs=(np.arange(40, dtype=np.int32) % 3,),
        right=lambda x: np.argsort(-x, kind="stable"),
    ),
    Fault(
        name="bound-gathers",
        text=ROWS,
        inputs=(
            np.arange(15, dtype=np.float32).reshape(5, 3),
            np.array([[-1], [1], [5], [6]], np.int32),
        ),
        right=lambda x, _: x[[0, 1, 4, 4]],
    ),
    Fault(
        name="signed-powers",
        text=_binary("power", "4xf32"),
        inputs=(np.array([-2, -1, 0, 3], np.float32), np.array([5, 4, 0, 2], np.float32)),
        right=np.power,
    ),
    Fault(name="split-complex", text=SELECT, target="vulkan", says="arith.select"),
    Fault(name="split-complex", text=TURNS, target="vulkan", says="arith.constant"),
    Fault(name="double-functions", text=SINE, says="sin"),
    Fault(
        name="separate-groups",
        text=GROUPS,
        target="vulkan",
        inputs=(_normal(1, 6, 6, 4), _normal(3, 3, 2, 8)),
        right=_grouped,
    ),
    Fault(name="count-zeros", text=ZEROS, target="vulkan", says="math.ctlz"),
    Fault(
        name="narrow-integers",
        text=_convert("128xi64", "128xi32"),
        target="vulkan",
        says="vector.broadcast",
    ),
    Fault(name="pair-integers", text=HASHED, target="vulkan", says="failed to legalize"),
    Fault(name="plain-depthwise", text=depthwise_of("f16", "f32"), says="collapsed type"),
    Fault(
        name="separate-bytes",
        text=_product("4x32xi8", "32x16xi8", "4x16xi32"),
        target="vulkan",
        inputs=(_random(np.int8, 4, 32), _random(np.int8, 32, 16)),
        right=_wide,
    ),
    Fault(name="widened-rows", text=CENTRED, target="vulkan", says="shared memory"),
    Fault(
        name="separate-reductions",
        text=quotient(0, "10x5", "1, 2"),
        target="vulkan",
        inputs=(RNG.uniform(0.1, 1, (6, 10, 5)).astype(np.float32),),
        right=lambda x: x / np.tanh(x.sum(0, keepdims=True)),
    ),
    Fault(
        name="separate-reductions",
        text=SPREAD,
        target="vulkan",
        inputs=tuple(
            RNG.normal(size=shape).astype(np.float32)
            for shape in ((40, 64), (64, 40), (40, 40), (5, 40, 40))
        ),
        right=lambda x, w, _, every: np.tanh(x @ w) * every,
    ),
    Fault(
        name="separate-pads",
        text=PADDED_TWICE,
        says="restricted to workgroup distributed contexts",
    ),
    Fault(
        name="sort-networks",
        text=SORTED.format(count=1000),
        target="vulkan",
        inputs=(RNG.normal(size=1000).astype(np.float32),),
        right=np.sort,
    ),
    Fault(
        name="split-scatters",
        text=SCATTERED,
        target="vulkan",
        inputs=(
            np.zeros((3, 16384), np.float32),
            np.array([[0], [2], [2], [1], [0]], np.int32),
            np.ones((5, 16384), np.float32),
        ),
        right=lambda x, _, updates: np.add.reduceat(updates[[0, 4, 3, 1, 2]], [0, 2, 3]) + x,
    ),
    Fault(
        name="separate-slices",
        text=sliced("8x72", "0:8, 2:66", "8x64"),
        target="vulkan",
        inputs=(RNG.normal(size=(8, 72)).astype(np.float32),),
        right=lambda x: np.abs(x[:, 2:66]),
    ),
    Fault(
        name="split-reductions",
        text=MANY,
        target="vulkan",
        inputs=(np.ones(131072, np.float32),),
        right=np.sum,
    ),
    Fault(
        name="split-products",
        text=_product("1x131072xf32", "131072x1xf32", "1x1xf32"),
        target="vulkan",
        inputs=(np.ones((1, 131072), np.float32), np.ones((131072, 1), np.float32)),
        right=np.matmul,
    ),
    Fault(
        name="split-windows",
        text=LONG,
        target="vulkan",
        inputs=(np.ones(131072, np.float32),),
        right=np.cumsum,
    ),
    Fault(
        name="own-updates",
        text=_function(
            "%x: tensor<64x8xf32>",
            "(tensor<64x8xf32>, tensor<64x8xf32>)",
            """  %row = stablehlo.constant dense<-1.0> : tensor<1x8xf32>
  %i = stablehlo.constant dense<5> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %x, %row, %i, %i
    : (tensor<64x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<64x8xf32>
  return %x, %0 : tensor<64x8xf32>, tensor<64x8xf32>""",
        ),
        inputs=(np.ones((64, 8), np.float32),),
        right=lambda x: np.stack([x, np.where(np.arange(64)[:, None] == 5, -1, x)]),
    ),
    Fault(
        name="own-updates",
        text=_function(
            "%x: tensor<32x64xf32>, %y: tensor<32x64xf32>, %z: tensor<32x64xf32>",
            "(tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>)",
            """  %two = stablehlo.constant dense<2.0> : tensor<32x64xf32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %nine = stablehlo.constant dense<9> : tensor<i32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %double = stablehlo.multiply %y, %two : tensor<32x64xf32>
  %row = stablehlo.slice %z [0:1, 0:64] : (tensor<32x64xf32>) -> tensor<1x64xf32>
  %0 = stablehlo.dynamic_update_slice %double, %row, %three, %first
    : (tensor<32x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<32x64xf32>
  %most = stablehlo.reduce(%double init: %least) applies stablehlo.maximum
    across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
  %flat = stablehlo.reshape %most : (tensor<64xf32>) -> tensor<1x64xf32>
  %own = stablehlo.add %x, %z : tensor<32x64xf32>
  %1 = stablehlo.dynamic_update_slice %own, %flat, %nine, %first
    : (tensor<32x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<32x64xf32>
  return %0, %double, %1 : tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>""",
        ),
        inputs=(_normal(32, 64), _normal(32, 64), _normal(32, 64)),
        right=lambda x, y, z: np.stack(
            [
                np.where(np.arange(32)[:, None] == 3, z[0], 2 * y),
                2 * y,
                np.where(np.arange(32)[:, None] == 9, (2 * y).max(0), x + z),
            ]
        ),
    ),
    Fault(
        name="part-factors",
        text=_function(
            "%x: tensor<1x64xf32>, %w: tensor<64x540672xf32>",  # 132 MiB
            "tensor<1x540672xf32>",
            "%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : "
            "(tensor<1x64xf32>, tensor<64x540672xf32>) -> tensor<1x540672xf32>\n"
            "return %0 : tensor<1x540672xf32>",
        ),
        target="vulkan",
        inputs=(np.ones((1, 64), np.float32), np.zeros((64, 540672), np.float32)),
    ),
    Fault(name="complex-apart", text=TURNED, target="cuda:sm_90", says="Stack dump"),
    Fault(
        name="chosen-once",
        text=MASKED_TWICE,
        inputs=(_normal(5), _normal(5, 5), np.array([True, False, True, True, False])),
        right=lambda *given: np.stack(masked_twice(*given)),
    ),
    Fault(
        name="chosen-truths",
        text=_function(
            "%x: tensor<3xf32>, %m: tensor<3x3xi1>",
            "tensor<3xf32>",
            """  %0 = stablehlo.convert %m : (tensor<3x3xi1>) -> tensor<3x3xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0]
    : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>""",
        ),
        says="'linalg.vecmat' op expected type of bb argument",
    ),
    Fault(name="both-branches", text=CHOICES, says="failed to solve for timepoint coverage"),
    Fault(
        name="complex-ranges",
        text=_function(
            "%x: tensor<4xcomplex<f32>>",
            "tensor<4xf32>",
            "  %0 = stablehlo.abs %x : (tensor<4xcomplex<f32>>) -> tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>",
        ),
        inputs=(np.array([1e-30j, 1e-25, 3e30, 1 + 1j], np.complex64),),
        right=np.abs,
    ),
    Fault(
        name="signed-angles",
        text=_binary("atan2", "4xf32"),
        inputs=(np.array([0, -0.0, 1, 2], np.float32), np.array([0, -1, 1, -2], np.float32)),
        right=np.arctan2,
    ),
    Fault(
        name="far-angles",
        text=_function(
            "%x: tensor<4xf32>",
            "tensor<4xf32>",
            "  %0 = stablehlo.sine %x : tensor<4xf32>\n  return %0 : tensor<4xf32>",
        ),
        inputs=(np.array([1e5, 1e6, 1e8, 1e10], np.float32),),
        right=lambda x: np.sin(x.astype(np.float64)),
    ),
    Fault(
        name="feature-groups",
        text=_function(
            "%x: tensor<4x6x6x3xf32>, %w: tensor<3x3x3x4xf32>",
            "tensor<2x4x4x4xf32>",
            """  %0 = stablehlo.convolution(%x, %w)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64}
    : (tensor<4x6x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x4x4x4xf32>
  return %0 : tensor<2x4x4x4xf32>""",
        ),
        target="vulkan",
        inputs=(np.ones((4, 6, 6, 3), np.float32), np.ones((3, 3, 3, 4), np.float32)),
        right=lambda x, w: np.full((2, 4, 4, 4), 27.0),
    ),
    Fault(
        name="spelled-functions",
        text=_function(
            "%x: tensor<4xf32>",
            "tensor<4xf32>",
            "  %0 = chlo.digamma %x : tensor<4xf32> -> tensor<4xf32>\n  return %0 : tensor<4xf32>",
        ),
        inputs=(np.array([-1e-9, -1e-12, -1e-20, 2.0], np.float32),),
        right=lambda x: np.array([1e9, 1e12, 1e20, 0.42278433]),
    ),
    Fault(
        name="edge-values",
        text=_function(
            "%x: tensor<4xf32>",
            "tensor<4xf32>",
            "  %0 = stablehlo.cbrt %x : tensor<4xf32>\n  return %0 : tensor<4xf32>",
        ),
        inputs=(np.array([np.inf, -np.inf, 8.0, -1.0], np.float32),),
        right=np.cbrt,
    ),
    Fault(
        name="exact-remainders",
        text=_binary("remainder", "3xf32"),
        target="vulkan",
        inputs=(np.array([1, 9, 1e6], np.float32), np.full(3, 0.1, np.float32)),
        right=np.fmod,
    ),
    Fault(
        name="summed-products",
        text=_function(
            "%x: tensor<64x64xf32>",
            "tensor<64xf32>",
            """  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.negate %x : tensor<64x64xf32>
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>""",
        ),
        target="cuda:sm_80",
        says="neutral element",
    ),
    Fault(
        name="summed-products",
        text=_function(
            "%x: tensor<2x3xf32>, %w: tensor<3xf32>",
            "tensor<f32>",
            """  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.multiply %x, %1 : tensor<2x3xf32>
  %3 = stablehlo.reduce(%2 init: %0) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>""",
        ),
        says="invalid accumulator/result vector shape",
    ),
    Fault(
        name="separate-updates",
        text=_function(
            "%x: tensor<5x4xf64>, %i: tensor<3x1xi32>",
            "tensor<5x4xf64>",
            """  %zero = stablehlo.constant dense<0.0> : tensor<5x4xf64>
  %0 = "stablehlo.gather"(%x, %i) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>
  }> : (tensor<5x4xf64>, tensor<3x1xi32>) -> tensor<3x4xf64>
  %1 = "stablehlo.scatter"(%zero, %i, %0) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %2 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %2 : tensor<f64>
  }) : (tensor<5x4xf64>, tensor<3x1xi32>, tensor<3x4xf64>) -> tensor<5x4xf64>
  return %1 : tensor<5x4xf64>""",
        ),
        target="cuda:sm_80",
        says="hoisting patterns",
    ),
    Fault(name="loop-order", text=MEETING, says="without cyclic dependencies"),
    Fault(
        name="read-carried",
        text=_function(
            "%x: tensor<f32>, %y: tensor<f32>",
            "tensor<f32>",
            """  %0:2 = stablehlo.while(%v = %x, %last = %y) : tensor<f32>, tensor<f32>
  cond {
    %1 = stablehlo.compare LT, %v, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %v, %v : tensor<f32>
    %3 = stablehlo.sine %v : tensor<f32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<f32>
  }
  return %0#1 : tensor<f32>""",
        ),
        says="region successor needs",
    ),
    Fault(
        name="nan-extrema",
        text=_reduced("maximum", "4096xf32", "0xFF800000"),
        target="vulkan:nvidia-hopper",
        holds=rb"\x66\x01\x06\x00",  # OpGroupNonUniformFMax, of six words
    ),
    Fault(
        name="neutral-numbers",
        text=_reduced("minimum", "4096xi32", "2147483647"),
        target="cuda:sm_90",
        holds=rb"min\.s32[^;]*, -1;",
    ),
    Fault(
        name="neutral-numbers",
        text=_reduced("minimum", "96xi32", "2147483647"),
        target="vulkan:nvidia-hopper",
        holds=rb"\x2b\x00\x04\x00[\s\S]{8}\xff\xff\xff\xff",  # OpConstant of -1
    ),
    Fault(
        name="whole-scatters",
        text=SCATTERED_AND_PADDED,
        target="vulkan",
        says="Please report issues",
    ),
    Fault(name="short-tails", text=_long_tail(3, 20), target="vulkan:amd-rdna3", ends=False),
    Fault(
        name="negated-sums",
        text=_function(
            "%x: tensor<6400xf32>",
            "tensor<f32>",
            """  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.negate %x : tensor<6400xf32>
  %0 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<6400xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>""",
        ),
        target="vulkan:nvidia-hopper",
        says="Failed to get an identity value",
    ),
    Fault(
        name="wide-reductions",
        text=_reduced("add", "4096xi64", "0", "%y = stablehlo.convert %x", "4096xi1"),
        target="cuda:sm_90",
        says="failed to distribute",
    ),
    Fault(
        name="written-counts",
        text=_reduced(
            "minimum",
            "1024xi32",
            "2147483647",
            """%n = stablehlo.iota dim = 0 : tensor<1024xi32>
  %end = stablehlo.constant dense<2147483647> : tensor<1024xi32>
  %y = stablehlo.select %x, %n, %end""",
            "1024xi1",
        ),
        target="vulkan:nvidia-hopper",
        says="memref.alloc",
    ),
    Fault(name="sliced-joins", text=JOINED_TWICE, inputs=(JOINED,), right=joined_twice),
    Fault(name="trim-unread", text=THREE_OF_FOUR, says="to be 4, but found 3"),
    Fault(
        name="wide-sums",
        text=MEAN,
        target="vulkan",
        inputs=(RNG.uniform(0, 20, (4, 56, 56)).astype(np.float16),),
        right=lambda x: x.astype(np.float64).mean((1, 2), keepdims=True),
    ),
)


def _plainly(fault: Fault, folder: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The program through the compiler alone."""
    source, module = folder / "program.mlir", folder / "program.vmfb"
    source.write_text(fault.text)
    line = command_line(compiler_path(), source, module, compile_flags(find(fault.target)))
    limit = None if fault.ends else PATIENCE
    return module, subprocess.run(
        line, capture_output=True, text=True, check=False, cwd=folder, timeout=limit
    )


def _runs_in_node(folder: Path) -> bool:
    """Whether node loads the folder's module, of one argument of eight halves, and calls it."""
    need_node()
    write_runtime_once(folder / "edgec-runtime")
    said = run_node(
        "print(await failure(load('program.vmfb').then("
        "(model) => model.main(new Uint16Array(8)))));",
        folder,
    )
    return said[0] == "none"


@pytest.mark.sweep(fast=22)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault,
            id=fault.id,
            marks=[
                *([pytest.mark.vulkan] if fault.target == "vulkan" else []),
                *([] if fault.ends else [pytest.mark.slow]),
            ],
        )
        for fault in FAULTS
    ],
)
def test_the_compiler_still_fails_here(fault: Fault, tmp_path: Path) -> None:
    if not fault.ends:
        with pytest.raises(subprocess.TimeoutExpired):
            _plainly(fault, tmp_path)
        return
    module, done = _plainly(fault, tmp_path)
    news = f"the compiler takes this now: see whether {fault.name} may go"
    if fault.says is not None:
        assert done.returncode != 0, news
        assert re.search(fault.says, done.stderr), done.stderr
        return
    assert done.returncode == 0, done.stderr
    if fault.holds is not None:
        assert re.search(fault.holds, module.read_bytes()), news
        return
    if fault.target == "wasm":
        assert not _runs_in_node(tmp_path), news
        return
    with er.load(module) as loaded:
        try:
            actual = np.asarray(loaded.main(*fault.inputs))
        except er.errors.DeviceError:
            return
    expected = fault.right(*fault.inputs)
    assert not np.allclose(actual, expected, rtol=1e-3, atol=1e-3), news


def test_every_workaround_has_a_program_that_needs_it() -> None:
    workarounds = {kind.name for kind in CATALOGUE if ".legalise." in kind.__module__}
    assert {fault.name for fault in FAULTS} == workarounds
