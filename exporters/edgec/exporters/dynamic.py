"""Dynamic dimensions as a user asks for them, to named ranges of each input's shape.

`batch=1..8` is the leading dimension of every input that has the size of the first input's
leading dimension. `tokens:1=length=1..128` is axis 1 of the input `tokens`; the part before the
colon is an argument's name or the name of one leaf in it (`state.cache[0]`). A name stands for one
size in a call, so bounds need to be given only once.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim

__all__ = ["CHUNK", "Axis", "Dynamic", "other_sizes", "resize"]

CHUNK = 8
"""How many examples of a dynamic batch are computed at once, unless asked otherwise."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis that a dimension names: of the inputs called `tensor`, or the leading ones."""

    dim: Dim
    tensor: str | None = None
    axis: int = 0

    def covers(self, name: str) -> bool:
        """Whether this speaks of the input `name`: itself, or the argument it is a leaf of."""
        tensor = self.tensor
        return tensor is not None and (
            name == tensor or name.startswith((f"{tensor}.", f"{tensor}["))
        )


@dataclass(frozen=True, kw_only=True)
class Dynamic:
    """The axes that are dynamic; none of them for a wholly static program."""

    axes: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        bounds: dict[str, Dim] = {}
        for axis in self.axes:
            known = bounds.get(axis.dim.name)
            if known is None or _is_bare(known):
                bounds[axis.dim.name] = axis.dim
            elif not _is_bare(axis.dim) and axis.dim != known:
                raise UsageError(
                    f"the dimension {axis.dim.name} has two ranges: {known} and {axis.dim}",
                    hint="give the range once",
                )
        leading = sorted({axis.dim.name for axis in self.axes if axis.tensor is None})
        if len(leading) > 1:
            raise UsageError(
                f"{' and '.join(leading)} cannot both be the leading dimension",
                hint=f"say of which input and axis, as in x:1={leading[-1]}=1..128",
            )
        object.__setattr__(
            self,
            "axes",
            tuple(Axis(dim=bounds[a.dim.name], tensor=a.tensor, axis=a.axis) for a in self.axes),
        )

    def __bool__(self) -> bool:
        return bool(self.axes)

    @classmethod
    def parse(cls, value: Any) -> "Dynamic":
        """Read what `export(dynamic=…)` and `--dynamic` take.

        Args:
            value: None; a `Dim`; a text as above; a list of these; or a mapping from input name to
                `{axis: dimension}` or to one dimension per axis (None where it is fixed).

        Raises:
            UsageError: it is none of these.
        """
        if value is None:
            return cls()
        if isinstance(value, Dynamic):
            return value
        if isinstance(value, str | Dim):
            value = [value]
        if isinstance(value, Mapping):
            return cls(axes=tuple(_axes_of_mapping(value)))
        if isinstance(value, Sequence):
            return cls(axes=tuple(_axis_of_item(item) for item in value))
        raise UsageError(
            f"{value!r} does not say which dimensions are dynamic",
            hint="write dynamic='batch=1..8' or dynamic={'tokens': {1: 'length=1..128'}}",
        )

    def shapes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int | Dim, ...]]:
        """The shape of every input, given their concrete example shapes by name, in order.

        Raises:
            UsageError: an axis names no input, lies outside its shape, or the example sizes
                disagree with the bounds or with each other.
        """
        for axis in self.axes:
            if axis.tensor is not None and not any(axis.covers(name) for name in shapes):
                near = difflib.get_close_matches(axis.tensor, shapes, n=3)
                raise UsageError(
                    f"there is no input {axis.tensor} to make dynamic",
                    hint=f"the inputs are {', '.join(near or shapes)}",
                )
        lead = next((shape[0] for shape in shapes.values() if len(shape)), None)
        sizes: dict[str, tuple[int, str]] = {}
        result: dict[str, tuple[int | Dim, ...]] = {}
        for name, shape in shapes.items():
            new: list[int | Dim] = list(shape)
            for axis in self.axes:
                if axis.tensor is None:
                    if len(shape) and shape[0] == lead and not isinstance(new[0], Dim):
                        new[0] = axis.dim
                elif axis.covers(name):
                    position = axis.axis + len(shape) if axis.axis < 0 else axis.axis
                    if not 0 <= position < len(shape):
                        raise UsageError(
                            f"{name} has {len(shape)} dimensions and no axis {axis.axis}",
                            hint="count the axes from 0",
                        )
                    new[position] = axis.dim
            for dim, size in zip(new, shape, strict=True):
                if isinstance(dim, Dim):
                    _check_example(dim, size, name, sizes)
            result[name] = tuple(new)
        return result


def other_sizes(dims: Mapping[str, Dim], sizes: Mapping[str, int]) -> tuple[dict[str, int], ...]:
    """Further sizes to try a dynamic program at: the smallest, and one above the example's.

    The latter is more than a loop takes at once (`CHUNK`), so that all of it is tried.
    """
    smallest = {name: max(1, dim.minimum) for name, dim in dims.items()}
    above = {name: _above(dim, sizes[name]) for name, dim in dims.items()}
    different: list[dict[str, int]] = []
    for candidate in (above, smallest):
        if candidate != dict(sizes) and candidate not in different:
            different.append(candidate)
    return tuple(different)


def _above(dim: Dim, size: int) -> int:
    if dim.maximum is None:
        return max(size, CHUNK) + 1
    if size < dim.maximum:
        return min(max(size, CHUNK) + 1, dim.maximum)
    return max(1, dim.minimum, size - 1)


def resize(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The array with each axis cut or repeated to `shape`: values stay the example's."""
    for axis, size in enumerate(shape):
        if array.shape[axis] != size:
            array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
    return array


def _is_bare(dim: Dim) -> bool:
    return dim == Dim(name=dim.name, minimum=1) or dim == Dim(name=dim.name)


def _axis_of_item(item: Any) -> Axis:
    if isinstance(item, Dim):
        return Axis(dim=item)
    if not isinstance(item, str):
        raise UsageError(f"{item!r} is no dynamic dimension", hint="write batch=1..8")
    found = re.fullmatch(r"\s*(?:([^:=]+):(-?\d+)=)?(.+)", item)
    if found is None:
        raise UsageError(f"{item!r} is no dynamic dimension", hint="write batch=1..8")
    tensor, axis, dim = found.groups()
    return Axis(dim=Dim.parse(dim), tensor=tensor, axis=int(axis or 0))


def _axes_of_mapping(value: Mapping[Any, Any]) -> list[Axis]:
    axes: list[Axis] = []
    for tensor, dims in value.items():
        if isinstance(dims, str | Dim):
            dims = {0: dims}
        pairs = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
        for axis, dim in pairs:
            if dim is None:
                continue
            if not isinstance(dim, str | Dim) or not isinstance(axis, int):
                raise UsageError(
                    f"{dim!r} is no dimension of {tensor}",
                    hint="write {'tokens': {1: 'length=1..128'}}",
                )
            axes.append(
                Axis(
                    dim=dim if isinstance(dim, Dim) else Dim.parse(dim),
                    tensor=str(tensor),
                    axis=axis,
                )
            )
    return axes


def _check_example(dim: Dim, size: int, name: str, sizes: dict[str, tuple[int, str]]) -> None:
    known, where = sizes.setdefault(dim.name, (size, name))
    if known != size:
        raise UsageError(
            f"{dim.name} is {known} in the example {where} and {size} in {name}",
            hint="give example inputs of one size, or name the dimensions differently",
        )
    if size < dim.minimum or (dim.maximum is not None and size > dim.maximum):
        raise UsageError(
            f"the example {name} has size {size}, out of {dim}",
            hint="give an example input within the range",
        )
