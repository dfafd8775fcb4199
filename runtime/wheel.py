"""Compiles edgert, and the PJRT plugin, into a wheel of edgec-runtime; called by hatchling.

`$EDGERT_PLATFORM` names the platform, one of `PLATFORMS`; without it the wheel is for this machine.
The compiler is the clang in the wheel `ziglang`, which knows every platform's C library, so all of
them are made on one machine; it is 90 MB, so building asks for it and does not fetch it. An
editable install compiles nothing here: `edgec.runtime` does it from the sources beside it.
"""

import importlib.util
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLATFORM_VARIABLE = "EDGERT_PLATFORM"
_FLAGS = (
    *("-std=c11", "-O2", "-DNDEBUG", "-DEDGERT_BUILDING"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    *("-DEDGERT_WITH_VULKAN=1", "-DEDGERT_WITH_CUDA=1"),
    *("-DEDGERT_WITH_SIGNATURES=1", "-DEDGERT_WITH_PLACES=1", "-DEDGERT_WITH_NATIVE=1"),
)
_ELF = ("-s", "-Wl,--gc-sections", "-lm", "-lpthread", "-ldl")
_INSTALLED = "@LIBRARY@"
_MACOS = ("-s", f"-Wl,-install_name,@rpath/{_INSTALLED}")
_WINDOWS = ("-s",)
# What a manylinux library may ask of the system it is loaded on (PEP 600), as far as edgert does.
_SYSTEM_LIBRARIES = {"libc.so", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"}
# What they open where it is there (`dlopen`), and does without where it is not.
_OPENED = {"libcuda.so.1", "libnccl.so.2", "libvulkan.so", "libvulkan.so.1"}


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A platform that wheels are made for.

    Attributes:
        triple: as zig names it, with the oldest C library or system that the wheel is for.
        tag: the wheel's platform tag.
        library: the file's name.
        plugin: the name of the PJRT plugin's file; None where there is none.
        flags: what the linker is told besides.
    """

    triple: str
    tag: str
    library: str
    plugin: str | None
    flags: tuple[str, ...]


def _linux(machine: str) -> dict[str, Platform]:
    return {
        f"manylinux-{machine}": Platform(
            triple=f"{machine}-linux-gnu.2.17",
            tag=f"manylinux_2_17_{machine}.manylinux2014_{machine}",
            library="libedgert.so",
            plugin="libedgec_pjrt.so",
            flags=_ELF,
        ),
        f"musllinux-{machine}": Platform(
            triple=f"{machine}-linux-musl",
            tag=f"musllinux_1_2_{machine}",
            library="libedgert.so",
            plugin="libedgec_pjrt.so",
            flags=_ELF,
        ),
    }


def _macos(zig: str, machine: str) -> Platform:
    return Platform(
        triple=f"{zig}-macos.11.0",
        tag=f"macosx_11_0_{machine}",
        library="libedgert.dylib",
        plugin="libedgec_pjrt.dylib",
        flags=_MACOS,
    )


PLATFORMS: dict[str, Platform] = {
    **_linux("x86_64"),
    **_linux("aarch64"),
    "macos-x86_64": _macos("x86_64", "x86_64"),
    "macos-arm64": _macos("aarch64", "arm64"),
    "windows-x86_64": Platform(
        triple="x86_64-windows-gnu",
        tag="win_amd64",
        library="edgert.dll",
        plugin=None,
        flags=_WINDOWS,
    ),
}


def this_machine() -> str:
    """The name of the platform that this Python runs on."""
    system, machine = platform.system(), platform.machine()
    if system == "Linux":
        libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
        return f"{libc}-{machine}"
    if system == "Darwin":
        return f"macos-{machine}"
    return f"{system.lower()}-{machine.lower().replace('amd64', 'x86_64')}"


def build(sources: Path, chosen: Platform, folder: Path) -> Path:
    """Compile edgert for a platform into a folder; the library.

    Raises:
        RuntimeError: there is no compiler, it refused, or the library asks more of a system than
            its tag says.
    """
    flags = ("-DEDGERT_SHARED", *_FLAGS)
    return _compile(chosen, (sources / "src",), sources / "include", flags, folder / chosen.library)


def build_plugin(runtime: Path, chosen: Platform, edgert: Path) -> Path | None:
    """Compile the PJRT plugin into the folder of edgert, which it needs; None: there is none.

    Raises:
        RuntimeError: as `build`.
    """
    if chosen.plugin is None:
        return None
    beside = "@loader_path" if edgert.suffix == ".dylib" else "$ORIGIN"
    flags = ("-D_GNU_SOURCE", *_FLAGS, f"-L{edgert.parent}", "-ledgert", f"-Wl,-rpath,{beside}")
    plugin = edgert.with_name(chosen.plugin)
    return _compile(chosen, (runtime / "pjrt",), runtime / "c" / "include", flags, plugin)


def _compile(
    chosen: Platform,
    sources: tuple[Path, ...],
    headers: Path,
    flags: tuple[str, ...],
    library: Path,
) -> Path:
    library.parent.mkdir(parents=True, exist_ok=True)
    files = sorted(str(file) for folder in sources for file in folder.glob("**/*.c"))
    linked = [each.replace(_INSTALLED, library.name) for each in chosen.flags]
    command = [
        *(sys.executable, "-m", "ziglang", "cc", "-target", chosen.triple, *flags),
        *(f"-I{headers}", *files, *linked, "-o", str(library)),
    ]
    if importlib.util.find_spec("ziglang") is None:
        raise RuntimeError(
            "wheels of edgec-runtime are compiled by ziglang: pip install ziglang==0.17.0, and "
            "build without isolation (make wheels does both)"
        )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{library.name} does not compile for {chosen.triple}: {done.stderr[-2000:]}"
        )
    if library.suffix == ".so":
        check_needs(library.read_bytes(), chosen)
    return library


def check_needs(library: bytes, chosen: Platform) -> None:
    """Hold an ELF library to its tag: no newer symbols of glibc, no library but the system's.

    Raises:
        RuntimeError: it asks for more.
    """
    names = re.findall(rb"\0(lib[\w+-]+\.so[.\d]*)(?=\0)", library)
    foreign = {name.decode() for name in names} - _SYSTEM_LIBRARIES - _OPENED
    foreign -= {chosen.library, chosen.plugin or ""}
    allowed = re.search(r"gnu\.(\d+)\.(\d+)", chosen.triple)
    limit = tuple(map(int, allowed.groups())) if allowed else (0, 0)
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", library)
    newer = {v for v in ((int(a), int(b)) for a, b in versions) if v > limit}
    if foreign or newer:
        wants = [*sorted(foreign), *(f"GLIBC_{a}.{b}" for a, b in sorted(newer))]
        raise RuntimeError(f"a wheel tagged {chosen.tag} must not need {', '.join(wants)}")


class EdgertHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling gives no arguments
    """Adds the libraries and the platform's tag to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless this is an editable install."""
        if version == "editable":
            return
        name = os.environ.get(PLATFORM_VARIABLE) or this_machine()
        if name not in PLATFORMS:
            raise RuntimeError(
                f"there is no wheel of edgec-runtime for {name}; "
                f"set ${PLATFORM_VARIABLE} to one of {', '.join(PLATFORMS)}"
            )
        chosen = PLATFORMS[name]
        root = Path(self.root)
        folder = root.parent / "build" / "wheels" / name
        library = build(root / "c", chosen, folder)
        plugin = build_plugin(root, chosen, library)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{chosen.tag}"
        for made in filter(None, (library, plugin)):
            build_data["force_include"][str(made)] = f"edgec/runtime/{made.name}"
