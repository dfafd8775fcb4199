"""Operations to numbers that their locations carry, through every rewrite that keeps locations.

A rewrite writes what it makes at the location of what it takes the place of, edgec's passes and the
compiler alike. A number in the location is therefore still there when an operation has become a
part of a kernel, and says which value of the model the kernel writes.

A module imported only by what runs it; it needs the compiler.
"""

import re
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import functions, inside

__all__ = ["number_operations", "numbers_at"]

_NUMBERED = re.compile(r'"edgec\.value\.(\d+)"')


def number_operations(module: Any) -> int:
    """Number the operations of a module's functions in the order they stand in; how many."""
    count = 0
    with module.context:
        for function in functions(module).values():
            for op in inside(function):
                name = ir.Location.name(f"edgec.value.{count}")
                op.location = ir.Location.fused([name, op.location])
                count += 1
    return count


def numbers_at(location: Any) -> tuple[int, ...]:
    """The numbers that a location carries, the least first; those of all that became one."""
    return tuple(sorted({int(number) for number in _NUMBERED.findall(str(location))}))
