"""Results to a picture: how fast every engine is beside edgec, a row of dots a model."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.engines.catalogue import ENGINES, OURS
from benchmarks.peers.models.catalogue import MODELS
from benchmarks.peers.results import Results, Row

__all__ = ["draw"]

# Colours that stay apart for people who see fewer of them (Okabe and Ito), and a shape each.
_MARKS = {
    "edgec": ("#D55E00", "D"),
    "edgert": ("#F0A070", "d"),
    "iree": ("#999999", "o"),
    "ort": ("#0072B2", "s"),
    "openvino": ("#56B4E9", "^"),
    "xla": ("#009E73", "v"),
    "litert": ("#E69F00", "P"),
    "torch": ("#CC79A7", "X"),
}
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_FEW_TICKS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_COLOURS = 64
"""Of the file: eight marks on white need no more, and it is a third as large."""


def draw(results: Results, path: Path) -> bool:
    """Write the picture; False where edgec has no times to compare with."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from PIL import Image

    counts = sorted({row.threads for row in results.rows})
    panels = {t: _speeds([row for row in results.rows if row.threads == t]) for t in counts}
    models = [name for name in MODELS if any(name in speeds for speeds in panels.values())]
    if not models:
        return False
    figure, axes = pyplot.subplots(
        1,
        len(counts),
        figsize=(1.6 + 4.7 * len(counts), 1.6 + 0.42 * len(models)),
        sharey=True,
        squeeze=False,
    )
    for axis, threads in zip(axes[0], counts, strict=True):
        _panel(axis, models, panels[threads], f"{threads} thread{'s' if threads > 1 else ''}")
    axes[0][0].set_yticks(range(len(models)), [MODELS[name].title for name in models])
    axes[0][0].invert_yaxis()
    handles: dict[str, Any] = {}
    for axis in axes[0]:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    order = [e.title for e in ENGINES.values() if e.title in handles]
    figure.legend(
        [handles[title] for title in order],
        order,
        loc="lower center",
        ncols=min(len(order), 4 if len(counts) > 1 else 2),
        frameon=False,
    )
    figure.suptitle("Speed relative to edgec, batch 1 (right is faster)")
    rows = -(-len(order) // (4 if len(counts) > 1 else 2))
    bottom = (0.55 + 0.24 * rows) / figure.get_figheight()
    figure.tight_layout(rect=(0, bottom * 0.6, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=130)
    pyplot.close(figure)
    Image.open(drawn).convert("RGB").quantize(_COLOURS).save(path, "PNG", optimize=True)
    return True


def _speeds(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """For each model edgec's time divided by each engine's."""
    right = [row for row in rows if row.right]
    ours = {row.model: row.fastest for row in right if row.engine == OURS}
    speeds: dict[str, dict[str, float]] = {}
    for row in right:
        if row.model in ours:
            speeds.setdefault(row.model, {})[row.engine] = ours[row.model] / row.fastest
    return speeds


def _panel(axis: Any, models: list[str], speeds: dict[str, dict[str, float]], title: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xscale("log")
    axis.axvline(1, color=_MARKS[OURS][0], linewidth=1.2)
    for place, model in enumerate(models):
        known = speeds.get(model, {})
        if known:
            axis.plot(
                [min(known.values()), max(known.values())], [place] * 2, color="#dddddd", zorder=1
            )
    for engine, (colour, shape) in _MARKS.items():
        dots = [
            (speeds[model][engine], place)
            for place, model in enumerate(models)
            if engine in speeds.get(model, {})
        ]
        if dots:
            x, y = zip(*dots, strict=True)
            axis.scatter(
                x,
                y,
                s=46,
                color=colour,
                marker=shape,
                edgecolors="white",
                linewidths=0.6,
                label=ENGINES[engine].title,
                zorder=4 if engine == OURS else 3,
            )
    low, high = axis.get_xlim()
    low, high = min(low, 0.5), max(high, 2.0)
    ticks = [t for t in (_FEW_TICKS if high / low > 100 else _TICKS) if low <= t <= high]
    axis.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axis.minorticks_off()
    axis.set_xlim(low, high)
    axis.grid(axis="x", color="#eeeeee", zorder=0)
    axis.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
