"""CHLO's functions that lead to others which passes put right, in StableHLO."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SpelledFunctions"]

_EVERYWHERE = frozenset(f"chlo.{name}" for name in ("digamma", "lgamma", "polygamma", "zeta"))
_ON_SPIRV = frozenset(f"chlo.{name}" for name in ("asinh", "acosh", "atanh"))
"""They lead to logarithms of 1 + x (`edge-values`)."""
_RULE = "builtin.module(func.func(chlo-legalize-to-stablehlo))"


@dataclass(frozen=True, kw_only=True)
class SpelledFunctions:
    """A function such as digamma is spelled out in StableHLO before its parts are put right.

    iree-compile spells CHLO's functions out when edgec's passes are done, so that the sines, powers
    and logarithms inside them stay as wrong as `far-angles`, `signed-powers` and `edge-values`
    found them. Here the compiler's own rule is applied first, to the functions that have such
    parts; the others, such as erf, stay whole for kernels that know them.

    Measured: digamma of 1,393 of 9,015 numbers of all magnitudes was wrong, of small negative ones
    (it gave -5e7 for -1.1e-21, where 8.8e20 is right), on CPUs and Vulkan; with it none is.
    """

    name = "spelled-functions"
    purpose = Purpose.RIGHT

    names: frozenset[str] = _EVERYWHERE

    @classmethod
    def plan(cls, situation: Situation) -> "SpelledFunctions | None":
        """For programs in StableHLO with such a function; more of them where SPIR-V runs."""
        names = _EVERYWHERE | (_ON_SPIRV if situation.target.is_spirv else frozenset())
        return cls(names=names) if situation.operations & names else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many functions."""
        return rewrite_each(module, sorted(self.names), _spelled, as_one=True)


def _spelled(op: Any) -> Sequence[Any]:
    """The results of what the compiler makes of one function, written before it."""
    from iree.compiler import ir
    from iree.compiler.passmanager import PassManager

    (result,) = op.results
    arguments = ", ".join(f"%{n}: {value.type}" for n, value in enumerate(op.operands))
    names = ", ".join(f"%{n}" for n in range(len(op.operands)))
    kinds = ", ".join(str(value.type) for value in op.operands)
    module = ir.Module.parse(
        f"func.func @f({arguments}) -> {result.type} {{\n"
        f'  %r = "{op.name}"({names}) : ({kinds}) -> {result.type}\n'
        f"  return %r : {result.type}\n}}"
    )
    PassManager.parse(_RULE).run(module.operation)
    (block,) = module.body.operations[0].regions[0].blocks
    known = dict(zip(block.arguments, op.operands, strict=True))
    *body, last = (each.operation for each in block.operations)
    for each in body:
        copy = each.clone()
        copy.location = ir.Location.current
        for place, value in enumerate(each.operands):
            copy.operands[place] = known[value]
        known.update(zip(each.results, copy.results, strict=True))
    return [known[value] for value in last.operands]
