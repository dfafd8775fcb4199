"""A half compiled program to one that writes results where arguments lie that are given away.

The compiler writes into an argument only what it updates there, and only if it is told that the
argument is the call's alone; what is computed lies in memory of its own. (By its own attribute for
that, `iree.abi.output`, any kernel writes there, one that reads the argument elsewhere, too, and
two results that change places become one.) So it stops when it has decided what is computed
together. A dispatch whose result may lie in an argument gets that argument to read and write, if it
needs what all others that read the argument make. If it reads the argument, too, then each element
only where it writes that element of the result.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.runtime.files import write_atomically
from edgec.runtime.module import OVERWRITTEN_ATTRIBUTE
from edgec.toolchain.folded import parse
from edgec.toolchain.ir.functions import entry_block, inside

__all__ = ["write_in_place"]

_SEGMENTS = "operandSegmentSizes"
_DISPATCH, _UPDATE = "flow.dispatch.workgroups", "flow.tensor.update"
_RESHAPE = "flow.tensor.reshape"
_SAME = (_RESHAPE,)
"""Operations that give their operand's memory another shape."""
_KERNEL = "flow.dispatch"
_READS = (
    *(_DISPATCH, _KERNEL, _UPDATE),
    *("flow.tensor.slice", "flow.tensor.clone", "flow.tensor.encode"),
)
"""Operations that read memory, and when they have been made not any more."""
_IMPORT, _EXPORT = "hal.tensor.import", "hal.tensor.export"
_LOAD, _STORE = "iree_tensor_ext.dispatch.tensor.load", "iree_tensor_ext.dispatch.tensor.store"
_NUMBER = "edgec.number"
_GENERIC, _PARALLEL = "linalg.generic", "#linalg.iterator_type<parallel>"


def write_in_place(source: Path, output: Path, donated: Mapping[int, int]) -> list[int]:
    """Have results lie in arguments that the caller gives away.

    Args:
        source: the program as the compiler has cut it into dispatches.
        output: the same for what the compiler does next.
        donated: arguments, each with the result that may lie in its memory.

    Returns:
        The arguments that are written into; the module says so, too.

    Raises:
        FileError: a file cannot be read or written.
    """
    from iree.compiler import ir

    module = parse(source)
    written: list[int] = []
    with module.context, ir.Location.name("edgec.in_place"):
        for top in module.body.operations:
            if top.operation.name == "util.func" and "iree.reflection" in top.operation.attributes:
                written += _Function(top.operation).write(donated)
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return written


class _Function:
    """A function that is called from outside."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._block = entry_block(function)
        self._needs: list[set[int]] = []

    def write(self, donated: Mapping[int, int]) -> list[int]:
        """Write into arguments what can be; which these are."""
        from iree.compiler import ir

        written = []
        for argument, result in sorted(donated.items()):
            taken, given = self._taken(argument), self._given(result)
            if taken is not None and given is not None and self._lies(taken, given):
                taken.owner.attributes["consume"] = ir.UnitAttr.get()
                written.append(argument)
        for each in self._block.operations:
            if _NUMBER in each.operation.attributes:
                del each.operation.attributes[_NUMBER]
        if written:
            attributes = self._function.attributes
            said = {each.name: each.attr for each in ir.DictAttr(attributes["iree.reflection"])}
            marks = ["0"] * len(self._block.arguments)
            for argument in written:
                marks[argument] = "1"
            said[OVERWRITTEN_ATTRIBUTE] = ir.StringAttr.get("".join(marks))
            attributes["iree.reflection"] = ir.DictAttr.get(said)
        return written

    def _taken(self, argument: int) -> Any:
        """An argument as a tensor; None where the function makes something else of it."""
        uses = [use.owner.operation for use in self._block.arguments[argument].uses]
        return uses[0].results[0] if [op.name for op in uses] == [_IMPORT] else None

    def _given(self, result: int) -> Any:
        """A result as a tensor; None where it is none."""
        (*_, end) = self._block.operations
        export = _maker(end.operation.operands[result])
        return export.operands[0] if export is not None and export.name == _EXPORT else None

    def _lies(self, taken: Any, given: Any) -> bool:
        """Whether a result is written into an argument's memory, as it is or from now on."""
        places = _places(taken)
        users = [user for place in places for user in _users(place)]
        readers = [user for user in dict.fromkeys(users) if user.name not in _SAME]
        if any(user.name not in _READS for user in readers):
            return False
        writer = None
        while (op := _maker(given)) is not None and given not in places:
            source = _source(op, given)
            if source is None:
                break
            writer = op if op.name not in _SAME else writer
            given = source
        if given in places:
            return writer is not None and self._comes_last(writer, readers, places) is not None
        if op is None or op.name != _DISPATCH or any(_ties(user, places) for user in readers):
            return False
        site = _Site(op, given, places)
        if not site.can_write(taken):
            return False
        last = self._comes_last(op, readers, places)
        if last is not None:
            site.write(last)
        return last is not None

    def _comes_last(self, op: Any, readers: Sequence[Any], places: Sequence[Any]) -> Any:
        """The argument for an operation to overwrite when all others have read it; None: never.

        The order in the program is not enough for that: what needs nothing of each other the
        compiler makes in any order, and at the same time. So whoever reads the argument, and makes
        nothing that the operation needs, gives it on as if it were written there, too.
        """
        body = [self._number(each.operation) for each in self._block.operations]
        order = {number: place for place, number in enumerate(body)}
        others = [reader for reader in readers if reader != op]
        others.sort(key=lambda reader: order[self._number(self._top(reader))])
        needed = self._needed(op)
        loose = [each for each in others if self._number(self._top(each)) not in needed]
        if not all(self._top(reader) == reader and _gives_on(reader, places) for reader in loose):
            return None
        if loose and not self._moved_behind(op, loose[-1]):
            return None
        last = places[0]
        giver: int | None = None
        for reader, is_loose in [*((reader, reader in loose) for reader in others), (op, False)]:
            number = self._number(self._top(reader))
            at = _read_from(reader, places, last)
            if giver is not None:
                self._needs[number].add(giver)
            if is_loose:
                last, giver = _given_on(reader, at), number
        return last

    def _number(self, op: Any) -> int:
        """The number of an operation of the function's own block; it stays if that is remade."""
        from iree.compiler import ir

        if _NUMBER in op.attributes:
            return int(ir.IntegerAttr(op.attributes[_NUMBER]).value)
        number = len(self._needs)
        op.attributes[_NUMBER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
        self._needs.append(set())
        within = () if op.name in (_DISPATCH, _KERNEL) else inside(op)  # these see nothing else
        makers = [m for each in (op, *within) for v in each.operands if (m := _maker(v))]
        needed = {self._number(self._top(maker)) for maker in makers} - {number}
        self._needs[number] |= needed
        return number

    def _needed(self, op: Any) -> set[int]:
        """The numbers of the operations that one cannot be made without, and its own."""
        found = {self._number(op)}
        waiting = list(found)
        while waiting:
            new = self._needs[waiting.pop()] - found
            found |= new
            waiting.extend(new)
        return found

    def _moved_behind(self, op: Any, reader: Any) -> bool:
        """Whether an operation is behind another, or can be put there with all that needs it."""
        body = [each.operation for each in self._block.operations]
        between = body[body.index(op) + 1 : body.index(reader) + 1]
        late, numbers = [op], {self._number(op)}
        for each in between:
            if self._needs[self._number(each)] & numbers:
                late.append(each)
                numbers.add(self._number(each))
        if reader in late or any(each.name not in (*_READS, *_SAME, _EXPORT) for each in late):
            return False
        for each in reversed(late if between else []):
            each.move_after(reader)
        return True

    def _top(self, op: Any) -> Any:
        """The operation of the function's own block that holds one."""
        while op.parent.operation != self._function:
            op = op.parent.operation
        return op


class _Site:
    """A dispatch, one of its results, and where an argument that it may be written to is read."""

    def __init__(self, op: Any, made: Any, places: Sequence[Any]) -> None:
        self._op = op
        self._made = made
        self._result = list(op.results).index(made)
        counts = list(op.attributes[_SEGMENTS])
        self._workload, self._count = counts[0], counts[1]
        self._is_static = not self._workload and not any(counts[2:])
        operands = list(op.operands)[self._workload : self._workload + self._count]
        self._reads = [index for index, each in enumerate(operands) if each in places]

    def can_write(self, taken: Any) -> bool:
        """Whether nothing is lost if the result is written to the argument's memory."""
        from iree.compiler import ir

        kinds = [ir.RankedTensorType(value.type) for value in (taken, self._made)]
        if not self._is_static or not all(kind.has_static_shape for kind in kinds):
            return False
        if kinds[0].element_type != kinds[1].element_type or _size(kinds[0]) != _size(kinds[1]):
            return False
        block = entry_block(self._op)
        target = self._target(block)
        if target is None or not _is_written_whole(target):
            return False
        if not self._reads:
            return True
        if len(self._reads) > 1:
            return False
        read = block.arguments[self._reads[0]]
        operand = self._op.operands[self._workload + self._reads[0]]
        return operand.type == self._made.type and _is_read_where_written(read, target)

    def _target(self, block: Any) -> Any:
        """What stands for the result in the kernel; None where it is written to something else."""
        tied = _tied(self._op)
        if tied[self._result] >= 0:
            return None
        free = sum(1 for each in tied[: self._result] if each < 0)
        return block.arguments[self._count + free]

    def write(self, taken: Any) -> None:
        """Dispatch it with the argument to read and write in its place."""
        op, block = self._op, entry_block(self._op)
        operands, tied = list(op.operands), _tied(op)
        target = self._target(block)
        arguments = list(block.arguments)
        arguments.remove(target)
        if self._reads:
            at = self._reads[0]
            block.arguments[at].set_type(_both(target.type))
            target.replace_all_uses_with(block.arguments[at])
        else:
            at = self._count
            operands.append(_shaped(taken, self._made.type, op))
            target.set_type(_both(target.type))
            arguments.insert(at, target)
        for old in arguments:
            old.replace_all_uses_with(block.add_argument(old.type, old.location))
        while len(block.arguments) > len(arguments):
            block.erase_argument(0)
        tied[self._result] = at
        _remade(op, operands, tied, [result.type for result in op.results])


def _gives_on(op: Any, places: Sequence[Any]) -> bool:
    """Whether an operation can give on an argument that it reads."""
    if op.name not in (_DISPATCH, _KERNEL) or any(list(op.attributes[_SEGMENTS])[2:]):
        return False
    return sum(operand in places for operand in op.operands) == 1 and not _ties(op, places)


def _read_from(op: Any, places: Sequence[Any], last: Any) -> int:
    """Have an operation read an argument as it was given on last; the operand that it is."""
    at = -1
    for index, operand in enumerate(op.operands):
        if operand in places:
            at = index
            op.operands[at] = operand if last == places[0] else _shaped(last, operand.type, op)
    return at


def _given_on(op: Any, operand: int) -> Any:
    """An argument as an operation gives it on that reads it."""
    operands, at = list(op.operands), operand - op.attributes[_SEGMENTS][0]
    if op.name == _DISPATCH:
        argument = entry_block(op).arguments[at]
        argument.set_type(_both(argument.type))
    kinds = [*(result.type for result in op.results), operands[operand].type]
    made = _remade(op, operands, [*_tied(op), at], kinds)
    return made.results[len(kinds) - 1]


def _shaped(value: Any, kind: Any, op: Any) -> Any:
    """A value with a type of as many elements, for an operation."""
    from iree.compiler import ir

    if value.type == kind:
        return value
    with ir.InsertionPoint(op), op.location:
        return ir.Operation.create(
            _RESHAPE,
            results=[kind],
            operands=[value],
            attributes={_SEGMENTS: ir.DenseI32ArrayAttr.get([1, 0, 0])},
        ).result


def _remade(op: Any, operands: Sequence[Any], tied: Sequence[int], kinds: Sequence[Any]) -> Any:
    """A dispatch of the same with other operands and results, the first as before, in its place."""
    from iree.compiler import ir

    counts = list(op.attributes[_SEGMENTS])
    counts[1] += len(operands) - len(op.operands)
    index = ir.IndexType.get()
    attributes: dict[str, Any] = {name: op.attributes[name] for name in op.attributes}
    attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get(counts)
    attributes["tied_operands"] = ir.ArrayAttr.get([ir.IntegerAttr.get(index, t) for t in tied])
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(
            op.name,
            results=kinds,
            operands=operands,
            attributes=attributes,
            regions=len(op.regions),
        )
    for old, new in zip(op.regions, made.regions, strict=True):
        for each in list(old.blocks):
            each.append_to(new)
    for old, new in zip(op.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    op.erase()
    return made


def _places(taken: Any) -> list[Any]:
    """A tensor and all that is its memory by another shape."""
    found = [taken]
    for place in found:
        found += [user.results[0] for user in _users(place) if user.name in _SAME]
    return found


def _users(value: Any) -> list[Any]:
    return [use.owner.operation for use in value.uses]


def _maker(value: Any) -> Any:
    """The operation that gives a value; None where it is an argument."""
    from iree.compiler import ir

    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _source(op: Any, made: Any) -> Any:
    """The operand in whose memory a result lies; None: in none's."""
    if op.name in (*_SAME, _UPDATE):
        return op.operands[0]
    at = _tied(op)[list(op.results).index(made)] if op.name in (_DISPATCH, _KERNEL) else -1
    return op.operands[op.attributes[_SEGMENTS][0] + at] if at >= 0 else None


def _ties(op: Any, places: Sequence[Any]) -> bool:
    """Whether an operation writes into one of these itself."""
    sources = [_source(op, made) for made in op.results]
    return any(source is not None and source in places for source in sources)


def _tied(op: Any) -> list[int]:
    """For each result of a dispatch the argument whose memory it is, or -1."""
    from iree.compiler import ir

    if "tied_operands" not in op.attributes:
        return [-1] * len(op.results)
    return [ir.IntegerAttr(each).value for each in ir.ArrayAttr(op.attributes["tied_operands"])]


def _size(kind: Any) -> int:
    return math.prod(kind.shape)


def _both(kind: Any) -> Any:
    """The type of a binding that is read and written, from that of one that is either."""
    from iree.compiler import ir

    return ir.Type.parse(re.sub("<(read|write)only:", "<readwrite:", str(kind)))


# --- kernels -----------------------------------------------------------------------------------


def _is_whole(op: Any, size: int) -> bool:
    """Whether a load or store is of all of a tensor, which has so many elements."""
    return (
        not any(op.attributes["static_offsets"])
        and all(step == 1 for step in op.attributes["static_strides"])
        and math.prod(op.attributes["static_sizes"]) == size
        and len(op.operands) == (1 if op.name == _LOAD else 2)
    )


def _is_written_whole(target: Any) -> bool:
    """Whether a kernel writes a result once, as a whole."""
    from iree.compiler import ir

    users = _users(target)
    if [user.name for user in users] != [_STORE]:
        return False
    return _is_whole(users[0], _size(ir.RankedTensorType(users[0].operands[0].type)))


def _is_read_where_written(read: Any, target: Any) -> bool:
    """Whether each element is read only to write that element of results.

    What is made of it goes through operations with elements in the same places, and nothing else,
    to the one that gives the result: so nobody reads an element that somebody else has written.
    """
    from iree.compiler import ir

    loads, (store,) = _users(read), _users(target)
    last = _maker(store.operands[0])
    values = []
    for load in loads:
        if load.name != _LOAD or not _is_whole(load, _size(ir.RankedTensorType(load.result.type))):
            return False
        values.append(load.result)
    for value in values:
        for user in _users(value):
            if user.name == _STORE and _maker(value) == last:
                continue
            if user.name != _GENERIC or not _keeps_places(user, value):
                return False
            values += [result for result in user.results if result not in values]
    return last is not None and last.name == _GENERIC


def _keeps_places(op: Any, value: Any) -> bool:
    """Whether an operation gives, for each element of an operand, those in its place."""
    from iree.compiler import ir

    maps = [ir.AffineMapAttr(each) for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    kinds = {str(each) for each in ir.ArrayAttr(op.attributes["iterator_types"])}
    wanted = {maps[at] for at, operand in enumerate(op.operands) if operand == value}
    wanted |= {maps[len(maps) - 1 - at] for at in range(len(op.results))}
    (found, *others) = wanted
    return (
        not others and kinds <= {_PARALLEL} and bool(ir.AffineMapAttr(found).value.is_permutation)
    )
