"""Target and options to the compiler's command line, and to those of parts of its way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.targets import Target
from edgec.toolchain.compiling.options import CompileOptions
from edgec.toolchain.flags import command_line, compile_flags
from edgec.toolchain.linker import linker_flag
from edgec.toolchain.process import compiler_path
from edgec.toolchain.program import ProgramInfo

__all__ = ["Files", "flags_for", "line_for", "part"]


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


def part(line: Sequence[str], source: Path, output: Path, more: Sequence[str]) -> list[str]:
    """The command line for a part of the way from the program to the module."""
    compiler, _, flag, _, *flags = line
    return [compiler, str(source), flag, str(output), *flags, *more]
