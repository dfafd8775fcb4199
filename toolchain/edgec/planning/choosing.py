"""Which ways to cut a model are worth measuring: a search by estimates, axis of the mesh by axis.

An input or a weight is cut along one axis of its own, and the partitioner carries that through the
program: of a product whose weight is cut along its columns the result is cut, and so the next
weight's rows. Weights of one shape whose names differ in numbers alone (those of the layers of a
network) are cut alike. Cuts are added as long as the estimate gets better; what is estimated comes
from the partitioned program, so what a cut costs in collectives is in it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgec.exporters.mesh.uncut import Leaf, Shardings
from edgec.planning.costs import Spent
from edgec.runtime.errors import EdgecError, UsageError
from edgec.runtime.mesh.plan import Mesh, Sharding

__all__ = ["Candidate", "merged", "search", "seeds", "texts"]

_LEAST = 0.01
"""Weights of a smaller part of all weights' bytes are not cut by themselves."""
_BETTER = 0.98
"""A further cut is worth it if it takes at most this part of the time without it."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A way to cut: what a call takes of each device, and the seconds that this is estimated as."""

    shardings: Shardings
    spent: Spent
    estimate: float


def seeds(leaves: Sequence[Leaf], mesh: Mesh, axis: str) -> Iterator[Shardings]:
    """Every input, and every group of weights, cut along one of its axes by one of the mesh's."""
    whole = sum(leaf.bytes for leaf in leaves if leaf.weight)
    groups: dict[tuple[object, ...], list[Leaf]] = {}
    for leaf in leaves:
        key = (re.sub(r"\d+", "#", leaf.name), leaf.shape) if leaf.weight else (leaf.name,)
        groups.setdefault(key, []).append(leaf)
    size = mesh.axes[axis]
    for group in groups.values():
        shape = group[0].shape
        if group[0].weight and sum(leaf.bytes for leaf in group) < _LEAST * whole:
            continue
        for place, extent in enumerate(shape):
            if extent % size == 0 and extent >= size:
                cut = tuple((axis,) if at == place else () for at in range(len(shape)))
                yield {leaf.name: cut for leaf in group}


def merged(one: Shardings, other: Shardings) -> Shardings | None:
    """Both; None where both cut an array along one axis of it, or by one of the mesh's."""
    found = dict(one)
    for name, cut in other.items():
        known = found.get(name, ((),) * len(cut))
        used = [axis for axes in (*known, *cut) for axis in axes]
        if len({*used}) < len(used) or any(a and b for a, b in zip(known, cut, strict=True)):
            return None
        found[name] = tuple((*a, *b) for a, b in zip(known, cut, strict=True))
    return found


def search(
    ask: Callable[[Sequence[Shardings]], Sequence[Spent | EdgecError]],
    leaves: Sequence[Leaf],
    mesh: Mesh,
    seconds: Callable[[Spent], float],
    tell: Callable[[str], object] = lambda text: None,
) -> tuple[list[Candidate], dict[str, str]]:
    """The ways that were looked at, those of the least estimate first, and why others were not.

    Args:
        ask: what ways take, or why they cannot be gone.
        leaves: what can be cut.
        mesh: the devices.
        seconds: the estimate of what is taken.
        tell: is told what is done.

    Raises:
        UsageError: the program cannot be partitioned even as it is.
    """
    refused: dict[str, str] = {}

    def tried(ways: Sequence[Shardings]) -> list[Candidate]:
        made = []
        for way, answer in zip(ways, ask(ways), strict=True):
            if isinstance(answer, EdgecError):
                refused[" ".join(texts(way))] = answer.what
            else:
                made.append(Candidate(shardings=way, spent=answer, estimate=seconds(answer)))
        return made

    found = tried([{}])
    if not found:
        raise UsageError(
            f"no mesh cuts this program: {refused['']}", hint="compile it for one device"
        )
    best = found[0]
    for axis in (name for name, size in mesh.axes.items() if size > 1):
        options = list(seeds(leaves, mesh, axis))
        better = True
        while better:
            ways = [way for seed in options if (way := merged(best.shardings, seed)) is not None]
            tell(f"{len(ways)} ways to cut along {axis}{' further' if best.shardings else ''}")
            made = sorted(tried(ways), key=lambda each: each.estimate)
            found += made
            better = bool(made) and made[0].estimate < _BETTER * best.estimate
            if better:
                best = made[0]
                tell(f"{' '.join(texts(best.shardings))}: {best.estimate * 1e3:.3f} ms estimated")
    return sorted(_distinct(found), key=lambda each: each.estimate), refused


def _distinct(found: Sequence[Candidate]) -> list[Candidate]:
    """Without ways that only add cuts to a better one; one of those that come to one program."""
    kept: dict[object, Candidate] = {}
    for each in sorted(found, key=lambda each: (len(each.shardings), each.estimate)):
        said = tuple(sorted(map(str, each.spent.said)))
        if not any(_adds(each, other) for other in kept.values()):
            kept.setdefault((each.spent.work, each.spent.parts, said), each)
    return list(kept.values())


def _adds(each: Candidate, other: Candidate) -> bool:
    """Whether a way is the other with more cuts, and no better for them."""
    more = each.shardings.items() >= other.shardings.items() and bool(other.shardings)
    return more and each.estimate >= other.estimate


def texts(shardings: Shardings, names: Sequence[str] = ()) -> list[str]:
    """The same as `--shard` takes it (`x=data,_`); weights of one pattern by that.

    Args:
        shardings: a way to cut.
        names: of all inputs and weights; none for no patterns.
    """
    groups: dict[tuple[str, Sharding], list[str]] = {}
    for name, cut in shardings.items():
        groups.setdefault((re.sub(r"\d+", "*", name), cut), []).append(name)
    found = []
    for (pattern, cut), members in groups.items():
        said = ",".join("+".join(axes) or "_" for axes in cut)
        whole = [
            name for name in names if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name)
        ]
        if len(members) > 1 and set(whole) == set(members):
            found.append(f"{pattern}={said}")
        else:
            found += [f"{name}={said}" for name in members]
    return found
