"""Which values of a program are known before the first call: constants, parameters, what follows.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

__all__ = ["Weights", "fixed_globals"]

_PURE = ("stablehlo.", "chlo.")


def fixed_globals(module: Any) -> frozenset[str]:
    """The names of a module's globals that nothing changes."""
    return frozenset(
        ir.StringAttr(op.operation.attributes["sym_name"]).value
        for op in module.body.operations
        if op.operation.name == "util.global" and "is_mutable" not in op.operation.attributes
    )


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
        if op.name == "util.global.load":
            is_fixed = ir.FlatSymbolRefAttr(op.attributes["global"]).value in self._fixed
            return [] if is_fixed else None
        pure = op.name.startswith(_PURE) and op.name != "stablehlo.custom_call"
        return list(op.operands) if pure and not op.regions else None
