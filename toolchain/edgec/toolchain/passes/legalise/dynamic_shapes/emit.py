"""What every rewrite of dynamic shapes writes with: index arithmetic, tensors and linalg.generic.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import (
    element_type,
    is_dynamic,
    is_float,
    is_unsigned,
    shape_of,
)
from edgec.toolchain.passes.legalise.dynamic_shapes.analysis import Sizes
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import Atom, Size, constant

__all__ = ["Emitter", "axes", "fixed"]

_ARITHMETIC = {"divide": "divsi", "remainder": "remsi", "maximum": "maxsi", "minimum": "minsi"}
_BITS = {"and": "andi", "or": "ori"}
_COMPARISONS = {"EQ": 0, "NE": 1, "LT": 2, "LE": 3, "GT": 4, "GE": 5}


def axes(numbers: Iterable[int]) -> list[Any]:
    """Affine expressions that are loop variables."""
    return [ir.AffineDimExpr.get(n) for n in numbers]


def fixed(number: int) -> Any:
    """An affine expression that is a number."""
    return ir.AffineConstantExpr.get(number)


class Emitter:
    """Writes operations before one operation, at its location, and puts values in its place.

    Attributes:
        op: the operation that is rewritten.
        sizes: what is known of the sizes in its function.
        trusts_broadcasts: a dynamic dimension that is broadcast to another keeps its size.
        hides_batches: products are kept from data tiling by batch dimensions of a hidden size 1.
    """

    def __init__(
        self, op: Any, sizes: Sizes, *, trusts_broadcasts: bool, hides_batches: bool = True
    ) -> None:
        self.op = op
        self.sizes = sizes
        self.trusts_broadcasts = trusts_broadcasts
        self.hides_batches = hides_batches
        self.index_type = ir.IndexType.get()
        self._cache: dict[Size, Any] = {}

    def at(self, op: Any) -> "Emitter":
        """An emitter for another operation of the function."""
        return Emitter(
            op,
            self.sizes,
            trusts_broadcasts=self.trusts_broadcasts,
            hides_batches=self.hides_batches,
        )

    # Operations

    def create(
        self,
        name: str,
        result: Any,
        operands: Sequence[Any] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        """An operation with one result, which is returned."""
        return ir.Operation.create(
            name, results=[result], operands=list(operands), attributes=dict(attributes or {})
        ).results[0]

    def finish(self, *values: Any) -> None:
        """Put values in place of the operation's results."""
        for old, new in zip(self.op.results, values, strict=True):
            if shape_of(new) != shape_of(old):
                kind = self.tensor(shape_of(old), element_type(new))
                new = self.create("tensor.cast", kind, [new])
            if new.type != old.type:
                new = self.create("stablehlo.bitcast_convert", old.type, [new])
            self.sizes.replace(old, new)
            old.replace_all_uses_with(new)

    def function(self, name: str) -> Any | None:
        """A function of the module by its name."""
        module = self.op
        while module.name != "builtin.module":
            module = module.parent.operation
        for each in module.regions[0].blocks[0].operations:
            function = each.operation
            if function.name == "func.func" and (
                ir.StringAttr(function.attributes["sym_name"]).value == name
            ):
                return function
        return None

    # Types and operands

    def operand(self, index: int) -> Any:
        """An operand, signless and of a type that tells all that is known of its shape."""
        value = self.signless(self.op.operands[index])
        shape = self.sizes.of(value)
        kind = self.tensor(shape, element_type(value))
        if kind == value.type:
            return value
        cast = self.create("tensor.cast", kind, [value])
        self.sizes.set(cast, shape)
        return cast

    def signless(self, value: Any) -> Any:
        """The value, as signless integers if it is unsigned."""
        kind = element_type(value)
        if not is_unsigned(kind):
            return value
        signed = ir.IntegerType.get_signless(ir.IntegerType(kind).width)
        cast = self.create(
            "stablehlo.bitcast_convert", self.tensor(shape_of(value), signed), [value]
        )
        self.sizes.set(cast, self.sizes.of(value))
        return cast

    def result_type(self, index: int = 0) -> Any:
        """A result's type, signless if it is unsigned."""
        value = self.op.results[index]
        kind = element_type(value)
        if is_unsigned(kind):
            kind = ir.IntegerType.get_signless(ir.IntegerType(kind).width)
        return self.tensor(shape_of(value), kind)

    def tensor(self, shape: Sequence[int | Size | None], kind: Any) -> Any:
        """A tensor type; None and sizes that are no numbers are dynamic."""
        plain = [s.number if isinstance(s, Size) else s for s in shape]
        dynamic = ir.ShapedType.get_dynamic_size()
        return ir.RankedTensorType.get([dynamic if s is None else s for s in plain], kind)

    # Index arithmetic

    def index(self, size: Size | int) -> Any:
        """A size as an index value, without a trip to the device where the sizes allow."""
        size = constant(size) if isinstance(size, int) else size
        if size not in self._cache:
            self._cache[size] = self._emit(size)
        return self._cache[size]

    def _emit(self, size: Size) -> Any:
        total = None
        for product, coefficient in size.terms:
            value = None
            for atom in product:
                factor = self._emit_atom(atom)
                value = factor if value is None else self.arith("muli", value, factor)
            if value is None:
                value = self.number(coefficient)
            elif coefficient != 1:
                value = self.arith("muli", value, self.number(coefficient))
            total = value if total is None else self.arith("addi", total, value)
        return self.number(0) if total is None else total

    def _emit_atom(self, atom: Atom) -> Any:
        if atom.operation == "dimension":
            tensor = self.signless(self.sizes.value(atom.value))
            axis = self.number(atom.position)
            return self.create("tensor.dim", self.index_type, [tensor, axis])
        if atom.operation == "element":
            return self._extract(self.sizes.value(atom.value), atom.position)
        values = [self.index(size) for size in atom.arguments]
        if atom.operation in _ARITHMETIC:
            return self.arith(_ARITHMETIC[atom.operation], *values)
        if atom.operation in _BITS:
            return self.arith(_BITS[atom.operation], *values)
        if atom.operation in _COMPARISONS:
            return self._as_index(self.compare(_COMPARISONS[atom.operation], *values))
        if atom.operation == "select":
            test = self.compare(_COMPARISONS["NE"], values[0], self.number(0))
            return self.create("arith.select", self.index_type, [test, *values[1:]])
        if atom.operation == "abs":
            return self.arith("maxsi", values[0], self.arith("subi", self.number(0), values[0]))
        one = self.arith("minsi", values[0], self.number(1))  # sign
        return self.arith("maxsi", one, self.number(-1))

    def _extract(self, value: Any, position: int) -> Any:
        if not isinstance(value.type, ir.RankedTensorType):
            return value if value.type == self.index_type else self._as_index(value)
        unsigned = is_unsigned(element_type(value))
        value = self.signless(value)
        at = []
        for size in reversed(shape_of(value)):
            position, i = divmod(position, size or 1)
            at.append(self.number(i))
        scalar = self.create("tensor.extract", element_type(value), [value, *reversed(at)])
        return self.to_index(scalar, unsigned=unsigned)

    def _as_index(self, truth: Any) -> Any:
        return self.create("arith.index_castui", self.index_type, [truth])

    def to_index(self, scalar: Any, *, unsigned: bool = False) -> Any:
        """An integer scalar as an index."""
        if scalar.type == self.index_type:
            return scalar
        one_bit = ir.IntegerType(scalar.type).width == 1
        name = "arith.index_castui" if unsigned or one_bit else "arith.index_cast"
        return self.create(name, self.index_type, [scalar])

    def number(self, number: int) -> Any:
        """An index constant."""
        value = ir.IntegerAttr.get(self.index_type, number)
        return self.create("arith.constant", self.index_type, [], {"value": value})

    def hidden(self, number: int) -> Any:
        """An index constant that the compiler does not know."""
        return self.create("util.optimization_barrier", self.index_type, [self.number(number)])

    def arith(self, name: str, left: Any, right: Any) -> Any:
        """A binary `arith` operation on scalars of one type."""
        return self.create(f"arith.{name}", left.type, [left, right])

    def compare(self, predicate: int, left: Any, right: Any) -> Any:
        """A signed `arith.cmpi` by its predicate's number."""
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
        return self.create(
            "arith.cmpi", ir.IntegerType.get_signless(1), [left, right], {"predicate": number}
        )

    def clamp(self, value: Any, low: Any, high: Any) -> Any:
        """`max(low, min(value, high))` on indices."""
        return self.arith("maxsi", self.arith("minsi", value, high), low)

    # Tensors

    def zero(self, kind: Any) -> Any:
        """A scalar zero."""
        attribute = ir.FloatAttr.get(kind, 0.0) if is_float(kind) else ir.IntegerAttr.get(kind, 0)
        return self.create("arith.constant", kind, [], {"value": attribute})

    def scalar(self, tensor: Any) -> Any:
        """The element of a tensor of rank 0."""
        return self.create("tensor.extract", element_type(tensor), [tensor])

    def empty(self, shape: Sequence[Size], kind: Any) -> Any:
        """A tensor of that shape without contents."""
        dynamic = [self.index(s) for s in shape if s.number is None]
        return self.create("tensor.empty", self.tensor(shape, kind), dynamic)

    def filled(self, shape: Sequence[Size], scalar: Any) -> Any:
        """A tensor of that shape with every element the scalar.

        A fill has a name of its own: of a plain generic the compiler drops axes of size 1, but not
        of the reduction that it begins, and then fails on the pair (iree-compile 3.13).
        """
        into = self.empty(shape, scalar.type)
        op = ir.Operation.create(
            "linalg.fill",
            results=[into.type],
            operands=[scalar, into],
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
            regions=1,
        )
        block = op.regions[0].blocks.append(scalar.type, scalar.type)
        with ir.InsertionPoint(block):
            ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
        return op.results[0]

    def generic(
        self,
        inputs: Sequence[Any],
        maps: Sequence[Sequence[Any]],
        into: Any,
        into_map: Sequence[Any],
        loops: int,
        body: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        reduced: int = 0,
    ) -> Any:
        """A `linalg.generic` with one result.

        Args:
            inputs: tensors or scalars to read.
            maps: for each input, an affine expression per axis over the loops.
            into: the tensor to write or accumulate into.
            into_map: the same for it.
            loops: how many loops there are.
            body: from the scalars (inputs', then the accumulator) to the scalar to yield.
            reduced: how many of the loops, the last ones, are reductions.
        """
        return self.generics(inputs, maps, [into], [into_map], loops, body, reduced=reduced)[0]

    def generics(
        self,
        inputs: Sequence[Any],
        maps: Sequence[Sequence[Any]],
        into: Sequence[Any],
        into_maps: Sequence[Sequence[Any]],
        loops: int,
        body: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        reduced: int = 0,
    ) -> list[Any]:
        """`generic` with several results."""
        affine = [
            ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, list(m))) for m in (*maps, *into_maps)
        ]
        parallel, reduction = (
            ir.Attribute.parse(f"#linalg.iterator_type<{kind}>")
            for kind in ("parallel", "reduction")
        )
        op = ir.Operation.create(
            "linalg.generic",
            results=[v.type for v in into],
            operands=[*inputs, *into],
            attributes={
                "indexing_maps": ir.ArrayAttr.get(affine),
                "iterator_types": ir.ArrayAttr.get(
                    [parallel] * (loops - reduced) + [reduction] * reduced
                ),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(into)]),
            },
            regions=1,
        )
        kinds = [
            element_type(v) if isinstance(v.type, ir.RankedTensorType) else v.type
            for v in (*inputs, *into)
        ]
        block = op.regions[0].blocks.append(*kinds)
        with ir.InsertionPoint(block):
            yielded = body(list(block.arguments))
            ir.Operation.create("linalg.yield", operands=list(yielded))
        return list(op.results)

    def loop(self, number: int) -> Any:
        """Inside a generic's body: the index of one of its loops."""
        attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
        return self.create("linalg.index", self.index_type, [], {"dim": attribute})

    def owned(self, value: Any, *, always: bool = False) -> Any:
        """The value for an operation that works in place, in memory that nothing else reads.

        The compiler would copy an argument, or a value with other readers, of its own accord; but
        with two dynamic dimensions it forgets to, or loses the copy's place (iree-compile 3.13).
        A zero that it cannot see keeps it from finding two copies to be the same.

        Args:
            value: a tensor; one of static shape is returned as it is.
            always: copy what has no other reader too, as an equal value elsewhere may have.
        """
        if not is_dynamic(value) or not (always or _is_shared(value)):
            return value
        plain = self.signless(value)
        shape = self.sizes.of(value)
        kind, rank = element_type(plain), len(shape)
        hidden = self.hidden(0)

        def read(_: Sequence[Any]) -> Sequence[Any]:
            first, *rest = (self.loop(i) for i in range(rank))
            first = self.arith("addi", first, hidden)
            return [self.create("tensor.extract", kind, [plain, first, *rest])]

        copy = self.generic([], [], self.empty(shape, kind), axes(range(rank)), rank, read)
        if copy.type != plain.type:
            copy = self.create("tensor.cast", plain.type, [copy])
        if copy.type != value.type:
            copy = self.create("stablehlo.bitcast_convert", value.type, [copy])
        self.sizes.set(copy, shape)
        return copy

    def expand(self, value: Any, groups: Sequence[Sequence[int]], shape: Sequence[Size]) -> Any:
        """`tensor.expand_shape`: axis i of the value becomes the result's axes `groups[i]`."""
        dynamic = [self.index(s) for s in shape if s.number is None]
        return self.create(
            "tensor.expand_shape",
            self.tensor(shape, element_type(value)),
            [value, *dynamic],
            {
                "reassociation": _groups(groups),
                "static_output_shape": _static(shape),
            },
        )

    def collapse(self, value: Any, groups: Sequence[Sequence[int]], shape: Sequence[Size]) -> Any:
        """`tensor.collapse_shape`: the value's axes `groups[i]` become axis i of the result."""
        return self.create(
            "tensor.collapse_shape",
            self.tensor(shape, element_type(value)),
            [value],
            {"reassociation": _groups(groups)},
        )

    def extract_slice(
        self,
        value: Any,
        starts: Sequence[Any],
        shape: Sequence[Size],
        kind: Any,
        strides: Sequence[Any] = (),
    ) -> Any:
        """`tensor.extract_slice` at index values, to a type of equal or less rank."""
        dynamic = [self.index(s) for s in shape if s.number is None]
        attributes = _slice_attributes(shape, [1, len(starts), len(dynamic), len(strides)])
        if strides:
            attributes["static_strides"] = ir.DenseI64ArrayAttr.get(
                [ir.ShapedType.get_dynamic_size()] * len(strides)
            )
        return self.create(
            "tensor.extract_slice", kind, [value, *starts, *dynamic, *strides], attributes
        )

    def insert_slice(
        self, value: Any, into: Any, starts: Sequence[Any], shape: Sequence[Size]
    ) -> Any:
        """`tensor.insert_slice` at index values with unit strides."""
        dynamic = [self.index(s) for s in shape if s.number is None]
        return self.create(
            "tensor.insert_slice",
            into.type,
            [value, into, *starts, *dynamic],
            _slice_attributes(shape, [1, 1, len(starts), len(dynamic), 0]),
        )

    def pad(self, value: Any, low: Sequence[Size], high: Sequence[Size], scalar: Any) -> Any:
        """`tensor.pad` with a scalar; the widths must not be negative."""
        shape = [s + a + b for s, a, b in zip(self.sizes.of(value), low, high, strict=True)]
        operands = [[self.index(s) for s in widths if s.number is None] for widths in (low, high)]
        op = ir.Operation.create(
            "tensor.pad",
            results=[self.tensor(shape, element_type(value))],
            operands=[value, *operands[0], *operands[1]],
            attributes={
                "static_low": _static(low),
                "static_high": _static(high),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, *map(len, operands)]),
            },
            regions=1,
        )
        block = op.regions[0].blocks.append(*[self.index_type] * len(shape))
        with ir.InsertionPoint(block):
            ir.Operation.create("tensor.yield", operands=[scalar])
        self.sizes.set(op.results[0], shape)
        return op.results[0]


_VIEWS = (
    "stablehlo.bitcast_convert",
    "stablehlo.reshape",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.reshape",
)
_MEASURES = ("flow.tensor.tie_shape", "stablehlo.get_dimension_size", "tensor.dim")


def _is_shared(value: Any) -> bool:
    """Whether a value, or what it is a view of, is an argument or read more than once."""
    while True:
        readers = [u for u in value.uses if u.owner.operation.name not in _MEASURES]
        if isinstance(value.owner, ir.Block):
            return value.owner.owner.name == "func.func" or len(readers) > 1
        if len(readers) > 1 or value.owner.name == "flow.tensor.tie_shape":
            return True
        if value.owner.name not in _VIEWS:
            return False
        value = value.owner.operands[0]


def _groups(groups: Sequence[Sequence[int]]) -> Any:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, n) for n in group]) for group in groups]
    )


def _static(shape: Sequence[Size]) -> Any:
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.DenseI64ArrayAttr.get([dynamic if s.number is None else s.number for s in shape])


def _slice_attributes(shape: Sequence[Size], segments: Sequence[int]) -> dict[str, Any]:
    dynamic = ir.ShapedType.get_dynamic_size()
    return {
        "static_offsets": ir.DenseI64ArrayAttr.get([dynamic] * len(shape)),
        "static_sizes": _static(shape),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(shape)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(segments)),
    }
