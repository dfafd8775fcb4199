"""Sizes that a file leaves open: what examples have there, and the word about what stays fixed."""

import logging

import pytest

from edgec.exporters.dynamic import Dynamic
from edgec.exporters.open_sizes import example_shape, say_fixed
from edgec.runtime.signature import Dim


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ([], (1, 3, 64, 64)),
        (["x:2=h=8..32"], (1, 3, 32, 64)),
        (["x:-1=w=100.."], (1, 3, 64, 100)),
        (["batch=2..4"], (2, 3, 64, 64)),
        (["y:2=h=8..32"], (1, 3, 64, 64)),
    ],
)
def test_an_example_lies_in_the_range_that_is_asked_for(
    asked: list[str], shape: tuple[int, ...]
) -> None:
    opened = (None, 3, "height", None)
    assert example_shape("x", opened, 64, Dynamic.parse(asked)) == shape


def test_a_dimension_that_leads_elsewhere_is_a_batch_here_too() -> None:
    found = example_shape("x", (3, "batch"), 64, Dynamic(), leading=["batch"])
    assert found == (3, 1)


def test_fixed_sizes_are_told_with_the_flag_that_opens_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened = {"x": ("batch", 3, "height", None), "y": (4,)}
    with caplog.at_level(logging.WARNING, "edgec.exporters"):
        say_fixed("main", opened, {"x": (Dim(name="batch"), 3, 64, 32), "y": (4,)})
    assert "x:2 (height) is 64, x:3 is 32;" in caplog.text
    assert "--dynamic='x:3=n=1..' keeps one open" in caplog.text
    caplog.clear()
    say_fixed("main", {"y": (4,)}, {"y": (4,)})
    assert caplog.text == ""
