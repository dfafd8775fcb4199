"""Results to docs/benchmarks_edgert.md and the picture beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.edgert.results import Result
from benchmarks.standing import sentence

__all__ = ["AIMS", "Aim", "draw", "page"]

TINY = 10e-6
"""Seconds that a call of the smallest model may take."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a figure of edgert should be beside IREE's, as a part of it."""

    title: str
    most: float
    ratio: Callable[[Result], float]


AIMS = (
    Aim(
        title="one thread, of local-sync",
        most=1.0,
        ratio=lambda result: result.call(0) / result.call(1),
    ),
    Aim(
        title="two threads, of local-task",
        most=0.9,
        ratio=lambda result: result.call(2) / result.call(3),
    ),
    Aim(
        title="load and first call, of IREE as it comes",
        most=0.5,
        ratio=lambda result: result.life(0) / result.life(4),
    ),
    Aim(
        title="load and first call, of IREE with mapped files",
        most=0.5,
        ratio=lambda result: result.life(0) / result.life(1),
    ),
    Aim(
        title="peak memory, of IREE with mapped files",
        most=1.0,
        ratio=lambda result: result.peak(0) / result.peak(1),
    ),
)

_INTRO = """# edgert beside IREE's runtime

The very same modules on edgec's own C runtime and on IREE's CPU drivers. Written by
`python -m benchmarks.edgert`, which makes the modules (four of them are those of
[benchmarks.md](benchmarks.md)) and measures both in turns, {rounds} rounds of {seconds:g} s of
calls and three lives of a process each; the least of all counts.

![edgert's figures as a part of IREE's]({plot})

- **call**: the fastest, in milliseconds, by `edgert bench` and `iree-benchmark-module`.
- **load and first call**: the life of a process that opens the module, calls its first function
  once on zeros and ends, in milliseconds: `edgert run` and `iree-run-module` (the program itself,
  without the Python around it), one thread, the file in the system's cache. IREE's reads the
  file as it comes, and maps it as edgert does where it is told to (`--module_mode=mmap`).
  Calls are timed of IREE as it comes, which is its faster way.
- **peak memory**: the most that this process had resident, mapped files too, in MB.
"""


def page(about: dict[str, Any], results: Sequence[Result], plot: str) -> str:
    """The whole page; `plot` is the picture's path beside it."""
    machine = about["machine"]
    parts = [
        _INTRO.format(rounds=about["rounds"], seconds=about["seconds"], plot=plot),
        _aims(results),
        "## Calls (ms)\n",
        _table(
            (
                "model",
                "edgert, 1 thread",
                "local-sync",
                "",
                "edgert, 2 threads",
                "local-task, 2",
                "",
            ),
            [
                (
                    result.title,
                    *_pair(result.call(0), result.call(1), 1e3),
                    *_pair(result.call(2), result.call(3), 1e3),
                )
                for result in results
            ],
        ),
        "## Load and first call (ms)\n",
        _table(
            ("model", "edgert", "IREE, as it comes", "", "IREE, mapped", ""),
            [
                (
                    result.title,
                    *_pair(result.life(0), result.life(4), 1e3),
                    *_pair(result.life(0), result.life(1), 1e3)[1:],
                )
                for result in results
            ],
        ),
        "## Peak memory (MB)\n",
        _table(
            ("model", "edgert", "IREE, as it comes", "", "IREE, mapped", ""),
            [
                (
                    result.title,
                    *_pair(result.peak(0), result.peak(4), 1e-6),
                    *_pair(result.peak(0), result.peak(1), 1e-6)[1:],
                )
                for result in results
            ],
        ),
        "## Machine\n",
        f"{machine['cpu']} ({machine['family']}), {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}; load average before "
        f"{machine['load_before']:g}{_trust(machine['load_before'])}. "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + f". {about['date']}. {sentence([about['commit']])}\n",
    ]
    return "\n".join(parts)


def _trust(load: float) -> str:
    return ": trust the ratios, and of two threads nothing" if load >= 1 else ""


def _aims(results: Sequence[Result]) -> str:
    rows = []
    for aim in AIMS:
        ratios = {result.title: aim.ratio(result) for result in results}
        missed = [f"{title} {ratio:.2f}" for title, ratio in ratios.items() if ratio > aim.most]
        range_ = f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f}"
        rows.append((aim.title, f"≤ {aim.most:g}", range_, ", ".join(missed)))
    tiny = results[0]
    least = tiny.call(0)
    rows.append(
        (
            f"a call of the {tiny.title}",
            f"≤ {TINY * 1e6:g} µs",
            f"{least * 1e6:.1f} µs",
            tiny.title if least > TINY else "",
        )
    )
    return _table(("what", "aim", "measured", "missed on"), rows)


def _pair(ours: float, other: float, unit: float) -> tuple[str, str, str]:
    return _digits(ours * unit), _digits(other * unit), f"{ours / other:.2f}"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw(results: Sequence[Result], path: Path) -> None:
    """A panel an aim: each model's figure as a part of IREE's, and a line at the aim."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(AIMS), figsize=(2.2 + 2.3 * len(AIMS), 1.4 + 0.36 * len(results)), sharey=True
    )
    for axis, aim in zip(axes, AIMS, strict=True):
        ratios = [aim.ratio(result) for result in results]
        colours = ["#0072B2" if ratio <= aim.most else "#D55E00" for ratio in ratios]
        axis.barh(range(len(results)), ratios, height=0.55, color=colours, zorder=2)
        axis.axvline(aim.most, color="#444444", linewidth=1.2, linestyle="--", zorder=3)
        widest = 1.15 * max(*ratios, aim.most)
        for place, ratio in enumerate(ratios):
            is_inside = ratio > widest / 4
            axis.annotate(
                f"{ratio:.2f}",
                (0 if is_inside else ratio, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color="white" if is_inside else "black",
                zorder=4,
            )
        axis.set_title(f"{aim.title.replace(', ', chr(10))}\n(aim ≤ {aim.most:g})", fontsize=9)
        axis.set_xlim(0, widest)
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="x", color="#eeeeee", zorder=0)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
    axes[0].set_yticks(range(len(results)), [result.title for result in results])
    axes[0].invert_yaxis()
    figure.suptitle("edgert's figures as a part of IREE's (shorter is better)")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
