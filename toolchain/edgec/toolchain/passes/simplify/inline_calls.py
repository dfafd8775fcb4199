"""Calls between a program's functions, inlined."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["InlineCalls"]

_COMPOSITES = ("chlo.erf",)
"""Composites that are one operation to every pass, and to the compiler; others are calls."""


@dataclass(frozen=True, kw_only=True)
class InlineCalls:
    """Calls between functions are inlined, so that the passes after this see whole expressions.

    JAX puts each jitted helper (`relu`, `clip`, `softmax`) into a function of its own. The
    compiler inlines them too, but only after edgec's passes, which would then see a convolution
    and its activation in two places. It also writes `erf` as a composite, with a polynomial in a
    function; that becomes the operation itself, which a kernel does after its sums.

    Measured: of the 35 activations of MobileNetV2 in JAX all are calls; inlined, all are done by
    the kernel of the convolution before them. 1 to 8 ms a program.
    """

    name = "inline-calls"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "InlineCalls | None":
        """For StableHLO with calls or composites."""
        calls = situation.operations & {"func.call", "stablehlo.composite"}
        return cls() if situation.is_stablehlo and calls else None

    def run(self, module: Any) -> int:
        """Inline every call of `module` (an `ir.Module`) in place; how many there were."""
        from iree.compiler import ir, passmanager

        count = 0

        def look(op: Any) -> Any:
            nonlocal count
            count += op.name == "func.call"
            return ir.WalkResult.ADVANCE

        module.operation.walk(look)
        with module.context:
            count += sum(_as_operation(op) for op in list(inside(module.operation)))
            manager = passmanager.PassManager.parse(
                "builtin.module(inline{default-pipeline=},symbol-dce)"
            )
            manager.run(module.operation)
        return count


def _as_operation(op: Any) -> int:
    """A composite as the operation that it is, or a call of what it stands for; 1 if it is one."""
    from iree.compiler import ir

    if op.name != "stablehlo.composite":
        return 0
    name = ir.StringAttr(op.attributes["name"]).value
    called = {} if name in _COMPOSITES else {"callee": op.attributes["decomposition"]}
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(
            "func.call" if called else name,
            results=[value.type for value in op.results],
            operands=list(op.operands),
            attributes=called,
        )
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return 1
