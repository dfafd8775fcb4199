"""The compiler's executable for Vulkan to one for WebGPU: the same kernels in WGSL.

The result is JSON, since the one who reads it is a page:

    {"kernels": [{"name", "module", "bindings": [[number, is_written], ...], "words", "counts"}],
     "modules": ["...WGSL...", ...]}

Each module has one entry point, `main`. Its buffers are group 0; group 1 is one uniform buffer: the
first workgroup's three numbers and a spare one, then the kernel's own `words`. `counts` says that
it asks how many workgroups there are, so that a dispatch cannot be made in several.
"""

import json
from collections.abc import Iterator
from typing import Any

from edgec.runtime.errors import CompileError
from edgec.targets import Target
from edgec.toolchain.idle_threads import alone
from edgec.toolchain.vulkan_executables import codes, opened
from edgec.toolchain.webgpu.spirv import Unwritable, read
from edgec.toolchain.webgpu.writer import Shader, write

__all__ = ["FORMAT", "converted"]

FORMAT = "webgpu-wgsl"
"""What a module calls such executables."""


def converted(data: bytes, target: Target) -> bytes:
    """Convert an executable.

    Raises:
        CompileError: it is not what the compiler writes for Vulkan.
        Unwritable: a kernel holds what WGSL has no words for, or is larger than WebGPU allows.
    """
    texts: dict[str, int] = {}
    kernels = []
    for shader in _shaders(data):
        _check(shader, target)
        kernels.append(
            {
                "name": shader.name,
                "module": texts.setdefault(shader.text, len(texts)),
                "bindings": [[number, int(written)] for number, written in shader.bindings],
                "words": shader.words,
                "counts": int(shader.counts),
            }
        )
    said: dict[str, Any] = {"kernels": kernels, "modules": list(texts)}
    return json.dumps(said, separators=(",", ":")).encode()


def _shaders(data: bytes) -> Iterator[Shader]:
    """Each kernel of an executable, in its order."""
    table = opened(data)
    modules = [alone(code) or code for code in codes(data, table)]
    for pipeline in table.tables(0):
        name = pipeline.text(1)
        kernels = read(modules[pipeline.u32(0)])
        for entry in kernels.entries:
            if entry.name == name:
                try:
                    yield write(kernels, entry)
                except Unwritable as error:
                    raise Unwritable(f"{name}: {error.what}") from error
                break
        else:
            raise CompileError(f"the compiler's executable has no kernel {name}")


def _check(shader: Shader, target: Target) -> None:
    """Refuse a kernel that is larger than what every WebGPU has."""
    limits = target.limits
    x, y, z = shader.size
    for what, has, most in (
        ("buffers", len(shader.bindings), limits.buffers),
        ("invocations a workgroup", x * y * z, limits.invocations),
        ("bytes of workgroup memory", shader.shared, limits.shared),
    ):
        if most and has > most:
            raise Unwritable(f"{shader.name}: a kernel takes {has} {what}, and WebGPU has {most}")
