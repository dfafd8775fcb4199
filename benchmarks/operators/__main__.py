"""Check every operator case and write docs/operators.md: `python -m benchmarks.operators`.

Rows are kept in build/operators/ as they come, so that a run can be stopped and gone on with.
Columns of the page of which there are no rows stay as they are, with their commits.
"""

import argparse
import json
import random
import re
import sys
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

from benchmarks.operators.catalogue import all_cases, find_case
from benchmarks.operators.sweep import ELSEWHERE, ROOT, Row, Sweep, read_rows
from benchmarks.operators.table import cases_of, page, share, summary
from benchmarks.vulkan_device import vulkan_device

_TARGETS = ("cpu", "vulkan")  # of this machine
_PACKAGES = ("iree-base-compiler", "jax")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--target", action="append", choices=(*_TARGETS, *ELSEWHERE), help="default: cpu, vulkan"
    )
    parser.add_argument("--only", default="", help="cases whose key this regular expression finds")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--sample", type=int, help="so many of the cases, evenly chosen")
    parser.add_argument(
        "--times",
        type=int,
        default=1,
        help="cases for so many arguments at once, by jax.vmap: sizes that fill vectors and tiles",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--failed", action="store_true", help="only what was not right before")
    parser.add_argument("--plain", action="store_true", help="the compiler alone, without edgec")
    parser.add_argument("--kept", action="store_true", help="measure nothing; write what is known")
    parser.add_argument("--ran", type=Path, help="what came of modules in another machine's device")
    chosen = parser.parse_args()
    if chosen.ran:
        _take(chosen.ran, chosen.times)
    cases = [case for case in all_cases() if re.search(chosen.only, case.key)]
    cases = [many for case in cases if (many := case.many(chosen.times)) is not None]
    if chosen.sample:
        cases = random.Random(chosen.seed).sample(cases, min(chosen.sample, len(cases)))
    for target in [] if chosen.kept else chosen.target or _TARGETS:
        sweep = Sweep(
            target=target, plain=chosen.plain, jobs=chosen.jobs, tell=_tell, times=chosen.times
        )
        known = read_rows(sweep.store)
        wanted = [
            case
            for case in cases
            if not (chosen.resume and case.key in known)
            and not (
                chosen.failed
                and case.key in known
                and known[case.key].outcome in ("right", "outside")
            )
        ]
        print(f"{target}: {summary(sweep.run(wanted))}", flush=True)
    stores = {
        name: {key: row for key, row in read_rows(sweep.store).items() if _is_known(key)}
        for name, sweep in {
            _column(target, plain=plain, times=times): Sweep(
                target=target, plain=plain, jobs=1, tell=_tell, times=times
            )
            for times in sorted({1, chosen.times})
            for plain in (False, True)
            for target in (*_TARGETS, *ELSEWHERE)
        }.items()
    }
    path = ROOT / "docs" / "operators.md"
    before, kept = path.read_text(), {}
    for name, rows in stores.items():
        if not rows:
            continue
        known, there = share(rows.values())[1], cases_of(before, name)
        print(f"all of {name}: {summary(rows.values())}")
        if known < there:
            print(f"{name}: the page keeps its column of {there:,} cases; here are {known:,}")
        else:
            kept[name] = rows
    versions = {package: metadata.version(package) for package in _PACKAGES}
    path.write_text(page(kept, versions, vulkan_device("no Vulkan device here"), before))
    return 0


def _column(target: str, *, plain: bool, times: int) -> str:
    return f"{target}{', plain' if plain else ''}{'' if times == 1 else f', {times} at once'}"


def _is_known(key: str) -> bool:
    """Whether there still is such a case."""
    try:
        find_case(key)
    except KeyError:
        return False
    return True


def _take(ran: Path, times: int) -> None:
    """Put what `benchmarks.operators.elsewhere` wrote behind the rows of compiled modules."""
    store = Sweep(target="cuda", plain=False, jobs=1, tell=_tell, times=times).store
    known = read_rows(store)
    with store.open("a") as stream:
        for line in ran.read_text().splitlines():
            told = json.loads(line)
            if known[told["key"]].outcome == "compiled":
                row = replace(known[told["key"]], **told)
                stream.write(json.dumps(asdict(row)) + "\n")


def _tell(row: Row) -> None:
    if row.outcome not in ("right", "compiled"):
        print(f"{row.outcome:8} {row.key:50} {row.seconds:5.1f} s  {row.reason[:150]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
