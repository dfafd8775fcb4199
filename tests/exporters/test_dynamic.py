import numpy as np
import pytest

from edgec.exporters.dynamic import Dynamic, other_sizes, resize
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim

BATCH = Dim(name="batch", minimum=1, maximum=8)


def test_a_bare_dimension_is_the_leading_one_of_inputs_of_that_size() -> None:
    shapes = Dynamic.parse("batch=1..8").shapes(
        {"x": (4, 3), "table": (100, 3), "mask": (4,), "scale": ()}
    )
    assert shapes == {"x": (BATCH, 3), "table": (100, 3), "mask": (BATCH,), "scale": ()}


def test_an_axis_is_named_by_input_or_argument() -> None:
    dynamic = Dynamic.parse(["tokens:1=length=1..128", "cache:-1=length", "batch=1..8"])
    length = Dim(name="length", minimum=1, maximum=128)
    shapes = dynamic.shapes({"tokens": (2, 5), "cache.k": (2, 7, 5), "cache[1]": (5,)})
    assert shapes == {
        "tokens": (BATCH, length),
        "cache.k": (BATCH, 7, length),
        "cache[1]": (length,),
    }


def test_a_mapping_says_the_same() -> None:
    by_axis = Dynamic.parse({"x": {1: "n=2..4"}, "y": (None, "n")})
    by_text = Dynamic.parse(["x:1=n=2..4", "y:1=n"])
    assert by_axis == by_text
    assert Dynamic.parse(by_text) is by_text
    assert not Dynamic.parse(None)
    assert Dynamic.parse(BATCH) == Dynamic.parse("batch=1..8")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["a", "b"], "a and b cannot both be the leading dimension"),
        (["x:0=n=1..2", "y:0=n=1..3"], "n has two ranges"),
        (["=1..2"], "no named dimension"),
        ([3], "3 is no dynamic dimension"),
        (3, "3 does not say"),
        ({"x": {"a": "b"}}, "is no dimension of x"),
    ],
)
def test_what_makes_no_sense_is_refused(value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Dynamic.parse(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokns:0=n", "there is no input tokns"),
        ("tokens:2=n", "tokens has 2 dimensions and no axis 2"),
        ("tokens:0=n=4..8", "size 2, out of n=4..8"),
    ],
)
def test_what_does_not_fit_the_examples_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Dynamic.parse(text).shapes({"tokens": (2, 5)})


def test_one_name_with_two_example_sizes_is_refused() -> None:
    with pytest.raises(UsageError, match="n is 2 in the example x and 3 in y"):
        Dynamic.parse(["x:0=n", "y:0=n"]).shapes({"x": (2,), "y": (3,)})


def test_other_sizes_are_one_above_and_the_smallest() -> None:
    length = Dim(name="n", minimum=2)
    assert other_sizes({"batch": BATCH}, {"batch": 3}) == ({"batch": 8}, {"batch": 1})
    assert other_sizes({"batch": BATCH}, {"batch": 8}) == ({"batch": 7}, {"batch": 1})
    assert other_sizes({"batch": BATCH, "n": length}, {"batch": 1, "n": 2}) == (
        {"batch": 8, "n": 9},
    )
    assert other_sizes({"one": Dim(name="one", minimum=1, maximum=1)}, {"one": 1}) == ()


def test_resizing_keeps_to_the_examples_values() -> None:
    value = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(resize(value, (3, 2)), [[0, 1], [3, 4], [0, 1]])
    assert resize(value, (2, 3)) is value
