"""How a kernel of bytes writes: its sums through an epilogue in f32, rounded to bytes again."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.result import Result
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["ByteResult"]

_ROUNDING = 1.5 * 2**23
"""What is added to this lies one apart from the next f32: the sum's low bits are the integer."""


@dataclass(frozen=True, kw_only=True)
class ByteResult(Result):
    """What a kernel of bytes writes.

    The epilogue sees bytes of other tensors as f32. Its last value is rounded to the nearest byte,
    halves to even; it must lie within a byte's range.

    Attributes:
        read: the element type of each of the epilogue's other tensors, i8 or f32.
        bytes: whether bytes are written; otherwise f32.
        signed: whether bytes are read as -128 to 127.
        surround: what is written around the result.
        shift: what is added to bytes after rounding.
    """

    read: tuple[str, ...] = ()
    bytes: bool = True
    signed: bool = False
    surround: int = 0
    shift: int = 0

    @property
    def extra_kinds(self) -> list[str]:
        """The element type of each tensor that the epilogue reads."""
        return ["f32"] * self.epilogue.channels + list(self.read)

    @property
    def kind(self) -> str:
        """The element type of what is written."""
        return "i8" if self.bytes else "f32"

    def opening(self, lanes: int) -> Iterator[str]:
        """`%zero`: what is written around the result."""
        value = str(self.surround - 256 * (self.surround > 127)) if self.bytes else "0.0"
        yield f"%zero = arith.constant dense<{value}> : vector<{lanes}x{self.kind}>"

    def write(
        self,
        w: Writer,
        total: str,
        pixel: tuple[int, int],
        lane: int,
        lanes: int,
        channel: list[str],
        first: int,
    ) -> Iterator[str]:
        """Store one vector of sums.

        Args:
            w: the kernel's writer.
            total: the SSA name of the sums, in f32.
            pixel: row and column within the tile.
            lane: the first channel within the panel.
            lanes: channels of the vector.
            channel: the loaded values of the epilogue's channel tensors.
            first: the number of the epilogue's first binding.
        """
        row, column = pixel
        floats, words, few = (f"vector<{lanes}x{kind}>" for kind in ("f32", "i32", "i8"))
        loaded = []
        if self.epilogue.tensors:
            at = w.fresh()
            offset = (row * self.width + column) * self.channels + lane
            yield f"{at} = arith.addi %dense, {w.index(offset)} : index"
            for number in range(self.epilogue.channels, len(self.extra_sizes)):
                read, wide, value = w.fresh(), w.fresh(), w.fresh()
                memory = w.memory(first + number)
                if self.extra_kinds[number] == "f32":
                    yield f"{value} = vector.load %m{first + number}[{at}] : {memory}, {floats}"
                    loaded.append(value)
                    continue
                yield f"{read} = vector.load %m{first + number}[{at}] : {memory}, {few}"
                extend = "arith.extsi" if self.signed else "arith.extui"
                yield f"{wide} = {extend} {read} : {few} to {words}"
                yield f"{value} = arith.sitofp {wide} : {words} to {floats}"
                loaded.append(value)
        lines, final = self.epilogue.emit(total, floats, w.fresh, channel, loaded)
        yield from lines
        kind = floats
        if self.bytes:
            large, near, bits, narrow = (w.fresh() for _ in range(4))
            yield f"{large} = arith.constant dense<{literal(_ROUNDING)}> : {floats}"
            yield f"{near} = arith.addf {final}, {large} : {floats}"
            yield f"{bits} = arith.bitcast {near} : {floats} to {words}"
            yield f"{narrow} = arith.trunci {bits} : {words} to {few}"
            final, kind = narrow, few
            if self.shift:
                added, final = w.fresh(), w.fresh()
                byte = (self.shift + 128) % 256 - 128
                yield f"{added} = arith.constant dense<{byte}> : {few}"
                yield f"{final} = arith.addi {narrow}, {added} : {few}"
        place = w.fresh()
        offset = (row * self.shape[2] + column) * self.channels + lane
        yield f"{place} = arith.addi %place, {w.index(offset)} : index"
        out = first + len(self.extra_sizes)
        yield f"vector.store {final}, %m{out}[{place}] : {w.memory(out)}, {kind}"
