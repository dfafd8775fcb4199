"""Models of the zoo to rows: exported, compiled, proved, timed; each step may fail on its own."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.coverage.process import ROOT, in_child
from benchmarks.standing import measured_at
from benchmarks.zoo.child import BUILT, ONNX, compiled
from benchmarks.zoo.nursery import Nursery
from benchmarks.zoo.row import ARM, OUT, SLOW, Row, Store, compiling
from benchmarks.zoo.speed import take_turns
from benchmarks.zoo.subject import Subject

__all__ = ["TIMED", "CodeChanged", "Sweep", "code_digest", "folder_of"]

TIMED = "users"
"""The kind whose files are always kept, so that its models can be timed later."""

_TIMED_ON = "cpu"
_CHILD = "benchmarks.zoo.child"
_MEMORY = 10 << 30  # bytes of a step
_BUILDING = ("build", "export", "onnx", "arm")
"""Steps that need a kind's libraries. The others must do without: what some of them bring
(TensorFlow, for one) cannot be beside IREE's Vulkan driver."""


class CodeChanged(Exception):
    """edgec's code is another than when the run began: a step's processes may have read of both."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to do with each model.

    Attributes:
        store: where rows are kept.
        code: edgec's digest; a row of the same code is not made again.
        stale: leave a row alone that older code made, and files that were kept.
        targets: where it is proved; none to leave that out.
        compiles: targets for which compiling is timed beside the compiler alone.
        arm: count its instructions on 64-bit Arm.
        ready: make all that timing it later needs: program, module, and a file for the peers.
        threads: thread counts to time it on; none to leave that out.
        engines: who is timed.
        rounds: turns of an engine.
        seconds: how long a turn is.
        limit: seconds that a step may take.
        keep: keep the files of every kind, so that its models can be timed later.
        tell: called with each row and whether it was there.
        nurseries: where steps are forked from, by thread and whether they need a kind's libraries.
    """

    store: Store
    code: str
    stale: bool
    targets: Sequence[str]
    compiles: Sequence[str]
    arm: bool
    ready: bool
    threads: Sequence[int]
    engines: Sequence[str]
    rounds: int
    seconds: float
    limit: float
    keep: bool
    tell: Callable[[Row, bool], None]
    nurseries: dict[tuple[int, bool], Nursery] = field(default_factory=dict)

    def one(self, subject: Subject, *, again: bool) -> Row:
        """The row of one model: what is known of this code, and what was asked for besides.

        Raises:
            CodeChanged: there is no row, for it would be of no one code.
        """
        kept = self.store.rows.get(subject.key)
        row = Row(
            kind=subject.kind,
            name=subject.name,
            held_out=subject.held_out,
            code=self.code,
            commit=measured_at(),
        )
        if kept is not None and (kept.code == self.code or self.stale) and not again:
            row = kept
        targets = [t for t in self.targets if t not in row.results]
        compiles = [t for t in self.compiles if t not in row.compiles]
        counts = (ARM,) if self.arm and not row.arm else ()
        if not (targets or compiles or counts or self.ready or self.threads):
            self.tell(row, True)
            return row
        timed = (*map(compiling, compiles), *map(str, self.threads))
        row = _measured_now(row, *targets, *timed, *counts)
        folder = folder_of(subject)
        folder.mkdir(parents=True, exist_ok=True)
        row = self._proved(row, folder, targets)
        kept_for_later = self.keep or self.ready or subject.kind == TIMED
        if "error" not in row.export:
            if self.ready or self.threads:
                row = self._made_ready(row, folder)
            if compiles:
                found = {t: self._step(row.kind, "compile", t, folder=folder) for t in compiles}
                row = replace(row, compiles={**row.compiles, **found})
            if self.threads:
                row = self._timed(row, folder)
            if counts:
                self._give_to_peers(row, folder)
                arm = self._step(row.kind, "arm", row.kind, row.name, folder=folder)
                row = replace(row, arm=arm)
        if not kept_for_later:
            shutil.rmtree(folder, ignore_errors=True)
        if code_digest() != self.code:
            raise CodeChanged(subject.key)
        self.store.put(row)
        self.tell(row, False)
        return row

    def missing(self, subject: Subject) -> str:
        """Why a name of a list has no model here; empty if it has one. No row is made."""
        folder = folder_of(subject)
        there = folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        found = self._step(subject.kind, "build", subject.kind, subject.name, folder=folder)
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
        return str(found.get("what", ""))

    def _proved(self, row: Row, folder: Path, targets: Sequence[str]) -> Row:
        made_by = folder / "code"
        has_program = made_by.exists() and (self.stale or made_by.read_text() == self.code)
        if "error" not in row.export and not has_program:
            for module in folder.glob("*.vmfb"):
                module.unlink()
            row = replace(row, export=self._exported(row, folder))
            if "error" not in row.export:
                made_by.write_text(self.code)
        results = dict(row.results)
        for target in targets:
            failed = "error" in row.export
            results[target] = row.export if failed else self._ran(row.kind, target, folder)
        return replace(row, results=results)

    def _exported(self, row: Row, folder: Path) -> dict[str, Any]:
        (folder / BUILT).unlink(missing_ok=True)
        found = self._step(row.kind, "export", row.kind, row.name, folder=folder)
        if found.get("error", OUT) != OUT and not (folder / BUILT).exists():
            return {"error": OUT, "what": f"its library does not build it: {found['what']}"}
        return found

    def _made_ready(self, row: Row, folder: Path) -> Row:
        """Compile the model and write it for the peers, once each."""
        if not compiled(_TIMED_ON, folder).exists():
            made = self._ran(row.kind, _TIMED_ON, folder)
            row = replace(_measured_now(row, _TIMED_ON), results={**row.results, _TIMED_ON: made})
        self._give_to_peers(row, folder)
        return row

    def _give_to_peers(self, row: Row, folder: Path) -> None:
        """Write the model for the peers, once; why that failed is kept, too."""
        refused = folder / "onnx-refused.json"
        if (folder / ONNX).exists() or refused.exists():
            return
        found = self._step(row.kind, "onnx", row.kind, row.name, folder=folder)
        if "error" in found:
            refused.write_text(json.dumps(found))

    def _timed(self, row: Row, folder: Path) -> Row:
        times = {
            str(threads): take_turns(
                folder,
                threads,
                engines=self.engines,
                rounds=self.rounds,
                seconds=self.seconds,
            )
            for threads in self.threads
        }
        return replace(row, times=times)

    def _ran(self, kind: str, target: str, folder: Path) -> dict[str, Any]:
        compiled(target, folder).unlink(missing_ok=True)
        found = self._step(kind, "run", target, folder=folder)
        if found.get("error") == "Timeout" and compiled(target, folder).exists():
            return {"error": SLOW, "what": f"compiled, and {self.limit:.0f} s were not enough"}
        return found

    def _step(self, kind: str, *words: str, folder: Path) -> dict[str, Any]:
        if not hasattr(os, "fork"):
            alone: dict[str, Any] = in_child(
                _CHILD, *words, folder=folder, seconds=self.limit, memory=_MEMORY
            )
            return alone
        builds = words[0] in _BUILDING
        place, libraries = (threading.get_ident(), builds), kind if builds else ""
        nursery = self.nurseries.get(place)
        if nursery is None or nursery.kind != libraries or not nursery.alive:
            if nursery is not None:
                nursery.close()
            nursery = self.nurseries[place] = Nursery(libraries)
        found: dict[str, Any] = nursery.step(
            *words, folder=folder, seconds=self.limit, memory=_MEMORY
        )
        return found

    def close(self) -> None:
        """End what the steps were forked from."""
        while self.nurseries:
            self.nurseries.popitem()[1].close()


def _measured_now(row: Row, *parts: str) -> Row:
    """The row, which says that these parts are of another commit than the rest, if they are."""
    if row.commit == measured_at():
        return row
    return replace(row, measured={**row.measured, **dict.fromkeys(parts, measured_at())})


def folder_of(subject: Subject) -> Path:
    """Where a model's files lie while it is worked on, and after that if they are kept."""
    return ROOT / "build" / "zoo" / subject.kind / subject.name


def code_digest() -> str:
    """Changes with any code of edgec that a row may depend on."""
    import hashlib

    digest = hashlib.sha256()
    for root in ("exporters", "toolchain", "targets", "runtime"):
        for file in sorted((ROOT / root / "edgec").rglob("*")):
            if file.suffix in (".py", ".toml") and "cli" not in file.parts:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
