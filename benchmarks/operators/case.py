"""One small program of JAX with its arguments, as data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np

__all__ = ["COMPLEX", "DTYPES", "FLOATS", "INTEGERS", "SIGNED", "UNSIGNED", "Arg", "Case", "arg"]

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("f32", "f16", "bf16", "f64")
COMPLEX = ("c64", "c128")
DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
}


@dataclass(frozen=True, kw_only=True)
class Arg:
    """An array of evenly distributed values from `low` up to `high`, or of given `values`."""

    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    values: Any = None

    def make(self, seed: str) -> np.ndarray:
        """The array; the same seed gives the same one."""
        kind = DTYPES[self.dtype]
        if self.values is not None:
            return np.asarray(self.values, kind).reshape(self.shape)
        rng = np.random.default_rng(crc32(seed.encode()))
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if kind.kind in "iu":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(kind)
        values = rng.uniform(self.low, self.high, self.shape)
        if kind.kind == "c":
            values = values + 1j * rng.uniform(self.low, self.high, self.shape)
        return np.asarray(values).astype(kind)


def arg(
    dtype: str,
    *shape: int,
    low: float | None = None,
    high: float | None = None,
    values: Any = None,
) -> Arg:
    """An `Arg`; without bounds -2 to 2 for floats, -9 to 9 for signed, 0 to 15 for unsigned."""
    unsigned, integer = dtype in UNSIGNED, dtype in INTEGERS
    if low is None:
        low = 0 if unsigned else -9 if integer else -2
    if high is None:
        high = 15 if unsigned else 9 if integer else 2
    if values is not None and not shape:
        shape = np.shape(values)
    return Arg(shape=shape, dtype=dtype, low=low, high=high, values=values)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One program.

    Attributes:
        name: unique within the group.
        group: the section of the report.
        call: a function of JAX arrays.
        args: its arguments.
        slack: how many times the usual tolerance its answers may be off, for ill-conditioned ones.
        times: of how many arrays at once each drawn argument is one, for `jax.vmap`; those whose
            values are given are the same for all.
    """

    name: str
    group: str
    call: Callable[..., Any]
    args: tuple[Arg, ...]
    slack: float = 1.0
    times: int = 1

    @property
    def key(self) -> str:
        """`group/name`, and how many at once if that is not one."""
        return f"{self.group}/{self.name}{'' if self.times == 1 else f'-x{self.times}'}"

    def many(self, times: int) -> "Case | None":
        """The case for as many arguments at once; None where all of them are given."""
        if times == 1:
            return self
        return replace(self, times=times) if any(a.values is None for a in self.args) else None

    @property
    def wide(self) -> bool:
        """Whether JAX needs its 64-bit types."""
        return any(a.dtype in ("f64", "c128", "i64", "u64") for a in self.args) or (
            "x64" in self.name
        )

    def inputs(self) -> list[np.ndarray]:
        """The arguments' values."""
        return [self._argument(a).make(f"{self.key}{i}") for i, a in enumerate(self.args)]

    def _argument(self, a: Arg) -> Arg:
        drawn = self.times > 1 and a.values is None
        return replace(a, shape=(self.times, *a.shape)) if drawn else a

    def function(self) -> Callable[..., Any]:
        """What takes the inputs; JAX is imported for several at once."""
        if self.times == 1:
            return self.call
        import jax

        return jax.vmap(self.call, [0 if a.values is None else None for a in self.args])
