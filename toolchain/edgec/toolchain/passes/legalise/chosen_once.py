"""What was chosen, or masked, is not chosen again by the same truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ChosenOnce"]

_SELECT = "stablehlo.select"
_MASKS = ("stablehlo.and", "stablehlo.or")
_BITS = "stablehlo.bitcast_convert"
_LOOKED_AT = (_SELECT, *_MASKS, _BITS)


@dataclass(frozen=True, kw_only=True)
class ChosenOnce:
    """A select of a select by the same predicate takes that one's branch; a mask stays masked once.

    iree-compile 3.13 fuses elementwise operations whose values have several readers, and only then
    finds that two results of the kernel are one, as after `where(mask, where(mask, x, 0), 0)`. With
    a third result before them, the second of the two is read where that one lies: the answer is
    wrong, on every target, without a word. Folded here, they are one value from the start. The same
    of `and` and `or` by one mask, also of a float's bits.

    Measured: exp(x), a mask of it and the mask of that, each multiplied by a matrix: the last is
    off by several times its size without it; the second derivative of a rematerialised branch in
    JAX's own tests (`test_remat_checkpoint_dots_outside_cond`) by 44 %.
    """

    name = "chosen-once"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "ChosenOnce | None":
        """For programs in StableHLO that choose or mask."""
        looked_at = situation.operations.intersection((_SELECT, *_MASKS))
        return cls() if situation.is_stablehlo and looked_at else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many are taken out."""
        from iree.compiler import passmanager

        from edgec.toolchain.ir.erase import erase_unused

        total = 0
        while any(map(_is_nested, inside(module.operation))):
            with module.context:
                # Predicates and masks that are computed twice become one value.
                passmanager.PassManager.parse("builtin.module(cse)").run(module.operation)
            count = rewrite_each(module, _LOOKED_AT, _once, open_sizes=True)
            if not count:
                break
            total += count
            erase_unused(module)
        return total


def _is_nested(op: Any) -> bool:
    """Whether an operation has an operand of its own kind."""
    return op.name in _LOOKED_AT and any(_made_by(value, op.name) for value in op.operands)


def _made_by(value: Any, name: str) -> Any | None:
    """The operation of that name which a value is the result of."""
    from iree.compiler import ir

    if isinstance(value.owner, ir.Block) or value.owner.name != name:
        return None
    return value.owner


def _once(op: Any) -> Sequence[Any] | None:
    from edgec.toolchain.ir import write as graph

    if op.name == _BITS:
        inner = _made_by(op.operands[0], _BITS)
        same = inner is not None and inner.operands[0].type == op.results[0].type
        return [inner.operands[0]] if inner is not None and same else None
    if op.name in _MASKS:
        for masked, mask in (op.operands, reversed(op.operands)):
            inner = _made_by(masked, op.name)
            if inner is not None and mask in list(inner.operands):
                return [masked]
        return None
    predicate, *values = op.operands
    chosen = [_branch(value, predicate, place) for place, value in enumerate(values)]
    return None if chosen == values else [graph.select(predicate, *chosen)]


def _branch(value: Any, predicate: Any, place: int) -> Any:
    """What a value is where a predicate has chosen it: 0 where it is true, 1 where it is not."""
    inner = _made_by(value, _SELECT)
    if inner is None:
        return value
    (truth, turned), (other, other_turned) = map(_truth, (predicate, inner.operands[0]))
    if truth != other:
        return value
    return inner.operands[1 + (place if turned == other_turned else 1 - place)]


def _truth(predicate: Any) -> tuple[Any, bool]:
    """A predicate without a `not` before it, and whether there was one."""
    turned = _made_by(predicate, "stablehlo.not")
    return (predicate, False) if turned is None else (turned.operands[0], True)
