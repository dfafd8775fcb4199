"""Names of models to the modules that are measured, made where they are missing or out of date."""

from pathlib import Path

from benchmarks.peers.engines.edgec_engine import MODULE
from benchmarks.peers.engines.edgert_engine import EdgecOnEdgert
from benchmarks.peers.measure import ROOT, model_folder
from benchmarks.peers.models.catalogue import MODELS
from edgec import toolchain

__all__ = ["TITLES", "module"]

_PEERS = ("lstm", "mobilenet_v2", "minilm", "resnet50")
TITLES = {
    "mlp": "MLP of 16, 32 and 10",
    "recurrence": "recurrence, 100 steps of 64",
    **{name: MODELS[name].title for name in _PEERS},
}
"""From the smallest to the largest; all but two are models of `benchmarks.peers`."""

_SOURCES = {
    "mlp": """
func.func @main(%x: tensor<1x16xf32>) -> tensor<1x10xf32> {
  %k1 = stablehlo.constant dense<0.125> : tensor<16x32xf32>
  %b1 = stablehlo.constant dense<0.5> : tensor<1x32xf32>
  %k2 = stablehlo.constant dense<-0.25> : tensor<32x10xf32>
  %b2 = stablehlo.constant dense<1.0> : tensor<1x10xf32>
  %0 = stablehlo.dot_general %x, %k1, contracting_dims = [1] x [0]
    : (tensor<1x16xf32>, tensor<16x32xf32>) -> tensor<1x32xf32>
  %1 = stablehlo.add %0, %b1 : tensor<1x32xf32>
  %2 = stablehlo.tanh %1 : tensor<1x32xf32>
  %3 = stablehlo.dot_general %2, %k2, contracting_dims = [1] x [0]
    : (tensor<1x32xf32>, tensor<32x10xf32>) -> tensor<1x10xf32>
  %4 = stablehlo.add %3, %b2 : tensor<1x10xf32>
  return %4 : tensor<1x10xf32>
}
""",
    "recurrence": """
func.func @main(%x: tensor<1x64xf32>, %k: tensor<64x64xf32>) -> tensor<1x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %steps = stablehlo.constant dense<100> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<1x64xf32>
    cond {
      %c = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %p = stablehlo.dot_general %h, %k, contracting_dims = [1] x [0]
        : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
      %t = stablehlo.tanh %p : tensor<1x64xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<1x64xf32>
    }
  return %r#1 : tensor<1x64xf32>
}
""",
}


def module(name: str) -> Path:
    """The module of a model in `TITLES`, compiled for this machine."""
    if name in _PEERS:
        folder = model_folder(name)
        EdgecOnEdgert().build(MODELS[name], folder)
        return folder / MODULE
    folder = ROOT / "build" / "edgert" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.mlir"
    source.write_text(_SOURCES[name])
    options = toolchain.CompileOptions(output=source.with_suffix(".vmfb"), check=False)
    return toolchain.compile(source, "cpu:host", options).path
