"""What is open until it is closed, as a context manager."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """`with` closes it at the end, whatever happened inside."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds; closing twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
