"""What a loop hands from turn to turn is read in each turn, also where nothing needs it."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ReadCarried"]

_LOOP = "stablehlo.while"


@dataclass(frozen=True, kw_only=True)
class ReadCarried:
    """A loop's body reads every value that the loop carries, and returns no value twice.

    iree-compile 3.13 takes from a loop what only its body does not need (the norm that JAX's
    `gmres` only returns, the truth that a search only tests), and then gives as many values to the
    body as the condition has, or the other way round: "region branch point has 4 operands, but
    region successor needs 6 inputs". Here such a value is chosen in each turn between the new one
    and the old one, by a truth that the compiler cannot see. A value that a loop hands on as it got
    it stays.

    Measured on the CPU: four loops of these kinds, one of them within another, are refused without
    it, and right with it.
    """

    name = "read-carried"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "ReadCarried | None":
        """For programs in StableHLO with loops."""
        return cls() if _LOOP in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            loops = [op for op in graph.inside(module.operation) if op.name == _LOOP]
            return sum(map(_read, loops))


def _read(loop: Any) -> int:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.loop import blocks, last

    _, body = blocks(loop)
    end = last(body)
    places = _unread(body, list(end.operands))
    if not places or not graph.is_static(*(end.operands[place] for place in places)):
        return 0
    with ir.InsertionPoint(loop):
        always = graph.unary("optimization_barrier", graph.fill(1, (), _truth()))
    with ir.InsertionPoint(end):
        for place in places:
            value = end.operands[place]
            end.operands[place] = graph.select(always, value, body.arguments[place])
    return len(places)


def _unread(body: Any, values: list[Any]) -> list[int]:
    """Which of the values that a body returns are new, and either not read by it, or another's."""
    found = []
    for place, value in enumerate(values):
        argument = body.arguments[place]
        if value != argument and (not list(argument.uses) or value in values[:place]):
            found.append(place)
    return found


def _truth() -> Any:
    from iree.compiler import ir

    return ir.IntegerType.get_signless(1)
