"""A graph to one HTML page that needs no server: the graph twice, by operation and by line."""

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from edgec.viewing.graph import Graph, Node
from edgec.viewing.layout import laid_out

__all__ = ["page"]

_TEMPLATE = Path(__file__).with_name("page.html")


def page(graph: Graph) -> str:
    """The page, with all that it shows inside of it."""
    index = {node.number: place for place, node in enumerate(graph.nodes)}
    operations = [_node(node, index) for node in graph.nodes]
    views = {"operations": _placed(operations)}
    lines = _by_line(operations)
    if len(lines) < len(operations):
        views["lines"] = _placed(lines)
    data = json.dumps({"title": graph.title, "facts": graph.facts, "views": views})
    # Inside of a script element only its own end could end it.
    text = _TEMPLATE.read_text(encoding="utf-8")
    return text.replace("@title@", escape(graph.title)).replace(
        "@data@", data.replace("<", "\\u003c")
    )


def _node(node: Node, index: dict[int, int]) -> dict[str, Any]:
    return {
        "name": node.name,
        "shape": node.shape,
        "line": node.line,
        "reads": [index[source] for source in node.reads],
        "constants": list(node.constants),
        "bytes": node.bytes,
        "kernel": node.kernel,
        "why": node.why,
        "seconds": node.seconds,
        # JSON has no infinity.
        "error": None if node.error is None else min(node.error, sys.float_info.max),
        "state": node.state,
        "framework": node.framework,
    }


def _placed(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    places = laid_out([node["reads"] for node in nodes])
    return [{**node, "at": place} for node, place in zip(nodes, places, strict=True)]


def _by_line(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nodes of one line that follow each other as one, which knows what it holds.

    Only neighbours become one: a line that is run again later is another node, so that each node
    still reads only earlier ones.
    """
    found: list[dict[str, Any]] = []
    of: list[int] = []
    for place, node in enumerate(nodes):
        inner = bool(found) and node["line"] and found[-1]["key"] == node["line"]
        if not inner:
            name = node["line"].replace("\\", "/").rpartition("/")[2] or node["name"]
            found.append({"key": node["line"], "name": name, "holds": [], "reads": []})
        of.append(len(found) - 1)
        found[-1]["holds"].append(place)
    for place, node in enumerate(found):
        inside = [nodes[each] for each in node["holds"]]
        read = dict.fromkeys(of[source] for each in inside for source in each["reads"])
        node["reads"] = [source for source in read if source != place]
        node["line"] = node.pop("key")
        node["shape"] = next((each["shape"] for each in reversed(inside) if each["shape"]), "")
        node["constants"] = [text for each in inside for text in each["constants"]]
        node["bytes"] = sum(each["bytes"] for each in inside)
        for name in ("kernel", "why", "state", "framework"):
            texts = dict.fromkeys(each[name] for each in inside if each[name])
            # A line is coloured by what its list begins with: kernels of edgec's own first.
            node[name] = "; ".join(sorted(texts, key=lambda text: not text.startswith("edgec_")))
        node["seconds"] = _total([each["seconds"] for each in inside])
        node["error"] = max((e["error"] for e in inside if e["error"] is not None), default=None)
    return found


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
