"""A module for another device, CPU or version is refused before native code sees it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.runtime import Device, Module, fitness, load
from edgec.runtime.cpu import architecture, host_features, missing_features
from edgec.runtime.errors import ModuleMismatch
from edgec.runtime.vmfb import Import

Make = Callable[..., Path]
LOCAL = Device.open("local-sync")


def test_a_module_for_another_driver_is_refused(mixed_module: Make) -> None:
    with pytest.raises(ModuleMismatch, match=r"for vulkan \(vulkan-spirv-fb\).*on local-sync"):
        load(mixed_module("vulkan"), device="local-sync")


def test_a_module_for_another_architecture_is_refused(compile_mlir: Make) -> None:
    other = "aarch64" if architecture() == "x86_64" else "x86_64"
    path = compile_mlir(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        " %r = stablehlo.add %x, %x : tensor<4xf32>\n return %r : tensor<4xf32> }",
        "local-task",
        "--iree-llvmcpu-target-cpu=generic",
        f"--iree-llvmcpu-target-triple={other}-linux-gnu",
    )
    with pytest.raises(ModuleMismatch, match=r"holds code for .* and this machine is"):
        load(path)


def test_code_for_a_better_cpu_never_runs(
    mixed_module: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = frozenset({"sse3", "ssse3"})
    monkeypatch.setattr(fitness, "host_features", lambda: poor)
    module = Module.read(mixed_module())
    needed = missing_features(module.code_features, poor)
    if not needed:
        pytest.skip("this machine has no feature to miss")
    with pytest.raises(ModuleMismatch, match=needed[0]):
        load(module)


def test_features_named_by_edgec_count_too(
    stateful_module: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Module.read(stateful_module(cpu_features=["avx512fp16", "dotprod"]))
    feature = "avx512fp16" if architecture() == "x86_64" else "dotprod"
    monkeypatch.setattr(fitness, "host_features", lambda: host_features() - {feature})
    with pytest.raises(ModuleMismatch, match=f"for a CPU with {feature}, which this one"):
        load(module)


def test_tuning_hints_and_system_features_are_no_obstacle() -> None:
    hints = ["64bit", "cmov", "fast-gather", "reserve-x18", "prefetchi", "wbnoinvd", "x87"]
    assert missing_features(hints, frozenset()) == ()
    assert missing_features(["avx2", "dotprod", *hints], frozenset()) != ()


def test_another_byte_code_version_is_named(mixed_module: Make) -> None:
    module = dataclasses.replace(Module.read(mixed_module()), bytecode_version=(16, 2))
    with pytest.raises(ModuleMismatch, match=r"byte code 16\.2; this runtime runs 17"):
        fitness.check_fits(module, LOCAL)


def test_a_custom_runtime_module_is_named(mixed_module: Make) -> None:
    module = Module.read(mixed_module())
    custom = Import(name="custom.detokenize", convention="0v_v", optional=False)
    module = dataclasses.replace(module, imports=(*module.imports, custom))
    with pytest.raises(ModuleMismatch, match="runtime module custom"):
        fitness.check_fits(module, LOCAL)
