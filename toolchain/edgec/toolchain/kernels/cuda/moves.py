"""Launches of the kernels that put parts into arrays and take slices of them.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.moves import MOST_AXES, MOST_STARTS, Part, Place
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.rotary import Rotary

__all__ = ["Mover"]

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


class Mover:
    """Those of CUDA; see `kernels/gpu/moves.py`."""

    elements: tuple[str, ...] = ("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")

    def __init__(self, library: Library) -> None:
        self._library = library
        self.answers = library.answers

    def put(
        self,
        parts: Sequence[Part],
        arrays: Sequence[Any],
        place: Place,
        beside: Rotary | None = None,
    ) -> list[Any] | Declined:
        """Up to two parts into arrays at one place, and rows turned beside that."""
        return self._library.call(_put(parts, arrays, place.whole(parts), beside))

    def take(self, array: Any, kind: Any, place: Place) -> list[Any] | Declined:
        """A slice of an array to a value of type `kind`."""
        grid = (place.count, 1)
        return self._library.call(_moves("take", {"x": array}, {"y": kind}, place, {}, grid=grid))

    def turns(self, parts: Sequence[Part], beside: Rotary) -> bool:
        """Whether one kernel puts parts and turns rows beside them."""
        return True


def _put(
    parts: Sequence[Part], arrays: Sequence[Any], place: Place, beside: Rotary | None
) -> Launch:
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
    grid = (max(place.count if parts else 0, folded["whole"]), max(given))
    return _moves(
        "put", reads, writes, place, into,
        grid=(grid[0], grid[1] + 1 - first), folded=folded, constants=constants,
    )  # fmt: skip


def _turned(rotary: Rotary) -> Part:
    return Part(value=rotary.source, rotary=rotary)


def _moves(
    source: str,
    reads: dict[str, Any],
    writes: dict[str, Any],
    place: Place,
    into: dict[str, Any],
    *,
    grid: tuple[int, int],
    folded: dict[str, int] | None = None,
    constants: dict[str, Any] | None = None,
) -> Launch:
    axes = [*place.axes, *[(1, 0)] * (MOST_AXES - len(place.axes))]
    starts = [*place.starts, *[(None, 0, 0)] * (MOST_STARTS - len(place.starts))]
    numbers = {"count": place.count, "base": place.base, **(folded or {})}
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
