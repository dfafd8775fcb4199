"""Rows of f32 to bytes, each group with a scale of its own, as the products by blocks read them.

A scale is a group's largest value through 127, so that a byte is the nearest of 255 numbers. The
bytes lie in the order in which codes come out of memory: a vector of codes is multiplied with a
vector of bytes, and the four products of each lane are of one group.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.block_codes import BlockWeights
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.lanes import of_all_lanes
from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.writer import on_stack
from edgec.toolchain.match.rounded_rows import LARGEST, SMALLEST

__all__ = ["ByteCodes", "RoundedRows", "byte_codes_for"]

_ROUNDING = 1.5 * 2**23
"""What is added to this lies one apart from the next f32: the sum's low bits are the integer."""
_RUN = 16
"""Bytes of codes that lie together: those of 32 weights of four bits, or of 16 of eight."""
_LANES = 4
"""Sums that these bytes make."""
_SPAN = 32


@dataclass(frozen=True, kw_only=True)
class ByteCodes:
    """A piece of an output's codes that is read at once, as bytes.

    Attributes:
        weights: whose codes.
        unit: how bytes are multiplied.
        lanes: sums of a vector; it has four times as many bytes.
    """

    weights: BlockWeights
    unit: DotUnit
    lanes: int

    @property
    def fields(self) -> int:
        """Vectors of a piece."""
        return 8 // self.weights.bits

    @property
    def run(self) -> int:
        """Weights whose codes lie in sixteen bytes."""
        return _RUN * self.fields

    @property
    def runs(self) -> int:
        """Runs of a piece."""
        return self.lanes // _LANES

    @property
    def size(self) -> int:
        """Weights of a piece."""
        return self.runs * self.run

    @property
    def bytes(self) -> int:
        """Of a vector, and of a piece's codes."""
        return 4 * self.lanes

    @property
    def pieces(self) -> int:
        """Pieces of an output; the last may overlap the one before it."""
        return -(-self.weights.inner // self.size)

    @property
    def flipped(self) -> bool:
        """Whether signed codes are read as if 128 more, because only unsigned ones multiply."""
        return self.weights.bits == 8 and not self.unit.signed

    @property
    def shift(self) -> int:
        """What is still to be taken from every code."""
        return 128 if self.flipped else int(self.weights.zero)

    @property
    def by_output(self) -> bool:
        """Whether all that is summed shares one scale."""
        return self.weights.group == self.weights.inner

    @property
    def numbers(self) -> int:
        """Groups of a piece."""
        return max(1, self.size // self.weights.group)

    def vectors(self, body: Body, place: str) -> list[str]:
        """The piece at a byte of `%m1`."""
        kind = f"vector<{self.bytes}xi8>"
        loaded = body.load("%m1", place, body.writer.memory(1), kind)
        if self.weights.bits == 4:
            low = body.value("arith.constant dense<15>", kind)
            four = body.value("arith.constant dense<4>", kind)
            high = body.value(f"arith.shrui {loaded}, {four}", kind)
            return [body.value(f"arith.andi {loaded}, {low}", kind), high]
        if not self.flipped:
            return [loaded]
        flip = body.value("arith.constant dense<-128>", kind)
        return [body.value(f"arith.xori {loaded}, {flip}", kind)]


def byte_codes_for(weights: BlockWeights, unit: DotUnit) -> ByteCodes | None:
    """The pieces that a kernel reads; None where an output has no whole piece."""
    for lanes in unit.lanes:
        codes = ByteCodes(weights=weights, unit=unit, lanes=lanes)
        if _fits(codes):
            return codes
    return None


def _fits(codes: ByteCodes) -> bool:
    weights, size = codes.weights, codes.size
    plain = weights.zero == 0 if weights.bits == 8 else weights.zero in range(16)
    if not plain or (weights.bits == 4 and weights.span != _SPAN):
        return False
    if size > weights.inner or weights.inner % codes.run or weights.group % codes.run:
        return False
    if codes.by_output:
        return not weights.least
    return not (weights.group % size and size % weights.group)


@dataclass(frozen=True, kw_only=True)
class RoundedRows:
    """The rows' bytes and what belongs to them, in memory on the stack.

    Attributes:
        codes: what they are multiplied with.
        rows: how many.
        body: where all this is written.
    """

    codes: ByteCodes
    rows: int
    body: Body

    # What there is, by piece of a row

    @property
    def _groups_at_once(self) -> int:
        """Groups whose least values are read at once."""
        count = self.codes.lanes
        while count > self.codes.weights.groups:
            count //= 2
        return count

    @property
    def chunks(self) -> int:
        """How often least values are read of an output."""
        return -(-self.codes.weights.groups // self._groups_at_once)

    def values(self, row: int, piece: int | str) -> list[str]:
        """The bytes of a piece, a vector for each of the codes'."""
        codes, body = self.codes, self.body
        at = body.times(body.plus(piece, row * codes.pieces), codes.fields * codes.bytes)
        kind, memory = f"vector<{codes.bytes}xi8>", self._memory("bytes")
        return [
            body.load("%rounded_bytes", body.plus(at, f * codes.bytes), memory, kind)
            for f in range(codes.fields)
        ]

    def begin(self, row: int, piece: int | str) -> str:
        """What the sums of a piece begin with, because codes come with something added."""
        codes, body = self.codes, self.body
        kind = f"vector<{codes.lanes}xi32>"
        if not codes.shift:
            return body.value("arith.constant dense<0>", kind)
        at = body.times(body.plus(piece, row * codes.pieces), codes.lanes)
        return body.load("%rounded_begin", at, self._memory("begin"), kind)

    def scales(self, row: int, piece: int | str) -> str:
        """The rows' scales by lane of a piece."""
        codes, body = self.codes, self.body
        at = body.times(body.plus(piece, row * codes.pieces), codes.lanes)
        kind = f"vector<{codes.lanes}xf32>"
        return body.load("%rounded_scale", at, self._memory("scale"), kind)

    def scale(self, row: int) -> str:
        """A row's one scale."""
        at = self.body.index(row)
        return self.body.load("%rounded_scale", at, self._memory("scale"), "f32")

    def sums(self, row: int, chunk: int) -> tuple[int, int, str]:
        """Sums of groups: the first group of a chunk, how many it has, and their sums."""
        body, count = self.body, self._groups_at_once
        first = min(chunk * count, self.codes.weights.groups - count)
        at = body.index((row * self.chunks + chunk) * count)
        kind = f"vector<{count}xf32>"
        return first, count, body.load("%rounded_sums", at, self._memory("sums"), kind)

    # How it is made

    def lay_out(self) -> Iterator[str]:
        """Lines that make all of it."""
        body = self.body
        for name in self._sizes:
            body.lines.append(on_stack(f"%rounded_{name}", self._memory(name)))
        for row in range(self.rows):
            self._clear(row)
            if self.codes.by_output:
                self._by_output(row)
            else:
                self._by_group(row)
            if self.codes.shift:

                def begun(piece: str, row: int = row) -> None:
                    self._begun(row, piece)

                body.loop(0, self.codes.pieces, 1, begun)
        yield from body.lines
        body.lines.clear()

    @property
    def _sizes(self) -> dict[str, tuple[int, str]]:
        codes = self.codes
        pieces = self.rows * codes.pieces
        found = {"bytes": (pieces * codes.fields * codes.bytes, "i8")}
        found["scale"] = (self.rows if codes.by_output else pieces * codes.lanes, "f32")
        if codes.shift:
            found["begin"] = (pieces * codes.lanes, "i32")
        if codes.weights.least:
            found["sums"] = (self.rows * self.chunks * self._groups_at_once, "f32")
        return found

    def _memory(self, name: str) -> str:
        size, kind = self._sizes[name]
        return f"memref<{size}x{kind}>"

    def _clear(self, row: int) -> None:
        """Zeros where the last piece overlaps the one before it."""
        codes, body = self.codes, self.body
        if codes.weights.inner % codes.size:
            last = (row + 1) * codes.pieces - 1
            kind = f"vector<{codes.bytes}xi8>"
            none = body.value("arith.constant dense<0>", kind)
            for field in range(codes.fields):
                at = body.index((last * codes.fields + field) * codes.bytes)
                body.store(none, "%rounded_bytes", at, self._memory("bytes"), kind)
            if not codes.by_output:
                kind = f"vector<{codes.lanes}xf32>"
                at = body.index(last * codes.lanes)
                zero = body.number(0.0, kind)
                body.store(zero, "%rounded_scale", at, self._memory("scale"), kind)
        if codes.weights.least:
            count = self._groups_at_once
            kind = f"vector<{count}xf32>"
            at = body.index(((row + 1) * self.chunks - 1) * count)
            body.store(body.number(0.0, kind), "%rounded_sums", at, self._memory("sums"), kind)

    @property
    def _floats(self) -> str:
        return f"vector<{self._chunk}xf32>"

    @property
    def _chunk(self) -> int:
        """Neighbours that are rounded together."""
        return min(self.codes.lanes, _RUN)

    def _by_output(self, row: int) -> None:
        codes, body = self.codes, self.body
        inner, kind = codes.weights.inner, self._floats

        def turn(chunk: str, largest: list[str]) -> list[str]:
            at = body.plus(body.times(chunk, self._chunk), row * inner)
            return [body.larger(largest[0], self._size(at), kind)]

        (most,) = body.fold(inner // self._chunk, [body.number(0.0, kind)], kind, turn)
        scale, step = self._scale(most)
        body.store(scale, "%rounded_scale", body.index(row), self._memory("scale"), "f32")
        whole = inner // codes.size * codes.runs
        for start, stop, last in ((0, whole, False), (whole, inner // codes.run, True)):

            def keep(run: str, last: bool = last) -> None:
                self._run(row, run, step, last=last)

            if start < stop:
                body.loop(start, stop, 1, keep)

    def _by_group(self, row: int) -> None:
        codes = self.codes
        whole = codes.weights.inner // codes.size * codes.size // codes.weights.group
        for start, stop, last in ((0, whole, False), (whole, codes.weights.groups, True)):

            def keep(group: str, last: bool = last) -> None:
                self._group(row, group, last=last)

            if start < stop:
                self.body.loop(start, stop, 1, keep)

    def _group(self, row: int, group: str, *, last: bool) -> None:
        codes, body, kind = self.codes, self.body, self._floats
        size, inner = codes.weights.group, codes.weights.inner
        start = body.plus(body.times(group, size), row * inner)
        most = ""
        for offset in range(0, size, self._chunk):
            found = self._size(body.plus(start, offset))
            most = body.larger(most, found, kind) if most else found
        scale, step = self._scale(most)
        first = body.times(group, size // codes.run)
        total = ""
        for number in range(size // codes.run):
            run = body.plus(first, number)
            for value in self._run(row, run, step, last=last):
                total = body.value(f"arith.addf {total}, {value}", kind) if total else value
            four = body.spread(scale, f"vector<{_LANES}xf32>")
            at = body.times(self._place(row, run, last=last), _LANES)
            body.store(four, "%rounded_scale", at, self._memory("scale"), f"vector<{_LANES}xf32>")
        if codes.weights.least:
            self._keep_sum(row, group, total, scale)

    def _keep_sum(self, row: int, group: str, total: str, scale: str) -> None:
        """A group's sum, where its chunk has it."""
        body, count = self.body, self._groups_at_once

        def add(one: str, other: str, kind: str) -> str:
            return body.value(f"arith.addf {one}, {other}", kind)

        found = of_all_lanes(body, total, self._chunk, add)
        found = body.value(f"arith.mulf {found}, {scale}", "f32")
        whole = self.codes.weights.groups // count * count
        behind = body.value(f"arith.cmpi uge, {group}, {body.index(whole)}", "index")
        again = body.index(self.chunks * count - self.codes.weights.groups)
        more = body.value(f"arith.select {behind}, {again}, {body.index(0)}", "index")
        at = body.plus(body.plus(group, more), row * self.chunks * count)
        body.store(found, "%rounded_sums", at, self._memory("sums"), "f32")

    def _place(self, row: int, run: str, *, last: bool) -> str:
        """Which of all runs a run is, those of the overlap counted twice."""
        codes, body = self.codes, self.body
        again = codes.pieces * codes.runs - codes.weights.inner // codes.run if last else 0
        return body.plus(run, row * codes.pieces * codes.runs + again)

    def _run(self, row: int, run: str, step: str, *, last: bool) -> list[str]:
        """Round and keep a run's numbers; these whole numbers, as f32."""
        codes, body, kind = self.codes, self.body, self._floats
        place = self._place(row, run, last=last)
        if codes.fields == 1:
            at = body.times(place, _RUN)
        else:
            piece = body.value(f"arith.divui {place}, {body.index(codes.runs)}", "index")
            within = body.less(place, body.times(piece, codes.runs))
            at = body.plus(body.times(piece, codes.fields * codes.bytes), body.times(within, _RUN))
        start = body.plus(body.times(run, codes.run), row * codes.weights.inner)
        words, few = (f"vector<{self._chunk}x{each}>" for each in ("i32", "i8"))
        large = body.number(_ROUNDING, kind)
        found = []
        for field in range(codes.fields):
            for offset in range(0, _RUN, self._chunk):
                value = body.load(
                    "%m0", body.plus(start, field * _RUN + offset), body.writer.memory(0), kind
                )
                value = body.value(f"arith.divf {value}, {step}", kind)
                near = body.value(f"arith.addf {value}, {large}", kind)
                bits = body.value(f"arith.bitcast {near}", f"{kind} to {words}")
                narrow = body.value(f"arith.trunci {bits}", f"{words} to {few}")
                there = body.plus(at, field * codes.bytes + offset)
                body.store(narrow, "%rounded_bytes", there, self._memory("bytes"), few)
                found.append(body.value(f"arith.subf {near}, {large}", kind))
        return found

    def _size(self, at: str) -> str:
        """The sizes of neighbours."""
        body, kind = self.body, self._floats
        value = body.load("%m0", at, body.writer.memory(0), kind)
        return body.value(f"math.absf {value}", kind)

    def _scale(self, most: str) -> tuple[str, str]:
        """Of the largest sizes by lane the scale, as a number and as a vector."""
        body = self.body

        found = of_all_lanes(body, most, self._chunk, body.larger)
        least = body.value(f"arith.constant {literal(SMALLEST)}", "f32")
        found = body.value(f"arith.maximumf {found}, {least}", "f32")
        part = body.value(f"arith.constant {literal(1 / LARGEST)}", "f32")
        scale = body.value(f"arith.mulf {found}, {part}", "f32")
        return scale, body.spread(scale, self._floats)

    def _begun(self, row: int, piece: str) -> None:
        """What is to be taken from a piece's sums."""
        codes, body = self.codes, self.body
        kind = f"vector<{codes.lanes}xi32>"
        number = codes.shift - 256 * (codes.shift > LARGEST)
        added = body.value(f"arith.constant dense<{number}>", f"vector<{codes.bytes}xi8>")
        zero = body.value("arith.constant dense<0>", kind)
        total = zero
        for values in self.values(row, piece):
            result = body.writer.fresh()
            body.lines.append(codes.unit.multiply(result, total, added, values, codes.lanes))
            total = result
        total = body.value(f"arith.subi {zero}, {total}", kind)
        at = body.times(body.plus(piece, row * codes.pieces), codes.lanes)
        body.store(total, "%rounded_begin", at, self._memory("begin"), kind)
