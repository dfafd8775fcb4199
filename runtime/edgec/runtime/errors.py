"""Every error edgec raises, as one tree: what failed, on what, what to do next, an exit code.

EdgecError 1
├── UsageError 2            a flag or argument that makes no sense
├── MissingExtra 3          an optional dependency is not installed
├── FileError 4             a file cannot be read or written (missing, full disk, permission)
├── ExportError 10
│   ├── SourceError 11      the model named on the command line cannot be found or loaded
│   └── UnsupportedOp 12    a framework operation that has no portable form
├── ProgramError 15         a program file is damaged, or of a kind edgec does not read
├── TargetError 20          an unknown or impossible target
├── CompileError 21         the compiler refused the program
│   └── CompilerCrash 22    the compiler died
├── WrongAnswer 23          a compiled module disagrees with its golden answers or --expected
├── ProfileError 24         a tuning profile is damaged, or of another program or target
├── ModuleError 30          a module file is damaged or no module at all
│   ├── ModuleMismatch 31   a sound module, for another target, device or compiler version
│   └── Untrusted 32        not signed by the key that was asked for, or changed since
├── DeviceError 40          a device failed while it worked
│   └── DeviceMissing 41    no such device here
└── InputError 50           wrong count, shape, dtype or name of an argument
"""

__all__ = [
    "CompileError",
    "CompilerCrash",
    "DeviceError",
    "DeviceMissing",
    "EdgecError",
    "ExportError",
    "FileError",
    "InputError",
    "MissingExtra",
    "ModuleError",
    "ModuleMismatch",
    "ProfileError",
    "ProgramError",
    "SourceError",
    "TargetError",
    "UnsupportedOp",
    "Untrusted",
    "UsageError",
    "WrongAnswer",
]


class EdgecError(Exception):
    """What failed (one line), where, and the next step a person can take.

    Args:
        what: one sentence, no final newline: what failed and on what.
        where: the place in the user's own source or file, if known (`model.py:12 (forward)`).
        hint: what to do next, as an imperative sentence or a command.
        log: the path of a file holding the full detail, if one was written.
    """

    exit_code: int = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        log: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.log = log

    @property
    def code(self) -> str:
        """The stable name of this kind of error, as `--json` prints it: the class name."""
        return type(self).__name__

    def __str__(self) -> str:
        """The whole message, a line for each part that is known."""
        parts = [self.what]
        if self.where:
            parts.append(f"  at:   {self.where}")
        if self.hint:
            parts.append(f"  next: {self.hint}")
        if self.log:
            parts.append(f"  log:  {self.log}")
        return "\n".join(parts)


class UsageError(EdgecError):
    """A flag, name or combination that makes no sense."""

    exit_code = 2


class MissingExtra(EdgecError):
    """An optional dependency is not installed; the hint is the exact pip command."""

    exit_code = 3


class FileError(EdgecError):
    """A file cannot be read or written: missing, no permission, no space."""

    exit_code = 4


class ExportError(EdgecError):
    """A model could not be turned into a program."""

    exit_code = 10


class SourceError(ExportError):
    """The model that was named cannot be found, imported or recognised."""

    exit_code = 11


class UnsupportedOp(ExportError):
    """The model uses a framework operation that has no portable form."""

    exit_code = 12


class ProgramError(EdgecError):
    """A program file is damaged, or of a kind edgec does not read."""

    exit_code = 15


class TargetError(EdgecError):
    """No such target, or one that this compiler cannot make code for."""

    exit_code = 20


class CompileError(EdgecError):
    """The compiler refused the program."""

    exit_code = 21


class CompilerCrash(CompileError):
    """The compiler died (signal, assertion, out of memory)."""

    exit_code = 22


class WrongAnswer(EdgecError):
    """A module runs, and its answers differ from the expected ones by more than the tolerance."""

    exit_code = 23


class ProfileError(EdgecError):
    """A tuning profile is damaged, or was made for another program or target."""

    exit_code = 24


class ModuleError(EdgecError):
    """A module file is damaged, truncated, or no module at all."""

    exit_code = 30


class ModuleMismatch(ModuleError):
    """A sound module that cannot run here: other target, device, CPU features or version."""

    exit_code = 31


class Untrusted(ModuleError):
    """A module, its weights or a package that a key did not sign, or that changed since."""

    exit_code = 32


class DeviceError(EdgecError):
    """A device failed while it worked (out of memory, lost, refused a kernel)."""

    exit_code = 40


class DeviceMissing(DeviceError):
    """The device asked for is not here, or not usable; `edgec devices` says why."""

    exit_code = 41


class InputError(EdgecError):
    """An argument has the wrong name, count, shape or dtype."""

    exit_code = 50
