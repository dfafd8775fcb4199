"""edgert's shared library: the file that is named, or the wheel's, or a checkout's own build.

It is looked for in this order: where `$EDGERT_LIBRARY` says; beside this file, where a wheel has
it for its platform; and in a checkout of the repository alone, for those who work on it, in the
user's cache, where it is built on first use (`native_build`).
"""

import os
import sys
from functools import cache
from pathlib import Path

from edgec.runtime.errors import DeviceMissing
from edgec.runtime.native_build import Recipe, built

__all__ = ["EDGERT_VARIABLE", "find_library"]

EDGERT_VARIABLE = "EDGERT_LIBRARY"
_NAMES = {"darwin": "libedgert.dylib", "win32": "edgert.dll"}
_NAME = _NAMES.get(sys.platform, "libedgert.so")
_PACKAGED = Path(__file__).resolve().with_name(_NAME)
_CHECKOUT = _PACKAGED.parents[2] / "c"
_FLAGS = (
    *("-std=c11", "-O2", "-DNDEBUG", "-DEDGERT_BUILDING", "-DEDGERT_SHARED"),
    *("-fPIC", "-shared", "-fvisibility=hidden"),
    *("-DEDGERT_WITH_VULKAN=1", "-DEDGERT_WITH_CUDA=1"),
    *("-DEDGERT_WITH_PLACES=1", "-DEDGERT_WITH_NATIVE=1"),
    # Of Monocypher only what checks signatures is taken along.
    *("-DEDGERT_WITH_SIGNATURES=1", "-ffunction-sections", "-fdata-sections"),
    "-Wl,-dead_strip" if sys.platform == "darwin" else "-Wl,--gc-sections",
)


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
    return built(
        Recipe(
            what="edgert",
            file=_NAME,
            folder="edgert",
            sources=(_CHECKOUT / "src",),
            headers=(_CHECKOUT / "include", _CHECKOUT / "third_party"),
            flags=_FLAGS,
            variable=EDGERT_VARIABLE,
        )
    )
