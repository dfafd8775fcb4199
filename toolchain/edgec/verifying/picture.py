"""Values along a network to a picture of their errors: SVG, a point a value, in their order."""

import math
from collections.abc import Callable, Sequence
from html import escape

from edgec.verifying.layers import Layer, Layers, State

__all__ = ["picture"]

_WIDTH, _HEIGHT = 960, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 46, 110
_MOST_LABELS = 40
_LOWEST = 1e-9
_LONGEST = 20
_COLOURS = {
    State.RIGHT: "#2a7f4f",
    State.WRONG: "#c0262d",
    State.AFTER: "#e08a1e",
    State.INSIDE: "#8a8f98",
    State.MOVED: "#8a8f98",
}


def picture(layers: Layers, title: str) -> str:
    """The picture as the text of an SVG file.

    Each value that was compared has a point: its error as a part of its spread, on a logarithmic
    axis. What all of its differences together may be is a mark; below the axis stand the lines,
    and the first value that is wrong has its line's name.
    """
    shown = [each for each in layers.layers if each.error is not None]
    errors = [each.error or 0.0 for each in shown]
    finite = [error for error in errors if math.isfinite(error) and error > 0]
    finite += [allowed for each in shown if (allowed := _allowed(each))]
    low = math.floor(math.log10(max(min(finite, default=1e-7), _LOWEST)))
    high = max(math.ceil(math.log10(max(finite, default=1.0))), low + 1)

    def across(place: int) -> float:
        return _LEFT + (place + 0.5) * (_WIDTH - _LEFT - _RIGHT) / max(len(shown), 1)

    def down(error: float) -> float:
        part = (math.log10(max(min(error, 10.0**high), 10.0**low)) - low) / (high - low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        y = down(10.0**power)
        lines.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" '
            f'stroke="#e4e6ea"/><text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" '
            f'fill="#555">1e{power}</text>'
        )
    points, marks = [], []
    for place, (each, error) in enumerate(zip(shown, errors, strict=True)):
        x, y = across(place), down(error if math.isfinite(error) else math.inf)
        points.append(f"{x:.1f},{y:.1f}")
        allowed = _allowed(each)
        if allowed:
            half = min(8.0, 0.4 * (across(1) - across(0)))
            marks.append(f"M{x - half:.1f} {down(allowed):.1f}h{2 * half:.1f}")
        lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_radius(each)}" '
            f'fill="{_COLOURS.get(each.state, "#8a8f98")}"><title>{escape(_said(each))}</title>'
            "</circle>"
        )
    if len(points) > 1:
        lines.insert(3, f'<polyline points="{" ".join(points)}" fill="none" stroke="#c9ced6"/>')
    if marks:
        lines.insert(3, f'<path d="{"".join(marks)}" stroke="#5a6fa8" fill="none"/>')
    lines += _labels(shown, across)
    first = layers.first_wrong
    if first is not None and first in shown:
        x, y = across(shown.index(first)), down(first.error or 0.0)
        anchor = "end" if x > _WIDTH / 2 else "start"
        lines.append(
            f'<text x="{x:.1f}" y="{max(y - 10, _TOP - 6):.1f}" text-anchor="{anchor}" '
            f'fill="#c0262d">first wrong: {escape(_short(first.line))}</text>'
        )
    lines.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 12}" fill="#555">{len(shown)} values that dispatches '
        "write, in order; error as a part of each value's spread; blue: what is allowed</text>"
    )
    return "\n".join([*lines, "</svg>", ""])


def _labels(shown: Sequence[Layer], across: Callable[[int], float]) -> list[str]:
    """The line of each value whose line is another than the one's before; some of many."""
    places = [
        place
        for place, each in enumerate(shown)
        if place == 0 or _short(each.line) != _short(shown[place - 1].line)
    ]
    places = places[:: math.ceil(len(places) / _MOST_LABELS) or 1]
    foot = _HEIGHT - _BOTTOM + 14
    return [
        f'<text x="{across(place):.1f}" y="{foot}" font-size="10" fill="#555" text-anchor="end" '
        f'transform="rotate(-40 {across(place):.1f} {foot})">{escape(_cut(shown[place]))}</text>'
        for place in places
    ]


def _cut(each: Layer) -> str:
    text = _short(each.line)
    return text if len(text) <= _LONGEST else f"…{text[-_LONGEST:]}"


def _allowed(each: Layer) -> float | None:
    """What all differences of a value together may be, as a part of its spread."""
    spread = 0.0 if each.comparison is None else each.comparison.tolerance.spread
    return spread / 3 or None


def _radius(each: Layer) -> int:
    return 5 if each.state is State.WRONG else 3


def _said(each: Layer) -> str:
    return (
        f"{_short(each.line)} {each.name} {list(each.shape)}: {each.state.value}, {each.error:.1e}"
    )


def _short(line: str) -> str:
    return line.replace("\\", "/").rpartition("/")[2] or "no line"
