"""How far a compile has come: its steps, their times, and who is told."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Clock", "Phase", "Step"]


class Step(Enum):
    """The steps of a compile, in order."""

    READ = "read"
    PASSES = "passes"
    COMPILE = "compile"
    CHECK = "check"
    WRITE = "write"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Progress: which step is at work, on which target, and for how many seconds now."""

    step: Step
    target: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Times the steps of one compile and tells who asked."""

    target: str
    progress: Callable[[Phase], None] | None
    seconds: dict[Step, float] = field(default_factory=dict)

    def tell(self, step: Step, seconds: float) -> None:
        """Say that the step is at work for so many seconds."""
        if self.progress is not None:
            self.progress(Phase(step=step, target=self.target, seconds=seconds))

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """Time what is done inside."""
        self.tell(step, 0.0)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - start
