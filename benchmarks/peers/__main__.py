"""Run edgec and its peers side by side: `python -m benchmarks.peers`, or `make bench`.

Every engine runs the same models with the same weights on the same inputs, in a process of its own
that is pinned to as many cores as threads; engines take turns, so that what else the machine does
hits all alike. Results are merged into DIR/benchmarks.json, so a part can be measured again.
"""

import argparse
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers.dispatches import explain
from benchmarks.peers.engines.catalogue import ENGINES, KIN, OURS
from benchmarks.peers.measure import ROOT, Measurement
from benchmarks.peers.models.catalogue import MODELS
from benchmarks.peers.page import write_page
from benchmarks.peers.plot import draw
from benchmarks.peers.results import Results, Row, machine, versions
from benchmarks.standing import measured_at

_QUICK_ENGINES = (OURS, "iree", "ort")


def main() -> int:
    chosen = _arguments()
    if chosen.profile:
        _profile(chosen)
        return 0
    results = Results(chosen.output / "benchmarks.json")
    if not chosen.kept:
        _measure(chosen, results)
    _report(results, chosen.output)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", action="append", choices=MODELS, help="default: all; may be given several times"
    )
    parser.add_argument("--engine", action="append", choices=ENGINES, help="default: all")
    parser.add_argument("--threads", type=_counts, default=(1, 2), help="default: 1,2")
    parser.add_argument("--repeats", type=int, help="rounds of turns; default: 5, 3 if quick")
    parser.add_argument("--seconds", type=float, help="of a turn; default: 0.5, 0.2 if quick")
    parser.add_argument(
        "--quick", action="store_true", help="two small models, edgec, plain IREE, ONNX Runtime"
    )
    parser.add_argument(
        "--only-missing", action="store_true", help="measure models whose rows are not all there"
    )
    parser.add_argument("--kept", action="store_true", help="measure nothing; write what is known")
    parser.add_argument(
        "--profile", action="store_true", help="say where edgec's time goes, dispatch by dispatch"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: docs")
    chosen = parser.parse_args()
    quick = chosen.quick
    chosen.model = chosen.model or [m.name for m in MODELS.values() if m.quick or not quick]
    chosen.engine = chosen.engine or list(_QUICK_ENGINES if quick else ENGINES)
    chosen.repeats = chosen.repeats or (3 if quick else 5)
    chosen.seconds = chosen.seconds or (0.2 if quick else 0.5)
    chosen.output = chosen.output or (
        ROOT / "build" / "peers" / "quick" if quick else ROOT / "docs"
    )
    return chosen


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(int(word) for word in text.split(","))
    if not all(count >= 1 for count in counts):
        raise argparse.ArgumentTypeError("thread counts are 1 or more")
    return counts


def _profile(chosen: argparse.Namespace) -> None:
    for model in chosen.model:
        for line in explain(_measurement(chosen, ""), model):
            print(line, flush=True)


def _measurement(chosen: argparse.Namespace, run: str) -> Measurement:
    return Measurement(
        engines=chosen.engine,
        threads=chosen.threads,
        repeats=chosen.repeats,
        seconds=chosen.seconds,
        tell=lambda line: print(line, flush=True),
        run=run,
    )


def _measure(chosen: argparse.Namespace, results: Results) -> None:
    run = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    packages = [p for name in chosen.engine for p in ENGINES[name].packages]
    about = {
        "command": shlex.join(["python", "-m", "benchmarks.peers", *sys.argv[1:]]),
        "commit": measured_at(),
        "machine": machine(),
        "versions": versions(packages),
        "repeats": chosen.repeats,
        "seconds": chosen.seconds,
    }
    measurement = _measurement(chosen, run)
    for number, model in enumerate(chosen.model, 1):
        if chosen.only_missing and all(
            results.get(model, engine, threads)
            for engine in chosen.engine
            for threads in chosen.threads
        ):
            continue
        print(f"{model} ({number} of {len(chosen.model)})", flush=True)
        rows = measurement.rows(model)
        results.put(rows, {run: about})
        _sum_up(rows)


def _sum_up(rows: list[Row]) -> None:
    """One line a thread count: edgec beside the best other engine."""
    for threads in sorted({row.threads for row in rows}):
        timed = [row for row in rows if row.threads == threads and not row.refused]
        ours = [row for row in timed if row.engine == OURS]
        others = [row for row in timed if row.engine not in KIN]
        if ours and others:
            best = min(others, key=lambda row: row.fastest)
            ratio = best.fastest / ours[0].fastest
            print(f"  -> {threads} threads: {ratio:.2f} of the speed of {best.engine}", flush=True)


def _report(results: Results, output: Path) -> None:
    if not results.rows:
        print("there are no results yet")
        return
    picture = output / "benchmarks.png"
    draw(results, picture)
    write_page(output)
    print(f"wrote {results.path}, {picture.name} and benchmarks.md beside it")


if __name__ == "__main__":
    sys.exit(main())
