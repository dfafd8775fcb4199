"""Halves reach f32 by their bits where the target has no f16."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.toolchain.passes.simplify.half_conversions import HalfConversions
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.js.node import need_node, run_node, write_runtime_once

WIDENED = """
func.func @main(%x: tensor<65536xui16>) -> tensor<65536xf32> {
  %0 = stablehlo.bitcast_convert %x : (tensor<65536xui16>) -> tensor<65536xf16>
  %1 = stablehlo.convert %0 : (tensor<65536xf16>) -> tensor<65536xf32>
  return %1 : tensor<65536xf32>
}"""


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [("f16", "f32", 1), ("bf16", "f32", 0), ("f32", "f16", 0), ("f16", "i32", 0)],
)
def test_only_halves_to_f32_are_rewritten(before: str, after: str, changed: int) -> None:
    text = (
        f"func.func @main(%x: tensor<6x{before}>) -> tensor<6x{after}> {{\n"
        f"  %0 = stablehlo.convert %x : (tensor<6x{before}>) -> tensor<6x{after}>\n"
        f"  return %0 : tensor<6x{after}>\n}}"
    )
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert HalfConversions().run(module) == changed
        assert module.operation.verify()
        assert (f"(tensor<6x{before}>) -> tensor<6x{after}>" in str(module)) == (not changed)


def test_every_half_comes_out_exactly_in_webassembly(tmp_path: Path) -> None:
    need_node()
    write_runtime_once(tmp_path / "edgec-runtime")
    (tmp_path / "widen.mlir").write_text(WIDENED)
    options = toolchain.CompileOptions(output=tmp_path / "widen.vmfb", check=False)
    toolchain.compile(tmp_path / "widen.mlir", "wasm", options)
    found = run_node(
        "const model = await load('widen.vmfb');\n"
        "const [y] = await model.main(Uint16Array.from({ length: 65536 }, (_, i) => i));\n"
        "print(Array.from(new Uint32Array(y.buffer, y.byteOffset, y.length)));",
        tmp_path,
    )
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    bits = np.array(found, np.uint32)
    numbers = ~np.isnan(halves)
    assert np.array_equal(bits[numbers], halves[numbers].astype(np.float32).view(np.uint32))
    assert np.all(np.isnan(bits[~numbers].view(np.float32)))
