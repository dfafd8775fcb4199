"""Rows by the matrix of each row's group: no matrix that no row needs, and none copied."""

import math
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["GroupedRows"]

_PRODUCT = "stablehlo.dot_general"
_FLOATS = {"f32", "f16", "bf16"}
"""What is f32 when kernels are placed."""
_SIZES = (8, 16, 32, 64, 128)
"""Rows of a block: fewer leave a kernel's tiles empty."""
_PACKED = 8
"""Rows that are multiplied in the time that a block's matrix takes to be packed."""
_LEAST_MATRIX = 1 << 13
"""Elements of a matrix that take longer to copy than a turn of a loop: 64 x 64 do not."""


@dataclass(frozen=True, kw_only=True)
class GroupedRows:
    """Rows of groups are multiplied by their own group's matrix alone, read where it lies.

    Experts of a language model come as products by looked-up matrices of a token's few rows, and
    as one product of all rows for each expert of a prompt's many, all other experts' rows as
    zeros; JAX writes its `ragged_dot` as that in one product. The first copies each matrix before
    it multiplies by it, the second multiplies every row by every matrix.

    No more rows than groups, and vectors by looked-up matrices, go through a loop whose turn
    multiplies one row by its matrix in place: for each weight 4 bytes are read, where a copy reads
    4, writes 4 and reads them again. A turn costs about what copying 4,096 weights does, so this is
    done for matrices of 8,192 and more. More rows than groups are laid out in blocks of 8 to 128
    rows, each of one group, the last of a group filled up with other rows whose results nobody
    reads: `(rows + groups * (size - 1)) / size` blocks hold them, however they are shared. All
    blocks are one call of a kernel that reads the number of each one's matrix, and packs of it what
    it multiplies by next, in the time of about 8 rows. So with blocks of `size` rows
    `blocks * (size + 8)` rows are multiplied in place of `rows * groups`; of all sizes the one with
    the fewest is taken, and none if that is no less: 512 rows of 64 groups are 1,920 in place of
    32,768, of 8 groups 920 in place of 4,096; 24 rows of 3 groups would be 80 in place of 72.

    That is for processors alone: in a loop each turn asks the host where a matrix lies, which on
    another device is a round trip, and the kernel is one of processors with vectors; others take
    the loop alone. GPUs keep what they had. So do matrices that are worked out in a call, as
    weights in blocks are, each group's by itself; sizes that only a call knows; and rows that are
    not known to be sorted by group. A matrix with infinities no longer makes other groups' rows
    NaN, as zeros times it did.

    Measured on two cores that others used, as the least time of both in 30 calls and more, f32 by
    matrices of 512 x 1024: 512 rows of 64 groups 365 ms before and 30 after, of 8 groups 45 and 12,
    64 rows of 8 groups 6.0 and 3.6, 8 rows of 64 groups 2.5 and 1.7.
    """

    unit: VectorUnit | None = None
    """The vector registers of the target, whose kernel reads a block's matrix where it lies; None
    without such a kernel."""

    name = "grouped-rows"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "GroupedRows | None":
        """For StableHLO with products at -O2 and above, where the host reads what was computed."""
        if situation.level < 2 or not situation.is_stablehlo:
            return None
        target = situation.target
        if _PRODUCT not in situation.operations or not target.computes_on_host:
            return None
        without = {"cpu-kernels", "widen-halves"}.intersection(situation.settings.disabled)
        return cls(unit=None if without else vector_unit(target))

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many products changed."""
        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.match.grouped_product import GroupedProducts

        reader = GroupedProducts()
        count = rewrite_each(
            module, [_PRODUCT, "stablehlo.add"], lambda op: self._grouped(reader.read(op))
        )
        if count:
            with module.context:
                erase_unused(module)
        return count + rewrite_each(module, [_PRODUCT], self._looked_up)

    def _grouped(self, found: Any) -> list[Any] | None:
        """What a `GroupedProduct` gives, each row by its own matrix; None where that is no less."""
        from edgec.toolchain.ir import write
        from edgec.toolchain.kernels.cpu.products import takes
        from edgec.toolchain.match.description import validate
        from edgec.toolchain.match.grouped_product import as_they_lie

        lies = None if found is None else as_they_lie(found.matrices)
        if found is None or lies is None:
            return None
        (rows, _), (groups, k, n) = write.shape(found.rows), write.shape(found.matrices)
        size, count = _blocks(rows, groups)
        if size == 1:
            pays = k * n >= _LEAST_MATRIX
        else:
            kinds = {str(write.element(value)) for value in (*found.operands[:2], found.value)}
            kernel = self.unit is not None and takes(count, size, k, n, self.unit)
            pays = kernel and kinds <= _FLOATS and count * (size + _PACKED) < rows * groups
        if not pays:
            return None
        validate(found, "product of groups")
        return [_written(found, lies, size, count)]

    def _looked_up(self, op: Any) -> list[Any] | None:
        """A batch of vectors by matrices that are looked up, one after the other in a loop."""
        from edgec.toolchain.ir import write
        from edgec.toolchain.match.grouped_product import as_they_lie
        from edgec.toolchain.match.look_up import read_pieces
        from edgec.toolchain.match.matrix_product import axes_of

        axes = axes_of(op)
        if any(batch != [0] or len(inner) != 1 or len(own) > 1 for batch, own, inner in axes):
            return None
        for side in (1, 0):
            found = read_pieces(op.operands[side])
            other = op.operands[1 - side]
            (_, own, (summed,)) = axes[side]
            if found is None or len(own) != 1:
                continue
            lies = as_they_lie(found.table)
            count, *sizes = write.shape(op.operands[side])
            vector = write.shape(other)[axes[1 - side][2][0]]
            if write.element(found.table) != write.element(other) or lies is None:
                continue
            if count * vector != _elements(other) or math.prod(sizes) < _LEAST_MATRIX:
                continue
            rows = write.reshape(other, [count, vector])
            made = _one_by_one(rows, lies, summed, found.places, op)
            return [write.reshape(made, write.shape(op.results[0]))]
        return None


def _elements(value: Any) -> int:
    from edgec.toolchain.ir import write

    return math.prod(write.shape(value))


def _blocks(rows: int, groups: int) -> tuple[int, int]:
    """Rows of a block, and how many blocks hold all rows, however these are shared by groups.

    With no more rows than groups a block is a row, which needs no packed matrix. Else blocks are
    as long as it takes the fewest rows, with those that packing takes as long as.
    """
    if rows <= groups:
        return 1, rows
    counts = {size: (rows + groups * (size - 1)) // size for size in _SIZES}
    return min(counts.items(), key=lambda each: each[1] * (each[0] + _PACKED))


def _written(found: Any, lies: tuple[Any, list[int]], size: int, count: int) -> Any:
    """Rows of groups, in `count` blocks of `size` rows of which each is of one group."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    whole = ir.IntegerType.get_signless(32)
    (rows, _), (groups, _, n) = write.shape(found.rows), write.shape(found.matrices)
    if found.by_ends:
        own = _how_many("GE", write.iota([rows], 0, whole), write.convert(found.groups, whole))
    else:
        own = write.convert(write.reshape(found.groups, [rows]), whole)
    is_own = write.binary(
        "and",
        write.compare("GE", own, write.fill(0, [rows], whole)),
        write.compare("LT", own, write.fill(groups, [rows], whole)),
    )
    if size == 1:
        made = _one_by_one(found.rows, lies, 1, own, found.product)
    else:
        made = _in_blocks(found, lies, own, size, count)
    nothing = write.fill(0.0, [rows, n], write.element(found.value))
    return write.select(write.broadcast(is_own, [rows, n], [0]), made, nothing)


def _in_blocks(found: Any, lies: tuple[Any, list[int]], own: Any, size: int, count: int) -> Any:
    """The product of rows whose groups are `own`; of those of none it is any."""
    from edgec.toolchain.ir import write

    whole = write.element(own)
    (rows, k), (groups, _, n) = write.shape(found.rows), write.shape(found.matrices)
    # Where each group begins and ends, in rows and in blocks.
    bounds = _how_many("GT", write.iota([groups + 1], 0, whole), own)
    begin, end = write.cut(bounds, 0, 0, groups), write.cut(bounds, 0, 1, groups + 1)
    held = write.binary("subtract", end, begin)
    wide = write.fill(size, [groups], whole)
    filled = write.binary("add", held, write.fill(size - 1, [groups], whole))
    blocks = write.binary("divide", filled, wide)
    ends = _running(blocks)
    # What is added to a row's number for its place in blocks.
    before = write.binary("subtract", ends, blocks)
    moved = write.binary("subtract", write.binary("multiply", before, wide), begin)
    of_block = write.within(_how_many("GE", write.iota([count], 0, whole), ends), groups)
    at = write.iota([count, size], 0, whole)
    at = write.binary("multiply", at, write.fill(size, [count, size], whole))
    at = write.binary("add", at, write.iota([count, size], 1, whole))
    back = write.broadcast(write.taken(moved, of_block), [count, size], [0])
    source = write.within(write.binary("subtract", at, back), rows)
    taken = write.taken(found.rows, write.reshape(source, [count * size]))
    table, order = lies
    matrices = write.taken(table, of_block)
    kind = write.tensor([count, size, n], write.element(found.value))
    made = _batched(write.reshape(taken, [count, size, k]), matrices, order[1], kind, found.product)
    place = write.taken(moved, write.within(own, groups))
    place = write.binary("add", place, write.iota([rows], 0, whole))
    place = write.within(place, count * size)
    return write.taken(write.reshape(made, [count * size, n]), place)


def _how_many(direction: str, values: Any, others: Any) -> Any:
    """How many of the other numbers each of some compares with like this: [values]."""
    from edgec.toolchain.ir import write

    kind, (rows,), (columns,) = write.element(values), write.shape(values), write.shape(others)
    left = write.broadcast(values, [rows, columns], [0])
    right = write.broadcast(others, [rows, columns], [1])
    ones = write.convert(write.compare(direction, left, right), kind)
    return _total(ones)


def _running(values: Any) -> Any:
    """The sum of each number and all before it."""
    from edgec.toolchain.ir import write

    kind, (count,) = write.element(values), write.shape(values)
    square = [count, count]
    is_in = write.compare("GE", write.iota(square, 0, kind), write.iota(square, 1, kind))
    parts = write.select(is_in, write.broadcast(values, square, [1]), write.fill(0, square, kind))
    return _total(parts)


def _total(values: Any) -> Any:
    """The sum of each row."""
    from edgec.toolchain.ir import write

    first = write.fill(0, (), write.element(values))
    (total,) = write.reduce([values], [first], [1], lambda both: [write.binary("add", *both)])
    return total


def _batched(left: Any, right: Any, summed: int, kind: Any, like: Any) -> Any:
    """A batch of products of [., k] by matrices whose axis `summed` is k."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    numbers = ir.Attribute.parse(
        "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
        f"lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [{summed}]>"
    )
    attributes = {"dot_dimension_numbers": numbers}
    if "precision_config" in like.attributes:
        attributes["precision_config"] = like.attributes["precision_config"]
    return write.create("stablehlo.dot_general", kind, [left, right], attributes)


def _one_by_one(rows: Any, lies: tuple[Any, list[int]], summed: int, own: Any, like: Any) -> Any:
    """Rows [count, k], each by the matrix of a table whose number is its own: [count, n].

    Args:
        rows: what is multiplied.
        lies: the table as it lies, and the order of axes that turns it.
        summed: the axis of the turned table that is summed.
        own: numbers of matrices [count]; one out of bounds is the nearest within.
        like: a product whose precision and type it has.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    table, order = lies
    whole = ir.IntegerType.get_signless(32)
    count, k = write.shape(rows)
    _, *sizes = write.shape(table)
    nought = write.fill(0, (), whole)
    own = write.reshape(write.within(own, write.shape(table)[0]), [count])
    axis = order[summed] - 1

    def body(turn: Any, carried: Any) -> Any:
        place = write.reshape(write.dynamic_slice(own, [turn], [1]), ())
        matrix = write.dynamic_slice(table, [place, nought, nought], [1, *sizes])
        row = write.reshape(write.dynamic_slice(rows, [turn, nought], [1, k]), [k])
        made = write.product(write.reshape(matrix, sizes), row, ([axis], [0]), like=like)
        put = write.reshape(made, [1, *write.shape(made)])
        return [write.dynamic_update(carried[0], put, [turn, nought])]

    n = sizes[1 - axis]
    empty = write.fill(0.0, [count, n], write.element(like.results[0]))
    (made,) = write.loop(count, [empty], body)
    return made
