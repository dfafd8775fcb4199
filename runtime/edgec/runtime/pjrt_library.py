"""The PJRT plugin's shared library: the file that is named, the wheel's, or a checkout's build.

It is looked for as edgert's own is (`edgert_library`), by `$EDGEC_PJRT_LIBRARY`. It needs edgert's
library, which a wheel has beside it; a checkout's build remembers where that was.
"""

import os
import sys
from functools import cache
from pathlib import Path

from edgec.runtime.edgert_library import find_library
from edgec.runtime.errors import DeviceMissing
from edgec.runtime.native_build import Recipe, built

__all__ = ["PJRT_VARIABLE", "find_plugin"]

PJRT_VARIABLE = "EDGEC_PJRT_LIBRARY"
_NAME = "libedgec_pjrt.dylib" if sys.platform == "darwin" else "libedgec_pjrt.so"
_PACKAGED = Path(__file__).resolve().with_name(_NAME)
_CHECKOUT = _PACKAGED.parents[2]
_FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-O2", "-DNDEBUG", "-DEDGERT_BUILDING"),
    *("-fPIC", "-shared", "-fvisibility=hidden"),
)


@cache
def find_plugin() -> Path:
    """The shared library; in a checkout it is built if it is not there.

    Raises:
        DeviceMissing: it is not where the variable says, this installation has none, or a checkout
            has nothing to build it with.
        DeviceError: it could not be built or written.
        FileError: no space is left for it, or for the compiler.
    """
    named = os.environ.get(PJRT_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise DeviceMissing(
                f"${PJRT_VARIABLE} names {named}, which is no file", hint=f"unset ${PJRT_VARIABLE}"
            )
        return Path(named)
    if _PACKAGED.is_file():
        return _PACKAGED
    if os.name != "posix" or not (_CHECKOUT / "pjrt").is_dir():
        raise DeviceMissing(
            "this installation of edgec-runtime holds no PJRT plugin",
            hint="install its wheel for Linux or macOS (pip install --only-binary=:all: "
            "edgec-runtime); there is none for Windows",
        )
    return built(
        Recipe(
            what="edgec's PJRT plugin",
            file=_NAME,
            folder="pjrt",
            sources=(_CHECKOUT / "pjrt",),
            headers=(_CHECKOUT / "c" / "include",),
            flags=_FLAGS,
            linked=find_library(),
            variable=PJRT_VARIABLE,
        )
    )
