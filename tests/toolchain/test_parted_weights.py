"""What is computed of weights at load lies in buffers that a kernel may reach into."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgec import runtime
from edgec.exporters import export
from edgec.targets import Target, find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.flags import command_line, compile_flags
from edgec.toolchain.folded import FIRST_HALF, SECOND_HALF
from edgec.toolchain.parted_weights import part_weights
from edgec.toolchain.process import compiler_path, run_compiler

ANDROID = find("vulkan:android")
LAYER = 64 * 64 * 4
"""Bytes of a layer's weights."""


def layers(count: int) -> str:
    """Layers as PyTorch has them: their weights are turned when the module is loaded."""
    lines = ["func.func public @main(%x0: tensor<8x64xf32>) -> tensor<8x64xf32> {"]
    for n in range(count):
        lines += [
            f'%w{n} = flow.tensor.constant #flow.parameter.named<"w"::"{n}"> : tensor<64x64xf32>',
            f"%t{n} = stablehlo.transpose %w{n}, dims = [1, 0] "
            ": (tensor<64x64xf32>) -> tensor<64x64xf32>",
            f"%x{n + 1} = stablehlo.dot_general %x{n}, %t{n}, contracting_dims = [1] x [0] "
            ": (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>",
        ]
    return "\n".join([*lines, f"return %x{count} : tensor<8x64xf32>", "}"])


@pytest.mark.parametrize(
    ("held", "ends", "buffers"), [(6, 0, [6]), (2, 2, [2] * 3), (4, 1, [4, 2])]
)
def test_a_buffer_of_weights_ends_before_it_is_too_large(
    tmp_path: Path, held: int, ends: int, buffers: list[int]
) -> None:
    source, half, parted = (tmp_path / f"{name}.mlir" for name in ("whole", "half", "parted"))
    source.write_text(layers(6))
    flags = compile_flags(ANDROID)
    run_compiler(command_line(compiler_path(), source, half, [*flags, *FIRST_HALF]))
    assert part_weights(half, parted, most=held * LAYER) == ends
    text = tmp_path / "stream.mlir"
    words = [*flags, *SECOND_HALF, "--compile-to=stream"]
    run_compiler(command_line(compiler_path(), parted, text, words))
    made = re.findall(r"resource.alloca .*<constant>\{%c(\d+)", text.read_text())
    assert [int(size) // LAYER for size in made] == buffers


def stack(count: int, width: int) -> tuple[torch.nn.Sequential, torch.Tensor]:
    torch.manual_seed(0)
    each = [torch.nn.Linear(width, width, bias=False) for _ in range(count)]
    return torch.nn.Sequential(*each), torch.randn(128, width)


def check_on_vulkan(folder: Path, count: int, width: int, target: Target) -> None:
    network, x = stack(count, width)
    weights = folder / "weights.safetensors"
    program = export(network, (x,), external_weights=weights)
    module = compile(program, target, CompileOptions(output=folder / "net.vmfb", check=False))
    with runtime.load(module, device="edgert://vulkan", weights=weights) as loaded:
        found = loaded.main(x.numpy())
    with torch.no_grad():
        exact = network.double()(x.double()).numpy()
    np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.vulkan
def test_a_network_with_its_weights_in_several_buffers_is_right(tmp_path: Path) -> None:
    few = replace(ANDROID, limits=replace(ANDROID.limits, binding=2 * 128 * 128 * 4))
    check_on_vulkan(tmp_path, 5, 128, few)


@pytest.mark.slow
@pytest.mark.vulkan
def test_more_weights_than_a_kernel_may_reach_into_run_on_vulkan(tmp_path: Path) -> None:
    check_on_vulkan(tmp_path, 36, 1024, ANDROID)  # 144 MiB; llvmpipe takes 128 at once
