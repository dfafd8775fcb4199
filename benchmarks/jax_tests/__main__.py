"""JAX's own test files on XLA's CPU and on edgec: how many cases pass there, and what is missing.

python -m benchmarks.jax_tests TESTS [--sample=60] [--seed=0] [--files=lax_test,nn_test]
    [--drawn=16] [--held-out] [--several] [--later] [--again]

TESTS is the folder `tests` of JAX's sources at the version that is installed
(`git clone -b jax-vVERSION`, outside of this repository). Each file's cases are drawn by the seed
and run on both platforms. What was run is kept in build/jax_tests, and the page is written anew
from all that is there: what another seed draws comes to what was drawn before. With `--held-out`
cases are drawn among those that were never run, and counted apart: nothing was mended for them.
With `--drawn` the files themselves are drawn by the seed, among others than the usual ones; with
`--several` they are those of what several devices compute, of which there are eight; with `--later`
those that were drawn among all files that had never been run, with as many devices as each asks
for, and what came of a case at first is kept.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.jax_tests.cases import devices_of, listed, tried
from benchmarks.jax_tests.report import FILES, LATER, OTHERS, SEVERAL, page
from benchmarks.standing import measured_at
from edgec.plugins.pjrt.platform import DEVICES_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks_jax.md"
KEPT = ROOT / "build" / "jax_tests"
HELD_OUT = KEPT / "held_out"
TOGETHER = KEPT / "several"
DRAWN_LATER = KEPT / "later"
_DEVICES = 8
_TOGETHER = 20
"""Cases that share a process, after which what came of them is kept."""


def _kept(folder: Path) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def _write() -> None:
    """The page, with the commit of every case on edgec."""
    results, held_out, several = _kept(KEPT), _kept(HELD_OUT), _kept(TOGETHER)
    later = _kept(DRAWN_LATER)
    cases = [
        case
        for part in (results, held_out, several, later)
        for found in part.values()
        for case in found["edgec"].values()
    ]
    measured = list(dict.fromkeys(each["commit"] for each in cases))
    PAGE.write_text(page(results, held_out, several, later, metadata.version("jax"), measured))


def _run(
    file: Path, kept: Path, runs: Mapping[str, Sequence[str]], found: dict[str, dict[str, Any]]
) -> None:
    """Run cases on each platform; what came of them is kept after every few."""
    for platform, cases in runs.items():
        for start in range(0, len(cases), _TOGETHER):
            part = cases[start : start + _TOGETHER]
            for case, outcome in tried(file, platform, part):
                before = found[platform].get(case, outcome)
                first = before.get("first", before["outcome"])
                found[platform][case] = {**outcome, "first": first, "commit": measured_at()}
                print(file.stem, platform, case, outcome["outcome"], flush=True)
            (kept / f"{file.stem}.json").write_text(json.dumps(found))


def main() -> int:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_tests")
    parser.add_argument("tests", type=Path)
    parser.add_argument("--sample", type=int, default=60, help="cases a file; 0: all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--drawn", type=int, default=0, help="other files, drawn by the seed")
    parser.add_argument("--again", action="store_true", help="what failed on edgec, alone")
    parser.add_argument("--held-out", action="store_true", help="of cases that were never run")
    parser.add_argument("--several", action="store_true", help="of what several devices compute")
    parser.add_argument("--later", action="store_true", help="of files that were never run")
    asked = parser.parse_args()
    if asked.several:
        os.environ[DEVICES_VARIABLE] = ",".join(["cpu"] * _DEVICES)
    kept = TOGETHER if asked.several else HELD_OUT if asked.held_out else KEPT
    if asked.later:
        kept = DRAWN_LATER
    kept.mkdir(parents=True, exist_ok=True)
    files = list(SEVERAL) if asked.several else asked.files.split(",")
    if asked.drawn:
        files = random.Random(asked.seed).sample(OTHERS, asked.drawn)
    if asked.later:
        files = list(LATER)
    for name in filter(None, files):
        file = asked.tests / f"{name}.py"
        if asked.later:
            os.environ[DEVICES_VARIABLE] = ",".join(["cpu"] * devices_of(file))
        found: dict[str, dict[str, Any]] = _kept(kept).get(name, {"cpu": {}, "edgec": {}})
        if asked.again:
            failed = [case for case, each in found["edgec"].items() if each["outcome"] == "failed"]
            _run(file, kept, {"edgec": failed}, found)
            continue
        names = listed(file)
        if asked.held_out:
            seen = _kept(KEPT).get(name, {"cpu": {}})["cpu"].keys()
            names = [case for case in names if case not in seen]
        if asked.sample:
            names = random.Random(asked.seed).sample(names, min(asked.sample, len(names)))
        _run(
            file, kept, {each: [c for c in names if c not in found[each]] for each in found}, found
        )
    _write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
