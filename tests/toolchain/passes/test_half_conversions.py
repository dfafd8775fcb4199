"""Halves reach f32, and f32 halves, by their bits where the target has no f16."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.targets import find
from edgec.toolchain.flags import compile_flags
from edgec.toolchain.passes.simplify.half_conversions import HalfConversions
from edgec.toolchain.process import compiler_path
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
    [("f16", "f32", 1), ("bf16", "f32", 0), ("f32", "f16", 1), ("f16", "i32", 0)],
)
def test_only_halves_to_f32_and_back_are_rewritten(before: str, after: str, changed: int) -> None:
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


WEIGHTS = """
util.global private @scale = #stream.parameter.named<"model"::"scale"> : tensor<8x4xf16>
util.global private mutable @state = #stream.parameter.named<"model"::"s"> : tensor<8x4xf16>
util.global private @table = #stream.parameter.named<"model"::"t"> : tensor<{rows}x1024xf16>
"""
READ = """
func.func @{name}() -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<{rows}x1024xf32>) {{
  %0 = util.global.load @scale : tensor<8x4xf16>
  %1 = stablehlo.convert %0 : (tensor<8x4xf16>) -> tensor<8x4xf32>
  %2 = util.global.load @state : tensor<8x4xf16>
  %3 = stablehlo.convert %2 : (tensor<8x4xf16>) -> tensor<8x4xf32>
  %4 = util.global.load @table : tensor<{rows}x1024xf16>
  %5 = stablehlo.convert %4 : (tensor<{rows}x1024xf16>) -> tensor<{rows}x1024xf32>
  return %1, %3, %5 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<{rows}x1024xf32>
}}
"""


@pytest.mark.parametrize(("rows", "at_load"), [(512, 2), (513, 1)])
def test_small_weights_are_widened_once_at_load_for_all_functions(rows: int, at_load: int) -> None:
    """Up to a megabyte more; what a call changes, and what is larger, stays where it is read."""
    text = WEIGHTS.format(rows=rows)
    text += "".join(READ.format(rows=rows, name=name) for name in ("prefill", "decode"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert HalfConversions().run(module) == at_load + 2 * (3 - at_load)
        assert module.operation.verify()
        after = str(module)
    assert after.count("util.initializer") == 1
    assert after.count("util.global.store") == at_load
    assert after.count("util.global.load @__wide.scale") == 2
    assert "xf16>) -> tensor<8x4xf32>" not in after


def test_the_compiler_makes_no_initializer_for_each_step_of_a_weight() -> None:
    """It would for each weight and function, and each of its passes takes a while for each."""
    text = "".join(
        f'util.global private @w{n} = #stream.parameter.named<"m"::"w{n}"> : tensor<64xf16>\n'
        for n in range(4)
    )
    for name in ("prefill", "decode"):
        body = "".join(
            f"  %h{n} = util.global.load @w{n} : tensor<64xf16>\n"
            f"  %f{n} = stablehlo.convert %h{n} : (tensor<64xf16>) -> tensor<64xf32>\n"
            f"  %x{n + 1} = stablehlo.multiply %x{n}, %f{n} : tensor<64xf32>\n"
            for n in range(4)
        )
        text += (
            f"func.func @{name}(%x0: tensor<64xf32>) -> tensor<64xf32> {{\n{body}"
            "  return %x4 : tensor<64xf32>\n}\n"
        )
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        HalfConversions().run(module)
        written = str(module)
    line = [str(compiler_path()), "-", *compile_flags(find("wasm:plain")), "--compile-to=flow"]
    done = subprocess.run(line, input=written, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("util.initializer") == 1


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


NARROWED = """
func.func @main(%x: tensor<{count}xf32>) -> tensor<{count}xui16> {{
  %0 = stablehlo.convert %x : (tensor<{count}xf32>) -> tensor<{count}xf16>
  %1 = stablehlo.bitcast_convert %0 : (tensor<{count}xf16>) -> tensor<{count}xui16>
  return %1 : tensor<{count}xui16>
}}"""


def test_numbers_are_rounded_to_halves_as_numpy_rounds_them_in_webassembly(tmp_path: Path) -> None:
    """Every half, what lies midway between two and a bit beside that, and numbers of all sizes."""
    need_node()
    write_runtime_once(tmp_path / "edgec-runtime")
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float32)
    midway = (halves[:-2] + halves[1:-1]) / 2
    beside = [np.nextafter(midway, np.float32(end)) for end in (0, np.inf)]
    wide = np.random.default_rng(1).integers(0, 2**32, 70_000, np.uint32).view(np.float32)
    x = np.concatenate([halves, midway, -midway, *beside, wide]).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    (tmp_path / "narrow.mlir").write_text(NARROWED.format(count=x.size))
    options = toolchain.CompileOptions(output=tmp_path / "narrow.vmfb", check=False)
    toolchain.compile(tmp_path / "narrow.mlir", "wasm", options)
    found = run_node(
        "const fs = await import('node:fs');\n"
        "const bytes = fs.readFileSync('x.bin');\n"
        "const x = new Float32Array(bytes.buffer.slice(bytes.byteOffset,"
        " bytes.byteOffset + bytes.length));\n"
        "const model = await load('narrow.vmfb');\n"
        "const [y] = await model.main(x);\n"
        "print(Array.from(y));",
        tmp_path,
    )
    bits = np.array(found, np.uint16)
    numbers = ~np.isnan(x)
    with np.errstate(over="ignore"):
        right = x.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(bits[numbers], right[numbers])
    assert np.all(np.isnan(bits[~numbers].view(np.float16)))
