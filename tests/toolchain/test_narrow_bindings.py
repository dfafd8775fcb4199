"""Kernels are given of a buffer what they use, where the whole is more than they may reach into."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgec import runtime
from edgec.exporters import export
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.flags import command_line, compile_flags
from edgec.toolchain.folded import parse
from edgec.toolchain.narrow_bindings import narrow_bindings
from edgec.toolchain.process import compiler_path, run_compiler

ANDROID = find("vulkan:android")
PIECE = 512 * 64 * 4
"""Bytes of a layer's results."""


def layers(count: int) -> str:
    """Layers whose kernels are one, with where its weights and results lie as arguments."""
    kind = "tensor<512x64xf32>"
    lines = [f"func.func public @main(%x0: {kind}) -> {kind} {{"]
    for n in range(count):
        numbers = np.random.default_rng(n).uniform(-1, 1, 64 * 64).astype(np.float32)
        lines += [
            f'%w{n} = stablehlo.constant dense<"0x{numbers.tobytes().hex()}"> : tensor<64x64xf32>',
            f"%y{n} = stablehlo.dot_general %x{n}, %w{n}, contracting_dims = [1] x [0] "
            f": ({kind}, tensor<64x64xf32>) -> {kind}",
            f"%z{n} = stablehlo.tanh %y{n} : {kind}",
            f"%x{n + 1} = stablehlo.add %z{n}, %x0 : {kind}",
        ]
    return "\n".join([*lines, f"return %x{count} : {kind}", "}"])


@pytest.mark.parametrize("most", [PIECE, 1 << 27], ids=["too large", "it fits"])
def test_no_binding_is_larger_than_a_kernel_may_reach_into(tmp_path: Path, most: int) -> None:
    names = ("program", "laid-out", "narrow", "module")
    source, laid_out, narrow, module = (tmp_path / f"{name}.mlir" for name in names)
    source.write_text(layers(6))
    flags = compile_flags(ANDROID)
    run_compiler(command_line(compiler_path(), source, laid_out, [*flags, "--compile-to=stream"]))
    changed = narrow_bindings(laid_out, narrow, most=most)
    text = str(parse(narrow))
    bound = [int(n) for n in re.findall(r"[rw][ow] %\w+\[%\w+ for %c(\d+)", text)]
    assert bound
    assert (changed > 0) == (most == PIECE) == (max(bound) <= PIECE)
    after = [*flags, "--compile-from=stream"]
    run_compiler(command_line(compiler_path(), narrow, module, after))
    assert module.stat().st_size


class Branches(torch.nn.Module):
    """Several results that live at the same time, some of them of bytes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [torch.tanh(layer(x)) for layer in self.layers]
        signs = (parts[0] > parts[1]).cumsum(1)
        return torch.cat(parts, 1).softmax(1) @ parts[2].repeat(3, 1)[:192] + signs


@pytest.mark.slow
@pytest.mark.vulkan
def test_a_call_that_holds_more_is_right_on_vulkan(tmp_path: Path) -> None:
    network, x = Branches(), torch.randn(512, 64)
    few = replace(ANDROID, limits=replace(ANDROID.limits, binding=2 * PIECE))
    options = CompileOptions(output=tmp_path / "net.vmfb", check=False)
    with runtime.load(compile(export(network, (x,)), few, options), device="edgert://vulkan") as it:
        found = it.main(x.numpy())
    np.testing.assert_allclose(found, network(x).detach().numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.vulkan
def test_more_than_a_device_lets_a_kernel_reach_into_is_held_on_vulkan(tmp_path: Path) -> None:
    def network(x: torch.Tensor) -> torch.Tensor:
        parts = [torch.tanh(x * (n + 1)).reshape(64, -1) for n in range(5)]  # 32 MiB each
        return torch.stack([part.flip(0) @ part.T for part in parts]).sum(0)

    class Held(torch.nn.Module):
        forward = staticmethod(network)

    x = torch.randn(1 << 23)
    options = CompileOptions(output=tmp_path / "held.vmfb", check=False)
    module = compile(export(Held(), (x,)), ANDROID, options)
    with runtime.load(module, device="edgert://vulkan") as loaded:
        found = loaded.main(x.numpy())
    exact = network(x.double()).numpy()
    np.testing.assert_allclose(found, exact, atol=1e-4 * np.abs(exact).max())
