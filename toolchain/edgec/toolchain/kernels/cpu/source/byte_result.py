"""How a kernel of bytes writes: its sums through an epilogue in f32, rounded to bytes again."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.result import Result, Tile
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
        words: whether the sums themselves are written, in i32, without an epilogue.
        signed: whether bytes are read as -128 to 127.
        surround: what is written around the result.
        shift: what is added to bytes after rounding.
    """

    read: tuple[str, ...] = ()
    bytes: bool = True
    words: bool = False
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
        if self.words:
            return "i32"
        return "i8" if self.bytes else "f32"

    def opening(self, lanes: int) -> Iterator[str]:
        """`%zero`: what is written around the result."""
        value = str(self.surround - 256 * (self.surround > 127)) if self.bytes else "0.0"
        value = "0" if self.words else value
        yield f"%zero = arith.constant dense<{value}> : vector<{lanes}x{self.kind}>"

    def other(
        self, w: Writer, number: int, binding: int, at: str, tile: Tile
    ) -> Generator[str, None, str]:
        """A vector of the epilogue's tensor `number`, as f32."""
        if self.extra_kinds[number] == "f32":
            return (yield from super().other(w, number, binding, at, tile))
        read, wide, value = w.fresh(), w.fresh(), w.fresh()
        floats, words, few = _kinds(tile)
        yield f"{read} = vector.load %m{binding}[{at}] : {w.memory(binding)}, {few}"
        extend = "arith.extsi" if self.signed else "arith.extui"
        yield f"{wide} = {extend} {read} : {few} to {words}"
        yield f"{value} = arith.sitofp {wide} : {words} to {floats}"
        return value

    def rounded(self, w: Writer, value: str, tile: Tile) -> Generator[str, None, tuple[str, str]]:
        """A vector as it is written, with its type."""
        floats, words, few = _kinds(tile)
        if self.words:
            return value, words
        if not self.bytes:
            return value, floats
        large, near, bits, narrow = (w.fresh() for _ in range(4))
        yield f"{large} = arith.constant dense<{literal(_ROUNDING)}> : {floats}"
        yield f"{near} = arith.addf {value}, {large} : {floats}"
        yield f"{bits} = arith.bitcast {near} : {floats} to {words}"
        yield f"{narrow} = arith.trunci {bits} : {words} to {few}"
        if not self.shift:
            return narrow, few
        added, final = w.fresh(), w.fresh()
        byte = (self.shift + 128) % 256 - 128
        yield f"{added} = arith.constant dense<{byte}> : {few}"
        yield f"{final} = arith.addi {narrow}, {added} : {few}"
        return final, few


def _kinds(tile: Tile) -> tuple[str, str, str]:
    """Vectors of f32, of words and of bytes."""
    floats, words, few = (f"vector<{tile.lanes}x{kind}>" for kind in ("f32", "i32", "i8"))
    return floats, words, few
