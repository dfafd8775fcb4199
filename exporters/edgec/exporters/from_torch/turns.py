"""A step in PyTorch's operators that is repeated, as a loop of StableHLO and not written out.

A decomposition calls `turned` with a function of its module; the graph keeps one operation, which
is cut out before torch-mlir sees it. The loop in its place calls the step, which is lowered once.
"""

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.own_kernels import add_function
from edgec.toolchain.ir.write import loop

__all__ = ["OPERATION", "TurnsCut", "turn_cuts", "turned"]

OPERATION = "edgec.turns"
"""How the target's name begins."""

Step = Callable[..., Sequence[Any]]
Lower = Callable[[Callable[..., Any], tuple[Any, ...]], bytes]


def turned(step: Step, count: int, carried: Sequence[Any]) -> list[Any]:
    """What becomes of tensors by so many turns of a step.

    Args:
        step: a function of a module, from the tensors to new ones of the same shapes and types.
        count: of turns.
        carried: tensors of known sizes.
    """
    if count == 0:
        return list(carried)
    return list(_operation()(f"{step.__module__}:{step.__qualname__}", count, list(carried)))


@dataclass(frozen=True, kw_only=True)
class TurnsCut:
    """A loop that was cut out.

    Attributes:
        step: its step, as `module:function`.
        count: its turns.
        examples: tensors of the shapes that it carries.
        lower: a function on example tensors to StableHLO with the function `main`.
        names: of the steps that the module has already, by what they are and take.
    """

    step: str
    count: int
    examples: tuple[Any, ...]
    lower: Lower
    names: dict[Any, str]

    @property
    def reads(self) -> int:
        """How many tensors it reads."""
        return len(self.examples)

    @property
    def writes(self) -> int:
        """How many tensors it writes."""
        return len(self.examples)

    def build(self, module: Any, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        """A loop that calls the step."""
        from iree.compiler import ir

        kinds = tuple((tuple(each.shape), each.dtype) for each in self.examples)
        key = (self.step, kinds)
        if key not in self.names:
            self.names[key] = f"edgec_step_{len(self.names)}"
            step = _step(self.step)
            lowered = self.lower(lambda *given: tuple(step(*given)), self.examples)
            add_function(module, self.names[key], lowered)
        name = ir.FlatSymbolRefAttr.get(self.names[key])

        def body(_: Any, values: Sequence[Any]) -> Sequence[Any]:
            call = ir.Operation.create(
                "func.call", results=list(types), operands=values, attributes={"callee": name}
            )
            return list(call.results)

        return loop(self.count, operands, body)


def turn_cuts(lower: Lower) -> Callable[[Any], TurnsCut]:
    """What makes the cuts of one graph's loops of their nodes.

    Args:
        lower: a function on example tensors to StableHLO with the function `main`.
    """
    names: dict[Any, str] = {}

    def cut(node: Any) -> TurnsCut:
        import torch

        step, count, carried = node.args
        kinds = [(tuple(each.meta["val"].shape), each.meta["val"].dtype) for each in carried]
        examples = tuple(torch.zeros(shape, dtype=kind) for shape, kind in kinds)
        return TurnsCut(step=step, count=count, examples=examples, lower=lower, names=names)

    return cut


def _step(name: str) -> Step:
    module, _, function = name.partition(":")
    found: Step = getattr(importlib.import_module(module), function)
    return found


@functools.cache
def _operation() -> Any:
    import torch

    def turns(step: str, count: int, carried: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        values = [value.clone() for value in carried]
        for _ in range(count):
            values = list(_step(step)(*values))
        return values

    made: Any = torch.library.custom_op(
        "edgec::turns",
        turns,
        mutates_args=(),
        schema="(str step, int count, Tensor[] carried) -> Tensor[]",
    )
    made.register_fake(lambda step, count, carried: [x.new_empty(x.shape) for x in carried])
    return made
