"""Target and options to the compiler's command line, and to those of its two halves."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.targets import Target
from edgec.toolchain.compiling.options import CompileOptions
from edgec.toolchain.flags import command_line, compile_flags
from edgec.toolchain.linker import linker_flag
from edgec.toolchain.outside import FIRST_HALF, SECOND_HALF
from edgec.toolchain.process import compiler_path
from edgec.toolchain.program import ProgramInfo

__all__ = ["Files", "first_half", "flags_for", "line_for", "second_half"]


@dataclass(frozen=True, kw_only=True)
class Files:
    """Where one compile keeps the compiler's input and output."""

    source: Path
    module: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str, target: Target) -> "Files":
        """By the names of program and target."""
        stem = f"{name}.{target.file_name}"
        return cls(source=folder / f"{stem}.mlirbc", module=folder / f"{stem}.vmfb")


def flags_for(target: Target, level: int, info: ProgramInfo | None) -> list[str]:
    """The compiler's flags for a program; without its description, for plain StableHLO."""
    if info is None:
        return compile_flags(target, level=level)
    return compile_flags(target, level=level, dialect=info.dialect, doubles=info.needs_doubles)


def line_for(
    files: Files, target: Target, options: CompileOptions, info: ProgramInfo | None
) -> list[str]:
    """The whole command line."""
    flags = flags_for(target, options.settings.level, info)
    if options.keep_temps is not None:
        flags.append(f"--iree-hal-dump-executable-files-to={files.module.with_suffix('.kernels')}")
    flags += linker_flag(target, files.module)
    return command_line(
        compiler_path(), files.source, files.module, flags, options.settings.iree_args
    )


def first_half(line: Sequence[str], output: Path) -> list[str]:
    """A command line that ends where constants are folded."""
    compiler, source, flag, _, *flags = line
    return [compiler, source, flag, str(output), *flags, *FIRST_HALF]


def second_half(line: Sequence[str], source: Path) -> list[str]:
    """A command line that goes on from there."""
    compiler, _, *rest = line
    return [compiler, str(source), *rest, *SECOND_HALF]
