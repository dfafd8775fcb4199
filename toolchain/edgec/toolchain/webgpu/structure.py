"""A kernel's blocks and jumps to nested loops and branches.

SPIR-V says where each structure ends and where its loops go on; a jump is then a `break`, a
`continue`, or the way on to what follows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgec.toolchain.webgpu.opcodes import Op
from edgec.toolchain.webgpu.spirv import Block, Entry, Unwritable

__all__ = ["Choice", "Jump", "Loop", "Moves", "Node", "Split", "Straight", "structured"]


@dataclass(frozen=True, kw_only=True)
class Straight:
    """A block's own operations."""

    block: Block


@dataclass(frozen=True, kw_only=True)
class Moves:
    """The values that one block hands to another."""

    source: int
    target: int


@dataclass(frozen=True, kw_only=True)
class Jump:
    """`break`, `continue` or `return`."""

    word: str


@dataclass(frozen=True, kw_only=True)
class Split:
    """One of two ways, by a condition's identifier."""

    condition: int
    yes: tuple["Node", ...]
    no: tuple["Node", ...]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """What repeats until it jumps out; `last` is done before each time but the first."""

    body: tuple["Node", ...]
    last: tuple["Node", ...]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several ways, each for some numbers; `otherwise` where no other is taken."""

    selector: int
    otherwise: tuple["Node", ...]
    cases: tuple[tuple[tuple[int, ...], tuple["Node", ...]], ...]


Node = Straight | Moves | Jump | Split | Loop | Choice


@dataclass(frozen=True, kw_only=True)
class _Around:
    """What is around a place.

    Attributes:
        stop: the label where what is being read ends.
        breaks: the label that `break` goes to.
        again: labels that `continue` goes to.
        beyond: labels of structures further out, which no word goes to.
    """

    stop: int = 0
    breaks: int = 0
    again: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()


def structured(entry: Entry) -> tuple[Node, ...]:
    """The kernel as a tree.

    Raises:
        Unwritable: it jumps in ways that loops and branches have no words for.
    """
    return tuple(_Walk(entry).region(entry.blocks[0].label, _Around()))


class _Walk:
    def __init__(self, entry: Entry) -> None:
        self.blocks = {block.label: block for block in entry.blocks}
        self.arrivals = Counter(target for block in entry.blocks for target in _targets(block))
        self.written: set[int] = set()

    def region(self, label: int, around: _Around) -> list[Node]:
        """From a block on to where the region stops."""
        nodes: list[Node] = []
        at: int | None = label
        while at is not None:
            block = self.blocks[at]
            if at in self.written:
                raise Unwritable("a kernel's ways meet where no structure of it ends")
            self.written.add(at)
            if block.merge is not None and block.merge.op == Op.LOOP_MERGE:
                merge, again = block.merge.words[:2]
                nodes.append(self._loop(block, merge, again, around))
                at = merge if self.arrivals[merge] else None
            else:
                nodes.append(Straight(block=block))
                at = self._end(block, around, nodes)
        return nodes

    def _loop(self, block: Block, merge: int, again: int, around: _Around) -> Loop:
        # A place to go on that several ways lead to needs a part of its own.
        apart = again != block.label and self.arrivals[again] > 1
        beyond = (*around.beyond, around.breaks, around.stop, *around.again)
        inside = _Around(breaks=merge, again=(again if apart else block.label,), beyond=beyond)
        body: list[Node] = [Straight(block=block)]
        at = self._end(block, inside, body)
        if at is not None:
            body += self.region(at, inside)
        last: list[Node] = []
        if apart:
            last = self.region(again, _Around(stop=block.label, beyond=(*beyond, merge)))
        return Loop(body=tuple(body), last=tuple(last))

    def _end(self, block: Block, around: _Around, nodes: list[Node]) -> int | None:
        """How a block ends; where the region goes on, if it does."""
        match block.end.op:
            case Op.BRANCH:
                made, at = self._edge(block.label, block.end.words[0], around)
                nodes += made
                return at
            case Op.BRANCH_CONDITIONAL:
                return self._split(block, around, nodes)
            case Op.SWITCH:
                return self._choice(block, around, nodes)
            case Op.RETURN | Op.KILL | Op.UNREACHABLE:
                nodes.append(Jump(word="return"))
                return None
            case _:
                raise Unwritable("a kernel's function gives a value back")

    def _split(self, block: Block, around: _Around, nodes: list[Node]) -> int | None:
        condition, yes, no = block.end.words[:3]
        if block.merge is not None and block.merge.op == Op.SELECTION_MERGE:
            merge = block.merge.words[0]
            inside = replace(around, stop=merge, beyond=(*around.beyond, around.stop))
            ways = [tuple(self._way(block.label, target, inside)) for target in (yes, no)]
            nodes.append(Split(condition=condition, yes=ways[0], no=ways[1]))
            return merge if self.arrivals[merge] else None
        # Without a merge at least one of the two leaves a structure.
        (first, on), (second, other) = (
            self._edge(block.label, target, around) for target in (yes, no)
        )
        if on is not None and other is not None:
            raise Unwritable("a kernel parts into two ways that do not join")
        if on is not None and not _leaves(second):
            first += self.region(on, around)
            on = None
        if other is not None and not _leaves(first):
            second += self.region(other, around)
            other = None
        nodes.append(Split(condition=condition, yes=tuple(first), no=tuple(second)))
        return other if on is None else on

    def _choice(self, block: Block, around: _Around, nodes: list[Node]) -> int | None:
        if block.merge is None:
            raise Unwritable("a kernel parts into several ways that do not join")
        selector, otherwise, *rest = block.end.words
        merge = block.merge.words[0]
        inside = replace(
            around,
            stop=merge,
            breaks=merge,
            beyond=(*around.beyond, around.stop, around.breaks),
        )
        numbers: dict[int, list[int]] = {otherwise: []}
        for number, target in zip(rest[::2], rest[1::2], strict=True):
            numbers.setdefault(target, []).append(number)
        arrivals = Counter([otherwise, *rest[1::2]])
        if any(self.arrivals[each] > arrivals[each] for each in numbers if each != merge):
            raise Unwritable("a kernel's switch falls from one case into another")
        ways = {each: tuple(self._way(block.label, each, inside)) for each in numbers}
        cases = tuple(
            (tuple(each), ways[target]) for target, each in numbers.items() if target != otherwise
        )
        nodes.append(Choice(selector=selector, otherwise=ways[otherwise], cases=cases))
        return merge if self.arrivals[merge] else None

    def _way(self, source: int, target: int, around: _Around) -> list[Node]:
        nodes, at = self._edge(source, target, around)
        return nodes if at is None else [*nodes, *self.region(at, around)]

    def _edge(self, source: int, target: int, around: _Around) -> tuple[list[Node], int | None]:
        """What going from one block to another takes, and where to go on if it is no jump."""
        nodes: list[Node] = []
        if any(each.op == Op.PHI for each in self.blocks[target].body):
            nodes.append(Moves(source=source, target=target))
        if target == around.stop:
            return nodes, None
        if target == around.breaks:
            return [*nodes, Jump(word="break")], None
        if target in around.again:
            return [*nodes, Jump(word="continue")], None
        if target in around.beyond:
            raise Unwritable("a kernel leaves more than one loop or switch at once")
        return nodes, target


def _targets(block: Block) -> Sequence[int]:
    words = block.end.words
    match block.end.op:
        case Op.BRANCH:
            return words[:1]
        case Op.BRANCH_CONDITIONAL:
            return words[1:3]
        case Op.SWITCH:
            return (words[1], *words[3::2])
        case _:
            return ()


def _leaves(nodes: Sequence[Node]) -> bool:
    return bool(nodes) and isinstance(nodes[-1], Jump)
