"""A forward substitution that a PyTorch model writes as a loop over rows, in a few products.

Linear attention by the delta rule writes one so: row `i` of a matrix becomes itself and what it
times the rows before it comes to. A graph has every turn written out, a dozen operations each, for
each layer. The loop solves a triangular system, whose inverse is made of those of its halves:
blocks of 1, 2, 4 … rows, two products each time.

Whatever operations a turn is spelt with, it is known by what it does: it is computed with random
numbers, and so is what stands before the loop, which has to leave zeros on the diagonal and above.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from edgec.exporters.from_torch.inline import inlined

__all__ = ["substitutions_at_once"]

_LEAST = 8
"""Rows, from which a loop is worth it."""
_BEFORE = 6
"""Steps before the loop in which zeros are looked for."""


def substitutions_at_once(graph: Any) -> int:
    """Write each such loop of a functional graph as products; how many there were."""
    squares = [node for node in graph.nodes if _is_square(node)]
    alike = Counter(map(_sizes, squares))
    enough = [node for node in squares if alike[_sizes(node)] >= node.meta["val"].shape[-1] - 1]
    if not enough:
        return 0
    dominators = _dominators(graph)
    count = 0
    done: set[Any] = set()
    for node in reversed(enough):
        if node in done:
            continue
        chain = _chain(node, dominators)
        done.update(chain)
        for first, last, sign in _loops(chain):
            if _is_strictly_lower(first, dominators):
                (new,) = inlined(graph, last, _solving(sign), [first])
                last.replace_all_uses_with(new)
                count += 1
    if count:
        graph.eliminate_dead_code()
    return count


def _solving(sign: int) -> Callable[[Any], list[Any]]:
    """To what the loop makes of a strictly lower triangular matrix: `(1 - sign a)^-1 a`."""

    def solved(a: Any) -> list[Any]:
        return [_solved(a, sign)]

    return solved


def _solved(a: Any, sign: int) -> Any:
    import torch

    size = a.shape[-1]
    rows, columns = torch.arange(size)[:, None], torch.arange(size)[None]
    a = a * sign
    solved = torch.eye(size, dtype=a.dtype).expand(a.shape)
    block = 1
    while block < size:
        # The lower left of each pair of blocks: of the same pair, and not of the same block.
        beside = (rows // (2 * block) == columns // (2 * block)) & (
            rows // block > columns // block
        )
        part = torch.where(beside, a, 0.0)
        solved = solved + (part if block == 1 else solved @ part @ solved)
        block *= 2
    return torch.where(rows > columns, solved * sign, 0.0)


def _dominators(graph: Any) -> dict[Any, Any]:
    """The last node that all which is read on the way to a node goes through; None for several.

    Constants count for nothing.
    """
    found: dict[Any, Any] = {}
    depth: dict[Any, int] = {}
    constants: set[Any] = set()
    for node in graph.nodes:
        if node.op == "call_function" and constants.issuperset(node.all_input_nodes):
            constants.add(node)
            continue
        reads = [each for each in node.all_input_nodes if each not in constants]
        meeting = reads[0] if reads and node.op == "call_function" else None
        for other in reads[1:]:
            meeting = _meeting(meeting, other, found, depth)
        found[node] = meeting
        depth[node] = 0 if meeting is None else depth[meeting] + 1
    return found


def _meeting(one: Any, other: Any, above: dict[Any, Any], depth: dict[Any, int]) -> Any:
    while one is not other:
        if one is None or other is None:
            return None
        if depth[one] < depth[other]:
            one, other = other, one
        one = above[one]
    return one


def _sizes(node: Any) -> tuple[int, ...] | None:
    """The sizes of the floats that a node gives; None where it gives none, or a size is open.

    An open size is not compared: that would settle it.
    """
    import torch

    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return None
    sizes = tuple(value.shape)
    return sizes if all(type(size) is int for size in sizes) else None


def _is_square(node: Any) -> bool:
    sizes = _sizes(node) if node.op == "call_function" else None
    return sizes is not None and len(sizes) > 1 and sizes[-1] == sizes[-2] >= _LEAST


def _chain(node: Any, dominators: dict[Any, Any]) -> list[Any]:
    """The node and those before it of its shape that all of it goes through; first to last."""
    sizes = _sizes(node)
    found = [node]
    while True:
        before = dominators.get(found[-1])
        while before is not None and _sizes(before) != sizes:
            before = dominators.get(before)
        if before is None:
            return found[::-1]
        found.append(before)


def _loops(chain: Sequence[Any]) -> list[tuple[Any, Any, int]]:
    """Loops in a chain: what goes in, what comes out, and the sign of what is added."""
    sizes = _sizes(chain[-1])
    size = 0 if sizes is None else sizes[-1]
    found: list[tuple[Any, Any, int]] = []
    if len(chain) < size - 1:
        return found
    first, expected, sign = 0, 0, 0
    for at in range(1, len(chain)):
        row, own_sign = _turn(chain[at - 1], chain[at])
        if row == 1 or (row == 2 and expected != 2):
            first, expected, sign = at - 1, row, own_sign
        if row == 0 or row != expected or own_sign != sign:
            expected = 0
            continue
        expected += 1
        if expected == size:
            found.append((chain[first], chain[at], sign))
            expected = 0
    return found


def _turn(before: Any, after: Any) -> tuple[int, int]:
    """The row that a turn computes, and the sign of what it adds; zeros for no such turn."""
    import torch

    given = _numbers(before)
    if given is None:
        return 0, 0
    made = _computed(before, after, given)
    if made is None:
        return 0, 0
    others = (made != given).any(-1)
    (changed,) = torch.nonzero(others.reshape(-1, others.shape[-1]).any(0), as_tuple=True)
    if len(changed) != 1:
        return 0, 0
    row = int(changed)
    added = (given[..., row, :row, None] * given[..., :row, :row]).sum(-2)
    for sign in (1, -1):
        right = given.clone()
        right[..., row, :row] += sign * added
        if row and torch.allclose(made, right, rtol=1e-5, atol=1e-6):
            return row, sign
    return 0, 0


def _is_strictly_lower(node: Any, dominators: dict[Any, Any]) -> bool:
    """Whether a node gives zeros on the diagonal and above whatever it is computed of."""
    import torch

    before = dominators.get(node)
    for _ in range(_BEFORE):
        if before is None:
            return False
        given = _numbers(before)
        made = None if given is None else _computed(before, node, given)
        if made is not None and not torch.triu(made).any() and made.any():
            return True
        before = dominators.get(before)
    return False


def _numbers(node: Any) -> Any | None:
    """Random numbers such as a node gives; None where it gives something else."""
    import torch

    sizes = _sizes(node)
    if sizes is None:
        return None
    generator = torch.Generator().manual_seed(1)
    return torch.randn(sizes, generator=generator, dtype=node.meta["val"].dtype) / 8


def _computed(before: Any, after: Any, given: Any) -> Any:
    """A node's value where one that all of it goes through has this; None if that cannot be."""
    import torch

    known: dict[Any, Any] = {before: given}
    waiting = [after]
    with torch.no_grad():
        while waiting:
            node = waiting[-1]
            missing = [each for each in node.all_input_nodes if each not in known]
            if node in known:
                waiting.pop()
            elif missing:
                waiting.extend(missing)
            elif node.op != "call_function":
                return None
            else:
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known.__getitem__)
                known[node] = node.target(*args, **kwargs)
                waiting.pop()
    return known[after]
