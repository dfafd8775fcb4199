"""Scales and least values of groups, out of memory as f32: floats, or bytes times a factor.

Bytes with a factor for some neighbouring groups are how GGUF's K kinds keep them; an output's
groups are a whole number of such neighbourhoods.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.half_bits import widened_bits

__all__ = ["BlockNumbers", "NumberKind"]


@dataclass(frozen=True, kw_only=True)
class NumberKind:
    """How numbers of groups are kept, a group's beside the next one's.

    Attributes:
        element: their type: f32, f16, i16 for the bits of halves where the target converts none,
            or i8 with factors.
        factor: the type of the factors; empty for none.
        shared: how many neighbouring groups have one factor, a power of two.
    """

    element: str
    factor: str = ""
    shared: int = 1

    @property
    def kinds(self) -> list[str]:
        """The types of the bindings: numbers, factors."""
        return [self.element, *([self.factor] if self.factor else [])]

    def sizes(self, count: int) -> list[int]:
        """Elements of the bindings for so many groups."""
        return [count, *([count // self.shared] if self.factor else [])]


@dataclass(frozen=True, kw_only=True)
class BlockNumbers:
    """Reads the numbers of groups.

    Attributes:
        kind: how they are kept.
        binding: where they are; their factors are in the next one.
        body: where this is written.
    """

    kind: NumberKind
    binding: int
    body: Body

    def one(self, at: str) -> str:
        """The number of a group, counted through all outputs."""
        body, kind = self.body, self.kind
        found = self._wide(self._loaded(self.binding, at, kind.element), kind.element, "f32")
        if not kind.factor:
            return found
        return body.value(f"arith.mulf {found}, {self._factor(at)}", "f32")

    def some(self, at: str, count: int) -> str:
        """The numbers of neighbouring groups.

        With factors `count` is a power of two, and `at` a whole number of them or of
        neighbourhoods, whichever are shorter.
        """
        body, kind = self.body, self.kind
        stored, wide = f"vector<{count}x{kind.element}>", f"vector<{count}xf32>"
        found = self._wide(self._loaded(self.binding, at, stored), stored, wide)
        if not kind.factor:
            return found
        if count <= kind.shared:
            factors = body.spread(self._factor(at), wide)
        else:
            few = f"vector<{count // kind.shared}x{kind.factor}>"
            floats = f"vector<{count // kind.shared}xf32>"
            read = self._wide(self._loaded(self.binding + 1, self._shared(at), few), few, floats)
            order = ", ".join(str(number // kind.shared) for number in range(count))
            factors = body.value(f"vector.shuffle {read}, {read} [{order}]", f"{floats}, {floats}")
        return body.value(f"arith.mulf {found}, {factors}", wide)

    def gathered(self, columns: Sequence[str], group: str) -> str:
        """A group's number of each of some outputs, whose first groups are `columns`."""
        kind, lanes = self.kind, len(columns)
        places = [self.body.plus(column, group) for column in columns]
        found = self._gathered(self.binding, kind.element, places)
        if not kind.factor:
            return found
        places = [self._shared(place) for place in places]
        factors = self._gathered(self.binding + 1, kind.factor, places)
        return self.body.value(f"arith.mulf {found}, {factors}", f"vector<{lanes}xf32>")

    def _factor(self, at: str) -> str:
        kind = self.kind.factor
        return self._wide(self._loaded(self.binding + 1, self._shared(at), kind), kind, "f32")

    def _shared(self, at: str) -> str:
        """Which factor a group has."""
        return self.body.value(f"arith.divui {at}, {self.body.index(self.kind.shared)}", "index")

    def _loaded(self, binding: int, at: str, stored: str) -> str:
        return self.body.load(f"%m{binding}", at, self.body.writer.memory(binding), stored)

    def _gathered(self, binding: int, kind: str, places: Sequence[str]) -> str:
        body, lanes = self.body, len(places)
        stored = f"vector<{lanes}x{kind}>"
        zero = "0" if kind.startswith("i") else "0.0"
        found = body.value(f"arith.constant dense<{zero}>", stored)
        for lane, place in enumerate(places):
            one = self._loaded(binding, place, kind)
            found = body.value(f"vector.insert {one}, {found} [{lane}]", f"{kind} into {stored}")
        return self._wide(found, stored, f"vector<{lanes}xf32>")

    def _wide(self, value: str, stored: str, wide: str) -> str:
        """What was loaded as f32, or as a vector of it."""
        if stored == wide:
            return value
        if stored.rstrip(">").endswith("i16"):
            return widened_bits(self.body, value, stored, wide)
        if stored.rstrip(">").endswith("i8"):
            words = wide.replace("f32", "i32")
            whole = self.body.value(f"arith.extsi {value}", f"{stored} to {words}")
            return self.body.value(f"arith.sitofp {whole}", f"{words} to {wide}")
        return self.body.value(f"arith.extf {value}", f"{stored} to {wide}")
