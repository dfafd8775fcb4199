"""A half compiled program to the same with taps: what each dispatch writes is one more output.

The compiler stops when it has decided what is computed together (dispatches), so the taps change
neither that nor a kernel of edgec's own. What follows is the usual way, so that any runtime runs
the module. What the taps are stands in the module beside its signatures.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import CompileError, EdgecError
from edgec.runtime.files import write_atomically
from edgec.runtime.module import SIGNATURE_ATTRIBUTE
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.carrying import Carried, carry_out
from edgec.toolchain.taps import TAPS_ATTRIBUTE, Tap, Taps

__all__ = ["AFTER_DISPATCHES", "BEFORE_DISPATCHES", "tap"]

BEFORE_DISPATCHES = ("--compile-to=dispatch-creation", "--emit-mlir-bytecode")
"""Flags that end a compile where dispatches are formed and not yet taken out of their functions."""

AFTER_DISPATCHES = ("--compile-from=dispatch-creation",)
"""Flags that go on from there."""

_DISPATCHES = ("flow.dispatch", "flow.dispatch.workgroups", "flow.dispatch.region")


def tap(source: Path, output: Path, *, loops: bool = True) -> int:
    """Write the program with taps; how many there are.

    Args:
        source: the half compiled program.
        output: where the one with taps goes.
        loops: whether what is inside of loops and branches is carried out of them.

    Raises:
        FileError: a file cannot be read or written.
        CompileError: no function of the program says what its outputs are.
    """
    from iree.compiler import ir

    from edgec.toolchain.folded import parse

    module = parse(source)
    count = 0
    with module.context, ir.Location.name("edgec.taps"):
        for top in module.body.operations:
            if top.operation.name in ("util.func", "func.func"):
                count += _tap_function(top.operation, loops)
        if not count:
            raise CompileError(
                "the half compiled program has no dispatch to tap",
                hint="it computes nothing on the device; `edgec verify` without --layers does",
            )
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return count


def _tap_function(function: Any, loops: bool) -> int:
    """Give a function an output for each of its taps; how many. Only what users call has any."""
    from iree.compiler import ir

    attributes = function.attributes
    if "iree.reflection" not in attributes:
        return 0
    said = {each.name: each.attr for each in ir.DictAttr(attributes["iree.reflection"])}
    if SIGNATURE_ATTRIBUTE not in said:
        return 0
    signature = Signature.from_json(json.loads(ir.StringAttr(said[SIGNATURE_ATTRIBUTE]).value))
    block = function.regions[0].blocks[0]
    (*body, end) = (op.operation for op in block.operations)
    found = _Found(block)
    for op in body:
        carried = carry_out(op, _wanted) if loops else None
        if carried is None:
            found.look(op)
        else:
            found.look_inside(carried)
    specs: list[TensorSpec] = []
    exported: list[Any] = []
    with ir.InsertionPoint(end):
        for number, value in enumerate(found.values):
            spec = _spec(f"tap{number}", value)
            if isinstance(spec, str):
                found.refuse(number, spec)
                continue
            found.give(number, len(signature.outputs) + len(specs))
            specs.append(spec)
            exported.append(_exported(value, spec.name))
        own = list(end.operands)
        ir.Operation.create(end.name, operands=[*own, *exported])
        end.erase()
    taps = Taps(
        taps=tuple(found.taps),
        outputs=tuple(found.sources(value)[0] for value in own[: len(signature.outputs)]),
        nested=found.nested,
    )
    more = Signature.flat(signature.name, signature.inputs, [*signature.outputs, *specs])
    said[SIGNATURE_ATTRIBUTE] = ir.StringAttr.get(json.dumps(more.to_json()))
    said[TAPS_ATTRIBUTE] = ir.StringAttr.get(json.dumps(taps.to_json()))
    attributes["iree.reflection"] = ir.DictAttr.get(said)
    _set_type(function, [value.type for value in (*own, *exported)])
    return len(found.taps)


def _set_type(function: Any, results: Sequence[Any]) -> None:
    from iree.compiler import ir

    old = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    new = ir.FunctionType.get(old.inputs, list(results))
    function.attributes["function_type"] = ir.TypeAttr.get(new)
    for name, filler in (("res_attrs", ir.DictAttr.get({})), ("tied_operands", None)):
        if name in function.attributes:
            each = filler or ir.IntegerAttr.get(ir.IndexType.get(), -1)
            known = list(ir.ArrayAttr(function.attributes[name]))
            known += [each] * (len(results) - len(known))
            function.attributes[name] = ir.ArrayAttr.get(known)


def _exported(value: Any, name: str) -> Any:
    """A tensor as what a function gives its caller."""
    from iree.compiler import ir

    return ir.Operation.create(
        "hal.tensor.export",
        results=[ir.Type.parse("!hal.buffer_view")],
        operands=[value],
        attributes={
            "source_encoding": ir.TypeAttr.get(value.type),
            "name": ir.StringAttr.get(name),
        },
    ).result


def _wanted(op: Any) -> list[Any]:
    """What can be carried out of a loop of what a dispatch writes."""
    if op.name not in _DISPATCHES:
        return []
    return [v for v in op.results if _is_number(v) and not isinstance(_spec("", v), str)]


def _is_number(value: Any) -> bool:
    from iree.compiler import ir

    if not isinstance(value.type, ir.RankedTensorType):
        return False
    element = ir.RankedTensorType(value.type).element_type
    return isinstance(element, ir.IntegerType | ir.FloatType)


def _spec(name: str, value: Any) -> TensorSpec | str:
    """What a tap gives, or why it cannot be an output."""
    from iree.compiler import ir

    if not isinstance(value.type, ir.RankedTensorType):
        return "no tensor"
    kind = ir.RankedTensorType(value.type)
    if not kind.has_static_shape:
        return "sizes that are known only when it is called"
    if kind.encoding is not None:
        return "laid out as the compiler's own kernels want it"
    try:
        return TensorSpec(
            name=name, shape=tuple(kind.shape), dtype=DType.from_mlir(str(kind.element_type))
        )
    except EdgecError:
        return f"elements of {kind.element_type}"


class _Found:
    """The dispatches of a block, and where their values come from."""

    def __init__(self, block: Any) -> None:
        self.taps: list[Tap] = []
        self.values: list[Any] = []
        self.nested = 0
        self._sources: dict[Any, tuple[tuple[int, ...], tuple[int, ...]]] = {
            argument: ((), (index,)) for index, argument in enumerate(block.arguments)
        }

    def look(self, op: Any) -> None:
        """Take in the next operation of the block."""
        from edgec.toolchain.ir.functions import inside

        within = list(inside(op))
        if op.name not in _DISPATCHES:
            taps, given = self._read(op, within)
            self.nested += _dispatches(op)
            for value in op.results:
                self._sources[value] = (taps, given)
            return
        self._note(op, within, {value: value for value in op.results}, None)

    def look_inside(self, carried: Carried) -> None:
        """Take in a loop or branch that was made anew."""
        from edgec.toolchain.ir.functions import inside

        for argument, start in carried.arguments:
            self._sources[argument] = self.sources(start)
        loop, out = len(self.taps), dict(carried.values)
        seen = dict.fromkeys(value.owner.operation for value in out)
        for op in seen:
            self._note(op, list(inside(op)), out, loop)
        self.nested += _dispatches(carried.operation) - len(seen)
        taps, given = self._read(carried.operation, list(inside(carried.operation)))
        taps = tuple(dict.fromkeys((*taps, *range(loop, len(self.taps)))))
        for value in carried.operation.results:
            self._sources[value] = (taps, given)

    def _note(
        self, op: Any, within: Sequence[Any], out: Mapping[Any, Any], loop: int | None
    ) -> None:
        """A dispatch, and where each of its values comes out."""
        from edgec.toolchain.ir.numbering import numbers_at
        from edgec.toolchain.ir.places import source_line

        taps, given = self._read(op, within)
        covers = sorted({n for each in (op, *within) for n in numbers_at(each.location)})
        for place, value in enumerate(op.results):
            made = _makes(op, within, place)
            if value not in out:
                continue
            self._sources[value] = ((len(self.taps),), ())
            self.values.append(out[value])
            self.taps.append(
                Tap(
                    kernel=_kernel(op),
                    numbers=_numbers(made) or numbers_at(op.location),
                    covers=tuple(covers),
                    line=source_line(op) or "",
                    output=None,
                    why="",
                    reads=taps,
                    given=given,
                    loop=loop,
                )
            )

    def _read(self, op: Any, within: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The taps and arguments that an operation reads, also from inside of its regions."""
        taps: dict[int, None] = {}
        given: dict[int, None] = {}
        for value in (*op.operands, *(v for each in within for v in each.operands)):
            ours, theirs = self._sources.get(value, ((), ()))
            taps |= dict.fromkeys(ours)
            given |= dict.fromkeys(theirs)
        return tuple(taps), tuple(given)

    def sources(self, value: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The taps and the arguments that a value comes from."""
        return self._sources.get(value, ((), ()))

    def refuse(self, number: int, why: str) -> None:
        """A tap cannot be an output."""
        self.taps[number] = replace(self.taps[number], why=why)

    def give(self, number: int, output: int) -> None:
        """A tap is an output."""
        self.taps[number] = replace(self.taps[number], output=output)


def _dispatches(op: Any) -> int:
    """How many dispatches are inside of an operation, not counting those inside of others."""
    from edgec.toolchain.ir.functions import inside

    return sum(each.name in _DISPATCHES for each in inside(op))


def _kernel(op: Any) -> str:
    """The name of a kernel of edgec's own; empty where the compiler makes it."""
    if op.name != "flow.dispatch":
        return ""
    return str(op.attributes["entry_points"]).rpartition("@")[2].rstrip("]")


def _makes(op: Any, within: Sequence[Any], place: int) -> Any | None:
    """The operation in a dispatch that makes one of its results; None where it has no region."""
    from iree.compiler import ir

    if op.name == "flow.dispatch.region":
        value = next(each for each in within if each.name == "flow.return").operands[place]
        return None if isinstance(value.owner, ir.Block) else value.owner.operation
    stores = [each for each in within if each.name.endswith("dispatch.tensor.store")]
    if op.name != "flow.dispatch.workgroups" or not stores:
        return None
    targets = sorted({ir.BlockArgument(each.operands[1]).arg_number for each in stores})
    if len(targets) != len(op.results):
        return None
    for each in stores:
        value = each.operands[0]
        if ir.BlockArgument(each.operands[1]).arg_number == targets[place]:
            return None if isinstance(value.owner, ir.Block) else value.owner.operation
    return None


def _numbers(op: Any | None) -> tuple[int, ...]:
    """The numbers of an operation, or of the nearest before it that has any."""
    from iree.compiler import ir

    from edgec.toolchain.ir.numbering import numbers_at

    waiting = [] if op is None else [op]
    while waiting:
        each = waiting.pop(0)
        found = numbers_at(each.location)
        if found:
            return found
        waiting += [v.owner.operation for v in each.operands if not isinstance(v.owner, ir.Block)]
    return ()
