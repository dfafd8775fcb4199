"""The modules that calls.py measures: `python benchmarks/cuda/calls_modules.py FOLDER`, no GPU.

A language model beside them is any module of `edgec export model.gguf`, as those of
`python -m benchmarks.text.shapes`.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from edgec.toolchain import CompileOptions, compile

_TANH = """func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %y = stablehlo.tanh %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}"""
_PRODUCT = """func.func @main(%a: tensor<256x256xf32>, %b: tensor<256x256xf32>)
    -> tensor<256x256xf32> {
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %y : tensor<256x256xf32>
}"""
_LOOP = """func.func @main(%n: tensor<i32>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %h = stablehlo.constant dense<0.5> : tensor<64xf32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64xf32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
   } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.cosine %v : tensor<64xf32>
    %u = stablehlo.add %w, %h : tensor<64xf32>
    stablehlo.return %j, %u : tensor<i32>, tensor<64xf32>
  }
  return %r#1 : tensor<64xf32>
}"""


def _convolutions() -> str:
    """A stem, four residual pairs of 64 channels, and a layer over their means."""
    rng = np.random.default_rng(0)
    pairs = 0.05 * rng.standard_normal((8, 3, 3, 64, 64)).astype(np.float32)
    stem = 0.05 * rng.standard_normal((7, 7, 3, 64)).astype(np.float32)
    head = 0.1 * rng.standard_normal((64, 1000)).astype(np.float32)

    def conv(x: jax.Array, weights: np.ndarray, stride: int = 1) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, weights, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def net(x: jax.Array) -> jax.Array:
        x = jax.nn.relu(conv(x, stem, 4))
        for first, second in zip(pairs[::2], pairs[1::2], strict=True):
            x = jax.nn.relu(x + conv(jax.nn.relu(conv(x, first)), second))
        return x.mean((1, 2)) @ head

    image = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    return jax.jit(net).lower(image).as_text(dialect="stablehlo")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    programs = {"elementwise": _TANH, "product": _PRODUCT, "loop": _LOOP}
    for name, text in (programs | {"resnetlike": _convolutions()}).items():
        source = folder / f"{name}.mlir"
        source.write_text(text)
        compile(source, "cuda:sm_90", CompileOptions(output=folder / f"{name}.vmfb"))


if __name__ == "__main__":
    main()
