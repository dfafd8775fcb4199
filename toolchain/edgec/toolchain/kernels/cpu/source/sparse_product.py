"""A product by a matrix of few numbers that are not zero: those alone, row by row of the matrix.

The matrix is known when the kernel is made: the numbers of each of its rows, their places, and
where each row begins. In `y[n, :] = sum of w * x[k, :]` a vector holds neighbouring columns of x,
as wide as there are columns; some sums run beside each other, so that none waits for another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["SparseProduct", "sparse_kernel"]

_SUMS = 4


@dataclass(frozen=True, kw_only=True)
class SparseProduct:
    """A product of a matrix [n, k] with x [k, m] to y [n, m], and how it is cut.

    Attributes:
        n, k, m: the sizes.
        numbers: how many numbers of the matrix are kept, with zeros that fill its rows up.
        lanes: columns of a vector.
        vectors: vectors of columns at a time.
        side: numbers of a row at a time; each row has a multiple of these.
    """

    n: int
    k: int
    m: int
    numbers: int
    lanes: int
    vectors: int
    side: int

    @classmethod
    def cut(cls, n: int, k: int, m: int, unit: VectorUnit) -> "SparseProduct":
        """The way to cut it on these registers, with no numbers yet."""
        lanes = 1
        while 2 * lanes <= min(unit.lanes, m):
            lanes *= 2
        vectors = max(1, min(_SUMS, m // lanes))
        side = max(1, _SUMS // vectors)
        return cls(n=n, k=k, m=m, numbers=0, lanes=lanes, vectors=vectors, side=side)


def sparse_kernel(name: str, product: SparseProduct, unit: VectorUnit) -> str:
    """The kernel's MLIR: it reads x, the starts of rows, places in x, numbers, and writes y."""
    wanted = workgroups(2 * product.numbers * product.m, 4 * product.numbers)
    parts = min(product.n, even(product.n, wanted))
    kept = product.numbers
    writer = Writer(
        name=name,
        workgroups=(parts, 1, 1),
        sizes=[product.k * product.m, product.n + 1, kept, kept, product.n * product.m],
        kinds=("f32", "i32", "i32", "f32", "f32"),
    )
    body = _body(writer, product, unit)
    return writer.text((*writer.share("n", "%wx", product.n, parts), *body))


def _body(writer: Writer, product: SparseProduct, unit: VectorUnit) -> Iterator[str]:
    """Some vectors of columns at a time, for every row; the last columns overlap."""
    m, step = product.m, product.lanes * product.vectors
    kind = f"vector<{product.lanes}xf32>"
    zero, one = writer.index(0), writer.index(1)
    yield f"%nothing = arith.constant dense<0.0> : {kind}"
    yield f"scf.for %tile = {zero} to {writer.index(-(-m // step))} step {one} {{"
    yield from writer.start("%c", "%tile", step, m - step)
    yield f"scf.for %n = %n_from to %n_to step {one} {{"
    for which, place in (("from", "%n"), ("to", "%n_next")):
        if which == "to":
            yield f"%n_next = arith.addi %n, {one} : index"
        yield f"%p_{which}_a = memref.load %m1[{place}] : {writer.memory(1)}"
        yield f"%p_{which} = arith.index_cast %p_{which}_a : i32 to index"
    yield from _sums(writer, product, unit, kind)
    yield f"%y_a = arith.muli %n, {writer.index(m)} : index"
    yield "%y_b = arith.addi %y_a, %c : index"
    for i in range(product.vectors):
        total = f"%sum#{i}"
        for j in range(1, product.side):
            more = writer.fresh()
            yield f"{more} = arith.addf {total}, %sum#{j * product.vectors + i} : {kind}"
            total = more
        yield f"%y{i} = arith.addi %y_b, {writer.index(i * product.lanes)} : index"
        yield f"vector.store {total}, %m4[%y{i}] : {writer.memory(4)}, {kind}"
    yield "}"
    yield "}"


def _sums(writer: Writer, product: SparseProduct, unit: VectorUnit, kind: str) -> Iterator[str]:
    """The numbers of a row times what they meet, `side` of them at a time."""
    names = [f"{j}_{i}" for j in range(product.side) for i in range(product.vectors)]
    kinds = ", ".join([kind] * len(names))
    carried = ", ".join(f"%t{name} = %nothing" for name in names)
    yield (
        f"%sum:{len(names)} = scf.for %p = %p_from to %p_to step {writer.index(product.side)} "
        f"iter_args({carried}) -> ({kinds}) {{"
    )
    for j in range(product.side):
        yield f"%q{j} = arith.addi %p, {writer.index(j)} : index"
        yield f"%at{j}_a = memref.load %m2[%q{j}] : {writer.memory(2)}"
        yield f"%at{j}_b = arith.index_cast %at{j}_a : i32 to index"
        yield f"%at{j} = arith.addi %at{j}_b, %c : index"
        yield f"%w{j} = memref.load %m3[%q{j}] : {writer.memory(3)}"
        yield f"%ws{j} = vector.broadcast %w{j} : f32 to {kind}"
        for i in range(product.vectors):
            name = f"{j}_{i}"
            yield f"%x{name}_at = arith.addi %at{j}, {writer.index(i * product.lanes)} : index"
            yield f"%x{name} = vector.load %m0[%x{name}_at] : {writer.memory(0)}, {kind}"
            yield from writer.multiply_add(
                f"%u{name}", f"%x{name}", f"%ws{j}", f"%t{name}", kind, unit.fused
            )
    yield f"scf.yield {', '.join(f'%u{name}' for name in names)} : {kinds}"
    yield "}"
