"""Kernels as an object file that an app links: one symbol, its own for each model.

The compiler names the symbol after the program's MLIR module, most often `module`, so that two
models could not go into one app. The name is replaced in the object's string table by another of
the same length, made from the model's name and the kernels.
"""

import hashlib
import re
from pathlib import Path

from edgec.runtime.errors import CompileError

__all__ = ["own_symbol"]

_DECLARED = re.compile(r"^(\w+_library_query)\(", re.MULTILINE)


def own_symbol(library: Path, model: str) -> str:
    """Give the object file of a model's kernels a symbol of its own, and return its name.

    The header that the compiler writes beside the object is removed: it includes one of IREE's.

    Raises:
        CompileError: the compiler wrote no library, or not as it is known to.
    """
    header = library.with_suffix(".h")
    try:
        data, text = library.read_bytes(), header.read_text()
    except OSError as error:
        raise CompileError(
            f"the compiler wrote no library of kernels: {error.strerror}",
            hint="a program that computes nothing has none; make a package without --static",
        ) from error
    found = _DECLARED.search(text)
    old = found.group(1).encode() if found else b""
    if not old or data.count(old + b"\0") != 1:
        raise CompileError(f"the kernels in {library.name} are not named as is known")
    digest = hashlib.sha256(model.encode() + b"\0" + data).hexdigest()
    new = f"edgec_{digest * 4}"[: len(old)]
    library.write_bytes(data.replace(old + b"\0", new.encode() + b"\0"))
    header.unlink()
    return new
