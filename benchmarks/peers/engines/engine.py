"""What an engine is: made once a model, prepared in a process of its own, then run often."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.peers.models.model import Model

__all__ = ["Engine", "Refused"]


class Refused(Exception):
    """An engine that does not take a model; the text says why."""


class Engine(ABC):
    """One way of running models. Files of one model lie in one folder, shared by all engines."""

    name: ClassVar[str]
    """As on the command line."""
    title: ClassVar[str]
    """As in the table."""
    packages: ClassVar[tuple[str, ...]]
    """The Python packages whose versions matter."""

    @abstractmethod
    def build(self, model: Model, folder: Path) -> dict[str, float]:
        """Make the files that `prepare` loads; what it took, in seconds, by step.

        Runs in a process of its own with all cores, and may keep what an earlier run made.
        """

    @abstractmethod
    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        """Load the model to run it on so many threads; the process is pinned to as many cores."""

    @abstractmethod
    def run(self) -> None:
        """One inference on the model's example inputs, until the outputs are there."""

    @abstractmethod
    def outputs(self) -> Sequence[np.ndarray]:
        """What the latest run gave; images with the channels last."""
