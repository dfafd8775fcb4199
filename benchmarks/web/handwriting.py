"""Digits as a hand writes them: strokes of points, both coordinates from 0 to 1, y downwards."""

import itertools
import math
from collections.abc import Sequence

__all__ = ["STROKES", "Stroke"]

Stroke = Sequence[tuple[float, float]]


def _arc(x: float, y: float, wide: float, high: float, start: float, end: float) -> Stroke:
    """Part of an ellipse around (x, y); degrees clockwise from the right."""
    count = 24
    angles = [math.radians(start + (end - start) * i / count) for i in range(count + 1)]
    return [(x + wide * math.cos(a), y + high * math.sin(a)) for a in angles]


def _line(*corners: tuple[float, float]) -> Stroke:
    points: list[tuple[float, float]] = []
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        points += [(x0 + (x1 - x0) * i / 8, y0 + (y1 - y0) * i / 8) for i in range(9)]
    return points


STROKES: dict[int, Sequence[Stroke]] = {
    0: [_arc(0.5, 0.5, 0.2, 0.34, -90, 270)],
    1: [_line((0.38, 0.3), (0.52, 0.16), (0.52, 0.84))],
    2: [[*_arc(0.5, 0.34, 0.18, 0.18, 190, 390), *_line((0.64, 0.45), (0.32, 0.84), (0.7, 0.84))]],
    3: [[*_arc(0.46, 0.33, 0.18, 0.17, 200, 440), *_arc(0.46, 0.66, 0.2, 0.18, -80, 160)]],
    4: [_line((0.55, 0.16), (0.28, 0.58), (0.72, 0.58)), _line((0.58, 0.4), (0.54, 0.86))],
    5: [
        [*_line((0.36, 0.18), (0.34, 0.48)), *_arc(0.47, 0.64, 0.19, 0.2, 230, 510)],
        _line((0.36, 0.18), (0.68, 0.17)),
    ],
    6: [[*_arc(0.66, 0.52, 0.34, 0.36, 255, 170), *_arc(0.49, 0.67, 0.17, 0.17, 180, 540)]],
    7: [_line((0.3, 0.18), (0.7, 0.18), (0.44, 0.84)), _line((0.38, 0.5), (0.66, 0.5))],
    8: [[*_arc(0.5, 0.32, 0.15, 0.16, 90, 450), *_arc(0.5, 0.66, 0.18, 0.18, -90, 270)]],
    9: [[*_arc(0.5, 0.34, 0.17, 0.17, 0, -360), *_line((0.67, 0.34), (0.62, 0.84))]],
}
"""One way to write each digit, by the digit."""
