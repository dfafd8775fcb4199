"""Programs that every runtime must agree on, with what to call and what to give."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["PROGRAMS", "Call", "Program"]

_random = np.random.default_rng(4)


def _normal(*shape: int) -> np.ndarray:
    return _random.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call; calls of a program are made in order on one session."""

    function: str
    arguments: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Program:
    """StableHLO, and the calls to compare."""

    name: str
    text: str
    calls: tuple[Call, ...] = field(default_factory=tuple)


_SOFTMAX = """
func.func private @larger(%v0: tensor<f32>, %i0: tensor<i32>, %v1: tensor<f32>, %i1: tensor<i32>)
    -> (tensor<f32>, tensor<i32>) {
  %0 = stablehlo.compare GE, %v0, %v1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = stablehlo.select %0, %v0, %v1 : tensor<i1>, tensor<f32>
  %2 = stablehlo.select %0, %i0, %i1 : tensor<i1>, tensor<i32>
  return %1, %2 : tensor<f32>, tensor<i32>
}
func.func public @softmax(%x: tensor<7x33xf32>, %w: tensor<33x65xf32>, %v: tensor<65x10xf32>)
    -> (tensor<7x10xf32>, tensor<7xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<7x33xf32>, tensor<33x65xf32>) -> tensor<7x65xf32>
  %1 = stablehlo.tanh %0 : tensor<7x65xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
    : (tensor<7x65xf32>, tensor<65x10xf32>) -> tensor<7x10xf32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<7x10xf32>, tensor<f32>) -> tensor<7xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<7xf32>) -> tensor<7x10xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<7x10xf32>
  %6 = stablehlo.exponential %5 : tensor<7x10xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<7x10xf32>, tensor<f32>) -> tensor<7xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<7xf32>) -> tensor<7x10xf32>
  %9 = stablehlo.divide %6, %8 : tensor<7x10xf32>
  return %9, %3 : tensor<7x10xf32>, tensor<7xf32>
}
"""

_LAYERS = """
func.func public @convolve(%x: tensor<1x14x14x8xf32>, %k: tensor<3x3x8x16xf32>)
    -> tensor<1x7x7x16xf32> {
  %0 = stablehlo.convolution(%x, %k)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [2, 2], pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x14x14x8xf32>, tensor<3x3x8x16xf32>) -> tensor<1x7x7x16xf32>
  return %0 : tensor<1x7x7x16xf32>
}
func.func public @constants(%x: tensor<4x256xf32>) -> tensor<4x256xf32> {
  %c = stablehlo.iota dim = 0 : tensor<256xf32>
  %d = stablehlo.constant dense<"0xCDCCCC3DCDCC4C3E9A99993ECDCCCC3E"> : tensor<4xf32>
  %0 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<256xf32>) -> tensor<4x256xf32>
  %1 = stablehlo.broadcast_in_dim %d, dims = [0] : (tensor<4xf32>) -> tensor<4x256xf32>
  %2 = stablehlo.multiply %x, %0 : tensor<4x256xf32>
  %3 = stablehlo.add %2, %1 : tensor<4x256xf32>
  return %3 : tensor<4x256xf32>
}
"""

_CONTROL = """
func.func public @power(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %b = stablehlo.multiply %a, %half : tensor<4xf32>
      %s = stablehlo.sine %b : tensor<4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %s : tensor<i32>, tensor<4xf32>
    }
  return %r#1, %r#0 : tensor<4xf32>, tensor<i32>
}
func.func public @choose(%p: tensor<i1>, %x: tensor<5xi64>) -> tensor<5xi64> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.add %x, %x : tensor<5xi64>
    stablehlo.return %1 : tensor<5xi64>
  }, {
    %2 = stablehlo.negate %x : tensor<5xi64>
    stablehlo.return %2 : tensor<5xi64>
  }) : (tensor<i1>) -> tensor<5xi64>
  return %0 : tensor<5xi64>
}
func.func public @product(%a: tensor<?x8xf32>, %b: tensor<8x5xf32>) -> tensor<?x5xf32> {
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<?x8xf32>, tensor<8x5xf32>) -> tensor<?x5xf32>
  return %r : tensor<?x5xf32>
}
func.func public @same(%x: tensor<16xf32>) -> tensor<16xf32> { return %x : tensor<16xf32> }
func.func public @pair(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %r = stablehlo.negate %x : tensor<16xf32>
  return %r, %r : tensor<16xf32>, tensor<16xf32>
}
func.func public @nothing() -> tensor<16xf32> {
  %r = stablehlo.constant dense<2.5> : tensor<16xf32>
  return %r : tensor<16xf32>
}
"""

_STATE = """
module @state {
  util.global private mutable @counter = dense<3> : tensor<i32>
  util.global private mutable @memory = dense<1.0> : tensor<4xf32>
  util.global private @table = dense<[0.5, 1.5, -2.0, 4.0]> : tensor<4xf32>
  func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>) {
    %m = util.global.load @memory : tensor<4xf32>
    %c = util.global.load @counter : tensor<i32>
    %t = util.global.load @table : tensor<4xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %y = stablehlo.multiply %x, %t : tensor<4xf32>
    %m1 = stablehlo.add %m, %y : tensor<4xf32>
    %c1 = stablehlo.add %c, %one : tensor<i32>
    util.global.store %m1, @memory : tensor<4xf32>
    util.global.store %c1, @counter : tensor<i32>
    return %m1, %c1 : tensor<4xf32>, tensor<i32>
  }
  func.func @keep(%x: tensor<4xf32>) {
    util.global.store %x, @memory : tensor<4xf32>
    return
  }
  func.func @kept() -> tensor<4xf32> {
    %r = util.global.load @memory : tensor<4xf32>
    return %r : tensor<4xf32>
  }
}
"""

_TYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
}


def _types_text() -> str:
    parts = []
    for number, name in enumerate(_TYPES):
        tensor = f"tensor<?x3x{name}>"
        operation = "stablehlo.not %x" if name == "i1" else "stablehlo.add %x, %x"
        parts.append(
            f"func.func @twice{number}(%x: {tensor}) -> {tensor} {{\n"
            f"  %r = {operation} : {tensor}\n  return %r : {tensor} }}"
        )
    return "\n".join(parts)


def _types_calls() -> tuple[Call, ...]:
    calls = []
    for number, dtype in enumerate(_TYPES.values()):
        values = np.array([[0, 1, 2], [7, 100, 3]]).astype(dtype)
        calls.append(Call(function=f"twice{number}", arguments=(values,)))
        empty = np.zeros((0, 3), dtype)
        calls.append(Call(function=f"twice{number}", arguments=(empty,)))
    return tuple(calls)


_ROWS = """
func.func public @put(%x: tensor<6x6xf32>, %v: tensor<6xf32>, %all: tensor<5x4xf32>,
    %row: tensor<i32>) -> (tensor<5x4xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dot_general %v, %x, contracting_dims = [0] x [0]
    : (tensor<6xf32>, tensor<6x6xf32>) -> tensor<6xf32>
  %1 = stablehlo.slice %0 [0:2] : (tensor<6xf32>) -> tensor<2xf32>
  %2 = stablehlo.slice %0 [2:6] : (tensor<6xf32>) -> tensor<4xf32>
  %3 = stablehlo.tanh %1 : tensor<2xf32>
  %4 = stablehlo.reshape %2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %5 = stablehlo.dynamic_update_slice %all, %4, %row, %zero
    : (tensor<5x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<5x4xf32>
  return %5, %3 : tensor<5x4xf32>, tensor<2xf32>
}
func.func public @join(%x: tensor<3x6xf32>, %row: tensor<i32>, %y: tensor<5x6xf32>)
    -> tensor<9x6xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %x, %row, %zero, sizes = [1, 6]
    : (tensor<3x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
  %1 = stablehlo.tanh %y : tensor<5x6xf32>
  %2 = stablehlo.concatenate %x, %0, %1, dim = 0
    : (tensor<3x6xf32>, tensor<1x6xf32>, tensor<5x6xf32>) -> tensor<9x6xf32>
  return %2 : tensor<9x6xf32>
}
"""

PROGRAMS = (
    Program(
        name="softmax",
        text=_SOFTMAX,
        calls=(
            Call(function="softmax", arguments=(_normal(7, 33), _normal(33, 65), _normal(65, 10))),
        ),
    ),
    Program(
        name="layers",
        text=_LAYERS,
        calls=(
            Call(function="convolve", arguments=(_normal(1, 14, 14, 8), _normal(3, 3, 8, 16))),
            Call(function="constants", arguments=(_normal(4, 256),)),
        ),
    ),
    Program(
        name="control",
        text=_CONTROL,
        calls=(
            Call(function="power", arguments=(_normal(4), np.array(0, np.int32))),
            Call(function="power", arguments=(_normal(4), np.array(11, np.int32))),
            Call(function="choose", arguments=(np.array(True), np.array([1, -2, 3, 1 << 40, 5]))),
            Call(function="choose", arguments=(np.array(False), np.array([1, -2, 3, 1 << 40, 5]))),
            Call(function="product", arguments=(_normal(3, 8), _normal(8, 5))),
            Call(function="product", arguments=(_normal(1, 8), _normal(8, 5))),
            Call(function="product", arguments=(_normal(0, 8), _normal(8, 5))),
            Call(function="same", arguments=(_normal(16),)),
            Call(function="pair", arguments=(_normal(16),)),
            Call(function="nothing"),
        ),
    ),
    Program(
        name="state",
        text=_STATE,
        calls=(
            Call(function="kept"),
            Call(function="step", arguments=(_normal(4),)),
            Call(function="step", arguments=(_normal(4),)),
            Call(function="kept"),
            Call(function="keep", arguments=(_normal(4),)),
            Call(function="kept"),
            Call(function="step", arguments=(_normal(4),)),
        ),
    ),
    Program(
        name="rows",
        text=_ROWS,
        calls=(
            Call(
                function="put",
                arguments=(_normal(6, 6), _normal(6), _normal(5, 4), np.array(3, np.int32)),
            ),
            Call(function="join", arguments=(_normal(3, 6), np.array(1, np.int32), _normal(5, 6))),
        ),
    ),
    Program(name="types", text=_types_text(), calls=_types_calls()),
)
