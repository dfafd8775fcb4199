"""The same modules on IREE's drivers and on edgert's: `python -m benchmarks.operators.drivers`.

Operators' cases, each compiled once for the CPU and once for Vulkan, run on both drivers of each,
compared with JAX's answers and with each other bit for bit. Writes docs/drivers.md.
"""

import argparse
import json
import random
import sys

from benchmarks.operators.catalogue import all_cases
from benchmarks.operators.sweep import ROOT, Row, Sweep, read_rows
from benchmarks.standing import sentence
from edgec import runtime

_PAGE = ROOT / "docs" / "drivers.md"
_YES = {True: "yes", False: "no"}
_DEVICES = {"cpu": ("local-sync", "edgert://cpu"), "vulkan": ("vulkan", "edgert://vulkan")}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=50, help="so many cases, evenly chosen")
    parser.add_argument("--target", action="append", choices=_DEVICES, help="default: both")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--kept", action="store_true", help="measure nothing; write what is known")
    chosen = parser.parse_args()
    cases = random.Random(1).sample(all_cases(), chosen.sample)
    for target in [] if chosen.kept else chosen.target or _DEVICES:
        sweep = _sweep(target, jobs=chosen.jobs)
        known = read_rows(sweep.store)
        sweep.run([case for case in cases if case.key not in known])
    rows = {target: list(read_rows(_sweep(target).store).values()) for target in _DEVICES}
    _PAGE.write_text(page(rows, {target: _names(target) for target in _DEVICES}))
    return 0


def _sweep(target: str, jobs: int = 1) -> Sweep:
    return Sweep(target=target, plain=False, jobs=jobs, tell=_tell, beside=True)


def _tell(row: Row) -> None:
    print(f"{row.key}: {row.outcome} {row.reason}", flush=True)


def _names(target: str) -> str:
    return runtime.Device.open(_DEVICES[target][1]).name


def page(rows: dict[str, list[Row]], names: dict[str, str]) -> str:
    """docs/drivers.md."""
    lines = [
        "# edgert's drivers beside IREE's",
        "",
        "Cases of [operators.md](operators.md), evenly chosen, each compiled once and run on",
        "IREE's driver and on edgert's: the code is the same, and so should the bits be. Right is",
        "what is JAX's answer within the tolerance of its type. Cases that the compiler does not",
        "take for a target do not run. Written by `python -m benchmarks.operators.drivers`.",
        "",
        "| modules for | on | cases that ran | right on IREE's | right on edgert's | same bits |",
        "|---|---|---:|---:|---:|---:|",
    ]
    others = []
    for target, found in rows.items():
        ran = {row.key: json.loads(row.reason) for row in found if row.outcome == "right"}
        counts = (
            sum(each["iree"] == "right" for each in ran.values()),
            sum(each["edgert"] == "right" for each in ran.values()),
            sum(each["same"] for each in ran.values()),
        )
        cells = (target, names[target], f"{len(ran)} of {len(found)}", *map(str, counts))
        lines.append(f"| {' | '.join(cells)} |")
        others += [
            f"| {target} | `{key}` | {each['iree']} | {each['edgert']} | {_YES[each['same']]} |"
            for key, each in ran.items()
            if (each["iree"], each["edgert"], each["same"]) != ("right", "right", True)
        ]
    if others:
        head = ["", "| | case | on IREE's | on edgert's | same bits |", "|---|---|---|---|---|"]
        lines += [*head, *sorted(others)]
    measured = {row.commit for found in rows.values() for row in found}
    return "\n".join([*lines, "", sentence(sorted(measured))]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
