"""A program whose memory the compiler has laid out to the most that a call holds for a while."""

from pathlib import Path
from typing import Any

from edgec.toolchain.folded import parse
from edgec.toolchain.ir.functions import inside

__all__ = ["held_bytes"]

_LAID_OUT = "stream.resource.alloca"
_CALLED = ("util.func", "func.func")


def held_bytes(source: Path) -> int:
    """The largest buffer of what a part of a call needs for a while; sizes of each call's own no.

    What is held while weights are turned, before the first call, counts nothing.
    """
    module = parse(source)
    return max(
        (
            _known(op.operands[0])
            for function in module.body.operations
            if function.operation.name in _CALLED
            for op in inside(function.operation)
            if op.name == _LAID_OUT and "transient" in str(op.results[0].type)
        ),
        default=0,
    )


def _known(size: Any) -> int:
    """A number that the program has as a constant; 0 for any other."""
    from iree.compiler import ir

    if isinstance(size.owner, ir.Block) or size.owner.operation.name != "arith.constant":
        return 0
    return int(ir.IntegerAttr(size.owner.operation.attributes["value"]).value)
