"""Globals of a program: declared, loaded, stored, and filled when the module loads.

A module imported only by what rewrites programs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

__all__ = ["declare", "initializer", "load", "store"]


def declare(symbol: str, kind: Any, **attributes: Any) -> None:
    """A private global of a type at the insertion point.

    Args:
        symbol: its name.
        kind: its type.
        attributes: what else it has: `initial_value`, `is_mutable`.
    """
    ir.Operation.create(
        "util.global",
        attributes={
            "sym_name": ir.StringAttr.get(symbol),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(kind),
            **attributes,
        },
    )


def initializer() -> Any:
    """The block, still empty, of what runs when the module loads; `util.return` is to end it."""
    made = ir.Operation.create(
        "util.initializer",
        attributes={"function_type": ir.TypeAttr.get(ir.FunctionType.get([], []))},
        regions=1,
    )
    return made.regions[0].blocks.append()


def load(symbol: str, kind: Any) -> Any:
    """The value of a global, whose type must be given."""
    reference = {"global": ir.FlatSymbolRefAttr.get(symbol)}
    return ir.Operation.create("util.global.load", results=[kind], attributes=reference).results[0]


def store(symbol: str, value: Any) -> None:
    """Set a global."""
    reference = {"global": ir.FlatSymbolRefAttr.get(symbol)}
    ir.Operation.create("util.global.store", operands=[value], attributes=reference)
