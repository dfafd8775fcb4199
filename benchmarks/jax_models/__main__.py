"""JAX on edgec's platform beside XLA's CPU: networks of the zoo and steps of training.

python -m benchmarks.jax_models --make --caches build/jax    # compile; later, only time:
python -m benchmarks.jax_models --caches build/jax --write   # the page
python -m benchmarks.jax_models --name flax --threads 1      # a part of the table

Rows are kept beside the caches, each with its commit, so that a table can be timed in parts.

Each platform is a process pinned to as many cores as threads; then they take turns. Needs what the
zoo's models are made of: `pip install flaxmodels equimo`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.jax_models.child import PLATFORMS
from benchmarks.jax_models.models import NAMES
from benchmarks.peers.company import Company
from benchmarks.peers.process import ROOT, Child, Failed
from benchmarks.standing import measured_at, sentence

PAGE = ROOT / "docs" / "benchmarks_jax_models.md"
_LIMIT = 600.0  # seconds, of one answer


@dataclass(kw_only=True)
class Figures:
    """One platform with one model and so many threads.

    Attributes:
        refused: why there are none.
        error: of the answers, relative to the largest of XLA's.
        best: milliseconds of the fastest call.
    """

    refused: str = ""
    error: float = 0.0
    best: float = float("inf")


@dataclass(frozen=True, kw_only=True)
class Row:
    """Both platforms with one model and so many threads.

    Attributes:
        xla, edgec: the figures.
        commit: whose code was measured.
        busy: cores that other programs kept busy; None where that is not known.
    """

    xla: Figures
    edgec: Figures
    commit: str
    busy: float | None


Rows = dict[tuple[str, int], Row]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", action="append", help="models whose name begins so")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a turn")
    parser.add_argument("--make", action="store_true", help="compile, and time nothing")
    parser.add_argument("--write", action="store_true", help="the page")
    parser.add_argument("--caches", type=Path, help="kept there (default: thrown away)")
    chosen = parser.parse_args()
    names = [name for name in NAMES if not chosen.name or name.startswith(tuple(chosen.name))]
    rows: Rows = {}
    with tempfile.TemporaryDirectory(prefix="edgec-jax-") as scratch:
        caches = (chosen.caches or Path(scratch)).absolute()
        caches.mkdir(parents=True, exist_ok=True)
        os.environ["EDGEC_CACHE_DIR"] = str(caches)
        for name in names:
            for threads in chosen.threads or (1, 2):
                company = Company()
                xla, edgec = _measured(name, threads, caches, chosen)
                row = Row(xla=xla, edgec=edgec, commit=measured_at(), busy=company.cores())
                print(name, threads, row, file=sys.stderr, flush=True)
                rows[name, threads] = row
                if not chosen.make:
                    rows = _kept(rows, caches / "rows.json")
    lines = list(_lines(rows))
    print("\n".join(lines))
    if chosen.write:
        _write(lines, rows)
    return 0


def _kept(rows: Rows, file: Path) -> Rows:
    """These rows and those of earlier runs with the same caches, which are kept there."""
    found: Rows = {}
    if file.exists():
        for name, threads, xla, edgec, *rest in json.loads(file.read_text(encoding="utf-8")):
            commit, busy = rest
            row = Row(xla=Figures(**xla), edgec=Figures(**edgec), commit=commit, busy=busy)
            found[name, threads] = row
    found |= rows
    found = {key: found[key] for key in sorted(found, key=lambda key: (NAMES.index(key[0]), key))}
    lines = [[*key, asdict(r.xla), asdict(r.edgec), r.commit, r.busy] for key, r in found.items()]
    file.write_text(json.dumps(lines), encoding="utf-8")
    return found


def _measured(
    name: str, threads: int, caches: Path, chosen: argparse.Namespace
) -> tuple[Figures, Figures]:
    found = (Figures(), Figures())
    running: list[tuple[Figures, Child]] = []
    answers = str(caches / f"{name.replace('/', '-').replace(' ', '-')}.npz")
    try:
        for platform, figures in zip(PLATFORMS, found, strict=True):
            module = "benchmarks.jax_models.child"
            child = Child(module, platform, name, str(threads), answers)
            running.append((figures, child))
            figures.error = child.answer(_LIMIT)["ok"]["error"]
        for _ in range(0 if chosen.make else chosen.rounds):
            for figures, child in running:
                child.ask({"seconds": chosen.seconds})
                figures.best = min(figures.best, *child.answer(_LIMIT)["ms"])
    except Failed as failed:
        running[-1][0].refused = str(failed)
    finally:
        for _, child in running:
            child.close()
    return found


def _lines(rows: Rows) -> Iterator[str]:
    """Markdown."""
    yield "| model | threads | XLA's CPU, ms | edgec, ms | XLA / edgec | edgec's error |"
    yield "|---|--:|--:|--:|--:|--:|"
    for (name, threads), row in rows.items():
        xla, edgec = row.xla, row.edgec
        refused = xla.refused or edgec.refused
        if refused:
            yield f"| {name} | {threads} | {refused} | | | |"
            continue
        ratio = xla.best / edgec.best
        said = f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"
        yield (
            f"| {name} | {threads} | {xla.best:.2f} | {edgec.best:.2f} | {said} | "
            f"{edgec.error:.0e} |"
        )


def _write(lines: list[str], rows: Rows) -> None:
    import jax

    timed = [
        row.xla.best / row.edgec.best
        for row in rows.values()
        if not (row.xla.refused or row.edgec.refused)
    ]
    busy = [row.busy for row in rows.values() if row.busy is not None]
    said = f" Other programs kept at most {max(busy):.1f} cores busy meanwhile." if busy else ""
    text = f"""# JAX's networks and steps of training on edgec's platform, beside XLA's CPU

`JAX_PLATFORMS=edgec` beside `JAX_PLATFORMS=cpu`, JAX {jax.__version__}, on this machine: the same
jitted function, called with arrays of the device until its results are ready; the fastest call of
each. Networks of `flaxmodels` and `equimo` (the smallest of a family), one picture, weights
constants of the program; steps of training get their weights. Times above 1 in bold: edgec is
faster; the median is {statistics.median(timed):.2f}. The error is relative to each result's largest
value on XLA's CPU.{said} {sentence(sorted({row.commit for row in rows.values()}))}

<!-- not run: a quiet machine: minutes of timing -->
```console
$ python -m benchmarks.jax_models --write
```

{chr(10).join(lines)}
"""
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
