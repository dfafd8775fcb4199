"""What one model of the zoo came to, and the file that keeps a line for each."""

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = [
    "ARM",
    "LACKS",
    "OUT",
    "SLOW",
    "UNSETTLED",
    "Row",
    "Store",
    "compiling",
    "without_folders",
]

OUT = "out"
"""The state of a model that is no subject: its library cannot build it, or it is too large."""

ARM = "instructions on Arm"
"""What a row's count of them is called among its parts."""

LACKS = "not for this device"
"""Of a model whose inputs or answers have a type that the device has not: f64, on a small GPU."""

SLOW = "too slow here"
"""Of a model that compiled, whose calls take the device that stands in too long to be compared."""

UNSETTLED = "answers not settled"
"""Of a test that edgec refuses, whose answers nobody can meet: see `settled`."""

_FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+(?=[\w.+-])")
"""Of a file in an error's text its name is kept: folders are this machine's."""


def compiling(target: str) -> str:
    """What the time of compiling for a target is called among a row's parts."""
    return f"compiling for {target}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model.

    Attributes:
        kind: which list it is of.
        name: its name there.
        held_out: whether it is of the untouched fifth.
        code: a digest of edgec when it was measured; empty where only the page's facts are known.
        commit: the commit that it was exported at, as git names it.
        measured: by part, the commit that it was measured at if that is another.
        export: what exporting came to: `seconds` and `dialect`, or `error` and `what`.
        results: by target that was asked for, `ok`, `seconds` of compiling, `max_abs`, `problem`;
            or `error` and `what`, which are the export's where that failed.
        times: by thread count, then engine: the fastest milliseconds, or why there are none.
        compiles: by target, what compiling takes with edgec and without: see `compile_time`.
        arm: by engine, the instructions of a call on 64-bit Arm, or why there are none.
    """

    kind: str
    name: str
    held_out: bool
    code: str = ""
    commit: str = ""
    measured: dict[str, str] = field(default_factory=dict)
    export: dict[str, Any] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    times: dict[str, dict[str, Any]] = field(default_factory=dict)
    compiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    arm: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Kind and name as one word."""
        return f"{self.kind}/{self.name}"

    @property
    def parts(self) -> tuple[str, ...]:
        """All that was measured: targets, thread counts, of which targets the compiling, Arm."""
        on_arm = (ARM,) if self.arm else ()
        return (*self.results, *self.times, *map(compiling, self.compiles), *on_arm)

    @property
    def commits(self) -> set[str]:
        """All commits that something of it was measured at."""
        return {commit for commit in (self.commit, *self.measured.values()) if commit}

    def with_older(self, before: "Row") -> "Row":
        """This row with what was measured before, and was not anew."""
        failed = "error" in self.export
        results = self.results if failed else {**before.results, **self.results}
        times = {} if failed else {**before.times, **self.times}
        compiles = {} if failed else {**before.compiles, **self.compiles}
        arm = {} if failed else self.arm or before.arm
        found = replace(self, results=results, times=times, compiles=compiles, arm=arm)
        measured = {
            part: old
            for part in found.parts
            if part not in self.parts
            and (old := before.measured.get(part, before.commit)) != self.commit
        }
        return replace(found, measured={**self.measured, **measured})

    def state(self, target: str) -> str:
        """One word: right, wrong, `OUT`, a refusal's kind, or nothing where it did not run."""
        found = self.export if "error" in self.export else self.results.get(target, {})
        if not found:
            return ""
        return str(found.get("error") or ("right" if found["ok"] else "wrong"))

    def reason(self, target: str) -> str:
        """Why it is not right."""
        found = self.export if "error" in self.export else self.results.get(target, {})
        return str(found.get("what") or found.get("problem") or "")

    def ratio(self, threads: int) -> tuple[float, str] | None:
        """The best peer's time over edgec's, and that peer; None where either is missing."""
        return _beside_best(self.times.get(str(threads), {}))

    @property
    def arm_ratio(self) -> tuple[float, str] | None:
        """The best peer's instructions on Arm over edgec's, and that peer; None as with times."""
        return _beside_best(self.arm)

    def compile_ratio(self, target: str, what: str) -> float | None:
        """What compiling takes with edgec over without; `what` is `seconds` or `core`."""
        found = self.compiles.get(target, {})
        if what not in found.get("plain", {}):
            return None
        return float(found["edgec"][what] / max(found["plain"][what], 0.01))


def _beside_best(measured: Mapping[str, Any]) -> tuple[float, str] | None:
    """The least of what the peers take over what edgec takes, and whose it is."""
    ours = measured.get("edgec")
    peers = {k: v for k, v in measured.items() if k != "edgec" and isinstance(v, int | float)}
    if not isinstance(ours, int | float) or not peers:
        return None
    best = min(peers, key=lambda name: peers[name])
    return peers[best] / ours, best


class Store:
    """Rows by key, in a file of JSON with a line a model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.rows: dict[str, Row] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = Row(**json.loads(line))
                self.rows[row.key] = row

    def put(self, row: Row) -> None:
        """Keep a row, and all rows in the file, whole or not at all."""
        with self._lock:
            self._put(row)

    def _put(self, row: Row) -> None:
        self.rows[row.key] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(_lines(self.rows.values()), encoding="utf-8")
        part.replace(self.path)


def _lines(rows: Iterable[Row]) -> str:
    ordered = sorted(rows, key=lambda row: row.key)
    return "".join(without_folders(json.dumps(_told(row))) + "\n" for row in ordered)


def without_folders(text: str) -> str:
    """The text with files by their names alone."""
    return _FOLDERS.sub("", text)


def _told(row: Row) -> dict[str, Any]:
    """All that is not as it is by default; targets of an export that failed say nothing more."""
    results = {t: {} if found == row.export else found for t, found in row.results.items()}
    told = asdict(replace(row, results=results))
    return {name: value for name, value in told.items() if value or name == "held_out"}
