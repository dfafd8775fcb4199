"""Weights in blocks to panels of f32, as the kernels of many rows read them.

With many rows the product costs far more than to write its weights out once more, so that this is
done at each call, into memory that lives as long as the call: what stays is the blocks. A vector
holds neighbouring outputs: a word of codes is read of each, and its fields are vectors of a panel.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.block_codes import BlockWeights, Codes
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["BlockPanels"]

_WORD = 4


@dataclass(frozen=True, kw_only=True)
class BlockPanels:
    """Panels of `vectors` x `lanes` outputs, `inner` after each other in each.

    Attributes:
        weights: the blocks.
        lanes, vectors: of a panel.
        starts: the first output of each panel.
        unit: the vector registers of the target.
        rows: elements of a tensor that is not read: it makes what is written differ from call to
            call, so that the compiler does not keep it.
    """

    weights: BlockWeights
    lanes: int
    vectors: int
    starts: tuple[int, ...]
    unit: VectorUnit
    rows: int

    @classmethod
    def takes(cls, weights: BlockWeights) -> bool:
        """Whether groups are whole words."""
        return weights.group % _neighbours(weights) == 0

    @property
    def panel(self) -> int:
        """Outputs of a panel."""
        return self.lanes * self.vectors

    @property
    def size(self) -> int:
        """Elements of the panels."""
        return len(self.starts) * self.weights.inner * self.panel

    def kernel(self, name: str) -> str:
        """The text of a `stream.executable` called `name` with an entry point of that name.

        Its bindings are the tensor that is not read, the codes, the scales, the least values if
        there are some, and the panels.
        """
        count = len(self.starts)
        split = min(count, even(count, workgroups(0, 8 * self.size)))
        writer = Writer(
            name=name,
            workgroups=(split, 1, 1),
            sizes=[self.rows, *self.weights.sizes, self.size],
            kinds=("f32", *self.weights.kinds, "f32"),
        )
        return writer.text(self._lines(writer, split))

    def _lines(self, w: Writer, split: int) -> Iterator[str]:
        count, last = len(self.starts), self.weights.outputs - self.panel
        yield from w.share("panel", "%wx", count, split)
        yield f"scf.for %panel = %panel_from to %panel_to step {w.index(1)} {{"
        yield from w.start("%n0", "%panel", self.panel, last)
        body = Body(w, fused=self.unit.fused)
        for v in range(self.vectors):
            self._vector(body, v)
        yield from body.lines
        yield "}"

    def _vector(self, body: Body, v: int) -> None:
        """One vector of outputs of a panel, group by group."""
        weights = self.weights
        numbers = [body.plus("%n0", v * self.lanes + lane) for lane in range(self.lanes)]
        rows = [body.times(number, weights.row) for number in numbers]
        columns = [body.times(number, weights.groups) for number in numbers]

        def turn(group: str) -> None:
            factor = weights.scales(body).gathered(columns, group)
            numbers = weights.leasts(body)
            least = "" if numbers is None else numbers.gathered(columns, group)
            if weights.zero:
                floats = f"vector<{self.lanes}xf32>"
                zero = body.number(-weights.zero, floats)
                if least:
                    least = body.multiply_add(factor, zero, least, floats)
                else:
                    least = body.value(f"arith.mulf {factor}, {zero}", floats)

            def word(number: str) -> None:
                self._word(body, v, rows, group, number, factor, least)

            together = _neighbours(weights)
            step = together // (32 // weights.bits)
            body.loop(0, weights.group // together * step, step, word)

        body.loop(0, weights.groups, 1, turn)

    def _word(
        self,
        body: Body,
        v: int,
        rows: list[str],
        group: str,
        number: str,
        factor: str,
        least: str,
    ) -> None:
        """The words of some neighbours, from word `number` of a group on."""
        weights, lanes = self.weights, self.lanes
        kind, floats = f"vector<{lanes}xi32>", f"vector<{lanes}xf32>"
        codes = Codes(weights=weights, lanes=lanes, lookup=False)
        each = 32 // weights.bits
        first = body.times(group, weights.group * weights.bits // 8)
        start = body.plus(first, body.times(number, _WORD))
        before = body.plus(body.times(group, weights.group), body.times(number, each))
        panel = body.times("%panel", weights.inner * self.panel)
        at = body.plus(panel, body.times(before, self.panel))
        for word in range(_neighbours(weights) // each):
            words = body.value("arith.constant dense<0>", kind)
            for lane, row in enumerate(rows):
                place = body.plus(body.plus(row, start), word * _WORD)
                four = body.load("%m1", place, body.writer.memory(1), "vector<4xi8>")
                one = body.value(f"vector.bitcast {four}", "vector<4xi8> to vector<1xi32>")
                lone = body.value(f"vector.extract {one}[0]", "i32 from vector<1xi32>")
                words = body.value(f"vector.insert {lone}, {words} [{lane}]", f"i32 into {kind}")
            for field in range(each):
                value = codes.field(body, words, field, "")
                if least:
                    value = body.multiply_add(value, factor, least, floats)
                else:
                    value = body.value(f"arith.mulf {value}, {factor}", floats)
                byte, half = 4 * word + field, 0
                if weights.bits == 4:
                    byte, half = 4 * word + field // 2, field % 2
                offset = weights.place(byte, half) * self.panel + v * lanes
                out = len(weights.kinds) + 1
                memory = body.writer.memory(out)
                body.store(value, f"%m{out}", body.plus(at, offset), memory, floats)


def _neighbours(weights: BlockWeights) -> int:
    """How many neighbours have words of their own together."""
    return max(weights.span, 32 // weights.bits)
