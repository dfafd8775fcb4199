"""Every sharding that a program notes, changed by one rule.

On jaxlib's bindings; in the child (`shardy`).
"""

from collections.abc import Callable
from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["change_shardings"]

_ONE = ("sdy.sharding", "sharding", "out_sharding")
_SEVERAL = ("sdy.sharding", "in_shardings", "out_shardings")


def change_shardings(function: Any, change: Callable[[Any], Any]) -> None:
    """Put `change` of each sharding (`sdy.TensorShardingAttr`) of a function in its place.

    These are of its arguments and results, and what its operations say of theirs.
    """
    from jaxlib.mlir import ir

    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            notes = map(ir.DictAttr, ir.ArrayAttr(function.attributes[name]))
            changed = [_changed_note(note, change) for note in notes]
            function.attributes[name] = ir.ArrayAttr.get(changed)
    for operation in inside(function):
        own = operation.attributes
        for name in {*_ONE, *_SEVERAL}:
            if name in own:
                own[name] = _changed(own[name], change)


def _changed_note(note: Any, change: Callable[[Any], Any]) -> Any:
    from jaxlib.mlir import ir

    kept = {each.name: each.attr for each in note}
    if "sdy.sharding" in kept:
        kept["sdy.sharding"] = _changed(kept["sdy.sharding"], change)
    return ir.DictAttr.get(kept)


def _changed(attribute: Any, change: Callable[[Any], Any]) -> Any:
    from jaxlib.mlir.dialects import sdy

    if sdy.TensorShardingAttr.isinstance(attribute):
        return change(sdy.TensorShardingAttr(attribute))
    if not sdy.TensorShardingPerValueAttr.isinstance(attribute):
        return attribute
    each = sdy.TensorShardingPerValueAttr(attribute).shardings
    return sdy.TensorShardingPerValueAttr.get([change(sdy.TensorShardingAttr(s)) for s in each])
