"""What several functions make of weights alone is made once; on Vulkan it gives what NumPy does."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import Bundle, Entry, export
from edgec.quantising import Scheme, quantise
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.place.made_once import MadeOnce
from edgec.toolchain.weights_file import write_weights
from tests.toolchain.passes.before_after import rewrite

WEIGHTS = """
util.global private @codes = #flow.parameter.named<"m"::"codes"> : tensor<64x128xi8>
util.global private {state} @other = dense<1> : tensor<64x128xi8>
"""
FUNCTION = """
func.func @{name}(%x: tensor<{rows}x128xf32>) -> tensor<{rows}x64xf32> {{
  %codes = util.global.load @{symbol} : tensor<64x128xi8>
  %numbers = stablehlo.convert %codes : (tensor<64x128xi8>) -> tensor<64x128xf32>
  %scale = stablehlo.constant dense<{scale}> : tensor<64x128xf32>
  %weights = stablehlo.multiply %numbers, %scale : tensor<64x128xf32>
  %y = stablehlo.dot_general %x, %weights, contracting_dims = [1] x [1]
    : (tensor<{rows}x128xf32>, tensor<64x128xf32>) -> tensor<{rows}x64xf32>
  return %y : tensor<{rows}x64xf32>
}}"""


def function(name: str, rows: int = 9, symbol: str = "codes", scale: float = 0.5) -> str:
    return FUNCTION.format(name=name, rows=rows, symbol=symbol, scale=scale)


@pytest.mark.parametrize(
    ("functions", "globals_made"),
    [
        ((function("a"), function("b", rows=20), function("c", rows=3)), 1),
        ((function("a"),), 0),
        ((function("a"), function("b", scale=0.25)), 0),
        ((function("a"), function("b", scale=0.25), function("c"), function("d", scale=0.25)), 2),
        ((function("a", symbol="other"), function("b", symbol="other")), 0),  # calls change it
    ],
)
def test_what_is_made_alike_is_one_global(functions: tuple[str, ...], globals_made: int) -> None:
    text = WEIGHTS.format(state="mutable") + "".join(functions)
    count, after = rewrite(MadeOnce(most_filled=1 << 20), text)
    assert count == globals_made
    assert after.count("util.initializer") == globals_made
    assert after.count("stablehlo.convert") == (globals_made or len(functions))


def test_what_is_much_larger_than_its_weights_stays_where_it_is() -> None:
    text = WEIGHTS.format(state="mutable") + function("a") + function("b")
    assert rewrite(MadeOnce(most_filled=1 << 14), text)[0] == 0


@pytest.mark.vulkan
def test_functions_that_share_weights_in_blocks_are_right(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    matrix = draw.standard_normal((256, 192)).astype(np.float32)
    given = {f"rows_{n}": draw.standard_normal((n, 256)).astype(np.float32) for n in (1, 16, 40)}
    entries = tuple(Entry(lambda x: x @ matrix, (x,), name=name) for name, x in given.items())
    floating = export(
        Bundle(entries), external_weights=tmp_path / "floats.safetensors", folder=tmp_path
    ).save(tmp_path / "floats.mlirbc")
    made = quantise(floating, Scheme.parse("int8-g32"), weights_file="codes.safetensors")
    write_weights(made.weights, tmp_path / "codes.safetensors")
    program = made.program.save(tmp_path / "codes.mlirbc")
    path = tmp_path / "shared.vmfb"
    toolchain.compile(
        program, "vulkan", CompileOptions(output=path)
    )  # its check is NumPy's answers
    with runtime.load(path, device="edgert://vulkan") as module:
        for name, x in given.items():
            right = x @ matrix
            assert np.abs(np.asarray(module[name](x)) - right).max() < 0.02 * np.abs(right).max()
