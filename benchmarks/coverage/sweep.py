"""Run cases in child processes with a time limit, and keep every result as it comes."""

import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.coverage.process import ROOT, in_child
from benchmarks.standing import measured_at

__all__ = ["ROOT", "TARGETS", "Row", "Sweep"]

TARGETS = ("cpu", "vulkan")
TIME_LIMIT = 300.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one case came to. `export` is empty when the program was made; else the reason.

    `results` holds for each target `{"ok", "max_abs", "problem"}` or `{"error", "what"}`; `commit`
    is where the code was that it was measured with.
    """

    framework: str
    name: str
    dtype: str
    export: str
    calls: int
    results: dict[str, dict[str, Any]]
    seconds: float
    fingerprint: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A run over cases that can be stopped and gone on with.

    Attributes:
        store: the JSON file of results; those that this very code made are not made again.
        jobs: how many cases at a time.
        tell: called with each finished row and whether it was there already.
    """

    store: Path
    jobs: int
    tell: Callable[[Row, bool], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, frameworks: list[str], containing: str = "", *, again: bool = False) -> list[Row]:
        """The rows of these frameworks whose name contains a text, in the table's order."""
        kept = {} if again else self._kept()
        wanted = [
            (framework, case["name"], case["dtype"])
            for framework in frameworks
            for case in _child("list", framework)
            if containing in case["name"]
        ]
        fingerprints = {framework: _fingerprint(framework) for framework in frameworks}

        def one(key: tuple[str, str, str]) -> Row:
            row = kept.get(key)
            there = row is not None and row.fingerprint == fingerprints[key[0]]
            if row is None or not there:
                row = _measure(*key, fingerprints[key[0]])
            self._save(row)
            self.tell(row, there)
            return row

        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(one, wanted))

    def kept(self, frameworks: list[str]) -> list[Row]:
        """The rows of an earlier run as they are."""
        rows = [row for row in self._kept().values() if row.framework in frameworks]
        return sorted(rows, key=lambda row: frameworks.index(row.framework))

    def _kept(self) -> dict[tuple[str, str, str], Row]:
        try:
            rows = [Row(**row) for row in json.loads(self.store.read_text())]
        except (OSError, ValueError, TypeError):
            return {}
        return {(row.framework, row.name, row.dtype): row for row in rows}

    def _save(self, row: Row) -> None:
        with self._lock:
            kept = self._kept()
            kept[row.framework, row.name, row.dtype] = row
            self.store.parent.mkdir(parents=True, exist_ok=True)
            part = self.store.with_suffix(".part")
            part.write_text(json.dumps([asdict(row) for row in kept.values()], indent=1))
            part.replace(self.store)


def _measure(framework: str, name: str, dtype: str, fingerprint: str) -> Row:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edgec-coverage-") as folder:
        made = _child("export", framework, name, dtype, folder=folder)
        export = _reason(made)
        results = {} if export else {t: _child("run", t, folder=folder) for t in TARGETS}
    return Row(
        framework=framework,
        name=name,
        dtype=dtype,
        export=export,
        calls=made.get("calls", 0),
        results=results,
        seconds=time.monotonic() - begin,
        fingerprint=fingerprint,
        commit=measured_at(),
    )


def _reason(result: dict[str, Any]) -> str:
    return f"{result['error']}: {result['what']}" if "error" in result else ""


def _child(*arguments: str, folder: str | None = None) -> Any:
    """One step in a process of its own."""
    return in_child("benchmarks.coverage.child", *arguments, folder=folder, seconds=TIME_LIMIT)


def _fingerprint(framework: str) -> str:
    """Changes with any code that a framework's results may depend on."""
    from benchmarks.coverage.catalogue import FRAMEWORKS

    sources = sorted(
        file
        for root in ("exporters", "toolchain", "targets", "runtime")
        for kind in ("*.py", "*.toml")
        for file in (ROOT / root / "edgec").rglob(kind)
        if "cli" not in file.parts
    )
    cases = Path(__file__).with_name(f"{FRAMEWORKS[framework][0]}.py")
    pins = ROOT / "constraints.txt"
    data = b"".join(file.read_bytes() for file in (*sources, cases, pins))
    return hashlib.sha256(data).hexdigest()[:16]
