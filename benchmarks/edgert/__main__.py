"""edgert and IREE's own CPU drivers side by side on the same modules.

python -m benchmarks.edgert                     # all models, to docs/benchmarks_edgert.md
python -m benchmarks.edgert --only mlp          # a table of some on the screen
python -m benchmarks.edgert MODULE.vmfb ...     # or of any modules
python -m benchmarks.edgert --make              # make the modules, and measure nothing
python -m benchmarks.edgert --kept              # write the page again from what is known
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.edgert.measure import ROOT, build, measure
from benchmarks.edgert.modules import TITLES, module
from benchmarks.edgert.page import draw, page
from benchmarks.edgert.results import Result, read, write
from benchmarks.peers.results import machine, versions
from benchmarks.standing import measured_at

_FILE = ROOT / "docs" / "benchmarks_edgert.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", type=Path, help="default: the models of the page")
    parser.add_argument("--only", action="append", choices=TITLES, help="these models alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of calls, a contender's turn")
    parser.add_argument("--make", action="store_true", help="make the modules, measure nothing")
    parser.add_argument("--kept", action="store_true", help="measure nothing; write what is known")
    chosen = parser.parse_args()
    if chosen.kept:
        _report()
        return 0
    build()
    paths = {path.stem: path for path in chosen.modules} or {
        name: module(name) for name in chosen.only or TITLES
    }
    if chosen.make:
        return 0
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": measured_at(),
        "machine": machine(),
        "versions": versions(["edgec", "iree-base-compiler", "iree-base-runtime"]),
        "rounds": chosen.rounds,
        "seconds": chosen.seconds,
    }
    results = []
    for name, path in paths.items():
        print(name, file=sys.stderr, flush=True)
        figures = measure(
            path,
            rounds=chosen.rounds,
            seconds=chosen.seconds,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )
        results.append(Result(name=name, title=TITLES.get(name, name), figures=figures))
    if chosen.modules or chosen.only:
        print(page(about, results, ""))
    else:
        write(_FILE, about, results)
        _report()
    return 0


def _report() -> None:
    about, results = read(_FILE)
    picture = _FILE.with_suffix(".png")
    draw(results, picture)
    _FILE.with_suffix(".md").write_text(page(about, results, picture.name))


if __name__ == "__main__":
    sys.exit(main())
