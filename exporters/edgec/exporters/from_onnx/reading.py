"""An image read between its pixels: gathers of rows of channels, one a neighbour of each place."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["Padding", "Reader"]

_I64 = 7
"""ONNX' number of int64."""


@dataclass(frozen=True)
class Padding:
    """What is outside of an image: `zeros`, its `border`, its `reflection`; or a `region`'s way,
    in which a place that is less than a pixel outside is on the border, others are zero.

    `aligned` images end in the middle of their last pixels, others at their edges.
    """

    kind: str
    aligned: bool


class Reader:
    """An image as rows of channels; computes in f64 where the image is of it, else in f32.

    Attributes:
        kind: what it computes in.
        places: how many an image has.
        first: the number of each image's first row.
    """

    def __init__(self, work: Rewriting, value: str, shape: Sequence[int], kind: np.dtype) -> None:
        from onnx import helper

        self._work = work
        self._sizes = shape[2:]
        self._given = helper.np_dtype_to_tensor_dtype(kind)
        self.kind = kind if kind == np.float64 else np.dtype(np.float32)
        self._number = helper.np_dtype_to_tensor_dtype(self.kind)
        self.places = int(np.prod(self._sizes))
        last = [*range(2, len(shape)), 1]
        rows = work.node("Transpose", self.cast(value), perm=[0, *last])
        self._rows = work.reshape(rows, [-1, shape[1]])
        images = np.arange(shape[0], dtype=np.int64) * self.places
        self.first = work.constant(images.reshape(-1, 1))

    def cast(self, value: str) -> str:
        """A value in the type that is computed in."""
        return self._work.node("Cast", value, to=self._number)

    def finish(self, value: str, output: str) -> None:
        """The value in the image's own type."""
        self._work.node("Cast", value, output=output, to=self._given)

    def number(self, value: float) -> str:
        """A number in the type that is computed in."""
        return self._work.constant(np.array(value, self.kind))

    def whole(self, value: int) -> str:
        """A whole number."""
        return self._work.constant(np.array(value, np.int64))

    def read(self, places: Sequence[str], mode: str, padding: Padding) -> str:
        """The values at places (of [images, n] along each axis), of [images, n, channels]."""
        parts = self.parts(places, mode, padding)
        total = parts[0]
        for part in parts[1:]:
            total = self._work.node("Add", total, part)
        return total

    def parts(self, places: Sequence[str], mode: str, padding: Padding) -> list[str]:
        """The weighted values of each place's neighbours, of [images, n, channels] each."""
        work = self._work
        along = [
            self._neighbours(at, size, mode, padding)
            for at, size in zip(places, self._sizes, strict=True)
        ]
        nothing = self.number(0)
        found = []
        for neighbours in product(*along):
            row, stride = self.first, self.places
            for size, near in zip(self._sizes, neighbours, strict=True):
                stride //= size
                row = work.node("Add", row, work.node("Mul", near.index, self.whole(stride)))
            value = work.node("Gather", self._rows, row, axis=0)
            for near in neighbours:
                if near.weight:
                    value = work.node("Mul", value, self._for_channels(near.weight))
            for near in neighbours:
                if near.inside:
                    inside = self._for_channels(near.inside)
                    value = work.node("Where", inside, value, nothing)
            found.append(value)
        return found

    def _for_channels(self, value: str) -> str:
        return self._work.node("Unsqueeze", value, self._work.numbers(-1))

    def _neighbours(self, at: str, size: int, mode: str, padding: Padding) -> list["_Near"]:
        """What is read along an axis for places there."""
        work = self._work
        region = ""
        if padding.kind == "region":
            region = self._within(at, -1, size)
        # Of a cubic, PyTorch and onnxruntime bring neighbours to the border, and not the place.
        if padding.kind == "region" or (padding.kind == "border" and mode != "cubic"):
            at = self._held(at, size)
        if padding.kind == "reflection":
            at = self._reflected(at, size, padding)
        if mode == "nearest":
            return [self._near(work.node("Round", at), "", region, size, padding)]
        floor = work.node("Floor", at)
        part = work.node("Sub", at, floor)
        weights = self._linear(part) if mode == "linear" else self._cubic(part)
        return [
            self._near(work.node("Add", floor, self.number(step)), weight, region, size, padding)
            for step, weight in weights.items()
        ]

    def _near(self, place: str, weight: str, region: str, size: int, padding: Padding) -> "_Near":
        """A neighbour at a whole place, brought into the image as the padding says."""
        work = self._work
        inside = region
        if padding.kind == "zeros":
            inside = self._within(place, 0, size - 1)
        if padding.kind == "reflection":
            place = work.node("Floor", self._reflected(place, size, padding))
        index = work.node("Cast", self._held(place, size), to=_I64)
        return _Near(index=index, weight=weight, inside=inside)

    def _within(self, value: str, least: int, most: int) -> str:
        above = self._work.node("GreaterOrEqual", value, self.number(least))
        below = self._work.node("LessOrEqual", value, self.number(most))
        return self._work.node("And", above, below)

    def _held(self, value: str, size: int) -> str:
        """The value, or the image's nearest place; what is no number is its first."""
        above = self._work.node("Greater", value, self.number(0))
        least = self._work.node("Where", above, value, self.number(0))
        return self._work.node("Min", least, self.number(size - 1))

    def _reflected(self, value: str, size: int, padding: Padding) -> str:
        """The value, thrown back at both ends as often as it takes."""
        work = self._work
        first, last = (0.0, size - 1.0) if padding.aligned else (-0.5, size - 0.5)
        if first == last:
            return work.node("Mul", value, self.number(0))
        length = self.number(last - first)
        beyond = work.node("Abs", work.node("Sub", value, self.number(first)))
        turns = work.node("Floor", work.node("Div", beyond, length))
        rest = work.node("Sub", beyond, work.node("Mul", turns, length))
        half = work.node("Mul", turns, self.number(0.5))
        odd = work.node("Less", work.node("Floor", half), half)
        back = work.node("Sub", self.number(last), rest)
        return work.node("Where", odd, back, work.node("Add", rest, self.number(first)))

    def _linear(self, part: str) -> dict[int, str]:
        return {0: self._work.node("Sub", self.number(1), part), 1: part}

    def _cubic(self, part: str) -> dict[int, str]:
        """Weights of Keys' convolution with a = -0.75, by how far a neighbour is."""
        other = self._work.node("Sub", self.number(1), part)
        return {
            -1: self._far(part),
            0: self._close(part),
            1: self._close(other),
            2: self._far(other),
        }

    def _close(self, distance: str) -> str:
        """(a + 2) d³ - (a + 3) d² + 1, of the neighbours on both sides."""
        inner = self._polynomial(distance, 1.25, -2.25)
        squared = self._work.node("Mul", distance, distance)
        product_of = self._work.node("Mul", inner, squared)
        return self._work.node("Add", product_of, self.number(1))

    def _far(self, distance: str) -> str:
        """a d (d - 1)², of those behind these, one further away."""
        less = self._work.node("Sub", distance, self.number(1))
        squared = self._work.node("Mul", less, less)
        return self._work.node("Mul", self._polynomial(distance, -0.75, 0.0), squared)

    def _polynomial(self, value: str, slope: float, start: float) -> str:
        return self._work.node(
            "Add", self._work.node("Mul", value, self.number(slope)), self.number(start)
        )


@dataclass(frozen=True, kw_only=True)
class _Near:
    """Along an axis: the index that is read, its weight, and whether it counts; "" for always."""

    index: str
    weight: str
    inside: str
