"""edgec's own compiler passes, in the order they run; each is one file, one frozen dataclass."""

from collections.abc import Mapping
from typing import Any, Protocol

from edgec.runtime.module import GET_STATE, SET_STATE
from edgec.toolchain.passes.annotate import Annotate
from edgec.toolchain.passes.bind_globals import BindGlobals
from edgec.toolchain.passes.functions import entry_block, functions
from edgec.toolchain.passes.narrow_integers import NarrowIntegers
from edgec.toolchain.passes.separate_bytes import SeparateBytes
from edgec.toolchain.program import Dialect, ProgramInfo

__all__ = [
    "PASSES_VERSION",
    "Annotate",
    "BindGlobals",
    "NarrowIntegers",
    "Pass",
    "SeparateBytes",
    "passes_for",
]

PASSES_VERSION = 6
"""Raised with any change of what a pass makes, so that the cache forgets older results."""

_SPIRV_DRIVERS = ("vulkan", "metal")


class Pass(Protocol):
    """One rewrite of an `ir.Module`, in place."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    def run(self, module: Any) -> Any:
        """Rewrite the module."""


def passes_for(
    info: ProgramInfo, facts: Mapping[str, Any], module: Any, *, narrow: bool = False
) -> tuple[Pass, ...]:
    """The passes that this program needs, in order.

    Args:
        info: the program's description.
        facts: what the module will say of itself.
        module: the `ir.Module`.
        narrow: compute 64-bit integers in 32 bits.
    """
    first: tuple[Pass, ...] = ()
    if info.dialect is Dialect.STABLEHLO and _is_dynamic(module):
        from edgec.toolchain.passes.dynamic_shapes import DynamicShapes

        first = (DynamicShapes(info=info),)
    if narrow:
        first = (*first, NarrowIntegers())
    if info.dialect is Dialect.STABLEHLO and facts.get("driver") in _SPIRV_DRIVERS:
        first = (*first, SeparateBytes())
    return (
        *first,
        BindGlobals(info=info),
        Annotate(
            signatures=tuple(function.signature for function in info.functions),
            facts=facts,
            internal=(GET_STATE, SET_STATE) if info.states else (),
        ),
    )


def _is_dynamic(module: Any) -> bool:
    return any(
        "?" in str(argument.type)
        for function in functions(module).values()
        if list(function.regions[0].blocks)
        for argument in entry_block(function).arguments
    )
