"""Where an operation comes from, from what a framework kept of it."""

import pytest
from iree.compiler import ir

from edgec.toolchain.ir.places import place_of, source_line

MODEL, PACKAGE = '"/srv/models/net.py":7:3', '"/usr/lib/python3/site-packages/layers/dense.py":9:1'
SCRIPT = '"/srv/models/export.py":3:1'  # calls edgec
EDGEC, COMMAND = (
    '"/opt/edgec/exporters/from_jax/export.py":5:1',
    '"/usr/lib/python3/site-packages/typer/main.py":1445:0',
)


def stack(*places: str) -> str:
    """A location as frameworks write it, innermost first."""
    *outer, last = places
    return "".join(f"callsite({place} at " for place in outer) + last + ")" * len(outer)


@pytest.mark.parametrize(
    ("location", "line", "place"),
    [
        (stack(PACKAGE, MODEL, EDGEC, COMMAND), "/srv/models/net.py:7", None),
        (stack(EDGEC, MODEL, PACKAGE, EDGEC, COMMAND), "/srv/models/net.py:7", None),
        (stack(PACKAGE, EDGEC, SCRIPT), "/usr/lib/python3/site-packages/layers/dense.py:9", None),
        (stack(EDGEC, PACKAGE, EDGEC, SCRIPT), None, None),
        (stack(EDGEC, COMMAND), None, None),
        ('"/0/Conv"', None, "node /0/Conv"),
        ('"jit(main)/CONV_2D relu"(' + stack(EDGEC, COMMAND) + ")", None, "node CONV_2D relu"),
        ('fused["Mean", "Mean:0"]', None, "node Mean"),
        ('"dense"(' + stack(MODEL, EDGEC) + ")", "/srv/models/net.py:7", None),
        ("unknown", None, None),
    ],
)
def test_the_innermost_line_of_a_model_or_its_node(
    location: str, line: str | None, place: str | None
) -> None:
    text = f"func.func private @f() loc({location})"
    with ir.Context():
        op = ir.Module.parse(text).body.operations[0]
        assert source_line(op) == line
        assert place_of(op) == (place or line)
