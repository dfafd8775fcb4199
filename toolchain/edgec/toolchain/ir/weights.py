"""Which values of a program are known before the first call: constants, parameters, what follows.

A module imported only by a pass that runs; it needs the compiler.
"""

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
    waiting, seen = [value], set[Any]()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each.owner, ir.Block):
            return False
        op = each.owner.operation
        if op.name == _DISPATCH or (op.name == _LOAD and not _lies_in_module(op)):
            return False
        waiting += op.operands
    return True


def follows_from_weights(value: Any) -> bool:
    """Whether a value is the same in each call: of constants and weights, wherever they lie."""
    module = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation
    if isinstance(module, ir.Block):
        return False
    while module.parent is not None:
        module = module.parent
    return Weights(module.opview).holds(value)


def is_unchanging(value: Any) -> bool:
    """Whether a value is a constant or weights themselves, which no call writes or computes."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "stablehlo.constant":
        return True
    return bool(op.name == _LOAD) and "is_mutable" not in _declared(op)


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
        pure = op.name.startswith(_PURE) and op.name != "stablehlo.custom_call"
        return list(op.operands) if pure and not op.regions else None
