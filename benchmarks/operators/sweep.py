"""Cases through worker processes that may die: made by JAX, then checked; every row is kept."""

import hashlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.operators.case import Case
from benchmarks.operators.make import Made
from benchmarks.operators.worker import Worker
from benchmarks.standing import measured_at

__all__ = ["ELSEWHERE", "MADE", "ROOT", "Row", "Sweep", "read_rows"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one case on one target, and the commit whose code was measured.

    Attributes:
        outcome: on edgert's driver; of the compiler alone on IREE's.
        iree: what became of it on IREE's driver, beside edgert's; empty where it did not run.
        same: whether both drivers gave the same bits.
        device: what it ran on, where that was on another machine.
    """

    key: str
    group: str
    outcome: str
    reason: str
    seconds: float
    commit: str
    iree: str = ""
    same: bool = False
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A run over cases on one target.

    Attributes:
        target: `cpu`, `vulkan` or `cuda`; what is for CUDA is only compiled, into `MADE`.
        plain: the compiler alone, without edgec.
        jobs: worker processes.
        tell: called with each row.
        times: how many arguments each case takes at once.
    """

    target: str
    plain: bool
    jobs: int
    tell: Callable[[Row], None]
    times: int = 1

    @property
    def store(self) -> Path:
        """The rows as JSON lines; a later row of a case counts."""
        times = "" if self.times == 1 else f".x{self.times}"
        return _BUILD / f"{self.target}{_PLAIN[self.plain]}{times}.jsonl"

    def run(self, cases: Iterable[Case]) -> list[Row]:
        """Make and check the cases."""
        waiting = list(cases)
        random.Random(0).shuffle(waiting)  # so that a part says something of the whole
        turn, lock = iter(waiting), threading.Lock()
        rows: list[Row] = []
        self.store.parent.mkdir(parents=True, exist_ok=True)

        def work(_: int) -> None:
            maker = Worker("-m", "benchmarks.operators.make", str(MADE))
            how = "module" if self.target in ELSEWHERE else "plain" if self.plain else "edgec"
            target = ELSEWHERE.get(self.target, self.target)
            checker = Worker("-m", "benchmarks.operators.check", str(MADE), target, how)
            while True:
                with lock:
                    case = next(turn, None)
                if case is None:
                    break
                row = _row(case, maker, checker)
                with lock, self.store.open("a") as stream:
                    stream.write(json.dumps(asdict(row)) + "\n")
                    rows.append(row)
                    self.tell(row)
            maker.close()
            checker.close()

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(work, range(self.jobs)))
        return rows


ELSEWHERE = {"cuda": "cuda:sm_80"}
"""Targets whose devices are on other machines, by the column's name."""
_PLAIN = ("", ".plain")
_BUILD = ROOT / "build" / "operators"
MADE = _BUILD / "made"


def read_rows(store: Path) -> dict[str, Row]:
    """The last row of each case by its key."""
    if not store.exists():
        return {}
    rows = (Row(**json.loads(line)) for line in store.read_text().splitlines() if line)
    return {row.key: row for row in rows}


def _row(case: Case, maker: Worker, checker: Worker) -> Row:
    start = time.monotonic()
    made = Made(MADE, case.key)
    stamp, now = made.note.with_suffix(".stamp"), _fingerprint(case)
    answer: dict[str, Any] = {"ok": True}
    if not stamp.exists() or stamp.read_text() != now:
        for file in (made.program, made.plain):
            file.unlink(missing_ok=True)
        answer = maker.ask(case.key)
        if answer["ok"]:
            stamp.write_text(now)
        else:
            answer = {"outcome": "not made", "reason": answer["reason"]}
    if answer.get("ok"):
        answer = checker.ask(case.key)
    return Row(
        key=case.key,
        group=case.group,
        outcome=answer["outcome"],
        reason=answer["reason"],
        seconds=round(time.monotonic() - start, 2),
        commit=measured_at(),
        iree=answer.get("iree", ""),
        same=answer.get("same", False),
    )


def _fingerprint(case: Case) -> str:
    """Changes with what a case's files are made of."""
    files = [
        Path(__file__).with_name("make.py"),
        Path(sys.modules[type(case).__module__].__file__ or ""),
        Path(sys.modules[case.call.__module__].__file__ or "")
        if case.call.__module__.startswith("benchmarks")
        else Path(__file__).with_name("case.py"),
        *sorted((ROOT / "exporters/edgec/exporters/from_jax").glob("*.py")),
    ]
    parts = [_digest(file) for file in files]
    return hashlib.sha256(
        "".join([*parts, repr(case.args), repr(case.slack), repr(case.times)]).encode()
    ).hexdigest()


_DIGESTS: dict[Path, str] = {}


def _digest(file: Path) -> str:
    if file not in _DIGESTS:
        _DIGESTS[file] = hashlib.sha256(file.read_bytes()).hexdigest()
    return _DIGESTS[file]
