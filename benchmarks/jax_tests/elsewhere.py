"""JAX's own tests on a machine with a GPU, by edgec's platform, and the page of them.

python -m benchmarks.jax_tests.elsewhere TESTS --json FILE [--devices=cuda] [--files=lax_test]
    [--sample=40] [--seed=0] [--jobs=8] [--limit=500]
python -m benchmarks.jax_tests.elsewhere --page COMMIT=FILE ...

TESTS is as for `python -m benchmarks.jax_tests`. Cases are drawn by the seed and run on XLA's CPU
and on edgec with `EDGEC_JAX_DEVICES` as named; several processes share each file's. What is not
begun when the limit of seconds is over counts for nothing. The page is made where git is.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.jax_tests.cases import ROOT, listed, tried
from benchmarks.jax_tests.report import FILES, OTHERS, Outcomes, Table, cause, cell
from benchmarks.nvidia import gpu
from benchmarks.standing import sentence

__all__ = ["page"]

PAGE = ROOT / "docs" / "benchmarks_jax_gpu.md"
_TOGETHER = 10
"""Cases that share a process."""


def _run(asked: argparse.Namespace) -> None:
    """Run cases, and keep what came of each as it comes."""
    from importlib import metadata

    os.environ["EDGEC_JAX_DEVICES"] = asked.devices
    end = time.monotonic() + asked.limit
    results: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    found = {
        "jax": metadata.version("jax"),
        "device": gpu() or "no NVIDIA GPU",
        "devices": asked.devices,
    }

    def keep() -> None:
        asked.json.write_text(json.dumps({**found, "results": results}))

    def part(name: str, platform: str, cases: Sequence[str]) -> None:
        if time.monotonic() > end:
            return
        for case, outcome in tried(asked.tests / f"{name}.py", platform, cases):
            results[name][platform][case] = outcome
            print(name, platform, case, outcome["outcome"], flush=True)

    files = asked.files.split(",")
    with ThreadPoolExecutor(asked.jobs) as pool:
        lists = {f: pool.submit(listed, asked.tests / f"{f}.py") for f in files}
        waiting = []
        for name, cases in ((f, each.result()) for f, each in lists.items()):
            drawn = random.Random(asked.seed).sample(cases, min(asked.sample, len(cases)))
            results[name] = {"cpu": {}, "edgec": {}}
            waiting += [
                (start, name, platform, drawn[start : start + _TOGETHER])
                for start in range(0, len(drawn), _TOGETHER)
                for platform in results[name]
            ]
        # All files' first parts before any one's second: a limit then takes of all alike.
        for done in [pool.submit(part, *each[1:]) for each in sorted(waiting)]:
            done.result()
            keep()


def page(runs: Sequence[dict[str, Any]], measured: Sequence[str]) -> str:
    """The table of files, and what is missing."""
    results: dict[str, dict[str, Outcomes]] = {}
    for run in runs:
        for name, found in run["results"].items():
            before = results.setdefault(name, {"cpu": {}, "edgec": {}})
            for platform, cases in found.items():
                before[platform] = {**before[platform], **cases}
    table = Table.made(results, (*FILES, *OTHERS))
    last = runs[-1]
    lines = [
        "# JAX's own tests on a GPU by edgec",
        "",
        f"Cases of JAX {last['jax']}'s own test files, drawn by a seed, on XLA's CPU and on "
        f"edgec's platform with `EDGEC_JAX_DEVICES={last['devices']}`, on one {last['device']} "
        f"([JAX on edgec's devices](pjrt.md)). {sentence(measured)}",
        "",
        f"**{table.share} of those that pass on XLA's CPU**, "
        "without what JAX skips on a platform that it does not know.",
        "",
        *table.lines(),
        "",
        "## What is missing",
        "",
        "| case | what it says |",
        "|---|---|",
        *(
            f"| `{case}` | {cell(cause(outcome['said']))} |"
            for found in results.values()
            for case, outcome in found["edgec"].items()
            if outcome["outcome"] == "failed"
            and found["cpu"].get(case, {}).get("outcome") == "passed"
        ),
        "",
        "<!-- not run: a GPU: and minutes of JAX's tests -->",
        "```console",
        "$ python -m benchmarks.jax_tests.elsewhere TESTS --json figures.json   # where the GPU is",
        "$ python -m benchmarks.jax_tests.elsewhere --page COMMIT=figures.json",
        "```",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_tests.elsewhere")
    parser.add_argument("tests", type=Path, nargs="?")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--devices", default="cuda")
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=float, default=500)
    parser.add_argument("--page", nargs="+", metavar="COMMIT=FILE")
    asked = parser.parse_args()
    if asked.page:
        listed_ = [each.partition("=") for each in asked.page]
        runs = [json.loads(Path(path).read_text()) for _, _, path in listed_]
        PAGE.write_text(page(runs, [commit for commit, _, _ in listed_]))
    else:
        _run(asked)


if __name__ == "__main__":
    main()
