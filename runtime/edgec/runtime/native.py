"""IREE's runtime as it is here: its version, and its errors as errors of the tree."""

import importlib.metadata
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from edgec.runtime.errors import (
    DeviceError,
    DeviceMissing,
    EdgecError,
    InputError,
    ModuleMismatch,
)

__all__ = ["iree_runtime", "native_errors", "status_text"]

_KINDS: dict[str, tuple[type[EdgecError], str | None]] = {
    "RESOURCE_EXHAUSTED": (DeviceError, "free memory on the device, or use a smaller batch"),
    "INCOMPATIBLE": (ModuleMismatch, "compile the program for this device (--target)"),
    "UNAVAILABLE": (DeviceMissing, "see `edgec devices` for what is here and why"),
}
_OTHER_SUBGROUPS = "requires subgroup size"
"""What IREE says of a module for another GPU, as of a device that is not there."""
_STATUS = re.compile(r"\b([A-Z][A-Z_]{4,}); ?(.*)", re.DOTALL)


@cache
def iree_runtime() -> str:
    """Name and version (`IREE 3.13.0`), read and not imported; empty where it is not installed."""
    try:
        return f"IREE {importlib.metadata.version('iree-base-runtime')}"
    except importlib.metadata.PackageNotFoundError:
        return ""


@contextmanager
def native_errors(
    what: str, otherwise: type[EdgecError], hint: str | None = None
) -> Iterator[None]:
    """Turn what IREE raises inside the block into an `EdgecError`.

    Args:
        what: what was tried, as the beginning of a sentence (`cannot load m.vmfb`).
        otherwise: the kind of error when the status names no better one.
        hint: the next step for that kind.
    """
    try:
        yield
    except MemoryError as error:
        raise DeviceError(f"{what}: out of memory", hint="use a smaller batch") from error
    except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError) as error:
        status, text = status_text(str(error))
        if _OTHER_SUBGROUPS in text:
            status = "INCOMPATIBLE"
        if status == "INVALID_ARGUMENT" and otherwise is InputError:
            raise InputError(f"{what}: {text}", hint=hint) from error
        kind, advice = _KINDS.get(status, (otherwise, hint))
        if "empty buffer range" in text:
            advice = "this driver runs no kernel on an empty tensor; give at least one element"
        raise kind(f"{what}: {text}", hint=advice or hint) from error


def status_text(message: str) -> tuple[str, str]:
    """IREE's status name and its message without file names, kept to a readable length."""
    found = _STATUS.search(message)
    status, text = (found[1], found[2]) if found else ("", message)
    text = re.split(r"; while (?:invoking|calling)|\n", text.strip())[0].strip().rstrip(";")
    text = re.sub(r": #hal\.device\.target<.*", "", text)
    return status, text if len(text) <= 300 else f"{text[:300]}…"
