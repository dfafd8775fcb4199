"""How a kernel writes its sums: the epilogue, the place of each pixel, and zeros around them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from edgec.toolchain.kernels.cpu.source.epilogue import Epilogue
from edgec.toolchain.kernels.cpu.source.literals import literal

__all__ = ["Result"]

_NONE = ((0, 0), (0, 0))


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a kernel writes: batch x height x width x channels of f32, channels last.

    Attributes:
        batch, height, width, channels: its sizes, without the padding.
        pad: rows of zeros above and below, and columns left and right, which are written too, so
            that the next kernel need not look where the edge is.
        edge: what is written there instead of zeros, as the largest of a window wants.
        epilogue: what is done to each sum before it is written.
    """

    batch: int = 1
    height: int = 1
    width: int
    channels: int
    pad: tuple[tuple[int, int], tuple[int, int]] = _NONE
    edge: float = 0.0
    epilogue: Epilogue = field(default_factory=Epilogue)

    @property
    def kind(self) -> str:
        """The type of the elements that are written."""
        return "f32"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes of what is written, with the padding."""
        (top, bottom), (left, right) = self.pad
        return (
            self.batch,
            top + self.height + bottom,
            left + self.width + right,
            self.channels,
        )

    @property
    def extra_sizes(self) -> list[int]:
        """Elements of each tensor that the epilogue reads: channel tensors, then the others."""
        whole = self.batch * self.height * self.width * self.channels
        return [self.channels] * self.epilogue.channels + [whole] * self.epilogue.tensors

    @property
    def size(self) -> int:
        """Elements of what is written."""
        return math.prod(self.shape)

    def places(self, index: Callable[[int], str]) -> Iterator[str]:
        """`%dense` and `%place`: where the tile at `%wz, %y0, %x0, %n0` begins.

        `%dense` counts without the padding, for what the epilogue reads; `%place` with it.
        """
        (top, _), (left, _) = self.pad
        _, high, wide, channels = self.shape
        for name, height, width, y, x in (
            ("dense", self.height, self.width, 0, 0),
            ("place", high, wide, top, left),
        ):
            if name == "place" and self.pad == _NONE:
                yield f"%place = arith.addi %dense, {index(0)} : index"
                return
            yield f"%{name}_z = arith.muli %wz, {index(height)} : index"
            yield f"%{name}_y = arith.addi %{name}_z, %y0 : index"
            yield f"%{name}_yy = arith.addi %{name}_y, {index(y)} : index"
            yield f"%{name}_w = arith.muli %{name}_yy, {index(width)} : index"
            yield f"%{name}_x = arith.addi %{name}_w, %x0 : index"
            yield f"%{name}_xx = arith.addi %{name}_x, {index(x)} : index"
            yield f"%{name}_c = arith.muli %{name}_xx, {index(channels)} : index"
            yield f"%{name} = arith.addi %{name}_c, %n0 : index"

    def store(
        self,
        total: str,
        pixel: tuple[int, int],
        lane: int,
        channel: list[str],
        first: int,
        kind: str,
        index: Callable[[int], str],
        fresh: Callable[[], str],
    ) -> Iterator[str]:
        """Store one vector.

        Args:
            total: the SSA name of the sums.
            pixel: row and column within the tile.
            lane: the first channel within the panel.
            channel: the loaded values of the epilogue's channel tensors.
            first: the number of the epilogue's first binding.
            kind: the vector's type.
            index: names a constant.
            fresh: makes a new SSA name.
        """
        row, column = pixel
        sizes = self.extra_sizes
        loaded = []
        if self.epilogue.tensors:
            at = fresh()
            offset = (row * self.width + column) * self.channels + lane
            yield f"{at} = arith.addi %dense, {index(offset)} : index"
            for number in range(self.epilogue.channels, len(sizes)):
                value = fresh()
                memory = f"memref<{sizes[number]}xf32>"
                yield f"{value} = vector.load %m{first + number}[{at}] : {memory}, {kind}"
                loaded.append(value)
        lines, final = self.epilogue.emit(total, kind, fresh, channel, loaded)
        yield from lines
        place = fresh()
        offset = (row * self.shape[2] + column) * self.channels + lane
        yield f"{place} = arith.addi %place, {index(offset)} : index"
        out = first + len(sizes)
        yield f"vector.store {final}, %m{out}[{place}] : memref<{self.size}xf32>, {kind}"

    def border(
        self,
        rows: int,
        columns: int,
        vectors: int,
        lanes: int,
        first: int,
        index: Callable[[int], str],
        fresh: Callable[[], str],
    ) -> Iterator[str]:
        """The edge around the result (`%zero`), written by the tiles that touch it."""
        (top, bottom), (left, right) = self.pad
        width = self.shape[2]
        kind = f"vector<{lanes}x{self.kind}>"
        memory = f"memref<{self.size}x{self.kind}>"
        out = first + len(self.extra_sizes)
        edge_name = "%zero"
        if self.edge and self.pad != _NONE:
            edge_name = fresh()
            yield f"{edge_name} = arith.constant dense<{literal(self.edge)}> : {kind}"
        # Each strip: which coordinates the tile must have, and the rectangle of pixels to clear.
        edges = {
            "t": ("%y0", 0, (-top, 0)),
            "b": ("%y0", self.height - rows, (rows, rows + bottom)),
        }
        sides = {
            "l": ("%x0", 0, (-left, 0)),
            "r": ("%x0", self.width - columns, (columns, columns + right)),
        }
        strips = [([edge[:2]], edge[2], (0, columns)) for edge in edges.values()]
        strips += [([side[:2]], (0, rows), side[2]) for side in sides.values()]
        strips += [
            ([edge[:2], side[:2]], edge[2], side[2])
            for edge in edges.values()
            for side in sides.values()
        ]
        for conditions, (y_from, y_to), (x_from, x_to) in strips:
            if y_from == y_to or x_from == x_to:
                continue
            truths = []
            for value, wanted in conditions:
                truths.append(fresh())
                yield f"{truths[-1]} = arith.cmpi eq, {value}, {index(wanted)} : index"
            if len(truths) == 2:
                both = fresh()
                yield f"{both} = arith.andi {truths[0]}, {truths[1]} : i1"
                truths = [both]
            yield f"scf.if {truths[0]} {{"
            for y in range(y_from, y_to):
                for x in range(x_from, x_to):
                    for v in range(vectors):
                        at = fresh()
                        offset = (y * width + x) * self.channels + v * lanes
                        yield f"  {at} = arith.addi %place, {index(offset)} : index"
                        yield f"  vector.store {edge_name}, %m{out}[{at}] : {memory}, {kind}"
            yield "}"
