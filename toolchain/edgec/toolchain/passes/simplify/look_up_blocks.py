"""Rows that are looked up in weights in blocks, looked up in the blocks."""

import math
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["LookUpBlocks"]


@dataclass(frozen=True, kw_only=True)
class LookUpBlocks:
    """A row of a table in blocks is looked up as codes and scales, and only that row becomes f32.

    A language model looks its tokens up in the table that its last product multiplies by. Kept in
    blocks, the table would be written out as f32 for the look-up's sake, all 49,152 rows for one;
    so codes, scales and least values of the rows are looked up, and these are put together. A
    slice of neighbouring rows whose place a call says is such a look-up, too.

    Measured: two rows of a table of 16,384 x 512 in 4 bits, which the last product multiplies by:
    a call takes 0.32 ms and the process 64 MiB with this pass, 1.78 ms and 112 MiB without.
    MiniLM's table of 30,522 x 384 in 8 bits takes 12 MB of its module, and 47 without.
    """

    name = "look-up-blocks"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "LookUpBlocks | None":
        """For StableHLO that looks up in what it converts."""
        from edgec.toolchain.match.look_up import LOOK_UPS

        found = situation.operations
        if not situation.is_stablehlo or "stablehlo.convert" not in found or not found & LOOK_UPS:
            return None
        return cls()

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many look-ups changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.match.look_up import LOOK_UPS

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            found = [op for op in inside(module.operation) if op.name in LOOK_UPS]
            count = sum(_rewrite(op) for op in found)
            if count:
                erase_unused(module)
        return count


def _rewrite(op: Any) -> int:
    from iree.compiler import ir

    from edgec.toolchain.ir import write
    from edgec.toolchain.ir.write_blocks import rows_of_blocks
    from edgec.toolchain.match.blocks import read_block_rows
    from edgec.toolchain.match.look_up import read_look_up

    found = read_look_up(op)
    blocks = None if found is None else read_block_rows(found.table)
    if found is None or blocks is None:
        return 0
    if not all(_in_order(each, blocks) for each in (blocks.scale, blocks.least)):
        return 0
    look_up = _gathered if found.is_gather else _sliced

    def part(value: Any) -> Any:
        if write.shape(value)[0] != found.rows:
            value = write.reshape(value, (found.rows, math.prod(write.shape(value)) // found.rows))
        return look_up(found, value)

    (result,) = op.results
    with ir.InsertionPoint(op), op.location:
        parts: dict[str, Any] = {"least": None}
        for name, each in (("scale", blocks.scale), ("least", blocks.least)):
            if each is None:
                continue
            parts[name] = part(each.value)
            if each.factor is not None:
                parts[f"{name}_factor"] = part(each.factor.value)
        rows = rows_of_blocks(
            part(blocks.codes),
            lead=found.axes,
            inner=blocks.inner,
            group=blocks.group,
            bits=blocks.bits,
            span=blocks.span,
            zero=blocks.zero,
            **parts,
        )
        if write.is_static(rows):  # else it has no axes of size one beside those of the places
            rows = write.reshape(rows, write.shape(result))
        result.replace_all_uses_with(rows)
    op.erase()
    return 1


def _gathered(found: Any, part: Any) -> Any:
    """What belongs to the rows that a gather asks for, of a part in the order of rows."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    places, sizes = write.shape(found.places), write.shape(part)[1:]
    batch = [size for axis, size in enumerate(places) if axis != found.vector]
    offsets = [len(batch) + axis for axis in range(len(sizes))]
    attributes = {name: found.op.attributes[name] for name in found.op.attributes}
    attributes["slice_sizes"] = ir.DenseI64ArrayAttr.get([1, *sizes])
    attributes["dimension_numbers"] = ir.Attribute.parse(
        f"#stablehlo.gather<offset_dims = {offsets}, collapsed_slice_dims = [0], "
        f"start_index_map = [0], index_vector_dim = {found.vector}>"
    )
    kind = write.tensor((*batch, *sizes), write.element(part))
    return write.create("stablehlo.gather", kind, [part, found.places], attributes)


def _sliced(found: Any, part: Any) -> Any:
    """What belongs to the rows of a slice of neighbours, of a part in the order of rows."""
    from edgec.toolchain.ir import write

    first = write.fill(0, (), write.element(found.places))
    sizes = write.shape(part)[1:]
    return write.dynamic_slice(part, [found.places, *[first] * len(sizes)], [found.some, *sizes])


def _in_order(numbers: Any, blocks: Any) -> bool:
    """Whether a group's numbers lie in the order of the groups, with nothing beside them."""
    from edgec.toolchain.ir import write

    if numbers is None:
        return True
    count = blocks.outputs * blocks.groups
    counts = [count, count // numbers.shared][: len(numbers.values)]
    whole = [math.prod(write.shape(each)) for each in numbers.values] == counts
    return whole and bool(numbers.in_order(blocks.outputs, blocks.groups))
