"""The page shows what it was made of, in a browser, with thousands of nodes at once."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.web.chromium import Chromium
from edgec.runtime.kernel_share import Left
from edgec.viewing import Graph, Node, compared, page
from edgec.viewing.layout import WIDTH, laid_out
from tests.js.node import need_chromium

MANY = 5000


def chain(count: int, title: str = "net") -> Graph:
    """Lines of ten operations each; every third reads one far before it, too."""
    return Graph(
        title=title,
        nodes=tuple(
            Node(
                number=10 + place,
                name="add" if place % 3 else "multiply",
                shape=f"f32[{place}]",
                line=f"net.py:{place // 10}",
                reads=tuple(10 + r for r in (place - 1, place - 40 * (place % 3 == 0)) if r >= 0)[
                    : 1 + (place % 3 == 0 and place >= 40)
                ],
                bytes=4 * place,
            )
            for place in range(count)
        ),
        facts={"source": "</script><b>net</b>"},
    )


def data_of(text: str) -> dict:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_every_node_is_below_what_it_reads_and_no_two_are_in_one_place() -> None:
    reads = [[], [], [0, 1], [2], [2], [3, 4], []]
    places = laid_out(reads)
    assert len(set(places)) == len(places)
    for node, sources in enumerate(reads):
        assert all(places[source][1] < places[node][1] for source in sources)
    wide = laid_out([[]] + [[0]] * (3 * WIDTH))
    assert len(set(wide)) == len(wide)
    assert max(abs(column) for column, _ in wide) < WIDTH


def test_what_is_in_a_program_cannot_end_the_script_that_holds_it() -> None:
    text = page(chain(20))
    assert "</script><b>" not in text
    assert data_of(text)["facts"]["source"] == "</script><b>net</b>"


def test_lines_are_folded_and_know_what_they_hold() -> None:
    views = data_of(page(chain(40)))["views"]
    assert len(views["operations"]) == 40
    assert len(views["lines"]) == 4
    second = views["lines"][1]
    assert second["holds"] == list(range(10, 20))
    assert second["reads"] == [0]
    assert second["bytes"] == sum(4 * place for place in range(10, 20))


def test_facts_of_kernels_layers_and_times_come_to_their_nodes() -> None:
    left = Left(
        what="add to 1, f32", where="net.py:0", reason="too small", count=1, flops=1, bytes=1
    )
    layer = {
        "kernel": "edgec_x",
        "operations": [12, 13],
        "operation": 13,
        "error": 1e-6,
        "state": "right",
    }
    profile = {
        "calls": 2,
        "dispatches": [
            {"where": "net.py:0", "name": "d0", "total": 0.5},
            {"where": "", "name": "d1", "total": 0.5},
        ],
    }
    value = {"name": "relu", "operation": "aten.relu", "number": 12}
    graph = chain(12).with_kernels([left]).with_layers([layer]).with_profile(profile)
    nodes = graph.with_framework([value, {**value, "number": None}]).nodes
    assert [node.framework for node in nodes[1:4]] == ["", "relu (aten.relu)", ""]
    assert nodes[1].why == "too small"
    assert (nodes[2].kernel, nodes[2].why, nodes[2].error) == ("edgec_x", "", None)
    assert (nodes[3].error, nodes[3].state) == (1e-6, "right")
    assert [node.seconds for node in nodes[8:11]] == [None, 0.25, None]


def test_an_operation_is_of_the_kernel_that_computes_it_and_a_line_of_edgecs_own() -> None:
    def layer(kernel: str, *operations: int) -> dict:
        found = {"kernel": kernel, "operations": operations, "operation": operations[-1]}
        return found | {"error": 0.0, "state": "right" if kernel else "moved"}

    copies = [layer("", *range(10, 30)), layer("", 12, 13)]
    given = [copies[0], layer("edgec_x", 12, 13), copies[1], layer("edgec_all", *range(11, 29))]
    graph = chain(20).with_layers(given)
    kernels = [node.kernel for node in graph.nodes]
    by_compiler = ["made by the compiler"]
    assert kernels == [
        *by_compiler,
        "edgec_all",
        *["edgec_x"] * 2,
        *["edgec_all"] * 15,
        *by_compiler,
    ]
    assert graph.nodes[3].state == "right"
    first, second = data_of(page(graph))["views"]["lines"]
    assert first["kernel"] == "edgec_all; edgec_x; made by the compiler"
    assert second["kernel"] == "edgec_all; made by the compiler"


def test_an_error_that_is_no_number_leaves_the_page_readable() -> None:
    layer = {"kernel": "", "operations": [12], "operation": 12, "error": "inf", "state": "WRONG"}
    text = page(chain(12).with_layers([layer]))
    assert data_of(text)["views"]["operations"][2]["error"] > 1e300
    assert "Infinity" not in re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]  # type: ignore[index]


def test_two_graphs_are_compared_in_their_order() -> None:
    one, other = chain(30), chain(31)
    found = compared(one, other)
    assert [node.state for node in found.nodes] == [""] * 30 + ["only in the second"]
    assert found.nodes[30].reads[0] == 29
    assert [n.state for n in compared(other, one).nodes][-1] == "only in the first"
    assert not compared(one, one).facts


def test_thousands_of_nodes_open_at_once_and_are_searched_folded_and_chosen(
    tmp_path: Path,
) -> None:
    need_chromium()
    path = tmp_path / "net.html"
    path.write_text(page(chain(MANY)))
    with Chromium() as browser:
        shown = browser.open(path.as_uri(), width=1000, height=700)
        shown.wait("typeof drawn === 'number' && drawn > 0")
        assert shown.run("nodes.length") == MANY / 10
        shown.run("show('operations')")
        assert shown.run("nodes.length") == MANY
        # All in sight at once, drawn within a second.
        shown.run("fit(nodes); scale *= 0.9; draw()")
        assert shown.run("drawn") == MANY
        assert (
            shown.run(
                "(() => { const t = performance.now(); draw(); return performance.now() - t; })()"
            )
            < 1000
        )
        shown.run("pick('search').value = 'f32[4321]'; search()")
        assert shown.run("pick('count').textContent") == f"1 of {MANY}"
        shown.run("document.querySelector('#found li').click()")
        assert "net.py:432" in shown.run("pick('node').textContent")
        before = shown.run("scale")
        shown.run(
            "canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -200, clientX: 300, "
            "clientY: 300, cancelable: true}))"
        )
        assert shown.run("scale") > before
        left = shown.run("left")
        shown.drag([(300, 300), (340, 310), (380, 320)])
        assert shown.run("left") == pytest.approx(left + 80, abs=2)
