"""edgec's errors that are also the exceptions which TensorFlow Lite raises in the same places."""

from typing import Self

from edgec.runtime.errors import DeviceError, EdgecError, InputError, ModuleError

__all__ = ["CannotResize", "InvalidArgument", "NotLoaded", "NotReady"]


class InvalidArgument(InputError, ValueError):
    """An index, shape, element type or name that the model does not have."""


class CannotResize(InvalidArgument, RuntimeError):
    """A shape that the model cannot take: TensorFlow Lite says ValueError and raises the other."""


class NotReady(DeviceError, RuntimeError):
    """The tensors are not allocated, or the model failed while it ran."""

    @classmethod
    def of(cls, error: EdgecError) -> Self:
        """The same error, for scripts that catch RuntimeError."""
        return cls(error.what, where=error.where, hint=error.hint, log=error.log)


class NotLoaded(ModuleError, ValueError):
    """The file is missing, no module, or of another machine."""

    @classmethod
    def of(cls, error: EdgecError) -> Self:
        """The same error, for scripts that catch ValueError."""
        return cls(error.what, where=error.where, hint=error.hint, log=error.log)
