"""f16 where there is none: computed in f32, stored in 16 bits."""

from pathlib import Path

import numpy as np

from edgec import toolchain
from edgec.exporters import export
from edgec.toolchain.passes.legalise.half_floats import HalfFloats
from tests.js.node import need_node, run_node, write_runtime_once
from tests.toolchain.passes.before_after import rewrite


def test_what_lies_between_arguments_and_results_is_f32() -> None:
    count, after = rewrite(
        HalfFloats(),
        """func.func @main(%x: tensor<4xf16>, %y: tensor<4xf32>) -> (tensor<4xf16>, tensor<4xf32>) {
          %c = stablehlo.constant dense<1.5> : tensor<4xf16>
          %0 = stablehlo.add %x, %c : tensor<4xf16>
          %1 = stablehlo.exponential %0 : tensor<4xf16>
          return %1, %y : tensor<4xf16>, tensor<4xf32>
        }""",
    )
    assert count == 4
    assert "dense<1.500000e+00> : tensor<4xf32>" in after
    assert "stablehlo.exponential" in after and "tensor<4xf16> {" not in after
    assert after.count("stablehlo.convert") == 2


def test_a_program_without_halves_stays() -> None:
    text = """func.func @main(%x: tensor<4xbf16>) -> tensor<4xbf16> {
      %0 = stablehlo.add %x, %x : tensor<4xbf16>
      return %0 : tensor<4xbf16>
    }"""
    assert rewrite(HalfFloats(), text)[0] == 0


def test_a_model_in_halves_is_pytorchs_in_webassembly(tmp_path: Path) -> None:
    import torch

    need_node()
    write_runtime_once(tmp_path / "edgec-runtime")
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Embedding(50, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8), torch.nn.GELU()
    ).eval()
    tokens = torch.arange(6, dtype=torch.int32)[None]
    right = layers(tokens).detach().numpy()
    program = export(layers.to(torch.float16), (tokens,))
    options = toolchain.CompileOptions(output=tmp_path / "model.vmfb")
    made = toolchain.compile_with_report(program, "wasm", options)
    assert any("computed in f32" in note for note in made.report.notes)
    found = run_node(
        "const model = await load('model.vmfb');\n"
        "const [y] = await model.main(Int32Array.from([0, 1, 2, 3, 4, 5]));\n"
        "print(Array.from(new Uint16Array(y.buffer, y.byteOffset, y.length)));",
        tmp_path,
    )
    halves = np.array(found, np.uint16).view(np.float16).astype(np.float32).reshape(right.shape)
    np.testing.assert_allclose(halves, right, rtol=0, atol=4e-3)
