"""Numbers to bytes whose scale and zero point span them, in one kernel, or in two that are shared.

The first looks for the ends of the range, each workgroup in its own part; the second brings these
together and rounds. Few numbers are one workgroup's work: the second looks for the ends itself.
"""

from dataclasses import dataclass
from functools import partial

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.lanes import of_all_lanes
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Rounding"]

_LARGEST = 255.0
_ROUNDING = 1.5 * 2**23
"""What is added to this lies one apart from the next f32: the sum's low bits are the integer."""
_FEW = 32 * 1024
"""Elements, which a core reads in some two microseconds."""
_VECTORS = 4
_ENDS = ("minimumf", "maximumf")


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Numbers that are rounded to bytes together.

    Attributes:
        size: how many there are.
        unit: how the target multiplies bytes, and so which bytes are written.
    """

    size: int
    unit: DotUnit

    @property
    def parts(self) -> int:
        """How many workgroups look for the ends of the range; 0 where that is no kernel's work."""
        return 0 if self.size <= _FEW else workgroups(0, 4 * self.size)

    @property
    def _lanes(self) -> int:
        lanes = self.unit.vectors.lanes
        while lanes > self.size:
            lanes //= 2
        return lanes

    @property
    def _vectors(self) -> int:
        return min(_VECTORS, self.size // self._lanes)

    @property
    def _kind(self) -> str:
        return f"vector<{self._lanes}xf32>"

    def ends(self, name: str) -> str:
        """The text of the first kernel: the numbers, and of each part its least and its largest."""
        writer = Writer(
            name=name, workgroups=(self.parts, 1, 1), sizes=[self.size, self.parts, self.parts]
        )
        body = self._opened(writer)
        for number, end in enumerate(self._range(body), 1):
            body.store(end, f"%m{number}", "%wx", writer.memory(number), "f32")
        return writer.text(body.lines)

    def text(self, name: str) -> str:
        """The text of the second kernel.

        Its bindings are the numbers, the parts' ends where there are parts, the bytes, the scale
        and the zero point (i32), both as the processor multiplies bytes.
        """
        given = [self.parts] * 2 if self.parts else []
        writer = Writer(
            name=name,
            workgroups=(max(self.parts, 1), 1, 1),
            sizes=[self.size, *given, self.size, 1, 1],
            kinds=("f32", *["f32" for _ in given], "i8", "f32", "i32"),
        )
        body = self._opened(writer)
        first = 1 + len(given)
        low, high = self._brought_together(body) if given else self._range(body)
        scale, zero = self._scale_and_zero(body, low, high)
        body.lines.append(f"%own = arith.cmpi eq, %wx, {body.index(0)} : index")
        body.lines.append("scf.if %own {")
        body.store(scale, f"%m{first + 1}", body.index(0), writer.memory(first + 1), "f32")
        whole = body.value(f"arith.fptosi {zero}", "f32 to i32")
        if self.unit.low:
            shift = body.value(f"arith.constant {self.unit.low}", "i32")
            whole = body.value(f"arith.addi {whole}, {shift}", "i32")
        body.store(whole, f"%m{first + 2}", body.index(0), writer.memory(first + 2), "i32")
        body.lines.append("}")
        self._round(body, scale, zero, first)
        return writer.text(body.lines)

    def _opened(self, writer: Writer) -> Body:
        """A body that knows which runs of vectors a workgroup has: `%run_from` to `%run_to`."""
        body = Body(writer, fused=self.unit.vectors.fused)
        runs = -(-self.size // (self._vectors * self._lanes))
        body.lines += writer.share("run", "%wx", runs, max(self.parts, 1))
        return body

    def _start(self, body: Body, run: str) -> str:
        """The first element of a run; the last run overlaps the one before it."""
        width = self._vectors * self._lanes
        return body.least(body.times(run, width), self.size - width)

    def _loaded(self, body: Body, start: str, vector: int) -> str:
        at = body.plus(start, vector * self._lanes)
        return body.load("%m0", at, body.writer.memory(0), self._kind)

    def _range(self, body: Body) -> tuple[str, str]:
        """The least and the largest number of a workgroup's, zero among them."""
        kind = self._kind
        zero = body.number(0.0, kind)

        def turn(run: str, ends: list[str]) -> list[str]:
            start = self._start(body, body.plus("%run_from", run))
            values = [self._loaded(body, start, vector) for vector in range(self._vectors)]
            pairs = zip(ends, (end for end in _ENDS for _ in values), values * 2, strict=True)
            return [_farther(body, end, one, value, kind) for one, end, value in pairs]

        count = body.less("%run_to", "%run_from")
        found = body.fold(count, [zero] * (2 * self._vectors), kind, turn)
        return self._ends_of(body, found[: self._vectors], found[self._vectors :], self._lanes)

    def _ends_of(
        self, body: Body, lows: list[str], highs: list[str], lanes: int
    ) -> tuple[str, str]:
        """The least of some vectors, and the largest of others."""
        made = []
        for end, vectors in zip(_ENDS, (lows, highs), strict=True):
            whole = vectors[0]
            for other in vectors[1:]:
                whole = _farther(body, end, whole, other, self._kind)
            made.append(of_all_lanes(body, whole, lanes, partial(_farther, body, end)))
        return made[0], made[1]

    def _brought_together(self, body: Body) -> tuple[str, str]:
        """The least and the largest number of all parts."""
        zero = body.number(0.0, "f32")

        def turn(part: str, ends: list[str]) -> list[str]:
            return [
                _farther(
                    body, end, one, body.load(memory, part, body.writer.memory(1), "f32"), "f32"
                )
                for end, one, memory in zip(_ENDS, ends, ("%m1", "%m2"), strict=True)
            ]

        low, high = body.fold(self.parts, [zero, zero], "f32", turn)
        return low, high

    def _scale_and_zero(self, body: Body, low: str, high: str) -> tuple[str, str]:
        """A step, and where zero lies, in steps from the least number."""
        none, most, one = (body.number(value, "f32") for value in (0.0, _LARGEST, 1.0))
        span = body.value(f"arith.subf {high}, {low}", "f32")
        step = body.value(f"arith.divf {span}, {most}", "f32")
        empty = body.value(f"arith.cmpf oeq, {span}, {none}", "f32")
        scale = body.value(f"arith.select {empty}, {one}, {step}", "f32")
        below = body.value(f"arith.divf {low}, {scale}", "f32")
        raised = body.value(f"arith.negf {below}", "f32")
        held = _farther(body, "maximumf", raised, none, "f32")
        held = _farther(body, "minimumf", held, most, "f32")
        return scale, self._whole(body, held, "f32")

    def _whole(self, body: Body, value: str, kind: str) -> str:
        """The nearest whole numbers of what is small, halves to even."""
        large = body.number(_ROUNDING, kind)
        near = body.value(f"arith.addf {value}, {large}", kind)
        return body.value(f"arith.subf {near}, {large}", kind)

    def _round(self, body: Body, scale: str, zero: str, binding: int) -> None:
        """Write a workgroup's bytes."""
        kind, memory = self._kind, body.writer.memory(binding)
        words, few = (f"vector<{self._lanes}x{each}>" for each in ("i32", "i8"))
        steps, zeros = body.spread(scale, kind), body.spread(zero, kind)
        low, most = body.number(0.0, kind), body.number(_LARGEST, kind)
        large = body.number(_ROUNDING, kind)
        turned = body.value(f"arith.constant dense<{self.unit.low}>", few)

        def turn(run: str) -> None:
            start = self._start(body, run)
            for vector in range(self._vectors):
                value = self._loaded(body, start, vector)
                value = body.value(f"arith.divf {value}, {steps}", kind)
                value = self._whole(body, value, kind)
                value = body.value(f"arith.addf {value}, {zeros}", kind)
                value = _farther(body, "maximumf", value, low, kind)
                value = _farther(body, "minimumf", value, most, kind)
                near = body.value(f"arith.addf {value}, {large}", kind)
                bits = body.value(f"arith.bitcast {near}", f"{kind} to {words}")
                byte = body.value(f"arith.trunci {bits}", f"{words} to {few}")
                if self.unit.low:
                    byte = body.value(f"arith.xori {byte}, {turned}", few)
                at = body.plus(start, vector * self._lanes)
                body.store(byte, f"%m{binding}", at, memory, few)

        body.loop("%run_from", "%run_to", 1, turn)


def _farther(body: Body, end: str, one: str, other: str, kind: str) -> str:
    """The smaller or larger of two, element by element; NaN where one of them is."""
    return body.value(f"arith.{end} {one}, {other}", kind)
