"""A framework's program in a form in which it shows what its examples are.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.erase import erase_unused
from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.passes.simplify.separable_gathers import straightened
from edgec.toolchain.passes.simplify.sliding_gathers import slid
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["plain"]


def plain(module: bytes | str, context: Any) -> Any:
    """The `ir.Module`, in which gathers of elements in order are reshapes, of windows slices.

    transformers' masks look each example's row up by its number in the batch; windows that slide
    over an open length are gathered by tables that follow it.
    """
    parsed = parse_stablehlo(module, context)
    with context, ir.Location.unknown():
        known = Constants()
        if straightened(parsed, known) + slid(parsed, known):
            erase_unused(parsed)
    return parsed
