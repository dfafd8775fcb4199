"""Slices and turned rows to dispatches of Vulkan's kernels.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.kernels.gpu.moves import MOST_AXES, Part, Place
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.rotary import Rotary

__all__ = ["Mover"]

_BESIDE = 2
"""The number of what is turned beside parts."""


class Mover:
    """Those of Vulkan; see `kernels/gpu/moves.py`."""

    elements: tuple[str, ...] = ("i32", "i64", "f16", "f32", "f64")

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
        place = place.whole(parts)
        given = dict(enumerate(parts))
        kinds = [array.type for array in arrays]
        if beside is not None:
            given[_BESIDE] = Part(value=beside.source, rotary=beside)
            kinds.append(beside.value.type)
        reads: dict[str, Any] = {}
        sizes = {"FIRST": min(given), "WHOLE": 0 if beside is None else beside.size}
        for number, part in given.items():
            reads[f"X_AT{number}"] = part.value
            turned = part.rotary
            sizes[f"WIDTH{number}"] = 0 if turned is None else turned.width
            if turned is not None:
                reads |= {f"COSINE_AT{number}": turned.cosine, f"SINE_AT{number}": turned.sine}
                sizes |= {f"FACTORS{number}": turned.factors, f"SPAN{number}": turned.span}
        turns = any(part.rotary is not None for part in given.values())
        count = max(place.count, sizes["WHOLE"])
        written = [f"Y_AT{number}" for number in given]
        rows = max(given) + 1 - sizes["FIRST"]
        return self._call("put", reads, written, kinds, place, sizes, (count, rows), turns, arrays)

    def take(self, array: Any, kind: Any, place: Place) -> list[Any] | Declined:
        """A slice of an array to a value of type `kind`."""
        grid = (place.count, 1)
        return self._call("take", {"X_AT": array}, ["Y_AT"], [kind], place, {}, grid, False, ())

    def turns(self, parts: Sequence[Part], beside: Rotary) -> bool:
        """Whether one kernel puts parts and turns rows beside them: it needs memory for each."""
        factors = {beside.cosine, beside.sine}
        for part in parts:
            factors |= set() if part.rotary is None else {part.rotary.cosine, part.rotary.sine}
        needed = 2 * (len(parts) + 1) + len(factors) + 1
        return needed <= self._library.most_bindings

    def _call(
        self,
        source: str,
        reads: Mapping[str, Any],
        written: Sequence[str],
        kinds: Sequence[Any],
        place: Place,
        sizes: Mapping[str, int],
        grid: tuple[int, int],
        turned: bool,
        into: Sequence[Any],
    ) -> list[Any] | Declined:
        """What a kernel gives.

        Args:
            source: which kernel.
            reads: what it reads, by what its source calls their bindings.
            written: what its source calls those of what it writes.
            kinds: the types of that.
            place: where a slice lies.
            sizes: what else the kernel is compiled for.
            grid: elements, and arrays.
            turned: whether rows are turned.
            into: arrays of which the first results are the rest.
        """
        library = self._library
        if not library.compiles:
            return Declined(reason="a kernel that needs edgec[vulkan] to be compiled")
        element = str(ir.RankedTensorType(kinds[0]).element_type)
        axes = [*place.axes, *[(1, 0)] * (MOST_AXES - len(place.axes))]
        all_sizes = {**sizes, "COUNT": place.count}
        all_sizes |= {f"SIZE{n}": size for n, (size, _) in enumerate(axes[:-1])}
        all_sizes |= {f"HOP{n}": hop for n, (_, hop) in enumerate(axes)}
        reads = dict(reads)
        for number, (at, step, room) in enumerate(place.starts):
            start = _number(at)
            reads[f"AT_AT{number}"] = start
            words = 2 if str(element_type(start)) == "i64" else 1
            all_sizes |= {f"WORDS{number}": words, f"STEP{number}": step, f"ROOM{number}": room}
        bindings: dict[Any, int] = {}
        for name, value in reads.items():
            all_sizes[name] = bindings.setdefault(value, len(bindings))
        all_sizes |= {name: len(bindings) + n for n, name in enumerate(written)}
        if len(bindings) + len(written) > library.most_bindings:
            return Declined(reason=f"{len(bindings) + len(written)} pieces of memory")
        narrow = bool(into) and str(element_type(reads["X_AT0"])) != element
        shader = shaders.moves(source, element, all_sizes, turned=turned, narrow=narrow)
        groups = math.ceil(grid[0] / shader.threads)
        if groups > MOST_GROUPS:
            return Declined(reason=f"{grid[0]} elements")
        return library.call_all(
            shader,
            (groups, grid[1], 1),
            {"base": place.base},
            list(bindings),
            kinds,
            into=into,
        )


def _number(start: Any) -> Any:
    """A start as integers of 32 or 64 bits."""
    if str(element_type(start)) in ("i32", "i64"):
        return start
    return write.convert(start, ir.IntegerType.get_signless(32))
