"""A kernel in C to an object file for a processor, by the clang of the wheel `ziglang`.

Object files are kept in edgec's cache folder, and the compiler is told where they are: one that
stands in the program itself it hands to its linker before it is written (iree-compile 3.13).
"""

import importlib.metadata
import importlib.util
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgec.runtime.cpu import host_features
from edgec.runtime.errors import CompileError, FileError, MissingExtra
from edgec.runtime.files import refuse_full
from edgec.targets import Cpu, Target
from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.own_kernels import Code

__all__ = ["compile_c", "object_target"]

_TIMEOUT = 300.0
"""Seconds; the first call of the wheel's clang for a processor may build its own library."""

_ROOM = 1_000_000
"""Bytes that are there before clang begins."""

_FLAGS = (
    *("-std=c11", "-O3", "-g0", "-fPIC", "-ffreestanding", "-fvisibility=hidden"),
    *("-fno-stack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-ffunction-sections", "-fno-math-errno", "-fno-sanitize=all", "-Wall"),
)
_MEMORY = """
#define EDGEC_OWN __attribute__((weak, visibility("hidden"), no_builtin)) void *
EDGEC_OWN memset(void *to, int with, __SIZE_TYPE__ count) {
  unsigned char *at = to;
  while (count--) *at++ = (unsigned char)with;
  return to;
}
EDGEC_OWN memcpy(void *restrict to, const void *restrict from, __SIZE_TYPE__ count) {
  unsigned char *at = to;
  const unsigned char *next = from;
  while (count--) *at++ = *next++;
  return to;
}
"""
"""What a compiler makes of loops, also where no C library is."""

_SYMBOLS = 2
"""The type of a section that holds symbols."""

_GIVEN = ("_GLOBAL_OFFSET_TABLE_",)
"""What the linker defines."""

_ARCHITECTURES: Mapping[str, tuple[str, str]] = {
    "x86_64": ("x86_64-linux-musl", "embedded-elf-x86_64"),
    "arm_64": ("aarch64-linux-musl", "embedded-elf-arm_64"),
    "arm_32": ("arm-linux-musleabihf", "embedded-elf-arm_32"),
    "riscv_64": ("riscv64-linux-musl", "embedded-elf-riscv_64"),
}
"""Of an instruction set: what zig calls it, and what the compiler calls its executables."""


def object_target(target: Target) -> str | None:
    """What the compiler calls the executables that an object for this processor fits.

    None where kernels in C have no form (WebAssembly).
    """
    found = _ARCHITECTURES.get(target.isa)
    return None if found is None else found[1]


def compile_c(
    name: str, code: Code, defines: Mapping[str, str], arrays: int, target: Target
) -> Path:
    """The object file of a kernel; its function is `edgec_own_NAME`.

    That takes the address of each array as an integer, and the number of its group.

    Args:
        name: the kernel's.
        code: its source.
        defines: names that are defined.
        arrays: how many it takes.
        target: the processor, one that `object_target` knows.

    Raises:
        CompileError: the compiler refuses it.
        MissingExtra: `ziglang` is missing.
        FileError: the cache folder cannot be written to.
    """
    triple, _ = _ARCHITECTURES[target.isa]
    if not has_ziglang():
        raise MissingExtra(
            f"the kernel {name} is in C, which the wheel ziglang compiles",
            hint="pip install 'edgec[web]'",
        )
    cpu = target.cpu or Cpu()
    flags = [*_FLAGS, "-target", triple, f"-mcpu={_processor(cpu)}"]
    flags += [f"-D{key}={value}" for key, value in defines.items()]
    text = (
        f'#line 1 "{name}.c"\n{code.text}\n#line 1 "edgec"\n{_wrapped(name, code, arrays)}{_MEMORY}'
    )
    key = key_of("own-c", importlib.metadata.version("ziglang"), _machine(cpu), *flags, text)
    kept = Cache.default().folder / "objects" / f"{key}.o"
    if not kept.exists():
        _compile(name, text, flags, kept)
    return kept


def has_ziglang() -> bool:
    """Whether the compiler is here."""
    try:
        return importlib.util.find_spec("ziglang") is not None
    except ValueError:  # it is barred from this process
        return False


def _processor(cpu: Cpu) -> str:
    """As zig spells a processor and its features."""
    if cpu.cpu == "host":
        return "native"
    name = cpu.cpu.replace("-", "_")
    features = [each.replace(".", "_").replace("-", "_") for each in cpu.features]
    # The version of an architecture is a feature of its own name there.
    return name + "".join("+v7a" if each == "+v7" else each for each in features)


def _machine(cpu: Cpu) -> str:
    """What `native` stands for."""
    return " ".join(sorted(host_features() or ())) if cpu.cpu == "host" else ""


def _wrapped(name: str, code: Code, arrays: int) -> str:
    """C that calls the kernel with pointers."""
    taken = [f"__UINTPTR_TYPE__ a{i}" for i in range(arrays)]
    given = [f"(void *)a{i}" for i in range(arrays)]
    given += [str(number) for number in code.numbers]
    if code.grid[0] > 1:
        given.append("(int)group")
    head = ", ".join([*taken, "__UINTPTR_TYPE__ group"])
    return (
        f'__attribute__((visibility("default"))) void edgec_own_{name}({head});\n'
        f"void edgec_own_{name}({head}) {{ (void)group; {code.entry}({', '.join(given)}); }}\n"
    )


def _compile(name: str, text: str, flags: Sequence[str], kept: Path) -> None:
    """Compile C into a file that is there whole or not at all."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        refuse_full(kept.parent, _ROOM)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = _run(name, text, flags, Path(folder))
            made.replace(kept)
    except OSError as error:
        raise FileError(
            f"cannot keep the kernel {name} in {kept.parent}: {error.strerror or error}",
            hint="set EDGEC_CACHE_DIR to a folder that can be written to",
        ) from error


def said_by_zig(name: str, words: Sequence[str], made: Path) -> str | None:
    """Have one of the wheel `ziglang`'s compilers make a file, in the folder where that is to lie.

    Args:
        name: the kernel's, for an error.
        words: the compiler and what it is told, without where the result goes.
        made: the file.

    Returns:
        None, or where no file was made what the compiler says.

    Raises:
        CompileError: it takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ziglang", *words, "-o", str(made)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            cwd=made.parent,
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(
            f"the kernel {name} was not compiled within {_TIMEOUT:.0f} s",
            hint="try again when the machine is less busy",
        ) from error
    return done.stderr if done.returncode or not made.exists() else None


def _run(name: str, text: str, flags: Sequence[str], folder: Path) -> Path:
    """The object file, in a folder."""
    source, made = folder / "kernel.c", folder / "kernel.o"
    source.write_text(text, encoding="utf-8")
    command = ["cc", *flags, "-c", str(source)]
    said = said_by_zig(name, command, made)
    if said is not None:
        raise _refused(name, said)
    missing = _undefined(made.read_bytes())
    if missing:
        raise CompileError(
            f"the kernel {name} calls {', '.join(missing)}, and modules have no C library",
            hint="write it out; what is an instruction (sqrtf, fabsf, fmaf where the processor has "
            "it) can be called as __builtin_sqrtf …",
        )
    return made


def _refused(name: str, said: str) -> CompileError:
    lines = said.strip().splitlines() or ["no word"]
    first = next((line for line in lines if "error:" in line), lines[-1])
    place, _, what = first.partition(": error: ")
    return CompileError(
        f"the C compiler refuses the kernel {name}: {what or first}",
        where=place if what else None,
        hint="mend its source, and export the model again",
    )


def _undefined(data: bytes) -> list[str]:
    """The names that an ELF object file uses and does not define, sorted."""
    wide = data[4] == 2
    start, size, count = (
        (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
        if wide
        else (*struct.unpack_from("<I", data, 32), *struct.unpack_from("<HH", data, 46))
    )
    found = set()
    sections = [data[start + i * size : start + (i + 1) * size] for i in range(count)]
    for section in sections:
        if struct.unpack_from("<I", section, 4)[0] != _SYMBOLS:
            continue
        place, length, link, each = _table(section, wide)
        names = _table(sections[link], wide)[0]
        for at in range(place + each, place + length, each):
            (name,) = struct.unpack_from("<I", data, at)
            (index,) = struct.unpack_from("<H", data, at + (6 if wide else 14))
            if index == 0:
                end = data.index(b"\0", names + name)
                found.add(data[names + name : end].decode())
    return sorted(found - {"", *_GIVEN})


def _table(section: bytes, wide: bool) -> tuple[int, int, int, int]:
    """Where a section's bytes are, how many, which section it links to, and its entries' size."""
    if wide:
        place, length, link = struct.unpack_from("<QQI", section, 24)
        return place, length, link, struct.unpack_from("<Q", section, 56)[0]
    place, length, link = struct.unpack_from("<III", section, 16)
    return place, length, link, struct.unpack_from("<I", section, 36)[0]
