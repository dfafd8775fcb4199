"""PyTorch's own list of operators and sample inputs, exported, compiled for the CPU and compared.

python -m benchmarks.torch_operators [--type=float32] [--sample=2] [--seed=0] [--names=fft.fft,mode]
    [--workers=2]

The list is PyTorch's `OpInfo` (`torch.testing`), which its tests go through; it wants `expecttest`
(`pip install expecttest`). Of each operator's sample inputs some are drawn by the seed. What gives
other numbers in eager PyTorch when it is called again (random numbers, memory as it was found) and
what changes its inputs is no program, and left out. Rows are kept in build/torch_operators; the
page is written anew from all that is there: a file is a type and a seed.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.standing import measured_at, sentence

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "torch_operators.md"
KEPT = ROOT / "build" / "torch_operators"
_MISSES = {
    "dialect": "has a form in the torch dialect alone, which is said",
    "refused": "is refused, with an error that names the operator",
    "wrong": "is wrong, which the check finds",
    "died": "killed the process, or took over 150 s",
}


def main() -> int:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_operators")
    parser.add_argument("--type", default="float32", choices=("float32", "complex64"))
    parser.add_argument("--sample", type=int, default=2, help="inputs an operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", default="", help="these alone, shown and not kept")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    found = _rows(asked)
    for row in found:
        if asked.names or row["outcome"] != "right":
            print(json.dumps(row))
    if not asked.names:
        KEPT.mkdir(parents=True, exist_ok=True)
        kept = {"commit": measured_at(), "sample": asked.sample, "rows": found}
        (KEPT / f"{asked.type}-{asked.seed}.json").write_text(json.dumps(kept, indent=0))
        PAGE.write_text(_page())
        print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


def _rows(asked: argparse.Namespace) -> list[dict[str, str]]:
    """The rows of all workers; one that died of an operator is started again behind it."""
    waiting = [(number, "") for number in range(asked.workers)]
    running: list[tuple[int, subprocess.Popen[str]]] = []
    rows: list[dict[str, str]] = []
    while waiting or running:
        for number, behind in waiting:
            words = [asked.type, str(asked.sample), str(asked.seed), str(number)]
            words += [str(asked.workers), behind, asked.names]
            command = [sys.executable, "-m", "benchmarks.torch_operators.worker", *words]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            running.append((number, child))
        number, child = running.pop(0)
        lines = [json.loads(line) for line in child.communicate()[0].splitlines() if line]
        rows += [line for line in lines if "outcome" in line]
        waiting = []
        if child.returncode:
            if not lines:
                raise SystemExit("a worker ended before its first operator: is expecttest there?")
            at = lines[-1]["name"]
            rows.append({"name": at, "outcome": "died", "why": f"status {child.returncode}"})
            waiting = [(number, at)]
    return sorted(rows, key=lambda row: row["name"])


def _page() -> str:
    import torch

    files = {file.stem: json.loads(file.read_text()) for file in sorted(KEPT.glob("*.json"))}
    commits = [kept["commit"] for kept in files.values()]
    lines = [
        "# PyTorch's own operators",
        "",
        f"PyTorch {torch.__version__.partition('+')[0]} tests itself with a list of operators and "
        "sample inputs (`OpInfo`). Here each is exported, compiled for a CPU and compared with "
        "eager PyTorch by the module's own golden answers. Written by `python -m "
        "benchmarks.torch_operators --type=float32 --seed=1` (and `complex64`), which wants "
        "`expecttest`. Inputs are drawn by the seed. " + sentence(list(dict.fromkeys(commits))),
        "",
        "| type | seed | operators | calls | right, in StableHLO | torch dialect | refused | wrong "
        "| died |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    misses: dict[str, dict[str, str]] = {}
    for name, kept in files.items():
        kind, _, seed = name.partition("-")
        rows = kept["rows"]
        count = Counter(row["outcome"] for row in rows)
        right = f"{count['right']} ({100 * count['right'] / max(1, len(rows)):.1f} %)"
        names = len({row["name"] for row in rows})
        others = " | ".join(str(count[outcome]) for outcome in _MISSES)
        lines.append(f"| {kind} | {seed} | {names} | {len(rows)} | {right} | {others} |")
        for row in rows:
            if row["outcome"] != "right":
                misses.setdefault(kind, {}).setdefault(row["name"], row["outcome"])
    lines += [
        "",
        "What gives other numbers when it is called again, and what changes its inputs, is left "
        "out. " + " ".join(f"*{name}*: {text}." for name, text in _MISSES.items()),
    ]
    for kind, found in misses.items():
        lines += ["", f"## Missing: {kind}", ""]
        for outcome, text in _MISSES.items():
            named = sorted(name for name, got in found.items() if got == outcome)
            if named:
                lines.append(f"- What {text}: {', '.join(f'`{name}`' for name in named)}.")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
