"""What each legalising pass is worth: operator cases that it changes, right with it and without.

python -m benchmarks.operators.passes [--target cpu] [--sample 12] [PASS …]

Needs the cases that `make operators` made; prints a table.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgec.runtime.errors import EdgecError
from edgec.targets import find
from edgec.toolchain.passes import CATALOGUE, ESSENTIAL
from edgec.toolchain.prepare import describe_file, prepare_file
from edgec.toolchain.settings import Settings

FOLDER = Path("build/operators")
_FACTS = {"weights": None, "states": []}


def _changed(target: str, keys: list[str], folder: Path) -> Mapping[str, list[str]]:
    """For each pass, the cases that it changes."""
    found: dict[str, list[str]] = {}
    chosen = find(target)
    output = folder / "passes.mlirbc"
    for number, key in enumerate(keys):
        program = folder / "made" / f"{key.replace('/', '--')}.mlirbc"
        if number % 200 == 0:
            print(f"{number} of {len(keys)} cases looked at", file=sys.stderr)
        if not program.exists():
            continue
        try:
            done = prepare_file(program, output, describe_file(program), _FACTS, chosen, Settings())
        except EdgecError:
            continue
        for name, count in done.changes.items():
            if count:
                found.setdefault(name, []).append(key)
    output.unlink(missing_ok=True)
    return found


def _right(target: str, how: str, keys: list[str], folder: Path) -> int:
    """How many of the cases are right; a case that kills the checker is not."""
    count = 0
    waiting = list(keys)
    while waiting:
        command = [sys.executable, "-m", "benchmarks.operators.check"]
        command += [str(folder / "made"), target, how]
        done = subprocess.run(
            command, input="\n".join(waiting) + "\n", text=True, capture_output=True, check=False
        )
        answers = [json.loads(line) for line in _lines(done.stdout)]
        count += sum(answer["outcome"] == "right" for answer in answers)
        waiting = waiting[len(answers) + (done.returncode != 0) :]
        if not answers and done.returncode == 0:
            break
    return count


def _lines(text: str) -> Iterator[str]:
    yield from (line for line in text.splitlines() if line.startswith("{"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.operators.passes", description=__doc__)
    parser.add_argument("passes", nargs="*", help="default: all that can be left out")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--sample", type=int, default=12)
    chosen = parser.parse_args()
    rows = (FOLDER / f"{chosen.target}.jsonl").read_text().splitlines()
    outcomes = {row["key"]: row["outcome"] for row in map(json.loads, rows)}
    changed = _changed(chosen.target, sorted(outcomes), FOLDER)
    names = chosen.passes or [k.name for k in CATALOGUE if k.name not in ESSENTIAL]
    print("| pass | cases it changes | tried | right with it | right without |")
    print("|---|---:|---:|---:|---:|")
    for name in names:
        keys = changed.get(name, [])
        tried = random.Random(name).sample(keys, min(chosen.sample, len(keys)))
        with_it = _right(chosen.target, "edgec", tried, FOLDER) if tried else 0
        without = _right(chosen.target, f"without:{name}", tried, FOLDER) if tried else 0
        print(f"| {name} | {len(keys)} | {len(tried)} | {with_it} | {without} |", flush=True)


if __name__ == "__main__":
    main()
