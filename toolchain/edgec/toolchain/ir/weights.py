"""Which values of a program are known before the first call: constants, parameters, what follows.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable
from typing import Any

from iree.compiler import ir

__all__ = ["Weights", "fixed_globals", "follows_from_weights", "is_constant", "is_unchanging"]

_DISPATCH = "flow.dispatch"
_LOAD = "util.global.load"
_PURE = ("stablehlo.", "chlo.")


def fixed_globals(module: Any) -> frozenset[str]:
    """The names of a module's globals that nothing changes."""
    return frozenset(
        ir.StringAttr(op.operation.attributes["sym_name"]).value
        for op in module.body.operations
        if op.operation.name == "util.global" and "is_mutable" not in op.operation.attributes
    )


def is_constant(value: Any) -> bool:
    """Whether a value follows from what lies in the module alone, so that the compiler computes it.

    It evaluates no dispatch: a kernel of what is constant would end it.
    """
    return _follows(value, lambda op: op.name != _DISPATCH, _lies_in_module)


def follows_from_weights(value: Any) -> bool:
    """Whether a value is the same in each call: of constants and weights, wherever they lie."""
    return _follows(value, _is_pure, _is_fixed)


def _follows(value: Any, passes: Callable[[Any], bool], is_known: Callable[[Any], bool]) -> bool:
    """Whether a value is made of known globals alone; it ends at the first that is not.

    Args:
        value: what is asked of.
        passes: whether an operation's results are known where all that it reads is.
        is_known: whether a load of a global gives what is known.
    """
    waiting, seen = [value], set[Any]()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each.owner, ir.Block):
            return False
        op = each.owner.operation
        if not (is_known(op) if op.name == _LOAD else passes(op)):
            return False
        waiting += op.operands
    return True


def is_unchanging(value: Any) -> bool:
    """Whether a value is a constant or weights themselves, which no call writes or computes."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    return op.name == "stablehlo.constant" or (op.name == _LOAD and _is_fixed(op))


def _is_pure(op: Any) -> bool:
    """Whether an operation's results follow from its operands, and from nothing else."""
    return op.name.startswith(_PURE) and op.name != "stablehlo.custom_call" and not op.regions


def _is_fixed(load: Any) -> bool:
    """Whether nothing changes the global that is loaded."""
    return "is_mutable" not in _declared(load)


def _lies_in_module(load: Any) -> bool:
    """Whether the global that is loaded has its numbers in the module, and nothing changes them."""
    declared = _declared(load)
    first = declared.get("initial_value")
    changes = "is_mutable" in declared
    return isinstance(first, ir.DenseElementsAttr | ir.DenseResourceElementsAttr) and not changes


def _declared(load: Any) -> Any:
    """The attributes of the global that is loaded."""
    module = load
    while module.parent is not None:
        module = module.parent
    name = ir.FlatSymbolRefAttr(load.attributes["global"]).value
    return ir.SymbolTable(module)[name].attributes


class Weights:
    """What follows from a module's weights alone; what was asked once is remembered."""

    def __init__(self, module: Any) -> None:
        self._fixed = fixed_globals(module)
        self._known: dict[Any, bool] = {}

    def holds(self, value: Any) -> bool:
        """Whether a value is computed once, from weights and constants alone."""
        waiting = [value]
        while waiting:
            each = waiting[-1]
            if each in self._known:
                waiting.pop()
                continue
            needed = self._needed(each)
            missing = [v for v in needed or () if v not in self._known]
            if missing:
                waiting += missing
                continue
            self._known[each] = needed is not None and all(self._known[v] for v in needed)
        return self._known[value]

    def _needed(self, value: Any) -> list[Any] | None:
        """What a value follows from; None for what changes from call to call."""
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name == _LOAD:
            is_fixed = ir.FlatSymbolRefAttr(op.attributes["global"]).value in self._fixed
            return [] if is_fixed else None
        return list(op.operands) if _is_pure(op) else None
