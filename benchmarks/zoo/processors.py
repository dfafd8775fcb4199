"""The zoo's times on another processor than docs/zoo.md's, beside that page's own.

    python -m benchmarks.zoo --only=speed --keep --store=STORE ...     # on the other processor
    python -m benchmarks.zoo.processors STORE                          # there, too: writes the page

Writes docs/zoo_processors.md. What is fast on one maker's processors may not be on another's, and
times of two machines in one table cannot be compared: ratios to the peers of the same run can.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.peers.results import machine
from benchmarks.standing import sentence
from benchmarks.zoo import kept
from benchmarks.zoo.row import Row, Store

__all__ = ["page"]

ROOT = Path(__file__).resolve().parents[2]
_INTRODUCTION = """# The zoo on another processor

Best peer (ONNX Runtime, OpenVINO) / edgec on edgert, above 1 edgec is faster, on {here}.
Milliseconds are of this processor. Beside them are the ratios of the same rows of
[zoo.md](zoo.md), which were measured on different days, on an AMD EPYC (family 26, with AVX-512) or
on a processor as this one. {counts}

<!-- not run: a quiet machine: minutes of timing -->
```console
$ python -m benchmarks.zoo --kind=users --only=speed --keep --store=STORE     # other kinds, too
$ python -m benchmarks.zoo.processors STORE
```

{commits}

| model | 1 thread, ms | 1 thread | zoo.md's | 2 threads, ms | 2 threads | zoo.md's |
|---|--:|--:|--:|--:|--:|--:|
"""


def page(rows: Sequence[Row], known: dict[str, Row], here: str) -> str:
    """The page of these rows, which have times, beside the rows that the zoo's page has."""
    counts = ". ".join(_count(rows, threads) for threads in (1, 2))
    commits = {row.measured.get("1", row.commit) for row in rows}
    head = _INTRODUCTION.format(here=here, counts=f"{counts}.", commits=sentence(commits))
    ordered = sorted(rows, key=lambda row: (row.ratio(1) or (0.0, ""))[0])
    return head + "\n".join(_line(row, known.get(row.key)) for row in ordered) + "\n"


def _count(rows: Sequence[Row], threads: int) -> str:
    ratios = [found[0] for row in rows if (found := row.ratio(threads))]
    good = sum(ratio >= 0.9 for ratio in ratios)
    return (
        f"On {threads} thread{'s' if threads > 1 else ''} the median of {len(ratios)} models is "
        f"{median(ratios):.2f}, the worst {min(ratios):.2f}, {good} are at or above 0.9"
    )


def _line(row: Row, other: Row | None) -> str:
    cells = []
    for threads in (1, 2):
        found, before = row.ratio(threads), other.ratio(threads) if other else None
        cells += [
            f"{row.times[str(threads)]['edgec']:.2f}" if found else "-",
            f"**{found[0]:.2f}** ({found[1]})" if found else "-",
            f"{before[0]:.2f} ({before[1]})" if before else "-",
        ]
    held = " (held out)" if row.held_out else ""
    return f"| {row.kind}/{row.name}{held} | {' | '.join(cells)} |"


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path, help="what benchmarks.zoo --store wrote here")
    chosen = parser.parse_args()
    timed = [row for row in Store(chosen.store).rows.values() if row.ratio(1)]
    if not timed:
        parser.error(f"{chosen.store} has no times: benchmarks.zoo --only=speed makes them")
    facts = machine()
    features = [name for name in facts["features"] if name in ("avx2", "avx512f", "amx_tile")]
    here = f"{facts['cpu']} ({facts['family']}; {', '.join(features)})"
    text = page(timed, kept.read(ROOT / "docs" / "zoo"), here)
    (ROOT / "docs" / "zoo_processors.md").write_text(text, encoding="utf-8")
    print(f"wrote docs/zoo_processors.md: {len(timed)} models")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
