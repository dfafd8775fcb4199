"""A program that is compiled for Vulkan but for its byte code, to one for WebGPU.

Where the compiler has made each kernel's SPIR-V and not yet the module, every executable is
replaced by one in WGSL, and what the program asks its device for by what WebGPU's driver is.
"""

from pathlib import Path
from typing import Any

from edgec.runtime.errors import CompileError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.targets import Target
from edgec.toolchain import vulkan_executables
from edgec.toolchain.ir.places import place_of
from edgec.toolchain.vulkan_executables import binaries, data_of, format_of, set_data
from edgec.toolchain.webgpu.executable import FORMAT, converted
from edgec.toolchain.webgpu.spirv import Unwritable

__all__ = ["write_shaders"]

_BACKEND = "vulkan-spirv"
_DEVICE = "vulkan"
_NEW_DEVICE = "webgpu"
_HINT = "compile it for the CPU in a page, --target=wasm; please report the kernel"


def write_shaders(source: Path, output: Path, target: Target) -> int:
    """Replace the executables of a program; how many there are.

    Args:
        source: the program where the compiler stopped.
        output: the same to go on with.
        target: what WebGPU is known to have.

    Raises:
        FileError: a file cannot be read or written.
        CompileError: an executable is of another kind, or holds what WGSL has no words for.
    """
    from iree.compiler import ir

    module = ir.Module.parse(read_bytes(source), ir.Context())
    count = 0
    with module.context, ir.Location.unknown():
        for top in module.body.operations:
            if top.operation.name == "hal.executable":
                count += _executable(top.operation, target)
            else:
                _ask(top.operation)
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return count


def _executable(operation: Any, target: Target) -> int:
    """Convert the binaries of one executable."""
    count = 0
    for each in binaries(operation):
        try:
            _binary(each, target)
        except Unwritable as error:
            where = place_of(operation) or place_of(each)
            raise CompileError(error.what, where=where, hint=_HINT) from error
        count += 1
    return count


def _binary(operation: Any, target: Target) -> None:
    from iree.compiler import ir

    form = format_of(operation)
    if form != vulkan_executables.FORMAT:
        raise CompileError(f"the compiler made an executable of the kind {form} for WebGPU")
    set_data(operation, converted(data_of(operation), target))
    operation.attributes["format"] = ir.StringAttr.get(FORMAT)
    operation.attributes["mime_type"] = ir.StringAttr.get("application/json")


def _ask(operation: Any) -> None:
    """Let a program ask for WebGPU where it asks for Vulkan, and say so where there is none."""
    from iree.compiler import ir

    attributes = operation.attributes
    for name in ("category", "key", "message"):
        if name not in attributes:
            continue
        text = str(ir.StringAttr(attributes[name]).value)
        if operation.name == "hal.device.query" and text == _DEVICE:
            attributes[name] = ir.StringAttr.get(_NEW_DEVICE)
        elif vulkan_executables.FORMAT in text:
            # The longer names first: one is in the other.
            for old, new in (
                (vulkan_executables.FORMAT, FORMAT),
                (_BACKEND, _NEW_DEVICE),
                (_DEVICE, _NEW_DEVICE),
            ):
                text = text.replace(old, new)
            attributes[name] = ir.StringAttr.get(text)
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                _ask(each.operation)
