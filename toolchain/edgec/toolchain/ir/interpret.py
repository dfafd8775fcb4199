"""What a whole program computes, in NumPy: calls, loops and branches around what `evaluate` knows.

Floats are f64 whatever their type, as there. It is slow and exact, and shares nothing with what is
compiled: the answers that a program is held to come from here where no framework can give them.

A module imported only by what runs it; it needs the compiler.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import elementwise
from edgec.toolchain.ir.evaluate import NotEvaluated, apply, dtype_of
from edgec.toolchain.ir.functions import entry_block, functions
from edgec.toolchain.ir.gathering import gathered, scattered
from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.open_sizes import SIZED
from edgec.toolchain.ir.read import element_type, integers, shape_of
from edgec.toolchain.ir.uses import last_uses, only_user

__all__ = ["Interpreter"]

_Array = np.ndarray[Any, np.dtype[Any]]
_Known = dict[Any, _Array]
_MOST_SORTED = 2048


class Interpreter:
    """Calls the functions of a module.

    Args:
        module: an `ir.Module` in StableHLO; sizes that it leaves open are those of its arguments.
        instead: numbers that constants have in place of their own, by their attribute.

    Attributes:
        seen: is told what every operation gives that a call runs, but for those that follow from
            fixed arguments alone; those of loops again and again.
    """

    def __init__(self, module: Any, instead: Mapping[Any, _Array] | None = None) -> None:
        self._module = module  # whose operations live as long as it does
        self._functions = functions(module)
        self._instead = dict(instead or {})
        self.seen: Callable[[Any, Sequence[_Array]], None] | None = None
        self._constants: dict[Any, _Array] = {}
        self._fixed: _Known = {}
        self._follow: set[Any] = set()

    def call(
        self, name: str, arguments: Sequence[_Array], fixed: Sequence[int] = ()
    ) -> list[_Array]:
        """The results of a function; floats in f64.

        Args:
            name: the function's.
            arguments: its arguments.
            fixed: which of them are the same at every call; what follows from these alone is
                worked out once, and kept in f32, as a program has it.

        Raises:
            NotEvaluated: an operation is none of those known here.
        """
        block = entry_block(self._functions[name])
        given = [each if i in fixed else _wide(each) for i, each in enumerate(arguments)]
        for index in fixed:
            self._fixed[block.arguments[index]] = given[index]
        with np.errstate(all="ignore"):
            return self._run(block, given, {})

    def _run(self, block: Any, arguments: Sequence[_Array], outer: _Known) -> list[_Array]:
        """What a block returns; a value is forgotten after its last use in it."""
        known = dict(zip(block.arguments, arguments, strict=True))
        operations = [op.operation for op in block.operations]
        last = last_uses(operations)
        for place, op in enumerate(operations[:-1]):
            if self._is_fixed(op):
                known |= {each: self._fixed[each] for each in op.results if each in self._fixed}
                continue
            operands = [known[v] if v in known else outer[v] for v in op.operands]
            results = self._operation(op, operands, _Both(known, outer))
            for value, array in zip(op.results, results, strict=True):
                known[value] = _shaped(value, array)
            if self.seen is not None:
                self.seen(op, [known[value] for value in op.results])
            for value in last.get(place, ()):
                known.pop(value, None)
        return [known[v] if v in known else outer[v] for v in operations[-1].operands]

    def _is_fixed(self, op: Any) -> bool:
        """Whether what an operation gives follows from fixed arguments alone, and is known.

        What one such operation alone reads is forgotten then.
        """
        if not self._fixed or not op.operands or op.regions or len(op.results) != 1:
            return False
        (result,) = op.results
        if result in self._follow:
            return True
        if not all(v in self._fixed or _is_constant(v) for v in op.operands):
            return False
        if all(_is_constant(v) for v in op.operands):
            return False
        operands = [
            self._constant(v.owner.operation) if _is_constant(v) else self._fixed[v]
            for v in op.operands
        ]
        array = _shaped(result, self._operation(op, operands, {})[0])
        self._fixed[result] = array.astype(np.float32) if array.dtype == np.float64 else array
        self._follow.add(result)
        for value in op.operands:
            user = only_user(value) if value in self._follow else None
            if user is not None and user == op:
                del self._fixed[value]
        return True

    def _operation(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        if op.name == "stablehlo.constant":
            return [self._constant(op)]
        if op.name in _WITH_REGIONS:
            return _WITH_REGIONS[op.name](self, op, operands, known)
        if op.name in _PLAIN:
            return [_PLAIN[op.name](op, *operands)]
        return [apply(op, operands)]

    def _constant(self, op: Any) -> _Array:
        """Numbers of a constant; those of f32 stay what they are until they are used."""
        if str(element_type(op.results[0])).startswith("complex"):
            raise NotEvaluated("complex numbers")
        attribute = op.attributes["value"]
        if attribute in self._instead:
            sizes = [size or 0 for size in shape_of(op.results[0])]
            return np.asarray(self._instead[attribute].reshape(sizes))
        if attribute not in self._constants:
            known = literal(op)
            is_single = known is not None and known.dtype == np.float32
            self._constants[attribute] = np.asarray(known if is_single else apply(op, []))
        return self._constants[attribute]

    # Operations with regions or functions of their own

    def _outside(self, op: Any, operands: Sequence[_Array], _: Any) -> Sequence[_Array]:
        """Only what JAX asks of sizes, which has no result."""
        target = ir.StringAttr(op.attributes["call_target_name"]).value
        if target != "shape_assertion" or not bool(operands[0]):
            raise NotEvaluated(f"the operation {op.name} of {target}")
        return []

    def _called(self, op: Any, operands: Sequence[_Array], _: Any) -> Sequence[_Array]:
        name = ir.FlatSymbolRefAttr(
            op.attributes["callee" if op.name == "func.call" else "decomposition"]
        ).value
        return self._run(entry_block(self._functions[name]), operands, {})

    def _composite(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        if ir.StringAttr(op.attributes["name"]).value == "chlo.erf":
            from edgec.toolchain.ir.elementwise import ELEMENTWISE

            return [ELEMENTWISE["erf"](*operands)]
        return self._called(op, operands, known)

    def _while(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        test, body = (region.blocks[0] for region in op.regions)
        values = list(operands)
        while bool(self._run(test, values, known)[0]):
            values = self._run(body, values, known)
        return values

    def _branch(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        count = len(op.regions)
        number = int(operands[0])
        if op.name == "stablehlo.if":
            number = 0 if number else 1
        if not 0 <= number < count:
            number = count - 1
        return self._run(op.regions[number].blocks[0], [], known)

    def _reduce(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        """A reduction by more than one operation: neighbours two by two, all pairs at once.

        The order is StableHLO's to choose, as long as neighbours stay neighbours.
        """
        if len(operands) == 2:
            try:
                return [apply(op, operands)]
            except NotEvaluated:
                pass
        half = len(operands) // 2
        axes = integers(op, "dimensions")
        arrays = []
        for array in operands[:half]:
            moved = np.moveaxis(array, axes, range(len(axes)))
            arrays.append(moved.reshape(-1, *moved.shape[len(axes) :]))
        block = op.regions[0].blocks[0]
        while (count := len(arrays[0])) > 1:
            pairs = [array[side : count - count % 2 : 2] for side in (0, 1) for array in arrays]
            joined = self._each(block, pairs, known)
            rest = [array[count - count % 2 :] for array in arrays]
            arrays = [np.concatenate(both) for both in zip(joined, rest, strict=True)]
        starts = [
            np.broadcast_to(start, array.shape[1:])
            for start, array in zip(operands[half:], arrays, strict=True)
        ]
        if not len(arrays[0]):
            return starts
        return self._each(block, [*starts, *(array[0] for array in arrays)], known)

    def _each(self, block: Any, arguments: Sequence[_Array], known: Any) -> list[_Array]:
        """What a block of scalars gives for each place of arrays."""
        found: _Known = dict(zip(block.arguments, arguments, strict=True))
        operations = [op.operation for op in block.operations]
        for op in operations[:-1]:
            if elementwise(op) is None and op.name != "stablehlo.constant":
                raise NotEvaluated(f"{op.name} inside of a reduction")
            operands = [found[v] if v in found else known[v] for v in op.operands]
            found[op.results[0]] = np.asarray(apply(op, operands))
        return [found[v] if v in found else known[v] for v in operations[-1].operands]

    def _sort(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        """A sort by any comparison: an element's place is how many come before it."""
        (axis,) = integers(op, "dimension")
        moved = [np.moveaxis(each, axis, 0) for each in operands]
        count = len(moved[0])
        if count > _MOST_SORTED:
            raise NotEvaluated(f"a sort of {count} elements")
        block = op.regions[0].blocks[0]
        before = np.zeros(moved[0].shape, np.int64)
        for number in range(count):
            one = [np.broadcast_to(each[number], each.shape) for each in moved]
            pairs = [x for pair in zip(one, moved, strict=True) for x in pair]
            (first,) = self._each(block, pairs, known)
            (second,) = self._each(block, [pairs[i ^ 1] for i in range(len(pairs))], known)
            equal_before = (np.arange(count) > number).reshape(-1, *[1] * (before.ndim - 1))
            before += first | (~second & equal_before)
        order = np.argsort(before, 0)
        return [np.moveaxis(np.take_along_axis(each, order, 0), 0, axis) for each in moved]

    def _scatter(self, op: Any, operands: Sequence[_Array], known: Any) -> Sequence[_Array]:
        block = op.regions[0].blocks[0]
        return scattered(op, operands, lambda arguments: self._each(block, arguments, known))


class _Both:
    """The values of a block and of those around it."""

    def __init__(self, inner: _Known, outer: Any) -> None:
        self._inner, self._outer = inner, outer

    def __getitem__(self, value: Any) -> _Array:
        found: _Array = self._inner[value] if value in self._inner else self._outer[value]
        return found


def _dynamic_update(_: Any, value: _Array, update: _Array, *starts: _Array) -> _Array:
    places = []
    for start, size, whole in zip(starts, update.shape, value.shape, strict=True):
        first = min(max(int(start), 0), whole - size)
        places.append(slice(first, first + size))
    result = value.copy()
    result[tuple(places)] = update
    return result


_WITH_REGIONS: Mapping[str, Callable[..., Sequence[_Array]]] = {
    "func.call": Interpreter._called,
    "stablehlo.case": Interpreter._branch,
    "stablehlo.composite": Interpreter._composite,
    "stablehlo.custom_call": Interpreter._outside,
    "stablehlo.if": Interpreter._branch,
    "stablehlo.reduce": Interpreter._reduce,
    "stablehlo.scatter": Interpreter._scatter,
    "stablehlo.sort": Interpreter._sort,
    "stablehlo.while": Interpreter._while,
    "stablehlo.optimization_barrier": lambda self, op, operands, known: operands,
}

_PLAIN: Mapping[str, Callable[..., _Array]] = {
    "stablehlo.dynamic_update_slice": _dynamic_update,
    "stablehlo.dynamic_gather": gathered,
    "stablehlo.gather": gathered,
    **SIZED,
}


def _is_constant(value: Any) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.constant"


def _wide(array: _Array) -> _Array:
    """Numbers as they are computed with; weights of f32 are widened where they are used."""
    array = np.asarray(array)
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def _shaped(value: Any, array: _Array) -> _Array:
    """A result in its value's sizes and type."""
    wanted = np.dtype(dtype_of(value))
    array = np.asarray(array)
    sizes = _sizes(shape_of(value), array)
    if wanted.kind == "f" and array.dtype == np.float32:
        return np.broadcast_to(array, sizes)  # a weight, or a part of one: widened where it is used
    return np.broadcast_to(array, sizes).astype(wanted, copy=False)


def _sizes(sizes: Sequence[int | None], array: _Array) -> tuple[int, ...]:
    """A value's sizes; those that its type leaves open are the array's own."""
    if None not in sizes:
        return tuple(size or 0 for size in sizes)
    if len(sizes) != array.ndim:
        raise NotEvaluated("a value whose size is not known")
    return tuple(
        own if size is None else size for size, own in zip(sizes, array.shape, strict=True)
    )
