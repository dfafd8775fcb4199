"""The kernels that a module calls, each written into it once.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cpu.source.cut import Cut

__all__ = ["Library"]


class Library:
    """Kernels by their text, in a module.

    Attributes:
        count: how many calls there are.
        cuts: tiles that were measured to be best, by kernel (`KernelKey`).
    """

    def __init__(self, module: Any, cuts: Mapping[str, Cut] | None = None) -> None:
        self.module = module
        self.cuts = cuts or {}
        self.count = 0
        self._names: dict[str, str] = {}
        self._known: dict[tuple[Any, ...], Any] = {}

    def call(self, name: str, text: str, operands: Sequence[Any], kind: Any) -> Any:
        """Dispatch a kernel where the insertion point is.

        Args:
            name: what to call it, where no other kernel has that name.
            text: its executable, called `@NAME`.
            operands: its inputs.
            kind: the type of its result.

        Returns:
            The result.
        """
        return self.call_all(name, text, operands, [kind])[0]

    def call_once(self, name: str, text: str, operands: Sequence[Any], kind: Any) -> Any:
        """As `call`, once for the same values in a block; whoever asks goes through it in order."""
        key = (text, *operands, ir.InsertionPoint.current.block)
        if key not in self._known:
            self._known[key] = self.call(name, text, operands, kind)
        return self._known[key]

    def call_all(
        self, name: str, text: str, operands: Sequence[Any], kinds: Sequence[Any]
    ) -> list[Any]:
        """As `call`, for a kernel of any number of results."""
        symbol = self._symbol(name, text)
        self.count += 1
        entry = ir.SymbolRefAttr.get([symbol, symbol])
        untied = ir.IntegerAttr.get(ir.IndexType.get(), -1)
        dispatch = ir.Operation.create(
            "flow.dispatch",
            results=list(kinds),
            operands=list(operands),
            attributes={
                "entry_points": ir.ArrayAttr.get([entry]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(operands), 0, 0]),
                "tied_operands": ir.ArrayAttr.get([untied] * len(kinds)),
            },
        )
        return list(dispatch.results)

    def _symbol(self, name: str, text: str) -> str:
        """The symbol of the executable with that text, which is added if it is new."""
        if text not in self._names:
            taken = self._names.values()
            number = sum(known == name or known.startswith(f"{name}_v") for known in taken)
            symbol = f"{name}_v{number}" if number else name
            self._names[text] = symbol
            kernel = ir.Module.parse(text.replace("@NAME", f"@{symbol}"))
            made = kernel.body.operations[0].operation.clone(
                ip=ir.InsertionPoint.at_block_begin(self.module.body)
            )
            made.walk(_stand_here)
        return self._names[text]


def _stand_here(op: Any) -> Any:
    """Give an operation the place that is current: that of the first one the kernel stands for."""
    op.location = ir.Location.current
    return ir.WalkResult.ADVANCE
