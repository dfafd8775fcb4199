"""What `compile` and `package` are given to a Program: its file, or a model that is exported."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.cli.session import Session
from edgec.runtime.errors import SourceError, UsageError

if TYPE_CHECKING:
    from edgec.toolchain import Program

__all__ = [
    "Exporting",
    "arrays_of",
    "check_program_name",
    "export_model",
    "is_program",
    "open_given",
    "place_of",
]

_SUFFIXES = (".mlirbc", ".mlir")


@dataclass(frozen=True, kw_only=True)
class Exporting:
    """How a model is exported on the way to a module; the options of `edgec export`.

    Attributes:
        signatures: `--signature`.
        dynamic: `--dynamic`.
        inputs: `--inputs`.
        external_weights: `--external-weights`.
        keep: where the program is kept; None for nowhere.
        context: `--context`.
        prefill: `--prefill`.
        speculate: `--speculate`.
        floats: `--floats`.
        licence: `--licence`.
        values: `--values`.
        chunk: `--chunk`; None for the usual number.
        buckets: `--buckets`; None for the usual ones.
        mesh: `--mesh`.
        shard: `--shard`.
    """

    signatures: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    inputs: str | None = None
    external_weights: Path | None = None
    keep: Path | None = None
    context: int | None = None
    prefill: tuple[int, ...] = ()
    speculate: int = 0
    floats: bool = False
    licence: str = ""
    values: bool = False
    chunk: int | None = None
    buckets: tuple[int, ...] | None = None
    mesh: str | None = None
    shard: tuple[str, ...] = ()

    def flags(self) -> tuple[str, ...]:
        """The options that were given, as they are spelled."""
        given = {
            "--signature": self.signatures,
            "--dynamic": self.dynamic,
            "--inputs": self.inputs,
            "--external-weights": self.external_weights,
            "--keep-program": self.keep,
            "--mesh": self.mesh,
            "--shard": self.shard,
        }
        return tuple(flag for flag, value in given.items() if value)


def is_program(text: str) -> bool:
    """Whether this names a program, by its suffix, rather than a model."""
    return Path(text).suffix in _SUFFIXES


def place_of(text: str, exporting: Exporting) -> Path:
    """Where the program is or is kept, or where `edgec export` would put it.

    What is made of it is called after it, and lies beside it where no other place is named.

    Raises:
        UsageError: options of export are given with a program, or name no program file.
    """
    from edgec.toolchain.program import source_stem

    if is_program(text):
        flags = exporting.flags()
        if flags:
            raise UsageError(
                f"{text} is a program already, and {', '.join(flags)} says how to export a model",
                hint=f"export it first: edgec export {text} -o NEW.mlirbc {flags[0]}=…",
            )
        return Path(text)
    if exporting.keep is None:
        return Path(f"{source_stem(text)}.mlirbc")
    check_program_name(exporting.keep)
    return exporting.keep


def check_program_name(path: Path) -> None:
    """Refuse a name that no program has.

    Raises:
        UsageError: it is one.
    """
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"a program cannot be named {path}", hint="end its name in .mlirbc")


def open_given(
    session: Session, text: str, exporting: Exporting, *, cache: bool = True
) -> "Program":
    """The program: read from its file, or exported of a model, and kept where that is asked for.

    Raises:
        FileError: a file cannot be read or written.
        And what `edgec.exporters.export_source` raises.
    """
    from edgec.cli.folders import make_place
    from edgec.toolchain import load_program

    place = place_of(text, exporting)
    if is_program(text):
        return load_program(place, cache=cache)
    if exporting.keep is not None:
        make_place(place)
    return export_model(session, text, exporting, exporting.keep)


def export_model(
    session: Session, source: str, exporting: Exporting, path: Path | None
) -> "Program":
    """Export a model, and save the program where there is a place for it.

    Raises:
        As `edgec.exporters.export_source`.
    """
    from edgec.cli.folders import make_place
    from edgec.exporters import export_source

    if exporting.external_weights is not None:
        make_place(exporting.external_weights)
    session.say(f"exporting {source}")
    inputs = exporting.inputs
    try:
        program = export_source(
            source,
            signatures=exporting.signatures,
            dynamic=exporting.dynamic,
            external_weights=exporting.external_weights,
            folder=Path() if path is None else path.parent,
            inputs=None if inputs is None else arrays_of("--inputs", inputs),
            context=exporting.context,
            prefill=exporting.prefill,
            speculate=exporting.speculate,
            floats=exporting.floats,
            licence=exporting.licence,
            values=exporting.values,
            chunk=exporting.chunk,
            buckets=exporting.buckets,
            mesh=exporting.mesh,
            shard=exporting.shard,
        )
    except SystemExit as stop:
        raise SourceError(
            f"{source} ended the process while it was imported (exit code {stop.code})",
            hint="keep what only a script should do under `if __name__ == '__main__':`",
        ) from stop
    if exporting.external_weights is not None and program.info.weights is None:
        session.note(
            f"the model has no weights worth a file: {exporting.external_weights} is not written"
        )
    return program if path is None else program.save(path)


def arrays_of(flag: str, text: str) -> Mapping[str, Any]:
    """`@inputs.npz` → its arrays.

    Raises:
        UsageError: it names no such file.
    """
    from edgec.cli.array_files import read_npz

    path = Path(text.removeprefix("@"))
    if not text.startswith("@") or path.suffix != ".npz":
        raise UsageError(
            f"{flag}={text} names no archive of arrays",
            hint=f"write them with numpy.savez, and give {flag}=@FILE.npz",
        )
    return read_npz(path, lambda keys: {key: lambda *_: None for key in keys})
