"""Rows of numbers in order, or the first few of them, with their places, to a kernel.

A number becomes an unsigned integer that has its place in the order. A row's integers and places
are sorted by their bytes, the last one first, each time into the other half of a buffer; a byte
that is the same in all of them costs one look. Few are put in their places one by one.

Of a row of which only the first few are wanted, twice as many are sorted; then a vector of
numbers at a time is compared with the last one wanted, and those before it are gathered until the
buffer is full, and it is sorted again. So most of a row is read once and compared once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer, on_stack
from edgec.toolchain.match.order import Order

__all__ = ["Keys", "Ordering", "ordering_kernel"]

_COUNTS = "memref<256xi32>"
_FEW = 64
"""Numbers that are sorted one by one; about as many take as long by bytes."""
_LEAST_GATHERED = 16
_STACK_PART = 4
_STEPS = 40
"""About what a number costs in its row, in additions."""
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What is sorted by, and in which order.

    Attributes:
        kind: the type of the numbers, as memory has it: `f32`, `i16` …
        order: the order.
    """

    kind: str
    order: Order

    @property
    def width(self) -> int:
        """Bits of a number."""
        return int(self.kind.lstrip("bfi"))

    @property
    def word(self) -> str:
        """The type of the integers that are sorted."""
        return "i64" if self.width == 64 else "i32"

    @property
    def is_float(self) -> bool:
        """Whether the numbers are floats."""
        return self.kind in _MANTISSA


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """Rows that are sorted, and how much of them is kept.

    Attributes:
        rows, length: rows, and numbers of each, which lie side by side.
        kept: how many of a row are wanted, from the first on.
        keys: what they are sorted by.
        others: types of other arrays that are moved as the numbers are.
    """

    rows: int
    length: int
    kept: int
    keys: Keys
    others: tuple[str, ...] = ()

    @property
    def gathered(self) -> int:
        """How many of a row are sorted at a time."""
        several = max(2 * self.kept, _LEAST_GATHERED)
        return several if 3 * several < 2 * self.length else self.length

    @property
    def groups(self) -> int:
        """Workgroups, each of some rows."""
        return min(self.rows, even(self.rows, workgroups(_STEPS * self.rows * self.length)))


def ordering_kernel(name: str, ordering: Ordering, unit: VectorUnit) -> tuple[str, list[int]]:
    """The text of a `stream.executable` called `name`, and how large its own memory is.

    Its bindings are the numbers and the others; then the numbers, the others and the places (i32)
    that are kept; then, if the second result has sizes, buffers of as many keys and places.
    """
    lanes = max(1, unit.lanes * 32 // max(32, ordering.keys.width))
    room = ordering.gathered
    if room < ordering.length:
        room += 2 * lanes
    on_stack = 2 * room * (ordering.keys.width // 8 + 4) <= unit.stack // _STACK_PART
    whole, kept = ordering.rows * ordering.length, ordering.rows * ordering.kept
    kinds = (ordering.keys.kind, *ordering.others)
    own = [] if on_stack else [2 * room * ordering.groups] * 2
    writer = Writer(
        name=name,
        workgroups=(ordering.groups, 1, 1),
        sizes=[*[whole] * len(kinds), *[kept] * (len(kinds) + 1), *own],
        kinds=(*kinds, *kinds, "i32", *((ordering.keys.word, "i32") if own else ())),
    )
    body = Body(writer, fused=unit.fused)
    _Kernel(ordering=ordering, lanes=lanes, room=room, on_stack=on_stack, b=body).write()
    return writer.text(body.lines), own


@dataclass(kw_only=True)
class _Kernel:
    ordering: Ordering
    lanes: int
    room: int
    on_stack: bool
    b: Body
    base: str = ""
    """Where the workgroup's buffers begin."""
    begin: str = ""
    """Where the row begins."""

    def write(self) -> None:
        """The whole body."""
        ordering, b = self.ordering, self.b
        self.say(on_stack("%counts", _COUNTS))
        if self.on_stack:
            self.say(on_stack("%keys", self.memory[0]))
            self.say(on_stack("%places", self.memory[1]))
            self.base = b.index(0)
        else:
            self.base = b.times("%wx", 2 * self.room)
        b.lines += b.writer.share("row", "%wx", ordering.rows, ordering.groups)
        b.loop("%row_from", "%row_to", 1, self.row)

    @property
    def names(self) -> tuple[str, str]:
        """The buffers of keys and of places."""
        first = 2 * len(self.ordering.others) + 3
        return ("%keys", "%places") if self.on_stack else (f"%m{first}", f"%m{first + 1}")

    @property
    def memory(self) -> tuple[str, str]:
        """Their types."""
        parts = 1 if self.on_stack else self.ordering.groups
        size = 2 * self.room * parts
        return f"memref<{size}x{self.word}>", f"memref<{size}xi32>"

    @property
    def word(self) -> str:
        return self.ordering.keys.word

    def row(self, row: str) -> None:
        """Sort a row, or find its first ones, and write what is kept."""
        ordering, b = self.ordering, self.b
        self.begin = b.times(row, ordering.length)
        b.loop(0, ordering.gathered, 1, self.fill)
        if ordering.gathered == ordering.length:
            found = self.sort(b.index(ordering.length), ordering.length)
        else:
            self.select()
            found = self.base
        end = b.times(row, ordering.kept)
        arrays = len(ordering.others) + 1

        def keep(i: str) -> None:
            place = self.load(1, b.plus(found, i))
            at = b.plus(self.begin, b.value(f"arith.index_cast {place}", "i32 to index"))
            there = b.plus(end, i)
            for number in range(arrays):
                kind = b.writer.kinds[number]
                value = b.load(f"%m{number}", at, b.writer.memory(number), kind)
                result = number + arrays
                b.store(value, f"%m{result}", there, b.writer.memory(result), kind)
            b.store(place, f"%m{2 * arrays}", there, b.writer.memory(2 * arrays), "i32")

        b.loop(0, ordering.kept, 1, keep)

    def fill(self, i: str) -> None:
        """A number of the row's beginning into the buffer."""
        self.put(self.base, i, self.key_at(i), self.narrow(i))

    def select(self) -> None:
        """The first ones of a row to the buffer's beginning, in order."""
        ordering, b = self.ordering, self.b
        found, position, count = b.writer.fresh(), b.writer.fresh(), b.writer.fresh()
        many = b.index(ordering.gathered)
        self.say(
            f"{found}:2 = scf.while ({position} = {many}, {count} = {many}) : "
            "(index, index) -> (index, index) {"
        )
        at = self.sort(count, None)
        self.move(at, b.index(ordering.kept))
        last = self.load(0, b.plus(self.base, ordering.kept - 1))
        position, count = self.gather(position, last)
        again = b.value(f"arith.cmpi ugt, {count}, {b.index(ordering.kept)}", "index")
        self.say(f"scf.condition({again}) {position}, {count} : index, index")
        position, count = b.writer.fresh(), b.writer.fresh()
        self.say("} do {")
        self.say(f"^bb0({position}: index, {count}: index):")
        self.say(f"scf.yield {position}, {count} : index, index")
        self.say("}")

    def gather(self, position: str, last: str) -> tuple[str, str]:
        """Go on through the row, until its end or until the buffer is full.

        Args:
            position: from where.
            last: the key that others have to come before.

        Returns:
            Where the walk ended, and how many there are in the buffer.
        """
        ordering, b, lanes = self.ordering, self.b, self.lanes
        kind = f"vector<{lanes}x{self.word}>"
        wide = b.value(f"vector.broadcast {last}", f"{self.word} to {kind}")
        length = b.index(ordering.length)
        found, at, count = b.writer.fresh(), b.writer.fresh(), b.writer.fresh()
        self.say(
            f"{found}:2 = scf.while ({at} = {position}, {count} = {b.index(ordering.kept)}) : "
            "(index, index) -> (index, index) {"
        )
        inside = b.value(f"arith.cmpi ule, {b.plus(at, lanes)}, {length}", "index")
        fits = b.value(f"arith.cmpi ule, {count}, {b.index(ordering.gathered)}", "index")
        both = b.value(f"arith.andi {inside}, {fits}", "i1")
        self.say(f"scf.condition({both}) {at}, {count} : index, index")
        at, count = b.writer.fresh(), b.writer.fresh()
        self.say("} do {")
        self.say(f"^bb0({at}: index, {count}: index):")
        loaded = self.read(at, f"vector<{lanes}x{ordering.keys.kind}>")
        truths = b.value(f"arith.cmpi ult, {self.key(loaded, lanes)}, {wide}", kind)
        some = b.value(f"vector.reduction <or>, {truths}", f"vector<{lanes}xi1> into i1")
        gathered = b.writer.fresh()
        self.say(f"{gathered} = scf.if {some} -> (index) {{")
        more = self.take(at, b.plus(at, lanes), count, last)
        self.say(f"scf.yield {more} : index")
        self.say("} else {")
        self.say(f"scf.yield {count} : index")
        self.say("}")
        self.say(f"scf.yield {b.plus(at, lanes)}, {gathered} : index, index")
        self.say("}")
        at, count = f"{found}#0", f"{found}#1"
        goes_on = b.value(f"arith.cmpi ule, {b.plus(at, lanes)}, {length}", "index")
        stop = b.value(f"arith.select {goes_on}, {at}, {length}", "index")
        return stop, self.take(at, stop, count, last)

    def take(self, start: str, stop: str, count: str, last: str) -> str:
        """Put those of some neighbours that come before the last one behind what is gathered."""
        b = self.b

        def step(i: str, known: list[str]) -> list[str]:
            now, key = known[0], self.key_at(i)
            self.put(self.base, now, key, self.narrow(i))
            better = b.value(f"arith.cmpi ult, {key}, {last}", self.word)
            return [b.value(f"arith.select {better}, {b.plus(now, 1)}, {now}", "index")]

        return b.fold(stop, [count], "index", step, start=start)[0]

    def sort(self, count: str, known: int | None) -> str:
        """Sort so many of the buffer's first half; where they are then.

        Args:
            count: how many.
            known: the same, if it is known.
        """
        b = self.b
        if known is not None:
            if known > _FEW:
                return self.by_bytes(count)
            self.one_by_one(count)
            return self.base
        few, found = b.value(f"arith.cmpi ule, {count}, {b.index(_FEW)}", "index"), b.writer.fresh()
        self.say(f"{found} = scf.if {few} -> (index) {{")
        self.one_by_one(count)
        self.say(f"scf.yield {self.base} : index")
        self.say("} else {")
        self.say(f"scf.yield {self.by_bytes(count)} : index")
        self.say("}")
        return found

    def one_by_one(self, count: str) -> None:
        """Put each number in its place among those before it."""
        b, word = self.b, self.word

        def insert(i: str) -> None:
            key, place = self.load(0, b.plus(self.base, i)), self.load(1, b.plus(self.base, i))
            found, at = b.writer.fresh(), b.writer.fresh()
            self.say(f"{found} = scf.while ({at} = {i}) : (index) -> (index) {{")
            is_first = b.value(f"arith.cmpi eq, {at}, {b.index(0)}", "index")
            goes_on = b.writer.fresh()
            self.say(f"{goes_on} = scf.if {is_first} -> (i1) {{")
            self.say(f"scf.yield {self.integer(0, 'i1')} : i1")
            self.say("} else {")
            before = self.load(0, b.plus(self.base, b.less(at, 1)))
            self.say(f"scf.yield {b.value(f'arith.cmpi ugt, {before}, {key}', word)} : i1")
            self.say("}")
            self.say(f"scf.condition({goes_on}) {at} : index")
            at = b.writer.fresh()
            self.say("} do {")
            self.say(f"^bb0({at}: index):")
            left = b.less(at, 1)
            from_ = b.plus(self.base, left)
            self.put(self.base, at, self.load(0, from_), self.load(1, from_))
            self.say(f"scf.yield {left} : index")
            self.say("}")
            self.put(self.base, found, key, place)

        b.loop(1, count, 1, insert)

    def by_bytes(self, count: str) -> str:
        """Sort by each byte in turn, the last first; where the numbers lie in the end."""
        b, digits = self.b, self.ordering.keys.width // 8
        other = b.plus(self.base, self.room)
        both = b.plus(self.base, other)

        def turn(digit: str, known: list[str]) -> list[str]:
            (at,) = known
            bits = b.value(f"arith.muli {digit}, {b.index(8)}", "index")
            shift = b.value(f"arith.index_cast {bits}", f"index to {self.word}")

            def byte(key: str) -> str:
                moved = b.value(f"arith.shrui {key}, {shift}", self.word)
                low = b.value(f"arith.andi {moved}, {self.integer(255)}", self.word)
                return b.value(f"arith.index_castui {low}", f"{self.word} to index")

            self.count(count, at, byte)
            first = byte(self.load(0, at))
            most = b.value(f"memref.load %counts[{first}]", _COUNTS)
            all_ = b.value(f"arith.index_cast {count}", "index to i32")
            same, found = b.value(f"arith.cmpi eq, {most}, {all_}", "i32"), b.writer.fresh()
            self.say(f"{found} = scf.if {same} -> (index) {{")
            self.say(f"scf.yield {at} : index")
            self.say("} else {")
            there = b.less(both, at)
            self.deal(count, at, there, byte)
            self.say(f"scf.yield {there} : index")
            self.say("}")
            return [found]

        return b.fold(digits, [self.base], "index", turn)[0]

    def count(self, count: str, at: str, byte: Callable[[str], str]) -> None:
        """How often each byte occurs."""
        b = self.b
        zero, one = self.integer(0, "i32"), self.integer(1, "i32")
        b.loop(0, 256, 1, lambda i: self.say(f"memref.store {zero}, %counts[{i}] : {_COUNTS}"))

        def add(i: str) -> None:
            which = byte(self.load(0, b.plus(at, i)))
            known = b.value(f"memref.load %counts[{which}]", _COUNTS)
            more = b.value(f"arith.addi {known}, {one}", "i32")
            self.say(f"memref.store {more}, %counts[{which}] : {_COUNTS}")

        b.loop(0, count, 1, add)

    def deal(self, count: str, at: str, there: str, byte: Callable[[str], str]) -> None:
        """Move each number to the next free place of those with its byte."""
        b = self.b
        one = self.integer(1, "i32")

        def begin(i: str, names: list[str]) -> list[str]:
            known = b.value(f"memref.load %counts[{i}]", _COUNTS)
            self.say(f"memref.store {names[0]}, %counts[{i}] : {_COUNTS}")
            return [b.value(f"arith.addi {names[0]}, {known}", "i32")]

        b.fold(256, [self.integer(0, "i32")], "i32", begin)

        def move(i: str) -> None:
            from_ = b.plus(at, i)
            key, place = self.load(0, from_), self.load(1, from_)
            which = byte(key)
            free = b.value(f"memref.load %counts[{which}]", _COUNTS)
            self.put(there, b.value(f"arith.index_cast {free}", "i32 to index"), key, place)
            more = b.value(f"arith.addi {free}, {one}", "i32")
            self.say(f"memref.store {more}, %counts[{which}] : {_COUNTS}")

        b.loop(0, count, 1, move)

    def move(self, at: str, count: str) -> None:
        """What lies elsewhere to the buffer's beginning."""
        b = self.b
        is_there = b.value(f"arith.cmpi eq, {at}, {self.base}", "index")
        stop = b.value(f"arith.select {is_there}, {b.index(0)}, {count}", "index")

        def one(i: str) -> None:
            from_ = b.plus(at, i)
            self.put(self.base, i, self.load(0, from_), self.load(1, from_))

        b.loop(0, stop, 1, one)

    def key_at(self, i: str) -> str:
        """The key of a number of the row."""
        return self.key(self.read(i, self.ordering.keys.kind), 0)

    def read(self, i: str, kind: str) -> str:
        """A number of the row, or some neighbours."""
        memory = self.b.writer.memory(0)
        return self.b.load("%m0", self.b.plus(self.begin, i), memory, kind)

    def key(self, value: str, lanes: int) -> str:
        """The unsigned integers whose order is that of numbers; `lanes` is 0 for one of them."""
        b, keys = self.b, self.ordering.keys
        width, kind = keys.width, _of(f"i{keys.width}", lanes)

        def same(number: int) -> str:
            return self.integer(number, f"i{width}", lanes)

        if keys.is_float:
            value = b.value(f"arith.bitcast {value}", f"{_of(keys.kind, lanes)} to {kind}")
            numbers = same((1 << (width - 1)) - 1)
            if not keys.order.by_bits:
                size = b.value(f"arith.andi {value}, {numbers}", kind)
                infinity = ((1 << (width - 1 - _MANTISSA[keys.kind])) - 1) << _MANTISSA[keys.kind]
                is_nan = b.value(f"arith.cmpi ugt, {size}, {same(infinity)}", kind)
                truth = _of("i1", lanes)
                value = b.value(f"arith.select {is_nan}, {numbers}, {value}", _chosen(truth, kind))
                is_zero = b.value(f"arith.cmpi eq, {size}, {same(0)}", kind)
                value = b.value(f"arith.select {is_zero}, {size}, {value}", _chosen(truth, kind))
            sign = b.value(f"arith.shrsi {value}, {same(width - 1)}", kind)
            turned = b.value(f"arith.andi {sign}, {numbers}", kind)
            value = b.value(f"arith.xori {value}, {turned}", kind)
        top = 0 if keys.order.is_unsigned and not keys.is_float else 1 << (width - 1)
        flips = top ^ ((1 << width) - 1 if keys.order.descending else 0)
        if flips:
            value = b.value(f"arith.xori {value}, {same(flips)}", kind)
        if width < 32:
            value = b.value(f"arith.extui {value}", f"{kind} to {_of(keys.word, lanes)}")
        return value

    def integer(self, number: int, kind: str = "", lanes: int = 0) -> str:
        """A constant integer, or a vector of such; of the keys' type, if none is said."""
        kind = kind or self.word
        width = int(kind[1:])
        number = number - (1 << width) if number >> (width - 1) else number
        text = f"dense<{number}>" if lanes else str(number)
        return self.b.value(f"arith.constant {text}", _of(kind, lanes))

    def load(self, which: int, at: str) -> str:
        """A key (0) or a place (1) of the buffer."""
        return self.b.value(f"memref.load {self.names[which]}[{at}]", self.memory[which])

    def put(self, start: str, i: str, key: str, place: str) -> None:
        """A key and a place into the buffer."""
        at = self.b.plus(start, i)
        for which, value in enumerate((key, place)):
            self.say(f"memref.store {value}, {self.names[which]}[{at}] : {self.memory[which]}")

    def narrow(self, i: str) -> str:
        """An index as a place."""
        return self.b.value(f"arith.index_cast {i}", "index to i32")

    def say(self, line: str) -> None:
        self.b.lines.append(line)


def _of(kind: str, lanes: int) -> str:
    """A type, or vectors of so many of it."""
    return f"vector<{lanes}x{kind}>" if lanes else kind


def _chosen(truth: str, kind: str) -> str:
    """The types of a choice: a vector of truths is named beside what is chosen."""
    return f"{truth}, {kind}" if truth.startswith("vector") else kind
