"""What run.py measured to the table and the picture of docs/benchmarks_cuda.md.

`python -m benchmarks.cuda.page cuda.json` rewrites the page's table, `benchmarks_cuda.json` and
`benchmarks_cuda.png` beside it. Run it anywhere: no GPU is needed.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.cuda.table import table
from benchmarks.standing import measured_at, sentence

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "benchmarks_cuda.md"
# The order of the page, and colours that people tell apart (Okabe and Ito).
NAMES = ("resnet50", "resnet50-nchw", "bert-base", "product2048", "product8192")
MARKS = {
    "edgec": ("edgec", "#D55E00", "D"),
    "plain": ("plain IREE", "#999999", "o"),
    "XLA": ("XLA", "#009E73", "v"),
    "queued": ("XLA, calls queued", "#56B4E9", "^"),
}


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows by network, then from the widest number to the narrowest."""
    numbers = ("float32", "float16", "bfloat16")

    def place(row: dict[str, Any]) -> tuple[int, int]:
        name, number = row["name"].rsplit("-", 1)
        return NAMES.index(name), numbers.index(number)

    return sorted(rows, key=place)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """How fast every engine is beside edgec, a row of dots a network."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7.6, 1.5 + 0.4 * len(rows)))
    for place, row in enumerate(rows):
        times = row["ms"] | {"queued": row["xla_queued_ms"]}
        speeds = {engine: times["edgec"] / time for engine, time in times.items()}
        axis.plot([min(speeds.values()), max(speeds.values())], [place] * 2, color="#dddddd")
        for engine, speed in speeds.items():
            title, colour, shape = MARKS[engine]
            axis.scatter(speed, place, s=46, color=colour, marker=shape, label=title, zorder=3)
    axis.axvline(1, color=MARKS["edgec"][1], linewidth=1.2)
    axis.set_xscale("log")
    ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
    axis.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axis.invert_yaxis()
    axis.grid(axis="x", color="#eeeeee", zorder=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    shown = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(shown.values(), shown.keys(), loc="lower center", ncols=4, frameon=False)
    figure.suptitle("H200: speed relative to edgec, batch 1 (right is faster)")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def write(rows: list[dict[str, Any]]) -> None:
    """The page's table, the numbers and the picture."""
    text = PAGE.read_text(encoding="utf-8")
    lines = text.splitlines()
    places = [i for i, line in enumerate(lines) if line.startswith("|")]
    first = last = places[0]
    while last + 1 < len(lines) and lines[last + 1].startswith("|"):
        last += 1
    lines[first : last + 1] = table(rows).splitlines()
    page = re.sub(r"Measured at commit .*", sentence([measured_at()]), "\n".join(lines))
    PAGE.write_text(page + "\n", encoding="utf-8")
    PAGE.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    draw(rows, PAGE.with_suffix(".png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="what run.py --json wrote")
    write(ordered(json.loads(parser.parse_args().json.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
