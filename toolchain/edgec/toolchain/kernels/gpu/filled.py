"""What follows a product, over columns that fill a piece of memory, too.

A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import replace
from typing import Any

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.tails import Finish

__all__ = ["filled_finish"]


def filled_finish(finish: Finish, more: int) -> Finish:
    """A tail over so many columns more, for which rows are filled up with zeros, where it inserts.

    Of weights they are filled up once. Another tensor is not filled up.
    """

    def filled(row: Any) -> Any:
        if row is None or not more:
            return row
        zero = write.fill(0.0, (), row.type.element_type)
        return write.pad(write.reshape(row, (finish.columns,)), zero, (0,), (more,))

    wide = finish.columns + more
    return replace(finish, columns=wide, bias=filled(finish.bias), scale=filled(finish.scale))
