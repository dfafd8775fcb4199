"""Weights as integers in groups that share a scale, and the arrays that a program keeps of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["BlockedWeights"]

_Array = np.ndarray[Any, np.dtype[Any]]
_SPAN, _PAIR = 32, 2


@dataclass(frozen=True, kw_only=True)
class BlockedWeights:
    """`(code - zero) * scale + least`, each group of neighbours with its own scale.

    Scales and least values may be small integers, which some neighbouring groups' factor makes
    numbers of.

    Attributes:
        codes: outputs x inner, signed of eight bits, from 0 to 15 of four.
        bits: of a code, 8 or 4.
        group: neighbours along inner that share a scale; all of inner for one of each output.
        zero: what is taken from every code.
        scale: a factor for each group, outputs x groups, in f16 or f32; i8 with `scale_factor`.
        least: what is added to each group, as `scale`; None for nothing.
        scale_factor, least_factor: in f32, what the integers of so many neighbouring groups are
            multiplied with, outputs x fewer; None where scales and least values are floats.
    """

    codes: _Array
    bits: int
    group: int
    zero: int
    scale: _Array
    least: _Array | None = None
    scale_factor: _Array | None = None
    least_factor: _Array | None = None

    @property
    def outputs(self) -> int:
        """Rows of the matrix."""
        return int(self.codes.shape[0])

    @property
    def inner(self) -> int:
        """What a product sums."""
        return int(self.codes.shape[1])

    @property
    def span(self) -> int:
        """Of four bits, how many neighbours lie in half as many bytes, in a program.

        As in GGUF: the first half of 32 is in the low bits, the second in the high ones.
        """
        return _PAIR if self.inner % _SPAN else _SPAN

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        numbers = sum(int(array.nbytes) for array in self._numbers.values())
        return self.codes.size * self.bits // 8 + numbers

    @property
    def _numbers(self) -> dict[str, Any]:
        """All that is kept beside the codes, by name."""
        names = ("scale", "scale_factor", "least", "least_factor")
        return {name: array for name in names if (array := getattr(self, name)) is not None}

    def __str__(self) -> str:
        """In a few words: `int4-g32`."""
        return f"int{self.bits}{'' if self.group == self.inner else f'-g{self.group}'}"

    def floats(self) -> _Array:
        """The weights that it stands for, outputs x inner, in f32 as the program computes them."""
        grouped = self.codes.reshape(self.outputs, -1, self.group).astype(np.float32)
        result = (grouped - np.float32(self.zero)) * self._spread(self.scale, self.scale_factor)
        if self.least is not None:
            result = result + self._spread(self.least, self.least_factor)
        return np.asarray(result.reshape(self.codes.shape))

    def _spread(self, numbers: _Array, factor: _Array | None) -> _Array:
        found = numbers.astype(np.float32).reshape(self.outputs, -1, 1)
        if factor is None:
            return found
        together = found.reshape(self.outputs, factor.shape[1], -1) * factor[..., None]
        return together.reshape(found.shape)

    def widened(self) -> "BlockedWeights":
        """The same with its scales and least values in f32, for targets that convert no f16."""
        wide: dict[str, Any] = {
            name: array.astype(np.float32)
            for name, array in self._numbers.items()
            if array.dtype == np.float16
        }
        return replace(self, **wide)

    def rows(self, order: _Array | slice) -> "BlockedWeights":
        """Some outputs, or all in another order: which comes first, second and so on."""
        numbers: dict[str, Any] = {name: array[order] for name, array in self._numbers.items()}
        return replace(self, codes=self.codes[order], **numbers)

    def packed(self, span: int) -> _Array:
        """Codes of four bits as bytes, outputs x runs x half a span: low halves, high halves."""
        runs = self.codes.reshape(self.outputs, -1, span)
        low, high = runs[..., : span // 2], runs[..., span // 2 :]
        return np.asarray((low | high << 4).astype(np.uint8).view(np.int8))

    @cached_property
    def parts(self) -> Mapping[str, _Array]:
        """What a program keeps, by the name of each part: codes, scale and perhaps others."""
        sizes = (self.outputs,) if self.group == self.inner else (self.outputs, -1)
        codes = self.packed(self.span) if self.bits == 4 else self.codes
        found = {name: array.reshape(sizes) for name, array in self._numbers.items()}
        return {n: np.ascontiguousarray(array) for n, array in {"codes": codes, **found}.items()}
