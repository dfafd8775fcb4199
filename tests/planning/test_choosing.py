"""Which ways to cut are looked at: seeds, merging, and a search by estimates."""

from collections.abc import Callable, Sequence

import numpy as np

from edgec.exporters.mesh.uncut import Leaf, Shardings
from edgec.planning.choosing import merged, search, seeds, texts
from edgec.planning.costs import Said, Spent
from edgec.planning.links import Link, Links
from edgec.runtime.errors import EdgecError, ExportError
from edgec.runtime.mesh.plan import Mesh

_MESH = Mesh(axes={"data": 2, "model": 3})


def _leaf(name: str, *shape: int, weight: bool = True) -> Leaf:
    return Leaf(name=name, shape=shape, bytes=int(np.prod(shape)) * 4, weight=weight)


_LEAVES = (
    _leaf("x", 4, 9, weight=False),
    _leaf("layers.0.up", 9, 12),
    _leaf("layers.1.up", 9, 12),
    _leaf("layers.0.bias", 1),
)


def test_layers_are_cut_alike_and_only_where_it_goes_in_whole_parts() -> None:
    assert list(seeds(_LEAVES, _MESH, "data")) == [
        {"x": (("data",), ())},
        {"layers.0.up": ((), ("data",)), "layers.1.up": ((), ("data",))},
    ]
    assert {"x": ((), ("model",))} in list(seeds(_LEAVES, _MESH, "model"))


def test_two_cuts_of_one_axis_do_not_go_together() -> None:
    one: Shardings = {"x": (("data",), ())}
    assert merged(one, {"x": (("model",), ())}) is None
    assert merged(one, {"x": ((), ("data",))}) is None
    assert merged(one, {"x": ((), ("model",))}) == {"x": (("data",), ("model",))}
    assert merged(one, {"w": (("model",),)}) == {"x": (("data",), ()), "w": (("model",),)}


def test_a_pattern_is_written_where_it_means_these_alone() -> None:
    cut: Shardings = {"layers.0.up": ((), ("data",)), "layers.1.up": ((), ("data",))}
    names = [leaf.name for leaf in _LEAVES]
    assert texts(cut, names) == ["layers.*.up=_,data"]
    assert texts(cut, [*names, "layers.2.up"]) == ["layers.0.up=_,data", "layers.1.up=_,data"]


def _all_asked(ways: Sequence[Shardings]) -> list[Spent | EdgecError]:
    return [_asked(way) for way in ways]


def _asked(shardings: Shardings) -> Spent | EdgecError:
    """A program whose work is halved by `x`, and by the weights for a sum; nothing does both."""
    named = {name.split(".")[-1] for name in shardings}
    if "up" in named and any("model" in axis for cut in shardings.values() for axis in cut):
        return ExportError("Shardy does not take it")
    said = (Said(kind="all_reduce", groups=((0, 3),), bytes=1000),) if "up" in named else ()
    return Spent(work=0.5 if named else 1.0, parts=1 + len(said), said=said)


def _seconds(link: float) -> Callable[[Spent], float]:
    return lambda spent: spent.work + link * sum(said.bytes for said in spent.said)


def test_what_costs_no_words_comes_first_and_cuts_that_add_nothing_are_left() -> None:
    found, refused = search(_all_asked, _LEAVES, _MESH, _seconds(1e-4))
    assert found[0].shardings == {"x": (("data",), ())}
    assert [each.estimate for each in found] == sorted(each.estimate for each in found)
    assert {"layers.0.up", "layers.1.up"} in [set(each.shardings) for each in found]
    assert {"layers.0.up", "layers.1.up", "x"} not in [set(each.shardings) for each in found]
    assert set(refused.values()) == {"Shardy does not take it"}


def test_a_link_is_that_of_the_axes_between_those_who_speak() -> None:
    links = Links(
        mesh=_MESH,
        along={
            "data": Link(start=1.0, each_byte=0.0),
            "model": Link(start=2.0, each_byte=0.5),
        },
    )
    assert links.seconds(Said(kind="all_reduce", groups=((0, 3), (1, 4)), bytes=8)) == 1.0
    assert links.seconds(Said(kind="all_reduce", groups=((0, 1, 2),), bytes=8)) == 6.0
    assert links.seconds(Said(kind="all_gather", groups=((0, 1, 2),), bytes=8)) == 4.0
    assert links.seconds(Said(kind="all_gather", groups=((0, 1, 2, 3, 4, 5),), bytes=8)) == 4.0
