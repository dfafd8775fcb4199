"""A refused ONNX operation to the one before it whose result has as many values as the data say.

The importer names what it stumbles over, an `If` or a `Reshape`, which may stand far behind.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["sized_by_data"]

_KINDS = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})


def sized_by_data(model: Any, refused: str) -> Any:
    """The node that gives an open size to an operation of the refused type; None if none does.

    Args:
        model: an `onnx.ModelProto`, its functions expanded.
        refused: an operation's type.
    """
    maker: dict[str, Any] = {}
    for node in model.graph.node:
        reads = [*node.input, *_outer(node)]
        known = next((maker[name] for name in reads if name in maker), None)
        source = node if known is None and node.op_type in _KINDS else known
        if source is not None:
            if node.op_type == refused:
                return source
            maker.update(dict.fromkeys(node.output, source))
    return None


def _outer(node: Any) -> Iterator[str]:
    """All names that the graphs inside a node read; their own are no harm, for names are unique."""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from inner.input
                yield from _outer(inner)
