"""A file to whether it holds a program or a module: by its name, else by how it starts.

A model is neither: only `export`, `compile` and `package` take one.
"""

from pathlib import Path

from edgec.runtime.errors import UsageError
from edgec.runtime.files import unreadable

__all__ = ["is_program_file", "refuse_all_but_programs", "refuse_models"]

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
        UsageError: it is a model.
    """
    refuse_models(path)
    if path.suffix in _PROGRAMS:
        return True
    if path.suffix == ".vmfb":
        return False
    try:
        with path.open("rb") as stream:
            start = stream.read(64).lstrip()
    except OSError as error:
        raise unreadable(path, error) from error
    return start.startswith(_PROGRAM_STARTS)


def refuse_models(path: Path) -> None:
    """Refuse what has to be exported first.

    Raises:
        UsageError: it is a model.
    """
    if path.suffix not in _PROGRAMS and _is_model(path):
        raise UsageError(
            f"{path} is a model, and a program or module is wanted",
            hint=f"export it first: edgec export {path}",
        )


def refuse_all_but_programs(path: Path) -> None:
    """Refuse models and modules.

    Raises:
        UsageError: it is one.
    """
    refuse_models(path)
    if path.suffix == ".vmfb":
        raise UsageError(
            f"{path} is a module, and a program is wanted",
            hint="name the .mlirbc file that it was compiled from",
        )


def _is_model(path: Path) -> bool:
    """Whether this is what `edgec export` takes, by its spelling: nothing is imported for it."""
    from edgec.exporters.frameworks import FRAMEWORKS

    head, colon, name = str(path).rpartition(":")
    if colon and len(head) > 1 and name and not path.exists():
        return "/" not in name or head == "hf"
    kinds = {suffix for framework in FRAMEWORKS.values() for suffix in framework.suffixes}
    return path.suffix in {*kinds, ".gguf", ".py"} or (path / "saved_model.pb").is_file()
