"""Large constants inside a program's code to parameters: arguments named after the weights.

A framework hands weights over as arguments where it knows them. What it cannot know, such as the
arrays that a plain function closes over, or those of a finished StableHLO file, is found here. A
constant may lie in a private function; then its argument is handed down through every call.
Complex constants stay where they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError

__all__ = ["SMALLEST", "WeightLifter"]

SMALLEST = 1024
"""Constants of fewer bytes stay in the code, where the compiler can fold them."""

_CONSTANTS = {"stablehlo.constant", "torch.vtensor.literal", "arith.constant"}


class WeightLifter:
    """Lifts the constants of modules in one MLIR context; equal ones get one name.

    Args:
        known: arrays that the constants may be, by the user's names for them.
        taken: names that other parameters have.
    """

    def __init__(self, known: Mapping[str, np.ndarray], taken: Iterator[str] | set[str]) -> None:
        self.values: dict[str, np.ndarray] = {}
        self._names: dict[Any, str] = {}
        self._known = dict(known)
        self._taken = set(taken)

    def lift(self, module: Any) -> dict[str, tuple[str, ...]]:
        """Give functions the weights in them as further arguments, at the end.

        Returns:
            The names of the new arguments of each public function, by the function's name.
        """
        functions = _functions(module)
        weights: dict[str, dict[Any, list[Any]]] = {}
        calls: dict[str, list[Any]] = {}
        untouchable: set[str] = set()
        for name, function in functions.items():
            weights[name], calls[name] = {}, []
            for operation in _operations(function):
                callee = _callee(operation)
                if callee is not None:
                    calls[name].append(operation)
                else:
                    untouchable |= _symbols_in(operation) & set(functions)
                attribute = _large_constant(operation)
                if attribute is not None:
                    weights[name].setdefault(attribute, []).append(operation)
        for name in _with_callees(untouchable, calls):
            weights[name], calls[name] = {}, []
        needed = _needed(weights, calls)
        for attribute in [a for name in functions for a in needed[name]]:
            self._give_name(attribute)
        for name, function in functions.items():
            self._rewrite(function, list(needed[name]), weights[name])
        for name in functions:
            for call in calls[name]:
                _hand_down(call, functions[name], needed[name], needed.get(_callee(call) or "", {}))
        return {
            name: tuple(self._names[attribute] for attribute in needed[name])
            for name, function in functions.items()
            if _is_public(function)
        }

    def _give_name(self, attribute: Any) -> None:
        if attribute in self._names:
            return
        value = _array(attribute)
        name = next((n for n, v in self._known.items() if _same(v, value)), None)
        if name is None or name in self._taken:
            number = 0
            while f"w{number}" in self._taken:
                number += 1
            name = f"w{number}"
        self._taken.add(name)
        self._names[attribute] = name
        self.values[name] = value

    def _rewrite(self, function: Any, needed: list[Any], own: Mapping[Any, list[Any]]) -> None:
        from iree.compiler import ir

        if not needed:
            return
        block = function.regions[0].blocks[0]
        for attribute in needed:
            operations = own.get(attribute, [])
            kind = operations[0].results[0].type if operations else attribute.type
            argument = block.add_argument(kind, function.location)
            for operation in operations:
                operation.results[0].replace_all_uses_with(argument)
                operation.erase()
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        inputs = [argument.type for argument in block.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(inputs, kind.results)
        )
        if "arg_attrs" in function.attributes:
            given = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
            empty = [ir.DictAttr.get({})] * (len(inputs) - len(given))
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([*given, *empty])


def _functions(module: Any) -> dict[str, Any]:
    from iree.compiler import ir

    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func" and list(op.operation.regions[0].blocks)
    }


def _operations(function: Any) -> Iterator[Any]:
    for region in function.regions:
        for block in region.blocks:
            for child in list(block.operations):
                yield child.operation
                yield from _operations(child.operation)


def _is_public(function: Any) -> bool:
    from iree.compiler import ir

    attributes = function.attributes
    return "sym_visibility" not in attributes or (
        bool(ir.StringAttr(attributes["sym_visibility"]).value == "public")
    )


def _callee(operation: Any) -> str | None:
    from iree.compiler import ir

    if operation.name != "func.call":
        return None
    callee: str = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
    return callee


def _symbols_in(operation: Any) -> set[str]:
    """Functions that an operation names other than by calling them; their shape must stay."""
    from iree.compiler import ir

    found: set[str] = set()
    for name in operation.attributes:
        attribute = _attribute(operation, name)
        items = list(attribute) if isinstance(attribute, ir.ArrayAttr) else [attribute]
        for item in items:
            if isinstance(item, ir.FlatSymbolRefAttr):
                found.add(ir.FlatSymbolRefAttr(item).value)
    return found


def _attribute(operation: Any, name: str) -> Any | None:
    """An attribute; None for elements that the bindings have no class for, which are complex."""
    try:
        return operation.attributes[name]
    except TypeError:
        return None


def _large_constant(operation: Any) -> Any | None:
    from iree.compiler import ir

    if operation.name not in _CONSTANTS:
        return None
    attribute = _attribute(operation, "value")
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    dense = ir.DenseElementsAttr(attribute)
    if dense.is_splat or not any(True for _ in operation.results[0].uses):
        return None
    try:
        dtype = DType.from_mlir(str(ir.ShapedType(dense.type).element_type))
    except InputError:
        return None
    count = 1
    for size in ir.ShapedType(dense.type).shape:
        count *= size
    return dense if count * dtype.numpy.itemsize >= SMALLEST else None


def _array(attribute: Any) -> np.ndarray:
    from iree.compiler import ir

    shaped = ir.ShapedType(attribute.type)
    dtype = DType.from_mlir(str(shaped.element_type))
    if dtype is DType.BF16:
        # No Python buffer has these elements; the printed form is their bytes in hex.
        digits = str(attribute).split('"', 2)[1].removeprefix("0x")
        return np.frombuffer(bytes.fromhex(digits), dtype.numpy).reshape(shaped.shape)
    return np.array(attribute).reshape(shaped.shape).astype(dtype.numpy, copy=False)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
    )


def _with_callees(names: set[str], calls: Mapping[str, list[Any]]) -> set[str]:
    """The functions and all that they call: without an argument, nothing can be handed down."""
    found, waiting = set(names), list(names)
    while waiting:
        for call in calls.get(waiting.pop(), []):
            callee = _callee(call)
            if callee is not None and callee not in found:
                found.add(callee)
                waiting.append(callee)
    return found


def _needed(
    weights: Mapping[str, Mapping[Any, list[Any]]],
    calls: Mapping[str, list[Any]],
) -> dict[str, dict[Any, None]]:
    """What each function uses itself or hands down, in a fixed order."""
    needed = {name: dict.fromkeys(own) for name, own in weights.items()}
    grown = True
    while grown:
        grown = False
        for name, made in calls.items():
            for call in made:
                for attribute in needed.get(_callee(call) or "", {}):
                    if attribute not in needed[name]:
                        needed[name][attribute] = None
                        grown = True
    return needed


def _hand_down(call: Any, caller: Any, has: Mapping[Any, None], wants: Mapping[Any, None]) -> None:
    from iree.compiler import ir

    if not wants:
        return
    arguments = caller.regions[0].blocks[0].arguments
    first = len(arguments) - len(has)
    place = {attribute: arguments[first + index] for index, attribute in enumerate(has)}
    with ir.InsertionPoint(call), call.location:
        new = ir.Operation.create(
            "func.call",
            results=[result.type for result in call.results],
            operands=[*call.operands, *(place[attribute] for attribute in wants)],
            attributes={name: call.attributes[name] for name in call.attributes},
        )
    for old, value in zip(list(call.results), list(new.results), strict=True):
        old.replace_all_uses_with(value)
    call.erase()
