"""A file to whether it holds a program or a module: by its name, else by how it starts."""

from pathlib import Path

from edgec.runtime.errors import FileError

__all__ = ["is_program_file"]

_PROGRAMS = frozenset({".mlirbc", ".mlir", ".stablehlo"})
_PROGRAM_STARTS = (
    b"ML\xefR",
    b"module",
    b"func.func",
    b"builtin.module",
    b'"builtin.',
    b"//",
    b"#",
)


def is_program_file(path: Path) -> bool:
    """Whether a file is a program rather than a module.

    Raises:
        FileError: it cannot be read.
    """
    if path.suffix in _PROGRAMS:
        return True
    if path.suffix == ".vmfb":
        return False
    try:
        with path.open("rb") as stream:
            start = stream.read(64).lstrip()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    return start.startswith(_PROGRAM_STARTS)
