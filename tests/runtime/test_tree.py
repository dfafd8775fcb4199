"""Nested values are taken apart and put together without loss."""

from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.runtime import tree
from edgec.runtime.errors import InputError, ProgramError

Point = namedtuple("Point", "x y")

LEAVES = st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | LEAVES,
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), children, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_flatten_and_unflatten_are_inverse(value: object) -> None:
    leaves, skeleton = tree.flatten(value)
    assert tree.unflatten(skeleton, leaves) == value


@given(VALUES)
def test_json_keeps_the_skeleton_with_its_container_types(value: object) -> None:
    _, skeleton = tree.flatten(value)
    back = tree.from_json(tree.to_json(skeleton))
    assert back == skeleton
    assert repr(back) == repr(skeleton)


@given(VALUES)
def test_match_finds_every_leaf_that_flatten_found(value: object) -> None:
    leaves, skeleton = tree.flatten(value)
    found = tree.match(skeleton, value, "x")
    assert [found[i] for i in range(len(leaves))] == leaves


def test_leaf_names_spell_the_path() -> None:
    _, skeleton = tree.flatten({"cache": [{"k": 1.0, "v": 2.0}], "n": 3.0})
    names = tree.leaf_names(skeleton, "state")
    assert names == {0: "state.cache[0].k", 1: "state.cache[0].v", 2: "state.n"}


def test_leaves_are_renumbered_and_lost_ones_become_none() -> None:
    assert tree.renumber({"a": 0, "b": [1, (2, None)]}, {0: 5, 2: 0}) == {
        "a": 5,
        "b": [None, (0, None)],
    }


def test_a_named_tuple_becomes_a_dict_of_its_fields() -> None:
    leaves, skeleton = tree.flatten(Point(1.0, 2.0))
    assert (leaves, skeleton) == ([1.0, 2.0], {"x": 0, "y": 1})
    assert tree.match(skeleton, Point(3.0, 4.0), "p") == {0: 3.0, 1: 4.0}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": 1.0}, "missing ['b']"),
        ({"a": 1.0, "b": [1.0, 2.0], "c": 3.0}, "unknown ['c']"),
        ({"a": 1.0, "b": [1.0]}, "x.b takes 2 items and got 1"),
        ({"a": None, "b": [1.0, 2.0]}, "x.a takes one array and got NoneType"),
        ([1.0], "x takes a dict and got list"),
    ],
)
def test_another_structure_is_refused_by_place(value: object, says: str) -> None:
    with pytest.raises(InputError) as refused:
        tree.match({"a": 0, "b": (1, 2)}, value, "x")
    assert says in str(refused.value)


@pytest.mark.parametrize("damaged", [-1, True, "x", {"set": []}, {"dict": []}, {"tuple": [-3]}, []])
def test_damaged_json_is_refused(damaged: object) -> None:
    with pytest.raises(ProgramError):
        tree.from_json(damaged)
