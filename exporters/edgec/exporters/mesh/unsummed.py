"""Arrays that devices hold before they are summed (`unreduced`), as Shardy's last passes take them.

A device's part of such an array has the shape of one that is the same everywhere, and what JAX lets
be done with it (sums, products with what is whole, turning) is done by each device alone. So the
notes are taken out, and what is left to do is at the operations that give such an array first:

- one that sums along an axis that is cut is followed by a sum over the devices, which is taken out;
- any other gives the same on every device, of which all but the first get zeros;
- what was cut is put in its place in zeros.

On jaxlib's bindings; in the child (`shardy`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from edgec.exporters.mesh.notes import change_shardings
from edgec.exporters.mesh.whole import sharding_of
from edgec.toolchain.ir.functions import inside

__all__ = ["forget_unsummed", "mark_sums", "rename_marks", "take_out_sums", "write_out"]

_MARK = "edgec.unsummed"
"""Of an operation that gives such an array first: the axes along which it is not summed."""
_FIRST = "edgec.first_only"
"""A custom call: the operand on the first device along some axes, zeros on the others."""
_OWN = "edgec.own_part"
"""A custom call: the operand, which is cut, in its place in zeros."""
_TO_UNSUMMED = ("sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced")
_CARRYING = frozenset(
    ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation", "sdy.reshard")
)
"""What gives on what its regions, or its operand, have."""


def forget_unsummed(functions: Iterable[Any]) -> None:
    """Take the notes out, and mark the operations that give such an array first, in place."""
    for function in functions:
        for operation in list(inside(function)):
            if operation.name in _TO_UNSUMMED:
                _mark_conversion(operation)
            elif operation.name not in _CARRYING:
                _mark_source(operation)
    for function in functions:
        change_shardings(function, _summed)


def rename_marks(functions: Iterable[Any], names: Mapping[str, Sequence[str]]) -> None:
    """Let marks name the parts of each axis of the mesh in its place."""
    for function in functions:
        for operation in inside(function):
            if _MARK in operation.attributes:
                operation.attributes[_MARK] = _renamed(operation.attributes[_MARK], names)


def _renamed(marks: Any, names: Mapping[str, Sequence[str]]) -> Any:
    from jaxlib.mlir import ir

    found: list[Any] = []
    for each in ir.ArrayAttr(marks):
        if isinstance(each, ir.ArrayAttr):
            found.append(_renamed(each, names))
        else:
            found += map(ir.StringAttr.get, names[ir.StringAttr(each).value])
    return ir.ArrayAttr.get(found)


def _summed(sharding: Any) -> Any:
    from jaxlib.mlir.dialects import sdy

    if not len(list(sharding.unreduced_axes)):
        return sharding
    return sdy.TensorShardingAttr.get(
        sharding.mesh_or_ref, sharding.dimension_shardings, sharding.replicated_axes
    )


def _names(sharding: Any | None) -> list[str]:
    from jaxlib.mlir.dialects import sdy

    axes = [] if sharding is None else sharding.unreduced_axes
    return [sdy.AxisRefAttr(axis).name for axis in axes]


def _mark_source(operation: Any) -> None:
    """Mark an operation whose result is not summed along axes along which its operands are."""
    is_plain = operation.name.startswith("stablehlo.") or operation.name == "sdy.constant"
    if not is_plain or not len(operation.results):
        return
    own = _names(sharding_of(operation.results[0]))
    if not own:
        return
    before = {name for operand in operation.operands for name in _names(sharding_of(operand))}
    new = [name for name in own if name not in before]
    if new:
        operation.attributes[_MARK] = _texts(new)


def _mark_conversion(operation: Any) -> None:
    """An array that is whole, which the first device has, or cut, of which each has its part."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    out = sdy.TensorShardingAttr(operation.attributes["out_sharding"])
    value = operation.operands[0]
    with ir.InsertionPoint(operation), operation.location:
        if operation.name == "sdy.sharded_to_unreduced":
            lists = _lists(str(operation.attributes["axes"]))
            made = _custom_call(_OWN, value, ir.ArrayAttr.get(list(map(_texts, lists))), out)
        else:
            before = _names(sharding_of(value))
            new = [name for name in _names(out) if name not in before]
            made = _custom_call(_FIRST, value, _texts(new), out)
    operation.results[0].replace_all_uses_with(made)
    operation.erase()


def _lists(written: str) -> list[list[str]]:
    """The axes of the mesh for each axis of an array, as the dialect writes them."""
    every = re.findall(r"\{([^}]*)\}", written)
    return [re.findall(r'"([^"]+)"', each) for each in every]


def _texts(names: Sequence[str]) -> Any:
    from jaxlib.mlir import ir

    return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])


def _custom_call(target: str, value: Any, axes: Any, sharding: Any) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    made = ir.Operation.create(
        "stablehlo.custom_call",
        results=[value.type],
        operands=[value],
        attributes={
            "call_target_name": ir.StringAttr.get(target),
            _MARK: axes,
            "sdy.sharding": sdy.TensorShardingPerValueAttr.get([_summed(sharding)]),
        },
    )
    return made.results[0]


def _marked(operation: Any) -> list[str]:
    from jaxlib.mlir import ir

    return [ir.StringAttr(each).value for each in ir.ArrayAttr(operation.attributes[_MARK])]


def _calls(operation: Any) -> str:
    """The target of a custom call; nothing for another operation."""
    from jaxlib.mlir import ir

    if operation.name != "stablehlo.custom_call":
        return ""
    return str(ir.StringAttr(operation.attributes["call_target_name"]).value)


def mark_sums(functions: Iterable[Any]) -> None:
    """Name the sums over devices that are to be taken out, once they are there, in place."""
    from jaxlib.mlir import ir

    for function in functions:
        for operation in list(inside(function)):
            if _MARK not in operation.attributes or _calls(operation) in (_FIRST, _OWN):
                continue
            axes = _marked(operation)
            del operation.attributes[_MARK]
            for result in operation.results:
                users = [use.owner for use in result.uses]
                summed = [each for each in users if each.operation.name == "sdy.all_reduce"]
                if len(users) == 1 and len(summed) == 1:
                    _split_sum(summed[0].operation, axes)
                    continue
                sharding = sharding_of(result)
                with ir.InsertionPoint.after(operation), operation.location:
                    made = _custom_call(_FIRST, result, _texts(axes), sharding)
                result.replace_all_uses_except(made, made.owner.operation)


def _split_sum(operation: Any, axes: Sequence[str]) -> None:
    """A sum over devices as one that is to be taken out, and one along the other axes."""
    from jaxlib.mlir import ir

    written = str(operation.attributes["reduction_axes"])
    every = [part.strip('"') for part in written[written.index("{") + 1 : -2].split(", ")]
    lacking = [axis for axis in axes if axis not in every]
    gone = [axis for axis in every if axis in axes]
    left = [axis for axis in every if axis not in axes]
    value = operation.operands[0]
    with ir.InsertionPoint(operation):
        if gone:
            with ir.Location.name(_MARK, operation.location):
                value = _sum(operation, value, gone)
        if lacking:
            sharding = sharding_of(operation.operands[0])
            with operation.location:
                value = _custom_call(_FIRST, value, _texts(lacking), sharding)
        if left:
            with operation.location:
                value = _sum(operation, value, left)
    operation.results[0].replace_all_uses_with(value)
    operation.erase()


def _sum(like: Any, value: Any, axes: Sequence[str]) -> Any:
    from jaxlib.mlir import ir

    text = ", ".join(f'"{axis}"' for axis in axes)
    made = ir.Operation.create(
        like.name,
        results=[like.results[0].type],
        operands=[value],
        attributes={
            "reduction_axes": ir.Attribute.parse(f"#sdy<axis_ref_list{{{text}}}>"),
            "out_sharding": like.attributes["out_sharding"],
        },
    )
    return made.results[0]


def take_out_sums(functions: Iterable[Any]) -> None:
    """Take out the sums that were named, of a program of one device, in place."""
    for function in functions:
        for operation in list(inside(function)):
            if operation.name == "stablehlo.all_reduce" and _MARK in str(operation.location):
                operation.results[0].replace_all_uses_with(operation.operands[0])
                operation.erase()


def write_out(functions: Iterable[Any], axes: Mapping[str, int]) -> None:
    """Write out what only some devices have, of a program of one device, in place."""
    for function in functions:
        for operation in list(inside(function)):
            target = _calls(operation)
            if target not in (_FIRST, _OWN):
                continue
            with _before(operation):
                made = (_of_first if target == _FIRST else _of_own)(operation, _Places(axes))
            operation.results[0].replace_all_uses_with(made)
            operation.erase()


@contextmanager
def _before(operation: Any) -> Iterator[None]:
    from jaxlib.mlir import ir

    with ir.InsertionPoint(operation), operation.location:
        yield


class _Places:
    """Where a device stands along the axes of the mesh, worked out in the program."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        from jaxlib.mlir.dialects import stablehlo

        self._axes = axes
        self._own: dict[str, Any] = {}
        rest = stablehlo.partition_id()
        for name, size in reversed(list(axes.items())):
            self._own[name] = stablehlo.remainder(rest, self.known(size))
            rest = stablehlo.divide(rest, self.known(size))

    def known(self, value: int) -> Any:
        """A number that is the same everywhere."""
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        kind = ir.IntegerType.get_unsigned(32)
        scalar = ir.RankedTensorType.get([], kind)
        attribute = ir.DenseElementsAttr.get_splat(scalar, ir.IntegerAttr.get(kind, value))
        return stablehlo.constant(attribute)

    def along(self, names: Sequence[str]) -> Any:
        """Which of the devices along these axes together, the first of them outermost."""
        from jaxlib.mlir.dialects import stablehlo

        found = self.known(0)
        for name in names:
            found = stablehlo.multiply(found, self.known(self._axes[name]))
            found = stablehlo.add(found, self._own[name])
        return found


def _of_first(operation: Any, places: _Places) -> Any:
    from jaxlib.mlir.dialects import stablehlo

    direction = stablehlo.ComparisonDirectionAttr.get("EQ")
    is_first = stablehlo.compare(places.along(_marked(operation)), places.known(0), direction)
    return stablehlo.select(is_first, operation.operands[0], _zeros(operation.results[0].type))


def _of_own(operation: Any, places: _Places) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    part = operation.operands[0]
    starts = [
        stablehlo.multiply(
            places.along([ir.StringAttr(name).value for name in ir.ArrayAttr(names)]),
            places.known(size),
        )
        for names, size in zip(
            ir.ArrayAttr(operation.attributes[_MARK]),
            ir.RankedTensorType(part.type).shape,
            strict=True,
        )
    ]
    zeros = _zeros(operation.results[0].type)
    return stablehlo.dynamic_update_slice(zeros, part, starts)


def _zeros(kind: Any) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    element = ir.RankedTensorType(kind).element_type
    text = "0.0" if isinstance(element, ir.FloatType) else "0"
    if isinstance(element, ir.ComplexType):
        text = "(0.0, 0.0)"
    if str(element) == "i1":
        text = "false"
    attribute = ir.Attribute.parse(f"dense<{text}> : {kind}")
    return stablehlo.constant(ir.DenseElementsAttr(attribute))
