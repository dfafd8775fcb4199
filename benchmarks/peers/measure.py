"""Engines and a model to rows: a process an engine, which take turns, so that noise is shared."""

import ast
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.process import ROOT, Child, Failed
from benchmarks.peers.results import Row, Times

__all__ = ["ROOT", "Measurement", "model_folder"]

_BUILD_LIMIT, _READY_LIMIT = 1800.0, 300.0  # seconds
_PAUSE = 0.03  # seconds; lets the threads of the engine before go to sleep


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What to measure.

    Attributes:
        engines: names of engines, which take turns.
        threads: thread counts, one after the other.
        repeats: rounds of turns.
        seconds: how long an engine's turn lasts.
        tell: called with lines of progress.
        run: the name of this run.
    """

    engines: Sequence[str]
    threads: Sequence[int]
    repeats: int
    seconds: float
    tell: Callable[[str], None]
    run: str

    def rows(self, model: str) -> list[Row]:
        """The rows of one model: build with every engine, then measure on each thread count."""
        folder = model_folder(model)
        self.build("reference", model, folder)
        built: dict[str, dict[str, float] | str] = {}
        for engine in self.engines:
            built[engine] = self.build(engine, model, folder)
        rows: list[Row] = []
        for threads in self.threads:
            rows += self._measure(model, folder, threads, built)
        return rows

    def build(self, engine: str, model: str, folder: Path) -> dict[str, float] | str:
        """What building took, in seconds by step; or why it is refused."""
        begin = time.monotonic()
        try:
            with Child("benchmarks.peers.child", "build", engine, model, str(folder)) as child:
                times: dict[str, float] = child.answer(_BUILD_LIMIT)["ok"]
        except Failed as failed:
            self.tell(f"  {engine:10} refused: {failed}")
            return str(failed)
        self.tell(f"  {engine:10} made in {time.monotonic() - begin:.0f} s")
        return times

    def _measure(
        self,
        model: str,
        folder: Path,
        threads: int,
        built: dict[str, dict[str, float] | str],
    ) -> list[Row]:
        entrants: list[_Entrant] = []
        rows: list[Row] = []
        try:
            for engine, times in built.items():
                row = Row(model=model, engine=engine, threads=threads, run=self.run)
                entrant = _Entrant(row=row)
                entrants.append(entrant)
                if isinstance(times, str):
                    entrant.refused = times
                else:
                    entrant.start(folder, times)
            for _ in range(self.repeats):
                for entrant in entrants:
                    entrant.take_turn(self.seconds)
            rows = [entrant.finished() for entrant in entrants]
        finally:
            for entrant in entrants:
                entrant.stop()
        for row in rows:
            self.tell(_line(row))
        return rows


@dataclass(kw_only=True)
class _Entrant:
    """An engine while it is measured."""

    row: Row
    refused: str = ""
    build: dict[str, float] = field(default_factory=dict)
    error: float | None = None
    rounds: list[tuple[float, ...]] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    child: Child | None = None

    def start(self, folder: Path, build: dict[str, float]) -> None:
        self.build = dict(build)
        self.child = Child(
            "benchmarks.peers.child",
            "serve",
            self.row.engine,
            self.row.model,
            str(folder),
            str(self.row.threads),
        )
        try:
            ready = self.child.answer(_READY_LIMIT)["ok"]
        except Failed as failed:
            self._refuse(failed)
            return
        self.error = ready.pop("error")
        self.build |= ready

    def take_turn(self, seconds: float) -> None:
        if self.child is None or self.refused:
            return
        time.sleep(_PAUSE)
        try:
            self.child.ask({"seconds": seconds})
            turn = self.child.answer(_READY_LIMIT)
        except Failed as failed:
            self._refuse(failed)
            return
        self.rounds.append(tuple(turn["ms"]))
        if turn["others"] is not None:
            self.others.append(turn["others"])

    def _refuse(self, failed: Failed) -> None:
        self.refused = str(failed)
        self.rounds.clear()

    def finished(self) -> Row:
        row = self.row
        return Row(
            model=row.model,
            engine=row.engine,
            threads=row.threads,
            refused=self.refused,
            error=None if self.refused else self.error,
            times=Times.of(self.rounds),
            others=round(sum(self.others) / len(self.others), 2) if self.others else None,
            build={step: round(time, 3) for step, time in self.build.items()},
            run=row.run,
        )

    def stop(self) -> None:
        if self.child is not None:
            self.child.close()


def model_folder(model: str) -> Path:
    """Where a model's files are kept; a new one whenever the code that writes models changes."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for part in ("models", "nets", "weights.py"):
        files = sorted((here / part).glob("*.py")) if (here / part).is_dir() else [here / part]
        for file in files:
            # Not the text: comments and layout change no model.
            digest.update(ast.dump(ast.parse(file.read_text(encoding="utf-8"))).encode())
    folder = ROOT / "build" / "peers" / digest.hexdigest()[:8] / model
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _line(row: Row) -> str:
    words = f"  {row.engine:10} {row.threads} thread{'s' if row.threads > 1 else ' '} "
    if row.refused:
        return f"{words} refused: {row.refused}"
    error = "" if row.error is None else f"   error {row.error:.0e}"
    others = f"   others {row.others:.1f} cores" if row.others else ""
    return f"{words} {row.fastest:9.3f} ms   median {row.median:9.3f} ms{error}{others}"
