"""A page with WebGPU for the tests of this folder, and GLSL as SPIR-V."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.web.chromium import WEBGPU, Chromium, Page, serve
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from tests.js.node import need_chromium


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a browser whose GPU is SwiftShader."""
    need_chromium()
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text("<!doctype html>")
    with serve(folder) as address, Chromium(*WEBGPU) as browser:
        yield browser.open(f"{address}/index.html")


@pytest.fixture(scope="session")
def spirv(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """A kernel's GLSL, behind `#version`, to SPIR-V as glslang writes it, or optimised."""
    found = tools()
    if found is None:
        pytest.skip("no glslang: pip install 'edgec[vulkan]'")
    folder = tmp_path_factory.mktemp("glsl")

    def compiled(text: str, *, optimised: bool = True) -> bytes:
        source, target = folder / "kernel.comp", folder / "kernel.spv"
        source.write_text(f"#version 450\n{text}")
        commands = [(found.compiler, "-V", "--quiet", "-o", str(target), str(source))]
        if optimised:
            commands.append((found.optimiser, "-O", str(target), "-o", str(target)))
        for command in commands:
            done = subprocess.run(
                command, env=found.environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
        return Path(target).read_bytes()

    return compiled
