"""A program made for two sizes, and how it grows between them.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.batches.marks import Mark
from edgec.toolchain.buckets.sizes import Size, Two
from edgec.toolchain.ir.functions import entry_block, find_function
from edgec.toolchain.ir.write import tensor
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

__all__ = ["Examples", "Model", "main_of"]


@dataclass(frozen=True, kw_only=True)
class Examples:
    """That the program is for one example of a batch, each of which is computed by itself.

    Attributes:
        arguments: which axis of each argument counts them.
        results: the same of its results.
    """

    arguments: tuple[Mark | None, ...]
    results: tuple[Mark, ...]


def main_of(module: Any) -> Any:
    """The function `main` of an `ir.Module`, in which all calls are inlined."""
    InlineCalls().run(module)
    return find_function(module, "main")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A program made for two sizes.

    Attributes:
        function, twin: its `main` for the two, without calls.
        two: the sizes, the largest first.
        least: the least size that it gets.
        examples: that there may be more of than the one that it is for; None where there are not.
    """

    function: Any
    twin: Any
    two: Two
    least: int
    examples: Examples | None = None

    @property
    def arguments(self) -> list[tuple[Size, ...]]:
        """How each argument grows."""
        blocks = [entry_block(each).arguments for each in (self.function, self.twin)]
        return [self.two.shape_of(*both) for both in zip(*blocks, strict=True)]

    @property
    def results(self) -> list[tuple[Size, ...]]:
        """How each result grows."""
        ends = [list(entry_block(f).operations)[-1].operation for f in (self.function, self.twin)]
        pairs = zip(ends[0].operands, ends[1].operands, strict=True)
        return [self.two.shape_of(*both) for both in pairs]

    def kinds(self, size: int) -> list[Any]:
        """The types of its arguments for a size."""
        return [
            tensor([each.of(size) for each in sizes], value.type.element_type)
            for value, sizes in zip(
                entry_block(self.function).arguments, self.arguments, strict=True
            )
        ]
