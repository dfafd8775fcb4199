"""Options of `edgec verify` that have no meaning together, to errors that say so."""

from pathlib import Path

from edgec.runtime.errors import UsageError

__all__ = ["refuse_for_modules", "refuse_without_meaning"]


def refuse_for_modules(
    file: Path, *, is_program: bool, target: bool, layers: bool, bisect: bool, corners: bool
) -> None:
    """Refuse what is compiled anew, of a module.

    Raises:
        UsageError: it was asked for.
    """
    flags = {"--target": target, "--layers": layers, "--bisect": bisect, "--corners": corners}
    asked = next((flag for flag, is_given in flags.items() if is_given), None)
    if asked is not None and not is_program:
        raise UsageError(
            f"{asked} asks of a program, and {file} is a module",
            hint="give the program (.mlirbc) that it was compiled of",
        )


def refuse_without_meaning(
    *,
    layers: bool,
    bisect: bool,
    picture_file: Path | None,
    output: Path | None,
    soak: int | None,
    on: str | None,
) -> None:
    """Refuse options of others that are not there.

    Raises:
        UsageError: there is one.
    """
    if picture_file is not None and (not layers or picture_file.suffix != ".svg"):
        raise UsageError(
            f"--picture={picture_file} draws what --layers finds, as SVG",
            hint="add --layers, and end the name in .svg",
        )
    if output is not None and (not bisect or output.suffix != ".mlir"):
        raise UsageError(
            f"-o {output} is where --bisect writes a program as text",
            hint="add --bisect, and end the name in .mlir",
        )
    if soak is not None and on is not None:
        raise UsageError(
            "--soak calls from threads of this machine, and --on is another one",
            hint="run `edgec verify` there, or leave one of them out",
        )
