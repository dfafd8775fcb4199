from pathlib import Path

import pytest

from edgec.runtime.errors import UsageError
from edgec.targets import find
from edgec.toolchain.flags import LEVELS, command_line, compile_flags
from edgec.toolchain.program import Dialect


def test_the_host_gets_its_own_features_data_tiling_and_a_wide_stack():
    flags = compile_flags(find("cpu"))
    assert "--iree-llvmcpu-target-cpu=host" in flags
    assert "--iree-opt-data-tiling" in flags
    assert "--iree-llvmcpu-stack-allocation-limit=262144" in flags
    assert not any(flag.startswith("--iree-llvmcpu-target-triple") for flag in flags)


def test_a_phone_gets_triple_and_features():
    flags = compile_flags(find("cpu:arm64-v8.2"))
    assert "--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu" in flags
    assert "--iree-llvmcpu-target-cpu-features=+v8.2a,+fullfp16,+dotprod" in flags


def test_gpu_targets_name_their_gpu():
    assert "--iree-vulkan-target=valhall4" in compile_flags(find("vulkan:mali-g715"))
    assert "--iree-cuda-target=sm_86" in compile_flags(find("cuda:sm_86"))
    assert "--iree-rocm-target=gfx1100" in compile_flags(find("rocm"))
    assert "--iree-metal-target-platform=ios" in compile_flags(find("metal:ios"))


@pytest.mark.parametrize("name", ["cpu", "cuda", "vulkan"])
def test_wide_integers_are_never_narrowed(name: str):
    assert "--iree-input-demote-i64-to-i32=false" in compile_flags(find(name))


def test_wide_floats_are_narrowed_only_where_the_device_has_none():
    assert "--iree-input-demote-f64-to-f32=false" in compile_flags(find("cpu"))
    assert "--iree-input-demote-f64-to-f32=true" in compile_flags(find("vulkan"))


def test_wide_floats_that_nobody_asked_for_are_narrowed():
    flags = compile_flags(find("cpu"), doubles=False)
    assert "--iree-input-demote-f64-to-f32=true" in flags


def test_torch_programs_get_plain_functions():
    flags = compile_flags(find("cpu"), dialect=Dialect.TORCH)
    assert "--iree-input-type=torch" in flags
    assert "--iree-torch-emit-async-entry-points=false" in flags


def test_low_levels_do_without_data_tiling():
    for level in LEVELS:
        flags = compile_flags(find("cpu"), level=level)
        assert ("--iree-opt-data-tiling" in flags) == (level >= 2)


def test_a_level_that_is_none_is_refused():
    with pytest.raises(UsageError):
        compile_flags(find("cpu"), level=4)


def test_the_users_own_flags_come_last():
    line = command_line(Path("c"), Path("in"), Path("out"), ["--a"], ["--b"])
    assert line == ["c", "in", "-o", "out", "--a", "--b"]


def test_constants_lie_in_buffers_that_a_kernel_may_reach_into():
    words = "--iree-stream-resource-max-allocation-size="
    assert f"{words}134217728" in compile_flags(find("vulkan:android"))
    assert not any(flag.startswith(words) for flag in compile_flags(find("vulkan:nvidia-ada")))
