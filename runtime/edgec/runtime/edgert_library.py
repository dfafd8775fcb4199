"""edgert's shared library: the file that is named, or the wheel's, or a checkout's own build.

It is looked for in this order: where `$EDGERT_LIBRARY` says; beside this file, where a wheel has
it for its platform; and in a checkout of the repository alone, for those who work on it, in the
user's cache, where it is built on first use by a C compiler of this machine, once for each state
of the sources.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

from edgec.runtime.cache_folder import CACHE_VARIABLE, cache_folder
from edgec.runtime.errors import DeviceError, DeviceMissing
from edgec.runtime.files import FULL, no_space, refuse_full

__all__ = ["EDGERT_VARIABLE", "find_library"]

EDGERT_VARIABLE = "EDGERT_LIBRARY"
_NAMES = {"darwin": "libedgert.dylib", "win32": "edgert.dll"}
_NAME = _NAMES.get(sys.platform, "libedgert.so")
_PACKAGED = Path(__file__).resolve().with_name(_NAME)
_CHECKOUT = _PACKAGED.parents[2] / "c"
_FLAGS = (
    *("-std=c11", "-O2", "-DNDEBUG", "-DEDGERT_BUILDING", "-DEDGERT_SHARED"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-DEDGERT_WITH_VULKAN=1"),
)
_SECONDS = 300.0
_ROOM = 1 << 20
"""Bytes that are there before a compiler begins; the library takes some 200 KB."""


@cache
def find_library() -> Path:
    """The shared library; in a checkout it is built if it is not there.

    Raises:
        DeviceMissing: it is not where the variable says, this installation has none, or a checkout
            has nothing to build it with.
        DeviceError: it could not be built or written.
        FileError: no space is left for it, or for the compiler.
    """
    named = os.environ.get(EDGERT_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise DeviceMissing(
                f"${EDGERT_VARIABLE} names {named}, which is no file",
                hint=f"build it (cmake --preset shared in runtime/c), or unset ${EDGERT_VARIABLE}",
            )
        return Path(named)
    if _PACKAGED.is_file():
        return _PACKAGED
    if os.name != "posix" or not (_CHECKOUT / "src").is_dir():
        raise DeviceMissing(
            "this installation of edgec-runtime holds no edgert",
            hint="install its wheel for this platform (pip install --only-binary=:all: "
            f"edgec-runtime), set ${EDGERT_VARIABLE}, or use the device local-task",
        )
    library = cache_folder() / f"edgert-{_key(_CHECKOUT)}" / _NAME
    if not library.is_file():
        _build(_CHECKOUT, library)
    return library


def _key(sources: Path) -> str:
    """What a build depends on, as 16 hexadecimal digits."""
    found = hashlib.sha256()
    # A home folder may be shared by machines: of other architectures, with other C libraries.
    system = (sysconfig.get_platform(), sysconfig.get_config_var("MULTIARCH"), _FLAGS)
    found.update(repr(system).encode())
    for file in sorted(sources.glob("**/*.[ch]")):
        found.update(f"\0{file.relative_to(sources).as_posix()}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _compiler() -> tuple[str, ...]:
    """The command of a C compiler.

    Raises:
        DeviceMissing: there is none.
    """
    named = os.environ.get("CC")
    for name in (named, "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return (found,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    raise DeviceMissing(
        "edgert is not built, and there is no C compiler to build it with",
        hint="install one (apt install gcc, or pip install ziglang), "
        f"or set ${EDGERT_VARIABLE} to a libedgert.so",
    )


def _build(sources: Path, library: Path) -> None:
    """Compile; the file appears at once, whole, also where several processes build it."""
    compiler = _compiler()
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        refuse_full(library.parent, _ROOM)
        with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
            made = Path(folder, _NAME)
            files = sorted(str(file) for file in sources.glob("src/**/*.c"))
            command = [
                *(*compiler, *_FLAGS, f"-I{sources / 'include'}", *files),
                *("-o", str(made), "-lm", "-lpthread", "-ldl"),
            ]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            if done.returncode != 0 and FULL in done.stderr:
                raise no_space(None)
            if done.returncode != 0:
                lines = done.stderr.strip().splitlines()
                said = next((line for line in lines if "error" in line), "it said nothing")
                raise DeviceError(
                    f"edgert could not be built by {' '.join(compiler)}: {said}",
                    hint=f"try another C compiler (CC=clang), or set ${EDGERT_VARIABLE}",
                )
            made.replace(library)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"edgert was not built within {_SECONDS:.0f} s", hint=f"set ${EDGERT_VARIABLE}"
        ) from error
    except OSError as error:
        raise DeviceError(
            f"edgert could not be built in {library.parent}: {error.strerror or error}",
            hint=f"set ${CACHE_VARIABLE} to a folder that can be written to",
        ) from error
