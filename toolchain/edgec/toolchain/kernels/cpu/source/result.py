"""How a kernel writes its sums: the epilogue, the place of each pixel, and zeros around them."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from edgec.toolchain.kernels.cpu.source.epilogue import Epilogue
from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Result", "Tile"]

_NONE = ((0, 0), (0, 0))


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What is summed at once: `rows` x `columns` pixels, each of `vectors` vectors of `lanes`."""

    rows: int = 1
    columns: int
    vectors: int = 1
    lanes: int


def _channel(number: int, v: int) -> str:
    """The name of what a channel tensor holds for a vector."""
    return f"%ch{number}_{v}"


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

    def places(self, w: Writer) -> Iterator[str]:
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
                yield f"%place = arith.addi %dense, {w.index(0)} : index"
                return
            yield f"%{name}_z = arith.muli %wz, {w.index(height)} : index"
            yield f"%{name}_y = arith.addi %{name}_z, %y0 : index"
            yield f"%{name}_yy = arith.addi %{name}_y, {w.index(y)} : index"
            yield f"%{name}_w = arith.muli %{name}_yy, {w.index(width)} : index"
            yield f"%{name}_x = arith.addi %{name}_w, %x0 : index"
            yield f"%{name}_xx = arith.addi %{name}_x, {w.index(x)} : index"
            yield f"%{name}_c = arith.muli %{name}_xx, {w.index(channels)} : index"
            yield f"%{name} = arith.addi %{name}_c, %n0 : index"

    def channel_values(self, w: Writer, tile: Tile, first: int) -> Iterator[str]:
        """`%ch…`: the epilogue's channel tensors from `%n0` on; `first` is their first binding."""
        kind = f"vector<{tile.lanes}xf32>"
        for c in range(self.epilogue.channels):
            for v in range(tile.vectors):
                yield f"%at{c}_{v} = arith.addi %n0, {w.index(v * tile.lanes)} : index"
                memory = w.memory(first + c)
                yield f"{_channel(c, v)} = vector.load %m{first + c}[%at{c}_{v}] : {memory}, {kind}"

    def finish(self, w: Writer, sums: Sequence[str], tile: Tile, first: int) -> Iterator[str]:
        """Store a tile's sums, by row, column and vector, with the edge where the tile touches it.

        `first` is the number of the epilogue's first binding.
        """
        yield from self.places(w)
        for number, total in enumerate(sums):
            pixel, v = divmod(number, tile.vectors)
            yield from self.store(w, total, divmod(pixel, tile.columns), v, tile, first)
        yield from self.border(w, tile, first)

    def store(
        self, w: Writer, total: str, pixel: tuple[int, int], v: int, tile: Tile, first: int
    ) -> Iterator[str]:
        """Store one vector.

        Args:
            w: the kernel's writer.
            total: the SSA name of the sums.
            pixel: row and column within the tile.
            v: the number of the vector.
            tile: what it is a part of.
            first: the number of the epilogue's first binding.
        """
        kind = f"vector<{tile.lanes}xf32>"
        loaded = yield from self.others(w, pixel, v, tile, first)
        channel = [_channel(c, v) for c in range(self.epilogue.channels)]
        lines, final = self.epilogue.emit(total, kind, w.fresh, channel, loaded)
        yield from lines
        final, kind = yield from self.rounded(w, final, tile)
        place = w.fresh()
        offset = self._offset(pixel, v, tile, self.shape[2])
        yield f"{place} = arith.addi %place, {w.index(offset)} : index"
        out = first + len(self.extra_sizes)
        yield f"vector.store {final}, %m{out}[{place}] : {w.memory(out)}, {kind}"

    def others(
        self, w: Writer, pixel: tuple[int, int], v: int, tile: Tile, first: int
    ) -> Generator[str, None, list[str]]:
        """What lies in the epilogue's other tensors where a vector is stored, as f32."""
        loaded: list[str] = []
        if not self.epilogue.tensors:
            return loaded
        at = w.fresh()
        offset = self._offset(pixel, v, tile, self.width)
        yield f"{at} = arith.addi %dense, {w.index(offset)} : index"
        for number in range(self.epilogue.channels, len(self.extra_sizes)):
            loaded.append((yield from self.other(w, number, first + number, at, tile)))
        return loaded

    def other(
        self, w: Writer, number: int, binding: int, at: str, tile: Tile
    ) -> Generator[str, None, str]:
        """A vector of the epilogue's tensor `number`, as f32."""
        value = w.fresh()
        kind = f"vector<{tile.lanes}xf32>"
        yield f"{value} = vector.load %m{binding}[{at}] : {w.memory(binding)}, {kind}"
        return value

    def rounded(self, w: Writer, value: str, tile: Tile) -> Generator[str, None, tuple[str, str]]:
        """A vector as it is written, with its type."""
        yield from ()
        return value, f"vector<{tile.lanes}xf32>"

    def _offset(self, pixel: tuple[int, int], v: int, tile: Tile, width: int) -> int:
        """How far a vector lies from the tile's first, in rows of `width` pixels."""
        row, column = pixel
        return (row * width + column) * self.channels + v * tile.lanes

    def border(self, w: Writer, tile: Tile, first: int) -> Iterator[str]:
        """The edge around the result (`%zero`), written by the tiles that touch it."""
        (top, bottom), (left, right) = self.pad
        width = self.shape[2]
        kind = f"vector<{tile.lanes}x{self.kind}>"
        memory = f"memref<{self.size}x{self.kind}>"
        out = first + len(self.extra_sizes)
        edge_name = "%zero"
        if self.edge and self.pad != _NONE:
            edge_name = w.fresh()
            yield f"{edge_name} = arith.constant dense<{literal(self.edge)}> : {kind}"
        # Each strip: which coordinates the tile must have, and the rectangle of pixels to clear.
        edges = {
            "t": ("%y0", 0, (-top, 0)),
            "b": ("%y0", self.height - tile.rows, (tile.rows, tile.rows + bottom)),
        }
        sides = {
            "l": ("%x0", 0, (-left, 0)),
            "r": ("%x0", self.width - tile.columns, (tile.columns, tile.columns + right)),
        }
        strips = [([edge[:2]], edge[2], (0, tile.columns)) for edge in edges.values()]
        strips += [([side[:2]], (0, tile.rows), side[2]) for side in sides.values()]
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
                truths.append(w.fresh())
                yield f"{truths[-1]} = arith.cmpi eq, {value}, {w.index(wanted)} : index"
            if len(truths) == 2:
                both = w.fresh()
                yield f"{both} = arith.andi {truths[0]}, {truths[1]} : i1"
                truths = [both]
            yield f"scf.if {truths[0]} {{"
            for y in range(y_from, y_to):
                for x in range(x_from, x_to):
                    for v in range(tile.vectors):
                        at = w.fresh()
                        offset = self._offset((y, x), v, tile, width)
                        yield f"  {at} = arith.addi %place, {w.index(offset)} : index"
                        yield f"  vector.store {edge_name}, %m{out}[{at}] : {memory}, {kind}"
            yield "}"
