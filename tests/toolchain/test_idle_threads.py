"""Workgroups have one thread along an axis that a kernel does not ask for."""

import re
import struct
import subprocess
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime import Module
from edgec.toolchain import CompileOptions
from edgec.toolchain.idle_threads import alone
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.spirv_words import operations

KERNEL = """#version 450
%s
layout(local_size_x = 32, local_size_y = 4, local_size_z = 2) in;
layout(binding = 0) buffer A { float a[]; };
shared float parts[8];
void main() {
  uint here = %s;
  a[here] += 1.0;
  %s
}
"""
BALLOT = "#extension GL_KHR_shader_subgroup_basic : require"
CASES = {
    "none": ("", "gl_WorkGroupID.x", "", (1, 1, 1)),
    "the second axis": ("", "gl_LocalInvocationID.y", "", (1, 4, 1)),
    "two axes": ("", "gl_LocalInvocationID.x + 32 * gl_LocalInvocationID.z", "", (32, 1, 2)),
    "all axes": (
        "",
        "gl_LocalInvocationID.x + gl_LocalInvocationID.y + gl_LocalInvocationID.z",
        "",
        None,
    ),
    "an axis by a number": ("", "gl_LocalInvocationID[gl_WorkGroupID.x % 3]", "", None),
    "the global number": ("", "gl_GlobalInvocationID.x", "", None),
    "the number of all": ("", "gl_LocalInvocationIndex", "", None),
    "a subgroup": (BALLOT, "gl_SubgroupInvocationID", "", None),
    "a barrier": (
        "",
        "gl_LocalInvocationID.y",
        "parts[here] = 1.0; barrier(); a[here] = parts[0];",
        (1, 4, 1),
    ),
}


def compiled(text: str, folder: Path, name: str = "main") -> bytes:
    found = tools()
    assert found is not None
    source, path = folder / "kernel.comp", folder / "kernel.spv"
    source.write_text(text)
    subprocess.run(
        [
            *(found.compiler, "-V", "--target-env", "vulkan1.1", "--quiet"),
            *("-e", name, "--source-entrypoint", "main", "-o", path, source),
        ],
        env=dict(found.environment),
        check=True,
        capture_output=True,
    )
    # glslang says the size a second time, as a constant, which iree-compile does not.
    code = path.read_bytes()
    words = [code[:20]]
    for op, given in operations(code):
        if not (op == 71 and given[1:] == (11, 25)):
            words.append(struct.pack(f"<{1 + len(given)}I", len(given) + 1 << 16 | op, *given))
    return b"".join(words)


def size_of(code: bytes) -> tuple[int, ...]:
    """The `LocalSize` of a module's only kernel."""
    (size,) = (given[2:] for op, given in operations(code) if op == 16 and given[1] == 17)
    return size


@pytest.mark.skipif(tools() is None, reason="glslang is not here (edgec[vulkan])")
@pytest.mark.parametrize("case", CASES)
def test_threads_stay_along_the_axes_that_are_asked_for(case: str, tmp_path: Path) -> None:
    *parts, wanted = CASES[case]
    code = compiled(KERNEL % tuple(parts), tmp_path)
    changed = alone(code)
    assert size_of(code) == (32, 4, 2)
    if wanted is None:
        assert changed is None
    else:
        assert changed is not None and len(changed) == len(code)
        assert size_of(changed) == wanted
        assert alone(changed) is None


@pytest.mark.skipif(tools() is None, reason="glslang is not here (edgec[vulkan])")
def test_a_users_kernel_has_the_threads_that_it_asks_for(tmp_path: Path) -> None:
    text = KERNEL % ("", "gl_WorkGroupID.x", "")
    assert alone(compiled(text, tmp_path, "summed")) is not None
    assert alone(compiled(text, tmp_path, "edgec_summed")) is None


def test_what_is_no_spirv_is_left_as_it_is() -> None:
    assert alone(b"") is None
    assert alone(b"\x03\x02\x23\x07" + b"\0" * 40) is None


@pytest.mark.vulkan
def test_a_module_is_changed_where_it_stands(tmp_path: Path) -> None:
    def main(x):
        return (x[:, None] * x[None]).sum((0, 2)), jnp.cumsum(x, 1)

    x = np.random.default_rng(0).standard_normal((7, 13)).astype(np.float32)
    path = tmp_path / "sums.vmfb"
    toolchain.compile(export(main, (x,)), "vulkan:android", CompileOptions(output=path))
    Module.read(path)  # which compares the checksums
    assert re.search(rb"VKE1", path.read_bytes())
    with runtime.load(path, device="edgert://vulkan") as loaded:
        found = loaded.main(x)
    for got, wanted in zip(found, main(jnp.asarray(x)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
