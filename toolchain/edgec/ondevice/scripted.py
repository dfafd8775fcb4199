"""What every way does alike once it can run a script: run one in the folder, remove the folder."""

from abc import ABC, abstractmethod

from edgec.ondevice.scripts import close_script, in_folder
from edgec.ondevice.transport import Answer
from edgec.runtime.errors import EdgecError

__all__ = ["SECONDS", "Scripted"]

SECONDS = 60.0
"""The most that a script may take that only asks, makes or removes something."""


class Scripted(ABC):
    """The part of a `Transport` that is scripts.

    Attributes:
        folder: its folder on the device; empty before it is made.
    """

    folder = ""

    @abstractmethod
    def _ran(self, script: str, doing: str, seconds: float | None) -> Answer:
        """A script that came to its end, wherever it runs.

        Raises:
            DeviceError: the device went away while it was `doing` that.
        """

    def shell(self, script: str) -> Answer:
        """Run a script in the folder."""
        return self._ran(in_folder(self.folder, script), "running", None)

    def close(self) -> bool:
        """Remove the folder."""
        if not self.folder:
            return True
        try:
            return self._ran(close_script(self.folder), "cleaning up", SECONDS).code == 0
        except EdgecError:
            return False
