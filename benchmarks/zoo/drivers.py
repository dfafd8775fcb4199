"""Networks of the zoo on IREE's drivers and on edgert's: `python -m benchmarks.zoo.drivers`.

Drawn evenly from lists of networks that others wrote, each compiled once for the CPU and once for
Vulkan, and run on both drivers of each: the code is the same, and so should the bits be. Rows are
kept in build/zoo.drivers.jsonl, and those that are there are not made again; docs/drivers.md has
them beside the operators' (`python -m benchmarks.operators.drivers --kept` writes it).
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.coverage.process import ROOT, in_child
from benchmarks.standing import measured_at
from benchmarks.zoo.beside import DEVICES
from benchmarks.zoo.row import OUT
from benchmarks.zoo.subject import Subject, drawn, sampled

__all__ = ["KINDS", "NetworkRow", "network_rows"]

KINDS = ("transformers", "keras", "causal", "timm", "torchvision", "flax")
_STORE = ROOT / "build" / "zoo.drivers.jsonl"
_CHILD = "benchmarks.zoo.child"
_SEED = 12
_SECONDS = 400.0  # of a step
_MEMORY = 8 << 30  # bytes


@dataclass(frozen=True, kw_only=True)
class NetworkRow:
    """What became of one network on one target.

    Attributes:
        key: its list and its name there.
        target: what it was compiled for.
        error: why it did not run: it could not be built, exported or compiled; or empty.
        iree: "right" on IREE's driver, or what is wrong there.
        edgert: the same of edgert's.
        same: whether both gave the same bits.
        commit: the commit that was measured.
    """

    key: str
    target: str
    error: str = ""
    iree: str = ""
    edgert: str = ""
    same: bool = False
    commit: str


def network_rows() -> list[NetworkRow]:
    """All rows that are kept."""
    if not _STORE.exists():
        return []
    return [NetworkRow(**json.loads(line)) for line in _STORE.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=12, help="so many networks, evenly chosen")
    parser.add_argument("--target", action="append", choices=DEVICES, help="default: both")
    chosen = parser.parse_args()
    subjects: list[Subject] = []
    for kind in KINDS:
        names = in_child(_CHILD, "list", kind, seconds=_SECONDS)
        if isinstance(names, list):
            subjects += drawn(kind, names)
        else:
            print(f"{kind} is left out: {names['what']}", flush=True)
    known = {(row.key, row.target) for row in network_rows()}
    count = 0
    for subject in sampled(subjects, len(subjects), seed=_SEED):
        if count == chosen.sample:
            break
        targets = [t for t in chosen.target or DEVICES if (subject.key, t) not in known]
        rows = _rows(subject, targets) if targets else []
        _keep(rows)
        count += bool(rows) or not targets
    return 0


def _rows(subject: Subject, targets: list[str]) -> list[NetworkRow]:
    """A row a target; none where the network's own library cannot build it, or it is too large."""
    commit = measured_at()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def step(*words: str) -> Any:
            return in_child(_CHILD, *words, folder=folder, seconds=_SECONDS, memory=_MEMORY)

        made = step("export", subject.kind, subject.name)
        if made.get("error") == OUT:
            print(f"{subject.key} is no subject: {made['what']}"[:200], flush=True)
            return []
        rows = []
        for target in targets:
            found = made
            if "error" not in made:
                found = step("beside", target)
            told = (
                {"error": f"{found['error']}: {found['what']}"[:200]}
                if "error" in found
                else {name: found[name] for name in ("iree", "edgert", "same")}
            )
            rows.append(NetworkRow(key=subject.key, target=target, commit=commit, **told))
    return rows


def _keep(rows: list[NetworkRow]) -> None:
    _STORE.parent.mkdir(parents=True, exist_ok=True)
    with _STORE.open("a") as stream:
        for row in rows:
            print(f"{row.target} {row.key}: {row.error or asdict(row)}", flush=True)
            stream.write(json.dumps(asdict(row)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
