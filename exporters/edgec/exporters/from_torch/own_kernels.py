"""Kernels of the user's own in a PyTorch graph: composites, which torch-mlir does not know.

They are cut out before the graph is lowered, and put back after. A composite's decomposition is the
kernel's reference, lowered by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.lines import user_line
from edgec.kernels.in_torch import reference_of
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.own_kernels import ATTRIBUTE, COMPOSITE, OwnKernel
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["KernelCut", "add_function", "kernel_cuts"]


@dataclass(frozen=True, kw_only=True)
class KernelCut:
    """A kernel that was cut out.

    Attributes:
        text: its description.
        where: the user's line that calls it.
        examples: tensors of the shapes that it reads.
        writes: how many tensors it writes.
        lower: a function on example tensors to StableHLO with the function `main`.
        names: of the references that the module has already, by description.
    """

    text: str
    where: str | None
    examples: tuple[Any, ...]
    writes: int
    lower: Callable[[Callable[..., Any], tuple[Any, ...]], bytes]
    names: dict[str, str]

    @property
    def name(self) -> str:
        """What messages call it."""
        return OwnKernel.from_json(self.text).name

    @property
    def reads(self) -> int:
        """How many tensors it reads."""
        return len(self.examples)

    def build(self, module: Any, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        """A composite, whose decomposition is the kernel's reference.

        Raises:
            UnsupportedOp: the kernel's reference is not here.
        """
        if self.text not in self.names:
            self.names[self.text] = f"edgec_reference_{len(self.names)}"
            reference = self.lower(_reference(self), self.examples)
            add_function(module, self.names[self.text], reference)
        return list(_composite(self, self.names[self.text], operands, types).results)


def kernel_cuts(
    lower: Callable[[Callable[..., Any], tuple[Any, ...]], bytes],
) -> Callable[[Any], KernelCut]:
    """What makes the cuts of one graph's kernels of their nodes.

    Args:
        lower: a function on example tensors to StableHLO with the function `main`.
    """
    names: dict[str, str] = {}

    def cut(node: Any) -> KernelCut:
        import torch

        text, arrays = node.args
        shapes = [(tuple(each.meta["val"].shape), each.meta["val"].dtype) for each in arrays]
        where = user_line(node.meta.get("stack_trace"))
        if not all(isinstance(size, int) for sizes, _ in shapes for size in sizes):
            raise UnsupportedOp(
                f"the kernel {OwnKernel.from_json(text).name} is called with sizes that change "
                "from call to call",
                where=where,
                hint="export with fixed sizes: a kernel's code is for arrays of these shapes",
            )
        return KernelCut(
            text=text,
            where=where,
            examples=tuple(torch.zeros(sizes, dtype=kind) for sizes, kind in shapes),
            writes=len(node.meta["val"]),
            lower=lower,
            names=names,
        )

    return cut


def _reference(cut: KernelCut) -> Callable[..., Any]:
    found = reference_of(cut.text)
    if found is None:
        raise UnsupportedOp(
            f"the reference of the kernel {cut.name} is not here",
            where=cut.where,
            hint="export the model where its kernels are made, not from a file",
        )
    return found


def _composite(
    cut: KernelCut, reference: str, operands: Sequence[Any], types: Sequence[Any]
) -> Any:
    from iree.compiler import ir

    described: Mapping[str, Any] = {ATTRIBUTE: ir.StringAttr.get(cut.text)}
    return ir.Operation.create(
        "stablehlo.composite",
        results=list(types),
        operands=list(operands),
        attributes={
            "name": ir.StringAttr.get(COMPOSITE),
            "composite_attributes": ir.DictAttr.get(described),
            "decomposition": ir.FlatSymbolRefAttr.get(reference),
            "version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        },
        loc=_location(cut.where),
    )


def _location(where: str | None) -> Any:
    from iree.compiler import ir

    file, _, rest = (where or "").partition(":")
    line = rest.split(" ")[0]
    return ir.Location.file(file, int(line), 0) if line.isdigit() else ir.Location.unknown()


def add_function(module: Any, name: str, data: bytes) -> None:
    """Add the function `main` of other StableHLO to a module by a name, and what it calls."""
    from iree.compiler import ir

    source = parse_stablehlo(data, module.context)
    table = ir.SymbolTable
    for op in source.body.operations:
        old = _name(op)
        new = name if old == "main" else f"{name}_{old}"
        table.replace_all_symbol_uses(old, new, source.operation)
        table.set_symbol_name(op.operation, new)
        op.operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for op in source.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(module.body))


def _name(op: Any) -> str:
    from iree.compiler import ir

    return str(ir.StringAttr(op.operation.attributes["sym_name"]).value)
