"""Kernels of edgec's own as executables of a module, and dispatches of them.

A module imported only by a pass that runs; it needs the compiler.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.ir.weights import is_constant
from edgec.toolchain.ir.write import reshape, shape
from edgec.toolchain.kernels.spec import Declined

__all__ = ["Binary", "Dispatches", "erase_unused", "replace", "written_into"]


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A compiled kernel.

    Attributes:
        name: names it in the module; its entry point is `edgec_NAME`.
        data: the code, PTX or SPIR-V.
        threads: of one workgroup, along x.
        shared: bytes of memory that a workgroup shares.
        scratch: bytes of device memory that each workgroup needs for itself.
        more: threads of one workgroup along y and z.
    """

    name: str
    data: bytes
    threads: int
    shared: int
    scratch: int = 0
    more: tuple[int, int] = (1, 1)


class Dispatches:
    """A module's kernels; each that is called becomes an executable of the module.

    Attributes:
        calls: how many dispatches were made.
    """

    def __init__(self, module: Any, suffix: str, target: str) -> None:
        """Take a module that calls kernels.

        Args:
            module: the `ir.Module`.
            suffix: how the files of its kernels end (`ptx`).
            target: the executables that take them, as the compiler names them.
        """
        self._module = module
        self._suffix = suffix
        self._target = target
        self._declared: set[str] = set()
        self.calls = 0

    def refusal(self, tensors: Sequence[Any]) -> Declined | None:
        """Why no kernel is called on such tensors: the compiler works out what is constant.

        It does so on the machine that compiles, where a GPU's kernel would be the end of it.
        """
        if all(is_constant(tensor) for tensor in tensors):
            return Declined(reason="all of it is constant: worked out when the module is made")
        return None

    def dispatch(
        self,
        binary: Binary,
        grid: tuple[int, int, int],
        numbers: Sequence[int],
        tensors: Sequence[Any],
        results: Sequence[Any],
        into: Sequence[Any] = (),
    ) -> list[Any]:
        """Dispatch a kernel at the current insertion point.

        Args:
            binary: the kernel.
            grid: workgroups along x, y and z.
            numbers: the kernel's integers.
            tensors: what it reads, in the order of its pointers.
            results: the types of what it writes, in the order of its further pointers.
            into: tensors of which the first results are the rest, where it writes parts alone.
        """
        symbol = f"edgec_{binary.name}"
        if binary.name not in self._declared:
            self._declare(binary, symbol, len(numbers), len(tensors), len(results))
            self._declared.add(binary.name)
        self.calls += 1
        index, i32 = ir.IndexType.get(), ir.IntegerType.get_signless(32)
        workload = [_integer(n, index) for n in grid]
        constants = [_integer(n, i32) for n in numbers]
        tied = [len(constants) + len(tensors) + n for n in range(len(into))]
        tied += [-1] * (len(results) - len(into))
        arguments = [*constants, *tensors, *into]
        call = ir.Operation.create(
            "flow.dispatch",
            results=list(results),
            operands=[*workload, *arguments],
            attributes={
                "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([symbol, symbol])]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([3, len(arguments), 0, 0]),
                "tied_operands": ir.ArrayAttr.get([ir.IntegerAttr.get(index, i) for i in tied]),
            },
        )
        return list(call.results)

    def _declare(self, binary: Binary, symbol: str, numbers: int, reads: int, writes: int) -> None:
        index = ir.IndexType.get()
        name = f"{binary.name}.{self._suffix}"
        with ir.InsertionPoint.at_block_begin(self._module.body):
            source = ir.Operation.create(
                "hal.executable.source",
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "objects": _objects(name, binary.data, self._target),
                },
                regions=1,
            )
        # Commands are recorded once, for whatever buffers a call has. If one kernel among them were
        # declared otherwise, the program would record them all at each call for those that it has.
        read = '#hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">'
        written = "#hal.pipeline.binding<storage_buffer, Indirect>"
        bindings = ", ".join([read] * reads + [written] * writes)
        with ir.InsertionPoint(source.regions[0].blocks.append()):
            export = ir.Operation.create(
                "hal.executable.export",
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "sym_visibility": ir.StringAttr.get("public"),
                    "ordinal": ir.IntegerAttr.get(index, 0),
                    "layout": ir.Attribute.parse(
                        f"#hal.pipeline.layout<constants = {numbers}, bindings = [{bindings}], "
                        "flags = Indirect>"
                    ),
                    "workgroup_size": ir.ArrayAttr.get(
                        [ir.IntegerAttr.get(index, n) for n in (binary.threads, *binary.more)]
                    ),
                    "workgroup_local_memory": ir.IntegerAttr.get(index, binary.shared),
                },
                regions=2,
            )
            ir.Operation.create("hal.executable.source_end")
        count = export.regions[0].blocks.append(ir.Type.parse("!hal.device"), index, index, index)
        with ir.InsertionPoint(count):
            ir.Operation.create("hal.return", operands=list(count.arguments)[1:])


def _objects(name: str, data: bytes, target: str) -> Any:
    """One object for any executable of a target in the module, its bytes inside."""
    kind = ir.VectorType.get([len(data)], ir.IntegerType.get_signless(8))
    values = ir.DenseElementsAttr.get(np.frombuffer(data, np.int8), type=kind)
    return ir.Attribute.parse(
        f"#hal.executable.objects<{{#hal.executable.target<{target}> = [#hal.executable.object<"
        f"{{path = {json.dumps(name)}, data = {values}}}>]}}>"
    )


def _integer(value: int, kind: Any) -> Any:
    return ir.Operation.create(
        "arith.constant", results=[kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
    ).results[0]


def written_into(value: Any) -> Any | None:
    """The array of which a value is the rest, where an update or a dispatch writes parts of it."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.dynamic_update_slice":
        return op.operands[0]
    if op.name != "flow.dispatch":
        return None
    tied = ir.ArrayAttr(op.attributes["tied_operands"])[list(op.results).index(value)]
    argument = ir.IntegerAttr(tied).value
    if argument < 0:
        return None
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    return op.operands[int(segments[0] + argument)]


def replace(old: Any, new: Any) -> None:
    """Use a value in place of another, reshaped at the insertion point, and erase what is left."""
    come_from(new, old)
    old.replace_all_uses_with(reshape(new, shape(old)))
    erase_unused(old.owner.operation)


def erase_unused(op: Any) -> None:
    """Erase an operation whose results have no uses, and then those it alone used.

    What is left behind would count as a user when the next chain is followed.
    """
    waiting = [op] if _is_unused(op) else []
    while waiting:
        each = waiting.pop()
        owners = {v.owner.operation for v in each.operands if not isinstance(v.owner, ir.Block)}
        each.erase()
        # One without uses now had its last one here, so that none is in the list twice.
        waiting.extend(owner for owner in owners if _is_unused(owner))


def _is_unused(op: Any) -> bool:
    pure = op.name.startswith(("stablehlo.", "chlo.")) and op.name not in _EFFECTS
    return pure and not any(list(result.uses) for result in op.results)


_EFFECTS = ("stablehlo.custom_call", "stablehlo.return", "stablehlo.while", "stablehlo.case")
