"""A profile as a table: the longest kernel first, what lies between them, and outside of all."""

from edgec.cli.amounts import seconds_text
from edgec.cli.report import Grid
from edgec.runtime import Profile

__all__ = ["dispatch_grid"]


def dispatch_grid(profile: Profile) -> Grid:
    """A line a kernel; `where` only if the module knows any."""
    whole = max(profile.elapsed or 0.0, profile.total) or 1.0
    rows = [
        (
            d.name,
            str(d.count),
            seconds_text(d.mean),
            seconds_text(d.total),
            f"{d.total / whole:.1%}",
        )
        for d in profile.dispatches
    ]
    places = [d.where or "" for d in profile.dispatches]
    others = [("between", profile.idle)] if profile.idle else []
    if profile.elapsed is not None:
        others.append(("outside", max(0.0, profile.elapsed - profile.total - profile.idle)))
    for name, rest in others:
        mean = seconds_text(rest / profile.calls)
        rows.append((name, str(profile.calls), mean, seconds_text(rest), f"{rest / whole:.1%}"))
        places.append("")
    columns = ("dispatch", "count", "mean", "total", "share")
    right = frozenset({1, 2, 3, 4})
    if not any(places):
        return Grid(columns=columns, rows=tuple(rows), right=right)
    placed = tuple((*row, place) for row, place in zip(rows, places, strict=True))
    return Grid(columns=(*columns, "where"), rows=placed, right=right)
