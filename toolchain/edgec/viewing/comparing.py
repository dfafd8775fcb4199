"""Two graphs to one: what both have, what is only in the first, and what is new in the second."""

from dataclasses import replace
from difflib import SequenceMatcher

from edgec.viewing.graph import Graph, Node

__all__ = ["ADDED", "REMOVED", "compared"]

ADDED, REMOVED, CHANGED = "only in the second", "only in the first", "changed"


def compared(one: Graph, other: Graph) -> Graph:
    """A graph of the nodes of both; what is alike in both is there once, with no state.

    Nodes are alike where name, shape and constants are, in the order of the programs; a piece of a
    module, where its name is, and its state says where its size is another.
    """
    first, second = ([_key(node) for node in graph.nodes] for graph in (one, other))
    nodes: list[Node] = []
    old: dict[int, int] = {}
    new: dict[int, int] = {}

    def take(node: Node, known: dict[int, int], state: str) -> None:
        known[node.number] = len(nodes)
        reads = tuple(known[source] for source in node.reads if source in known)
        nodes.append(replace(node, number=len(nodes), reads=reads, state=state))

    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            for before, after in zip(one.nodes[a:b], other.nodes[c:d], strict=True):
                is_same = before.bytes == after.bytes
                change = "" if is_same else f"{CHANGED}: {before.bytes} to {after.bytes} bytes"
                take(after, new, change)
                old[before.number] = new[after.number]
            continue
        for node in one.nodes[a:b]:
            take(node, old, REMOVED)
        for node in other.nodes[c:d]:
            take(node, new, ADDED)
    return Graph(
        title=f"{one.title} and {other.title}",
        nodes=tuple(nodes),
        facts={
            name: f"{one.facts.get(name, '')} → {other.facts.get(name, '')}"
            for name in dict.fromkeys((*one.facts, *other.facts))
            if one.facts.get(name) != other.facts.get(name)
        },
    )


def _key(node: Node) -> tuple[str, str, tuple[str, ...]]:
    return node.name, node.shape, node.constants
