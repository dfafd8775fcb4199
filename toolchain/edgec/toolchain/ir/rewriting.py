"""The loop that rewrites of single operations share."""

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["rewrite_each"]


def rewrite_each(
    module: Any,
    names: Sequence[str],
    rewrite: Callable[[Any], Sequence[Any] | None],
    *,
    open_sizes: bool = False,
    as_one: bool = False,
) -> int:
    """Put values in place of operations, inner ones first; how many were replaced.

    Args:
        module: an `ir.Module`.
        names: the operations to look at.
        rewrite: from an operation to a value for each result, written before it at its location;
            None leaves it as it is.
        open_sizes: also operations whose sizes only a call knows; else they are left out.
        as_one: what is written is one function in many steps, which reports go on calling by the
            name of the operation (`places.written_out`).
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.places import last_step, step

    count = 0
    with module.context:
        for op in list(graph.inside(module.operation)):
            if op.name not in names:
                continue
            if not open_sizes and not graph.is_static(*op.operands, *op.results):
                continue
            with step(op) if as_one else op.location, ir.InsertionPoint(op):
                values = rewrite(op)
            if values is None:
                continue
            for old, new in zip(op.results, values, strict=True):
                old.replace_all_uses_with(new)
                if as_one:
                    last_step(op, new)
            op.erase()
            count += 1
    return count
