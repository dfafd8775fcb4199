"""Launches of the kernels that put parts into arrays and take slices of them.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.cuda.library import Launch
from edgec.toolchain.match.rotary import Rotary

__all__ = ["MOST_AXES", "MOST_STARTS", "Part", "put", "take"]

MOST_AXES = 4
MOST_STARTS = 3
_BLOCK = 256
_WHOLE = 2
"""The number of the array that a `put` writes all of."""
_TURNED = ("cosine", "sine")
_ARRAYS = {
    "put": (
        *(f"{name}{n}" for n in range(_WHOLE + 1) for name in ("x", *_TURNED, "y")),
        *(f"at{n}" for n in range(MOST_STARTS)),
    ),
    "take": ("x", *(f"at{n}" for n in range(MOST_STARTS)), "y"),
}
"""What each kernel may read and write."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is put into an array: a value, or what it is before it is turned by position."""

    value: Any
    rotary: Rotary | None = None


def put(
    parts: Sequence[Part],
    arrays: Sequence[Any],
    base: int = 0,
    starts: Sequence[tuple[Any, int, int]] = (),
    axes: Sequence[tuple[int, int]] = (),
    beside: Rotary | None = None,
) -> Launch:
    """Up to two parts into arrays at one place, or all over them; and rows turned beside that.

    Args:
        parts: what is written.
        arrays: the arrays, whose other elements stay.
        base: the place of the first element, by the starts that are known.
        starts: others, with the elements from one place to the next and the last one's number.
        axes: sizes of a part, and elements from one to the next in an array, the innermost first;
            none where parts are as large as arrays.
        beside: what becomes an array of its own, the last result.
    """
    if parts and not axes:
        axes = [(math.prod(shape(parts[0].value)), 1)]
    reads: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    folded: dict[str, int] = {}
    given = dict(enumerate(parts)) | ({_WHOLE: _turned(beside)} if beside else {})
    for number, part in given.items():
        reads[f"x{number}"] = part.value
        if part.rotary is not None:
            reads |= {f"{name}{number}": getattr(part.rotary, name) for name in _TURNED}
            folded[f"span{number}"] = part.rotary.span
            constants[f"WIDTH{number}"] = part.rotary.width
            constants[f"FACTORS{number}"] = part.rotary.factors
    into = {f"y{number}": array for number, array in enumerate(arrays)}
    writes = {name: array.type for name, array in into.items()}
    if beside is not None:
        writes[f"y{_WHOLE}"] = beside.value.type
    for number in range(_WHOLE + 1):
        folded.setdefault(f"span{number}", 1)
        constants.setdefault(f"WIDTH{number}", 0)
        constants.setdefault(f"FACTORS{number}", 1)
    first = 0 if parts else _WHOLE
    constants["FIRST"] = first
    folded["whole"] = 0 if beside is None else beside.size
    grid = (max(math.prod(size for size, _ in axes) if parts else 0, folded["whole"]), max(given))
    return _moves(
        "put", reads, writes, base, starts, axes, into,
        grid=(grid[0], grid[1] + 1 - first), folded=folded, constants=constants,
    )  # fmt: skip


def take(
    array: Any,
    kind: Any,
    base: int,
    starts: Sequence[tuple[Any, int, int]],
    axes: Sequence[tuple[int, int]],
) -> Launch:
    """A slice of an array to a value of type `kind`; for the others see `put`."""
    count = math.prod(size for size, _ in axes)
    return _moves("take", {"x": array}, {"y": kind}, base, starts, axes, {}, grid=(count, 1))


def _turned(rotary: Rotary) -> Part:
    return Part(value=rotary.source, rotary=rotary)


def _moves(
    source: str,
    reads: dict[str, Any],
    writes: dict[str, Any],
    base: int,
    starts: Sequence[tuple[Any, int, int]],
    axes: Sequence[tuple[int, int]],
    into: dict[str, Any],
    *,
    grid: tuple[int, int],
    folded: dict[str, int] | None = None,
    constants: dict[str, Any] | None = None,
) -> Launch:
    count = math.prod(size for size, _ in axes) if axes else 0
    axes = [*axes, *[(1, 0)] * (MOST_AXES - len(axes))]
    starts = [*starts, *[(None, 0, 0)] * (MOST_STARTS - len(starts))]
    numbers = {"count": count, "base": base, **(folded or {})}
    numbers |= {f"size{n}": size for n, (size, _) in enumerate(axes[:-1])}
    numbers |= {f"hop{n}": hop for n, (_, hop) in enumerate(axes)}
    for n, (_, step, room) in enumerate(starts):
        numbers |= {f"step{n}": step, f"room{n}": room}
    reads = reads | {f"at{n}": at for n, (at, _, _) in enumerate(starts) if at is not None}
    absent = [name for name in _ARRAYS[source] if name not in reads and name not in writes]
    kind = ir.RankedTensorType(next(iter(writes.values()))).element_type
    return Launch(
        name=f"{source}_{kind}",
        source=source,
        grid=(math.ceil(grid[0] / _BLOCK), grid[1], 1),
        warps=4,
        stages=1,
        reads=reads,
        writes=writes,
        folded=numbers,
        constants={"BLOCK": _BLOCK, **(constants or {}), **dict.fromkeys(absent)},
        into=into,
    )
