"""Equal steps to a `while` in the form of `jax.lax.scan`.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.passes.simplify.roll_loops.steps import Steps, attributes_of, made_by

__all__ = ["emit"]

_MOST_SINGLE_USES = 4
_SAME_ORDER = ("stablehlo.reshape", "stablehlo.broadcast_in_dim")


@dataclass(frozen=True, kw_only=True)
class _Input:
    """Slices of a value, one for each step.

    Attributes:
        cuts: the slice of each step.
        axis, start, step: along which axis it moves, where it begins, and how far it moves.
        after: what is done to the slice in the first step, in order.
    """

    cuts: Sequence[Any]
    axis: int
    start: int
    step: int
    after: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """A concatenation of what steps give: which operands, and whether the last step is first."""

    op: Any
    first: int
    count: int
    backwards: bool


@dataclass(frozen=True, kw_only=True)
class _Uses:
    """Uses of one operation of every step by what comes after: joined, or one by one."""

    joined: Sequence[_Joined]
    single: Sequence[tuple[Any, int, int]]  # the user, its operand, the step


def emit(steps: Steps) -> bool:
    """Put a loop in place of the steps; False where they take or give what a loop cannot."""
    inputs: dict[int, _Input] = {}
    for number, source in enumerate(steps.carried):
        values = [leaves[number] for leaves in steps.leaves]
        if source is None and any(v != values[0] for v in values):
            found = _input(values)
            if found is None:
                return False
            inputs[number] = found
    given = _given(steps)
    if given is None or not _begins_alike(steps):
        return False
    place = _place(steps, given)
    if place is None:
        return False
    with ir.InsertionPoint(place), place.location:
        results = _loop(steps, inputs, list(given))
        for stacked, uses in zip(results, given.values(), strict=True):
            for join in uses.joined:
                _join(join, stacked)
            for user, place, step in uses.single:
                size = graph.shape(stacked)
                with ir.InsertionPoint(user):
                    one = graph.slice_(
                        stacked, [step, *[0] * (len(size) - 1)], [step + 1, *size[1:]]
                    )
                    user.operands[place] = graph.reshape(one, size[1:])
    return True


def _input(values: Sequence[Any]) -> _Input | None:
    """Values as slices of one at places that move evenly, with equal operations on them."""
    after: list[Any] = []
    while True:
        operations = [op for op in map(made_by, values) if op is not None]
        if len(operations) != len(values):
            return None
        first = operations[0]
        if any(op.name != first.name or len(op.operands) != 1 for op in operations):
            return None
        if any(attributes_of(op) != attributes_of(first) for op in operations):
            break
        after.insert(0, first)
        values = [op.operands[0] for op in operations]
        if all(v == values[0] for v in values):
            return None
    if first.name != "stablehlo.slice" or any(
        op.operands[0] != first.operands[0] for op in operations
    ):
        return None
    starts = [graph.integers(op, "start_indices") for op in operations]
    sizes = graph.shape(first.results[0])
    moving = [axis for axis in range(len(sizes)) if starts[0][axis] != starts[1][axis]]
    if len(moving) != 1 or any(graph.shape(op.results[0]) != sizes for op in operations):
        return None
    if any(set(graph.integers(op, "strides")) != {1} for op in operations):
        return None
    (axis,) = moving
    step = starts[1][axis] - starts[0][axis]
    for number, start in enumerate(starts):
        wanted = list(starts[0])
        wanted[axis] += number * step
        if start != wanted:
            return None
    return _Input(cuts=operations, axis=axis, start=starts[0][axis], step=step, after=after)


def _given(steps: Steps) -> dict[int, _Uses] | None:
    """Uses of the steps' operations by others; None where a loop cannot give them."""
    inside = {op for operations in steps.operations for op in operations}
    given: dict[int, _Uses] = {}
    for number in range(len(steps.operands)):
        values = [operations[number].results[0] for operations in steps.operations]
        joined: dict[Any, list[tuple[int, int]]] = {}
        single: list[tuple[Any, int, int]] = []
        for step, value in enumerate(values):
            for user, place in _users(value, inside):
                if user.name == "stablehlo.concatenate":
                    joined.setdefault(user, []).append((place, step))
                else:
                    single.append((user, place, step))
        whole = [_whole(op, places, len(values)) for op, places in joined.items()]
        if any(join is None for join in whole) or len(single) > _MOST_SINGLE_USES:
            return None
        if joined or single:
            given[number] = _Uses(joined=[j for j in whole if j is not None], single=single)
    return given


def _begins_alike(steps: Steps) -> bool:
    """Whether what is carried in one value begins as one value."""
    firsts: dict[int, Any] = {}
    for source, leaf in zip(steps.carried, steps.leaves[0], strict=True):
        if source is not None and firsts.setdefault(source, leaf) != leaf:
            return False
    return True


def _place(steps: Steps, given: dict[int, _Uses]) -> Any | None:
    """The first operation that uses what the loop gives, if it comes after all that this takes."""
    order = {op.operation: i for i, op in enumerate(steps.block.operations)}
    users = [join.op for uses in given.values() for join in uses.joined]
    users += [user for uses in given.values() for user, _, _ in uses.single]
    if not users or any(user not in order for user in users):
        return None
    first = min(users, key=lambda op: order[op])
    inside = {op for operations in steps.operations for op in operations}
    taken = [made_by(leaf) for leaves in steps.leaves for leaf in leaves]
    late = any(op is not None and op not in inside and order[op] > order[first] for op in taken)
    return None if late else first


def _users(value: Any, inside: set[Any]) -> list[tuple[Any, int]]:
    """Who uses a value outside of the steps; concatenations are found behind reshapes."""
    found = []
    for use in value.uses:
        user = use.owner.operation
        if user in inside:
            continue
        if user.name in _SAME_ORDER and _keeps_order(user):
            behind = _users(user.results[0], inside)
            if behind and all(op.name == "stablehlo.concatenate" for op, _ in behind):
                found += behind
                continue
        found.append((user, use.operand_number))
    return found


def _keeps_order(op: Any) -> bool:
    """Whether a reshape, or a broadcast which adds axes of one element only, keeps all elements."""
    before, after = graph.shape(op.operands[0]), graph.shape(op.results[0])
    kept = [n for n in after if n != 1] == [n for n in before if n != 1]
    if op.name == "stablehlo.reshape":
        return True
    axes = graph.integers(op, "broadcast_dimensions")
    return kept and axes == sorted(axes)


def _whole(op: Any, places: Sequence[tuple[int, int]], count: int) -> _Joined | None:
    """All steps side by side in a concatenation, each one element long."""
    axis = int(op.attributes["dimension"])
    if len(places) != count or any(
        graph.shape(op.operands[place])[axis] != 1 for place, _ in places
    ):
        return None
    ordered = sorted(places)
    first = ordered[0][0]
    if [place for place, _ in ordered] != list(range(first, first + count)):
        return None
    steps = [step for _, step in ordered]
    if steps not in (list(range(count)), list(range(count))[::-1]):
        return None
    return _Joined(op=op, first=first, count=count, backwards=steps[0] != 0)


def _loop(steps: Steps, inputs: dict[int, _Input], given: Sequence[int]) -> list[Any]:
    """The loop; for each given operation its values of all steps, stacked."""
    count = len(steps.operations)
    sources = sorted({source for source in steps.carried if source is not None})
    firsts = [steps.leaves[0][steps.carried.index(source)] for source in sources]
    pattern = steps.operations[0]
    stacks = []
    for number in given:
        value = pattern[number].results[0]
        stacks.append(graph.fill(0, (count, *graph.shape(value)), graph.element(value)))

    def body(turn: Any, values: Sequence[Any]) -> list[Any]:
        now = dict(zip(sources, values, strict=False))
        done: list[Any] = []
        taken: list[Any] = []
        for number, source in enumerate(steps.carried):
            if source is not None:
                taken.append(now[source])
            elif number in inputs:
                taken.append(_slice(inputs[number], turn))
            else:
                taken.append(steps.leaves[0][number])
        for op, operands in zip(pattern, steps.operands, strict=True):
            copy = op.clone()
            for place, known in enumerate(operands):
                copy.operands[place] = taken[-1 - known] if known < 0 else done[known]
            done.append(copy.results[0])
        zero = graph.fill(0, (), graph.element(turn))
        written = []
        for stack, number in zip(values[len(sources) :], given, strict=True):
            one = graph.reshape(done[number], [1, *graph.shape(done[number])])
            starts = [turn, *[zero] * len(graph.shape(done[number]))]
            written.append(graph.dynamic_update(stack, one, starts))
        return [*(done[source] for source in sources), *written]

    return graph.loop(count, [*firsts, *stacks], body)[len(sources) :]


def _slice(given: _Input, turn: Any) -> Any:
    """This turn's slice of an input, with what is done to it."""
    cut = given.cuts[0]
    kind = graph.element(turn)
    place = turn
    if given.step != 1:
        place = graph.binary("multiply", place, graph.fill(given.step, (), kind))
    if given.start:
        place = graph.binary("add", place, graph.fill(given.start, (), kind))
    starts = [graph.fill(n, (), kind) for n in graph.integers(cut, "start_indices")]
    starts[given.axis] = place
    value = graph.dynamic_slice(cut.operands[0], starts, graph.shape(cut.results[0]))
    for op in given.after:
        copy = op.clone()
        copy.operands[0] = value
        value = copy.results[0]
    return value


def _join(join: _Joined, stacked: Any) -> None:
    """The steps' values in place of a concatenation of them."""
    op = join.op
    axis = int(op.attributes["dimension"])
    with ir.InsertionPoint(op):
        if join.backwards:
            stacked = graph.create(
                "stablehlo.reverse",
                stacked.type,
                [stacked],
                {"dimensions": ir.DenseI64ArrayAttr.get([0])},
            )
        others = [n for i, n in enumerate(graph.shape(op.results[0])) if i != axis]
        rows = graph.reshape(stacked, [join.count, *others])
        order = list(range(1, len(others) + 1))
        order.insert(axis, 0)
        whole = graph.transpose(rows, order)
        operands = list(op.operands)
        operands[join.first : join.first + join.count] = [whole]
        op.results[0].replace_all_uses_with(graph.concatenate(operands, axis))
