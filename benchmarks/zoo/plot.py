"""The zoo's times to a picture: the best peer's over edgec's, a row a model."""

import io
from collections.abc import Sequence
from pathlib import Path

from benchmarks.zoo.row import Row

__all__ = ["draw"]

# Colours that stay apart for people who see fewer of them (Okabe and Ito), and a shape each.
_MARKS = {1: ("#0072B2", "s"), 2: ("#D55E00", "D")}
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_COLOURS = 16
"""Of the file: two marks on white need no more, and it is a quarter as large."""


def draw(rows: Sequence[Row], path: Path) -> bool:
    """Write the picture; False where nothing was timed."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from PIL import Image

    timed = [row for row in rows if any(row.ratio(threads) for threads in _MARKS)]
    if not timed:
        return False
    figure, axis = pyplot.subplots(figsize=(7, 1.4 + 0.24 * len(timed)))
    axis.set_xscale("log")
    axis.axvline(1, color="#999999", linewidth=1.2)
    for threads, (colour, shape) in _MARKS.items():
        dots = [
            (found[0], place)
            for place, row in enumerate(timed)
            if (found := row.ratio(threads)) is not None
        ]
        if dots:
            x, y = zip(*dots, strict=True)
            name = f"{threads} thread{'s' if threads > 1 else ''}"
            axis.scatter(x, y, s=32, color=colour, marker=shape, label=name, zorder=3)
    low, high = axis.get_xlim()
    ticks = [tick for tick in _TICKS if min(low, 0.5) <= tick <= max(high, 2)]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(timed)), [row.name for row in timed], fontsize=9)
    axis.set_ylim(-0.7, len(timed) - 0.3)
    axis.invert_yaxis()
    axis.grid(axis="x", color="#eeeeee", zorder=0)
    axis.legend(frameon=False)
    axis.set_title("Best peer's time / edgec's\n(right of 1, edgec is faster)", fontsize=10)
    figure.tight_layout()
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    pyplot.close(figure)
    Image.open(drawn).convert("RGB").quantize(_COLOURS).save(path, "PNG", optimize=True)
    return True
