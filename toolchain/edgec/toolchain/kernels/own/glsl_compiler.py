"""A compute shader to SPIR-V with the entry point that a module calls: GLSL by glslang."""

import base64
import struct
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgec.runtime.errors import CompileError, MissingExtra
from edgec.targets import Target
from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.kernels.vulkan.glsl_compiler import Refused, Tools, run_tool, tools
from edgec.toolchain.own_kernels import Code, Language

__all__ = ["renamed", "spirv_of"]

_HEADER = 5
_ENTRY_POINT = 15
_EXECUTION_MODE = 16
_LOCAL_SIZE = 17


def spirv_of(
    name: str, code: Code, defines: Mapping[str, str], entry: str, target: Target
) -> tuple[bytes, tuple[int, int, int]]:
    """The SPIR-V of a kernel, whose entry point is `entry`, and the threads of a workgroup.

    Args:
        name: the kernel's.
        code: its source.
        defines: names that are defined.
        entry: what its entry point is called in the module.
        target: the GPU.

    Raises:
        CompileError: the compiler refuses it, or SPIR-V without its entry point was given.
        MissingExtra: there is no compiler of GLSL here.
    """
    if code.language is Language.GLSL:
        data, wanted = _compiled(name, code, defines), "main"
    else:
        data, wanted = base64.b64decode(code.text), code.entry
    return renamed(data, wanted, entry, name)


def _compiled(name: str, code: Code, defines: Mapping[str, str]) -> bytes:
    found = tools()
    if found is None:
        raise MissingExtra(
            f"the kernel {name} is in GLSL, which glslang compiles",
            hint="pip install 'edgec[vulkan]', or give the kernel as SPIR-V (edgec.kernels.spirv)",
        )
    definitions = [f"-D{key}={value}" for key, value in defines.items()]
    key = key_of("own-glsl", found.version, code.text, *definitions)
    cache = Cache.default()
    kept = cache.get(key)
    if kept is not None:
        return kept.payload.read_bytes()
    data = _made(name, code, definitions, found)
    cache.put(key, data, {})
    return data


def _made(name: str, code: Code, definitions: list[str], found: Tools) -> bytes:
    version = "vulkan1.1"
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source, made = Path(folder, f"{name}.comp"), Path(folder, f"{name}.spv")
        source.write_text(code.text, encoding="utf-8")
        try:
            run_tool(
                found,
                found.compiler,
                *("-V", "--target-env", version, "-S", "comp", "--quiet", *definitions),
                *("-o", str(made), str(source)),
            )
            options = (f"--target-env={version}", "-O", "--strip-debug", "--compact-ids")
            run_tool(found, found.optimiser, *options, str(made), "-o", str(made))
        except Refused as refused:
            raise CompileError(
                f"glslang refuses the kernel {name}: "
                f"{str(refused).replace(str(source), source.name)}",
                hint="mend its source, and export the model again",
            ) from refused
        return made.read_bytes()


def renamed(data: bytes, wanted: str, entry: str, name: str) -> tuple[bytes, tuple[int, int, int]]:
    """SPIR-V with its entry point renamed, and the threads of that one's workgroup.

    Args:
        data: the words.
        wanted: what the entry point is called.
        entry: what it is called afterwards.
        name: the kernel's, for messages.

    Raises:
        CompileError: there is no such entry point, it does not say its workgroup, or the words are
            damaged.
    """
    words = struct.unpack(f"<{len(data) // 4}I", data)
    made = list(words[:_HEADER])
    function = None
    size: tuple[int, int, int] | None = None
    for operation, instruction in _instructions(words):
        if operation == _ENTRY_POINT and (known := _name(instruction[3:]))[0] == wanted:
            function = instruction[2]
            named = struct.unpack(f"<{len(_padded(entry)) // 4}I", _padded(entry))
            body = (*instruction[1:3], *named, *instruction[3 + known[1] :])
            instruction = (_ENTRY_POINT | (len(body) + 1) << 16, *body)
        if operation == _EXECUTION_MODE and instruction[1:3] == (function, _LOCAL_SIZE):
            size = (instruction[3], instruction[4], instruction[5])
        made += instruction
    if function is None:
        raise CompileError(
            f"the SPIR-V of the kernel {name} has no entry point {wanted}",
            hint="name one that it has with entry=…",
        )
    if size is None:
        raise CompileError(
            f"the SPIR-V of the kernel {name} does not say how many threads a workgroup has",
            hint="give it a LocalSize; one in constants of specialisation is not read",
        )
    return struct.pack(f"<{len(made)}I", *made), size


def _instructions(words: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each instruction's number, and its words."""
    place = _HEADER
    while place < len(words):
        count = words[place] >> 16
        if count == 0 or place + count > len(words):
            raise CompileError("the SPIR-V of a kernel is damaged", hint="check it with spirv-val")
        yield words[place] & 0xFFFF, words[place : place + count]
        place += count


def _name(words: tuple[int, ...]) -> tuple[str, int]:
    """The text at the beginning of some words, and how many of them it takes."""
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.index(b"\0")
    return data[:end].decode(errors="replace"), end // 4 + 1


def _padded(text: str) -> bytes:
    data = text.encode() + b"\0"
    return data + b"\0" * (-len(data) % 4)
