"""A panel's block of weights out of their codes, into memory of the thread's own.

Words of codes are read of as many outputs as a vector has lanes, as many of each, and turned in
registers, so that a vector has a word of each output. Where rows are f32, codes become the weights;
where rows are bytes, they stay codes, a byte each, and their scales lie beside them.
"""

from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.block_codes import Codes
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.tall_tiles import TallTiles
from edgec.toolchain.kernels.cpu.source.turned import turned
from edgec.toolchain.kernels.cpu.source.writer import on_stack

__all__ = ["TallPanel"]

_QUAD = 4


@dataclass(frozen=True, kw_only=True)
class TallPanel:
    """The thread's memory for a panel, and what fills and reads it.

    Attributes:
        cut: how the product is cut up.
        body: where this is written.
    """

    cut: TallTiles
    body: Body

    @property
    def _memories(self) -> dict[str, tuple[int, str]]:
        cut = self.cut
        found = {"codes": (cut.longest * cut.step * cut.width, "i8" if cut.dot else "f32")}
        if cut.dot is not None:
            numbers = cut.width * (1 if cut.by_output else cut.longest)
            found["scale"] = (numbers, "f32")
            if cut.weights.least:
                found["least"] = (numbers, "f32")
        return found

    def _memory(self, name: str) -> str:
        size, kind = self._memories[name]
        return f"memref<{size}x{kind}>"

    def make(self) -> None:
        """The memory."""
        for name in self._memories:
            self.body.lines.append(on_stack(f"%panel_{name}", self._memory(name)))

    # What tiles read

    def quad(self, number: str, neighbour: int, v: int) -> str:
        """Four bytes of each output of a vector; or one neighbour's f32 of a quad."""
        cut, body = self.cut, self.body
        if cut.dot is not None:
            at = body.plus(body.times(number, _QUAD * cut.width), v * _QUAD * cut.lanes)
            kind = f"vector<{_QUAD * cut.lanes}xi8>"
        else:
            start = body.times(number, _QUAD * cut.width)
            at = body.plus(start, neighbour * cut.width + v * cut.lanes)
            kind = f"vector<{cut.lanes}xf32>"
        return body.load("%panel_codes", at, self._memory("codes"), kind)

    def numbers(self, name: str, step: str, v: int) -> str:
        """The scales or least values of a step, counted within the block."""
        cut, body = self.cut, self.body
        at: int | str = v * cut.lanes
        if not cut.by_output:
            at = body.plus(body.times(step, cut.width), at)
        at = body.index(at)
        return body.load(f"%panel_{name}", at, self._memory(name), f"vector<{cut.lanes}xf32>")

    # What fills it

    def fill(self, first: str, last: str) -> None:
        """Unpack the steps from `first` to `last` of the panel at `%n0`."""
        body, cut = self.body, self.cut

        def vector(v: str) -> None:
            output = body.plus("%n0", body.times(v, cut.lanes))
            outputs = [body.plus(output, lane) for lane in range(cut.lanes)]
            column = body.times(v, cut.lanes)
            self._codes(outputs, column, first, last)
            if cut.dot is not None:
                self._scales(outputs, column, first, last)

        body.loop(0, cut.vectors, 1, vector)

    def _codes(self, outputs: list[str], column: str, first: str, last: str) -> None:
        cut, body = self.cut, self.body
        rows = [body.times(output, cut.weights.row) for output in outputs]
        count = body.times(body.less(last, first), cut.step)

        def chunk(number: str) -> None:
            base = body.times(number, cut.chunk)
            base = body.least(base, body.less(count, cut.chunk))
            self._chunk(outputs, rows, column, body.times(first, cut.step), base)

        body.loop(0, body.parts(count, cut.chunk), 1, chunk)

    def _chunk(
        self, outputs: list[str], rows: list[str], column: str, block: str, base: str
    ) -> None:
        """Unpack the chunk at `base` of a block."""
        cut, body, weights = self.cut, self.body, self.cut.weights
        wide, words = f"vector<{4 * cut.lanes}xi8>", f"vector<{cut.lanes}xi32>"
        start = body.plus(block, base)
        at = start
        if weights.bits == 4:
            at = body.value(f"arith.divui {start}, {body.index(2)}", "index")
        loaded = []
        for row in rows:
            some = body.load("%m1", body.plus(row, at), body.writer.memory(1), wide)
            loaded.append(body.value(f"vector.bitcast {some}", f"{wide} to {words}"))
        found = turned(body, loaded, words)
        there = body.times(base, cut.width)
        if cut.dot is not None:
            self._keep_bytes(found, body.plus(there, body.times(column, _QUAD)))
        else:
            self._keep_floats(found, outputs, start, body.plus(there, column))

    def _keep_bytes(self, found: list[str], there: str) -> None:
        cut, body, weights = self.cut, self.body, self.cut.weights
        words, wide = f"vector<{cut.lanes}xi32>", f"vector<{4 * cut.lanes}xi8>"
        memory = self._memory("codes")
        for number, word in enumerate(found):
            codes = body.value(f"vector.bitcast {word}", f"{words} to {wide}")
            if weights.bits == 4:
                low = body.value("arith.constant dense<15>", wide)
                four = body.value("arith.constant dense<4>", wide)
                halves = [
                    body.value(f"arith.andi {codes}, {low}", wide),
                    body.value(f"arith.shrui {codes}, {four}", wide),
                ]
            elif cut.shift:
                flip = body.value("arith.constant dense<-128>", wide)
                halves = [body.value(f"arith.xori {codes}, {flip}", wide)]
            else:
                halves = [codes]
            for half, value in enumerate(halves):
                place = weights.place(_QUAD * number, half) * cut.width
                body.store(value, "%panel_codes", body.plus(there, place), memory, wide)

    def _keep_floats(self, found: list[str], outputs: list[str], start: str, there: str) -> None:
        cut, body, weights = self.cut, self.body, self.cut.weights
        floats, memory = f"vector<{cut.lanes}xf32>", self._memory("codes")
        codes = Codes(weights=weights, lanes=cut.lanes, lookup=False)
        factors = self._factors(outputs, start)
        for number, word in enumerate(found):
            for field in range(codes.fields):
                byte, half = 4 * number + field, 0
                if weights.bits == 4:
                    byte, half = 4 * number + field // 2, field % 2
                neighbour = weights.place(byte, half)
                factor, least = factors[neighbour * len(factors) // cut.chunk]
                value = codes.field(body, word, field, "")
                if least:
                    value = body.multiply_add(value, factor, least, floats)
                else:
                    value = body.value(f"arith.mulf {value}, {factor}", floats)
                place = body.plus(there, neighbour * cut.width)
                body.store(value, "%panel_codes", place, memory, floats)

    def _factors(self, outputs: list[str], start: str) -> list[tuple[str, str]]:
        """For each group of a chunk what its codes are multiplied with, and what is added."""
        cut, body, weights = self.cut, self.body, self.cut.weights
        kind = f"vector<{cut.lanes}xf32>"
        count = 1 if cut.by_output else max(1, cut.chunk // weights.group)
        first = body.value(f"arith.divui {start}, {body.index(weights.group)}", "index")
        columns = [body.times(output, weights.groups) for output in outputs]
        numbers = weights.leasts(body)
        found = []
        for number in range(count):
            group = body.plus(first, number)
            factor = weights.scales(body).gathered(columns, group)
            least = "" if numbers is None else numbers.gathered(columns, group)
            if weights.zero:
                zero = body.number(-weights.zero, kind)
                if least:
                    least = body.multiply_add(factor, zero, least, kind)
                else:
                    least = body.value(f"arith.mulf {factor}, {zero}", kind)
            found.append((factor, least))
        return found

    def _scales(self, outputs: list[str], column: str, first: str, last: str) -> None:
        """The scales, and least values, of a block."""
        cut, body, weights = self.cut, self.body, self.cut.weights
        columns = [body.times(output, weights.groups) for output in outputs]
        named = {"scale": weights.scales(body), "least": weights.leasts(body)}

        def keep(step: str) -> None:
            group = body.index(0) if cut.by_output else body.plus(first, step)
            at = body.plus(body.times(step, cut.width), column)
            for name, numbers in named.items():
                if numbers is None:
                    continue
                value = numbers.gathered(columns, group)
                memory, floats = self._memory(name), f"vector<{cut.lanes}xf32>"
                body.store(value, f"%panel_{name}", at, memory, floats)

        body.loop(0, 1 if cut.by_output else body.less(last, first), 1, keep)
