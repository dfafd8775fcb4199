"""Weights in blocks as kernels see them: their sizes, and codes of a piece of memory to vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.block_numbers import BlockNumbers, NumberKind
from edgec.toolchain.kernels.cpu.source.body import Body

__all__ = ["BlockWeights", "Codes"]

_WORD = 32
_LOOKED_UP = "llvm.x86.avx512.permvar.sf.512"
"""Sixteen numbers picked by the low four bits of sixteen words, which are read as they are."""


@dataclass(frozen=True, kw_only=True)
class BlockWeights:
    """Weights of outputs x inner, an output's codes in one piece, a group's numbers beside another.

    Attributes:
        outputs, inner: rows of the weights, and what is summed.
        group: neighbours that share numbers; all of `inner` for one of each output.
        bits: of a code, 8 (signed) or 4 (from 0 on).
        span: of four bits, how many neighbours lie in half as many bytes.
        zero: what is taken from every code.
        scale: how the factors of groups are kept.
        least: how what is added is kept; None for nothing.
    """

    outputs: int
    inner: int
    group: int
    bits: int
    span: int
    zero: float
    scale: NumberKind
    least: NumberKind | None = None

    @property
    def groups(self) -> int:
        """Groups of an output."""
        return self.inner // self.group

    @property
    def row(self) -> int:
        """Bytes of an output's codes."""
        return self.inner * self.bits // 8

    @property
    def kinds(self) -> list[str]:
        """The types of the bindings: codes, scales, least values, each with its factors."""
        return ["i8", *self.scale.kinds, *([] if self.least is None else self.least.kinds)]

    @property
    def sizes(self) -> list[int]:
        """Elements of the bindings."""
        numbers = self.outputs * self.groups
        least = [] if self.least is None else self.least.sizes(numbers)
        return [self.outputs * self.row, *self.scale.sizes(numbers), *least]

    def scales(self, body: Body) -> BlockNumbers:
        """What reads the factors of groups, behind one binding and the codes."""
        return BlockNumbers(kind=self.scale, binding=2, body=body)

    def leasts(self, body: Body) -> BlockNumbers | None:
        """What reads what is added to groups; None where nothing is."""
        if self.least is None:
            return None
        return BlockNumbers(kind=self.least, binding=2 + len(self.scale.kinds), body=body)

    def place(self, byte: int, half: int) -> int:
        """Which of a row's weights is in a byte; `half` says which of two codes of four bits."""
        if self.bits == 8:
            return byte
        run, within = divmod(byte, self.span // 2)
        return run * self.span + half * (self.span // 2) + within


@dataclass(frozen=True, kw_only=True)
class Codes:
    """A piece of an output's codes that is read at once, as vectors of f32.

    Attributes:
        weights: whose codes.
        lanes: values of a vector.
        lookup: whether four bits are looked up in a register of sixteen numbers.
    """

    weights: BlockWeights
    lanes: int
    lookup: bool

    @property
    def fields(self) -> int:
        """Vectors of a piece."""
        return _WORD // self.weights.bits

    @property
    def size(self) -> int:
        """Weights of a piece."""
        return self.fields * self.lanes

    @property
    def shifted(self) -> float:
        """What is still to be taken from each value of `vectors`."""
        return 0.0 if self.lookup else self.weights.zero

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The vectors that share numbers by lane: in bytes those of a group, else all."""
        count = max(1, self.size // self.weights.group) if self.weights.bits == 8 else 1
        each = self.fields // count
        return tuple(tuple(range(i * each, (i + 1) * each)) for i in range(count))

    @property
    def numbers(self) -> int:
        """How many numbers the lanes of a set have between them."""
        return max(1, self.size // len(self.sets) // self.weights.group)

    def element(self, field: int, lane: int) -> int:
        """Which weight of the piece is in a lane of a vector."""
        if self.weights.bits == 8:
            return field * self.lanes + lane
        return self.weights.place(4 * lane + field // 2, field % 2)

    def table(self, body: Body) -> str:
        """The sixteen numbers that codes are looked up as; empty where they are not."""
        if not self.lookup:
            return ""
        text = ", ".join(f"{code - self.weights.zero:.1f}" for code in range(16))
        return body.value(f"arith.constant dense<[{text}]>", f"vector<{self.lanes}xf32>")

    def vectors(self, body: Body, place: str, table: str) -> Sequence[str]:
        """The piece at a byte of `%m1` as vectors of f32."""
        if self.weights.bits == 8:
            return [self._bytes(body, body.plus(place, i * self.lanes)) for i in range(self.fields)]
        memory, lanes = body.writer.memory(1), self.lanes
        loaded = body.load("%m1", place, memory, f"vector<{4 * lanes}xi8>")
        kind = f"vector<{lanes}xi32>"
        words = body.value(f"vector.bitcast {loaded}", f"vector<{4 * lanes}xi8> to {kind}")
        return [self.field(body, words, i, table) for i in range(self.fields)]

    def field(self, body: Body, words: str, number: int, table: str) -> str:
        """One field of words as f32; of eight bits with its sign."""
        bits, lanes = self.weights.bits, self.lanes
        kind, floats = f"vector<{lanes}xi32>", f"vector<{lanes}xf32>"
        above = _WORD - bits * (number + 1)
        if bits == 8:
            if above:
                by = body.value(f"arith.constant dense<{above}>", kind)
                words = body.value(f"arith.shli {words}, {by}", kind)
            by = body.value(f"arith.constant dense<{_WORD - bits}>", kind)
            whole = body.value(f"arith.shrsi {words}, {by}", kind)
            return body.value(f"arith.sitofp {whole}", f"{kind} to {floats}")
        if number:
            by = body.value(f"arith.constant dense<{bits * number}>", kind)
            words = body.value(f"arith.shrui {words}, {by}", kind)
        if table:
            return body.value(
                f'llvm.call_intrinsic "{_LOOKED_UP}"({table}, {words})',
                f"({floats}, {kind}) -> {floats}",
            )
        if above:
            mask = body.value("arith.constant dense<15>", kind)
            words = body.value(f"arith.andi {words}, {mask}", kind)
        return body.value(f"arith.sitofp {words}", f"{kind} to {floats}")

    def _bytes(self, body: Body, place: str) -> str:
        narrow, kind = f"vector<{self.lanes}xi8>", f"vector<{self.lanes}xi32>"
        loaded = body.load("%m1", place, body.writer.memory(1), narrow)
        whole = body.value(f"arith.extsi {loaded}", f"{narrow} to {kind}")
        return body.value(f"arith.sitofp {whole}", f"{kind} to vector<{self.lanes}xf32>")
