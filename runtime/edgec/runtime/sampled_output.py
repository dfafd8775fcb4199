"""An expected output to a few numbers that tell a right answer from a wrong one.

Samples at some places, each with what it may be off by; and sums over parts of the output in which
each number counts positive or negative as a hash says. Rounding adds up in such a sum as its root
mean square does, and a wrong number stands out of it wherever it is, so that the sums see every
number. All are whole multiples of `2**exponent`, which leaves no room for what is no number.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ModuleError
from edgec.runtime.seeded_input import MOST_EXPONENT, hashed, lanes, whole
from edgec.runtime.tolerance import Tolerance, root_mean_square

__all__ = ["Judged", "SampledOutput"]

_PRECISE = 40
"""Bits of what is kept of the largest number."""
_MOST_PARTS = 16
_LEAST_PART = 16
"""Numbers in a part: fewer have no root mean square to speak of."""
_EXACT = 1 << 53
_SIGMAS = 4.0
_TOGETHER = 1 / 3
"""Of what each may be off by, all together may be (as `comparison` has it)."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How an output compares.

    Attributes:
        problem: what is wrong, as the end of a sentence; empty where nothing is.
        share: the largest part of what is allowed that was needed; more than 1 where it is wrong.
    """

    problem: str
    share: float


@dataclass(frozen=True, kw_only=True)
class SampledOutput:
    """What is known of one output.

    Attributes:
        dtype: its type.
        shape: its sizes.
        exponent: samples are whole multiples of 2 to this.
        samples: position in the flat output (of a complex number each part has one), value, and
            what it may be off by.
        sum_exponent: the same for sums.
        sums: of equal parts of the output, one after the other; value, and what it may be off by.
        seed: of the hash whose highest bit says which numbers count negative.
    """

    dtype: DType
    shape: tuple[int, ...]
    exponent: int
    samples: tuple[tuple[int, int, int], ...]
    sum_exponent: int = 0
    sums: tuple[tuple[int, int], ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        size = self._size
        bad = (
            any(length < 0 for length in self.shape)
            or max(abs(self.exponent), abs(self.sum_exponent)) > MOST_EXPONENT
            or len(self.sums) > size
            or not 0 <= self.seed < 1 << 32
            or any(not 0 <= at < size for at, _, _ in self.samples)
            or any(max(abs(v), w) > _EXACT or w < 0 for _, v, w in self.samples)
            or any(max(abs(v), w) > _EXACT or w < 0 for v, w in self.sums)
        )
        if bad:
            raise ModuleError("a golden call's answer is impossible")

    @property
    def _size(self) -> int:
        return math.prod(self.shape) * (self.dtype.bits // lanes(self.dtype).bits)

    @classmethod
    def of(
        cls,
        expected: np.ndarray,
        tolerance: Tolerance,
        *,
        within: float = 0.0,
        open_: np.ndarray | None = None,
        samples: int = 32,
        seed: int = 0,
    ) -> "SampledOutput":
        """What to keep of an output.

        Args:
            expected: the answer; every number is finite.
            tolerance: how far a number may be off.
            within: how far it may be off in any case.
            open_: where whole numbers are not settled, and not looked at.
            samples: how many places to look at.
            seed: of the hash that chooses places and signs.
        """
        dtype = DType.of(expected.dtype)
        absolute, relative = tolerance.limits(expected)
        values = _numbers(expected)
        limits = max(absolute, within) + relative * np.abs(values)
        exponent = 0 if not dtype.is_float else _fitting(values)
        settled = np.arange(values.size)
        if open_ is not None and open_.any():
            settled = settled[~open_.reshape(-1)]
        sums: tuple[tuple[int, int], ...] = ()
        sum_exponent = 0
        if settled.size == values.size:
            together = _TOGETHER if tolerance.spread else 1.0
            sums, sum_exponent = _sums(values, limits, dtype, seed, together)
        return cls(
            dtype=dtype,
            shape=expected.shape,
            exponent=exponent,
            samples=tuple(
                (at, _scaled(values[at], exponent), _up(limits[at], exponent))
                for at in _places(settled, samples, seed)
            ),
            sum_exponent=sum_exponent,
            sums=sums,
            seed=seed,
        )

    def judge(self, actual: np.ndarray) -> Judged:
        """Compare an output with what is known of it."""
        if actual.dtype != self.dtype.numpy or actual.shape != self.shape:
            return Judged(
                problem=f"it is {actual.dtype}{list(actual.shape)} and should be "
                f"{self.dtype.value}{list(self.shape)}",
                share=math.inf,
            )
        values = _numbers(actual)
        wrong: list[tuple[float, str]] = []
        most = 0.0
        for at, value, allowed in self.samples:
            found, wanted = float(values[at]), math.ldexp(value, self.exponent)
            share = _share(found, wanted, math.ldexp(allowed, self.exponent))
            most = max(most, share)
            if share > 1:
                wrong.append((share, f"number {at} is {found:.9g} and should be {wanted:.9g}"))
        if wrong:
            text = f"{len(wrong)} of {len(self.samples)} samples are off; the worst, "
            return Judged(problem=text + max(wrong)[1], share=most)
        count = len(self.sums)
        for part, (value, allowed) in enumerate(self.sums):
            first, last = _part(part, count, values.size)
            with np.errstate(over="ignore", invalid="ignore"):
                found = float(np.sum(values[first:last] * _signs(self.seed, first, last)))
            wanted = math.ldexp(value, self.sum_exponent)
            share = _share(found, wanted, math.ldexp(allowed, self.sum_exponent))
            most = max(most, share)
            if share > 1:
                return Judged(
                    problem=f"among the numbers {first} to {last - 1} some are off: their sum is "
                    f"{found:.9g} and should be {wanted:.9g}",
                    share=most,
                )
        return Judged(problem="", share=most)

    def sampled(self, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An output's numbers at the samples' places, and what they should be, both in f64.

        Args:
            actual: of this type and shape.
        """
        values = _numbers(actual)
        found = np.array([values[at] for at, _, _ in self.samples], np.float64)
        wanted = [math.ldexp(value, self.exponent) for _, value, _ in self.samples]
        return found, np.array(wanted, np.float64)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "type": self.dtype.value,
            "shape": list(self.shape),
            "exponent": self.exponent,
            "samples": [number for sample in self.samples for number in sample],
            "seed": self.seed,
            "sum_exponent": self.sum_exponent,
            "sums": [number for pair in self.sums for number in pair],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SampledOutput":
        """The inverse of `to_json`.

        Raises:
            ModuleError, KeyError, TypeError, ValueError: it is damaged.
        """
        samples = [whole(number) for number in value["samples"]]
        sums = [whole(number) for number in value["sums"]]
        return cls(
            dtype=DType(value["type"]),
            shape=tuple(map(whole, value["shape"])),
            exponent=whole(value["exponent"]),
            samples=tuple(zip(*(iter(samples),) * 3, strict=True)),
            sum_exponent=whole(value["sum_exponent"]),
            sums=tuple(zip(*(iter(sums),) * 2, strict=True)),
            seed=whole(value["seed"]),
        )


def _numbers(array: np.ndarray) -> np.ndarray:
    """The flat numbers as f64; of 64-bit integers the low 32 bits."""
    part = lanes(DType.of(array.dtype))
    flat = np.ascontiguousarray(array).reshape(-1).view(part.numpy)
    if not part.is_float and part.bits == 64:
        flat = flat.view(np.uint32)[::2]
    if not part.is_float and part.bits >= 32:
        flat = flat.view(np.int32) if flat.flags.c_contiguous else flat.astype(np.int32)
    return np.asarray(flat.astype(np.float64))


def _share(found: float, wanted: float, allowed: float) -> float:
    if found == wanted:
        return 0.0
    distance = abs(found - wanted)
    if not math.isfinite(distance) or not allowed:
        return math.inf
    return distance / allowed


def _fitting(values: np.ndarray) -> int:
    most = float(np.abs(values).max(initial=0.0))
    exponent = math.frexp(most)[1] - _PRECISE if most else -_PRECISE
    return max(-MOST_EXPONENT, min(exponent, MOST_EXPONENT))


def _scaled(value: float, exponent: int) -> int:
    return round(math.ldexp(float(value), -exponent))


def _up(limit: float, exponent: int) -> int:
    """What a limit allows; what cannot be kept of a number is allowed on top."""
    scaled = math.ldexp(float(limit), -exponent)
    return min(math.ceil(scaled) + (exponent != 0), _EXACT)


def _part(part: int, count: int, size: int) -> tuple[int, int]:
    return part * size // count, (part + 1) * size // count


def _signs(seed: int, first: int, last: int) -> np.ndarray:
    bits = hashed(seed, np.arange(first, last, dtype=np.uint64)) >> np.uint32(31)
    return 1.0 - 2.0 * bits.astype(np.float64)


def _sums(
    values: np.ndarray, limits: np.ndarray, dtype: DType, seed: int, together: float
) -> tuple[tuple[tuple[int, int], ...], int]:
    count = min(_MOST_PARTS, max(1, values.size // _LEAST_PART)) if values.size else 0
    found = []
    for part in range(count):
        first, last = _part(part, count, values.size)
        signed = float(np.sum(values[first:last] * _signs(seed, first, last)))
        allowed = limits[first:last]
        spread = _SIGMAS * together * math.sqrt(allowed.size) * root_mean_square(allowed)
        found.append((signed, min(spread, float(np.sum(allowed)))))
    if not dtype.is_float:
        if float(np.abs(values).sum()) >= _EXACT:  # some order of adding would round
            return (), 0
        return tuple((round(value), math.floor(allowed)) for value, allowed in found), 0
    exponent = _fitting(np.array([max(abs(v), w) for v, w in found]))
    return tuple((_scaled(v, exponent), _up(w, exponent)) for v, w in found), exponent


def _places(settled: np.ndarray, count: int, seed: int) -> list[int]:
    """Places to look at: one in each of equal parts."""
    count = min(count, settled.size)
    jitter = hashed(seed ^ 0x5BD1E995, np.arange(count, dtype=np.uint64)) / 2.0**32
    at = ((np.arange(count) + jitter) * settled.size / max(count, 1)).astype(np.int64)
    return [int(settled[place]) for place in at]
