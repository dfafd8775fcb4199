"""Draw small programs, check their answers and write docs/chains.md.

python -m benchmarks.chains                    # 200 programs on the CPU and as many on Vulkan
python -m benchmarks.chains --only 203 249     # these, and why they are not right; no page
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.chains.chain import drawn
from benchmarks.chains.check import CALLS, FAR, Verdict, checked
from benchmarks.standing import measured_at, sentence
from benchmarks.vulkan_device import vulkan_device

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "chains.md"
_DEVICES = {"cpu": "edgert://cpu", "vulkan": "edgert://vulkan"}
_FIRST = 9000
"""Seeds below were looked at while edgec was worked on."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", choices=_DEVICES, help="default: both")
    parser.add_argument("--first", type=int, default=_FIRST, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="programs a target")
    parser.add_argument("--only", type=int, nargs="+", help="seeds; writes no page")
    chosen = parser.parse_args()
    seeds = chosen.only or range(chosen.first, chosen.first + chosen.count)
    commit = measured_at()
    found: dict[str, list[Verdict]] = {}
    for target in chosen.target or _DEVICES:
        found[target] = []
        with tempfile.TemporaryDirectory(prefix="edgec-chains-") as folder:
            for seed in seeds:
                verdict = checked(drawn(seed), target, _DEVICES[target], Path(folder))
                found[target].append(verdict)
                if verdict.outcome != "right" or chosen.only:
                    print(f"{target}: {_line(verdict)}", flush=True)
        print(f"{target}: {_right(found[target])} of {len(found[target])} right", flush=True)
    if not chosen.only:
        PAGE.write_text(_page(found, seeds, commit), encoding="utf-8")
    return 0


def _page(found: dict[str, list[Verdict]], seeds: Sequence[int], commit: str) -> str:
    device = vulkan_device("not here")
    lines = [
        "# Chains of operations",
        "",
        "Programs that nobody wrote: a product, a convolution, a sum or an array, and up to four",
        "operations behind it (slices, paddings, joins, transpositions, sums, norms,",
        "loops, branches …), a quarter of them differentiated, of sizes that were drawn, too.",
        f"The seeds here are {seeds[0]} to {seeds[-1]}; seeds below {_FIRST} were looked at while",
        "edgec was worked on. Each is exported from JAX, compiled, called on edgert's driver",
        f"{CALLS} times and compared with XLA's answer on this machine's CPU; `right` is within",
        f"{FAR:g} of the largest number of an answer, or of 1. Vulkan is {device}.",
        "",
        "<!-- not run: a quiet machine: it compiles for minutes -->",
        "```console",
        "$ python -m benchmarks.chains",
        "```",
        "",
        sentence([commit]),
        "",
        "| target | programs | right | wrong | refused or failed | seconds a program |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for target, verdicts in found.items():
        wrong = sum(verdict.outcome == "wrong" for verdict in verdicts)
        others = len(verdicts) - wrong - _right(verdicts)
        seconds = sum(verdict.seconds for verdict in verdicts) / len(verdicts)
        lines.append(
            f"| {target} | {len(verdicts)} | {_right(verdicts)} | {wrong} | {others} | "
            f"{seconds:.1f} |"
        )
    for target, verdicts in found.items():
        left = [verdict for verdict in verdicts if verdict.outcome != "right"]
        lines += ["", f"## What is not right on {target}", ""]
        lines += [f"- {_line(verdict)}" for verdict in left] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _line(verdict: Verdict) -> str:
    apart = f", {verdict.error:.1e} apart" if verdict.outcome in ("right", "wrong") else ""
    return f"{verdict.seed} (`{verdict.label}`): {verdict.outcome[:200]}{apart}"


def _right(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.outcome == "right" for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
