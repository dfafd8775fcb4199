"""A kernel that JAX and PyTorch functions call: its reference there, its code in programs."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from edgec.kernels.sources import Arrays, Source
from edgec.runtime.errors import UsageError
from edgec.toolchain.own_kernels import OwnKernel

__all__ = ["Kernel"]


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Code for one or more kinds of devices, and what it computes in a framework's own words.

    Called with arrays, it gives what the reference gives: an array, or a tuple of arrays. Kernels
    of one name for several kinds of devices are joined by `|`.

    Attributes:
        name: what messages call it.
        sources: its code.
        reference: a function of JAX or PyTorch that computes the same from the same arrays.
    """

    name: str
    sources: tuple[Source, ...]
    reference: Callable[..., Any] | None = None

    def __or__(self, other: "Kernel") -> "Kernel":
        """One kernel with the code of both, and the reference of the one that has it.

        Raises:
            UsageError: both have a reference.
        """
        if not isinstance(other, Kernel):
            return NotImplemented
        if self.reference is not None and other.reference is not None:
            raise UsageError(
                f"the kernels {self.name} and {other.name} both have a reference",
                hint="give one of them: what is joined is one kernel with one reference",
            )
        return replace(
            self,
            sources=(*self.sources, *other.sources),
            reference=self.reference or other.reference,
        )

    def __call__(self, *arrays: Any) -> Any:
        """What the reference gives; in a program that is exported, the kernel in its place.

        Raises:
            UsageError: it has no reference, or its grid does not fit these arrays.
        """
        if self.reference is None:
            raise UsageError(
                f"the kernel {self.name} has no reference",
                hint="give reference=…: a function of JAX or PyTorch that computes the same. It "
                "serves devices that the code is not for, and proves the code",
            )
        torch = sys.modules.get("torch")
        if torch is not None and any(isinstance(each, torch.Tensor) for each in arrays):
            from edgec.kernels.in_torch import call as call_in_torch

            return call_in_torch(self, self.reference, arrays)
        from edgec.kernels.in_jax import call as call_in_jax

        return call_in_jax(self, self.reference, arrays)

    def described(self, arrays: Arrays, results: Arrays) -> OwnKernel:
        """The kernel as it travels, for arrays and results of these shapes."""
        codes = tuple(
            code for source in self.sources for code in source.codes(self.name, arrays, results)
        )
        return OwnKernel(name=self.name, inputs=len(arrays), codes=codes)
