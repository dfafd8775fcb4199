"""PTX kernels as executables of a module, with counters for sums in parts.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.kernels.gpu import dispatches

__all__ = ["Library"]

_SLOTS = 256
_SLOT = 128


class Library(dispatches.Library):
    """The kernels for one GPU family."""

    def __init__(self, module: Any, folder: str) -> None:
        super().__init__(module, f"cuda/{folder}", "ptx", '"cuda", "cuda-nvptx-fb"')

    def slot(self) -> int:
        """Where the next call finds counters of its own: calls may run at the same time."""
        return self.calls % _SLOTS * _SLOT
