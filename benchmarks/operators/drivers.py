"""The same modules on IREE's drivers and on edgert's: `python -m benchmarks.operators.drivers`.

Operators' cases, each compiled once for the CPU and once for Vulkan, run on both drivers of each,
compared with JAX's answers and with each other bit for bit, as `python -m benchmarks.operators`
does with all. Writes docs/drivers.md of all that is known, with the whole networks that
`python -m benchmarks.zoo.drivers` ran in the same way.
"""

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.operators.catalogue import all_cases
from benchmarks.operators.sweep import ROOT, Row, Sweep, read_rows
from benchmarks.standing import sentence
from benchmarks.zoo.beside import DEVICES
from benchmarks.zoo.drivers import NetworkRow, network_rows
from edgec import runtime

_PAGE = ROOT / "docs" / "drivers.md"
_YES = {True: "yes", False: "no"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=50, help="so many cases, evenly chosen")
    parser.add_argument("--target", action="append", choices=DEVICES, help="default: both")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--kept", action="store_true", help="measure nothing; write what is known")
    chosen = parser.parse_args()
    cases = random.Random(1).sample(all_cases(), chosen.sample)
    for target in [] if chosen.kept else chosen.target or DEVICES:
        sweep = _sweep(target, jobs=chosen.jobs)
        known = read_rows(sweep.store)
        sweep.run([case for case in cases if case.key not in known])
    rows = {target: list(read_rows(_sweep(target).store).values()) for target in DEVICES}
    _PAGE.write_text(page(rows, network_rows(), {target: _names(target) for target in DEVICES}))
    return 0


def _sweep(target: str, jobs: int = 1) -> Sweep:
    return Sweep(target=target, plain=False, jobs=jobs, tell=_tell)


def _tell(row: Row) -> None:
    print(f"{row.key}: {row.outcome} {row.reason}", flush=True)


def _names(target: str) -> str:
    return runtime.Device.open(DEVICES[target][1]).name


def page(rows: dict[str, list[Row]], networks: Sequence[NetworkRow], names: dict[str, str]) -> str:
    """docs/drivers.md."""
    lines = [
        "# edgert's drivers beside IREE's",
        "",
        "Cases of [operators.md](operators.md) and whole networks of the [zoo](zoo.md), evenly",
        "chosen, each compiled once and run on IREE's driver and on edgert's: the code is the",
        "same, and so should the bits be. Right is what is the framework's answer (of operators",
        "JAX's) within the tolerance of its type. What the compiler does not take for a target",
        "does not run. Written by `python -m benchmarks.operators.drivers`, after",
        "`python -m benchmarks.zoo.drivers` for networks.",
        "",
        "| modules for | on | what | that ran | right on IREE's | right on edgert's | same bits |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    others: list[str] = []
    for target, name in names.items():
        found = [row for row in networks if row.target == target]
        kinds = {
            "operators": (
                len(rows[target]),
                {row.key: _of(row) for row in rows[target] if row.iree},
            ),
            "networks": (len(found), {row.key: asdict(row) for row in found if not row.error}),
        }
        for what, (count, ran) in kinds.items():
            if count:
                cells = (target, name, what, f"{len(ran)} of {count}", *map(str, _counts(ran)))
                lines.append(f"| {' | '.join(cells)} |")
            others += [
                f"| {target} | `{key}` | {each['iree']} | {each['edgert']} | {_YES[each['same']]} |"
                for key, each in ran.items()
                if (each["iree"], each["edgert"], each["same"]) != ("right", "right", True)
            ]
        others += [
            f"| {row.target} | `{row.key}` | {row.error} | | |" for row in found if row.error
        ]
    if others:
        head = ["", "| | case | on IREE's | on edgert's | same bits |", "|---|---|---|---|---|"]
        lines += [*head, *sorted(others)]
    measured = {row.commit for found in (*rows.values(), networks) for row in found}
    return "\n".join([*lines, "", sentence(sorted(measured))]) + "\n"


def _of(row: Row) -> dict[str, Any]:
    ended = row.outcome if row.outcome == "right" else f"{row.outcome} ({row.reason})"
    return {"iree": row.iree, "edgert": ended, "same": row.same}


def _counts(ran: Mapping[str, Any]) -> tuple[int, int, int]:
    """How many are right on IREE's driver, right on edgert's, and the same bits on both."""
    return (
        sum(each["iree"] == "right" for each in ran.values()),
        sum(each["edgert"] == "right" for each in ran.values()),
        sum(each["same"] for each in ran.values()),
    )


if __name__ == "__main__":
    sys.exit(main())
