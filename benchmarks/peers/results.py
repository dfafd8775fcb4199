"""Rows of measurements, kept in one JSON file that later runs are merged into."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.peers.models.catalogue import MODELS

__all__ = ["Results", "Row", "Times", "machine", "versions"]


@dataclass(frozen=True, kw_only=True)
class Times:
    """What is kept of the calls of an engine: thousands, of which a page tells these.

    Attributes:
        calls: how many there were.
        fastest: milliseconds of the fastest.
        median: milliseconds of the median of all.
    """

    calls: int
    fastest: float
    median: float

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]]) -> "Times | None":
        """Those of all rounds together, in milliseconds; None where no call was made."""
        times = sorted(time for round_ in rounds for time in round_)
        if not times:
            return None
        middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
        return cls(calls=len(times), fastest=round(times[0], 6), median=round(middle, 6))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One engine with one model on so many threads.

    Attributes:
        model, engine, threads: what was measured.
        refused: why there are no times; empty if there are.
        error: the largest difference from the reference, as a part of the largest value.
        times: of its calls, in rounds that took turns with other engines; None if there are none.
        others: cores that other programs kept busy meanwhile, on average; None if not known.
        build: seconds by step: what is done once a model; `load` and `first` call, once a process.
        run: which run of the benchmark this is from.
    """

    model: str
    engine: str
    threads: int
    refused: str = ""
    error: float | None = None
    times: Times | None = None
    others: float | None = None
    build: dict[str, float] = field(default_factory=dict)
    run: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """What a later row with the same key replaces."""
        return self.model, self.engine, self.threads

    @property
    def right(self) -> bool:
        """Whether there are times, and answers as good as the model's precision allows."""
        tolerance = MODELS[self.model].precision.tolerance
        fine = self.error is not None and self.error <= tolerance
        return not self.refused and self.times is not None and fine

    @property
    def fastest(self) -> float:
        """Milliseconds of the fastest call, of a row that has times."""
        return self._known_times.fastest

    @property
    def median(self) -> float:
        """Milliseconds of the median call of all rounds, of a row that has times."""
        return self._known_times.median

    @property
    def _known_times(self) -> Times:
        if self.times is None:
            raise ValueError(f"{self.engine} has no times of {self.model}")
        return self.times


class Results:
    """A file of rows, and of the runs that they are from (date, command, machine, versions)."""

    def __init__(self, path: Path) -> None:
        """Read what is there; a missing file has no rows.

        Raises:
            ValueError: the file is there and is not one of these.
        """
        self.path = path
        self.runs: dict[str, dict[str, Any]] = {}
        self._rows: dict[tuple[str, str, int], Row] = {}
        self._read()

    def _read(self) -> None:
        if not self.path.exists():
            return
        try:
            kept = json.loads(self.path.read_text())
            self.runs |= kept["runs"]
            for entry in kept["rows"]:
                times = entry.pop("times", None)
                row = Row(**entry, times=None if times is None else Times(**times))
                if row.model in MODELS:  # models may have gone since
                    self._rows[row.key] = row
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} holds no benchmark results: {error}") from error

    def get(self, model: str, engine: str, threads: int) -> Row | None:
        """The row, if there is one."""
        return self._rows.get((model, engine, threads))

    @property
    def rows(self) -> Sequence[Row]:
        """All rows."""
        return tuple(self._rows.values())

    def put(self, rows: Sequence[Row], runs: Mapping[str, dict[str, Any]]) -> None:
        """Add rows in place of older ones with the same key, and write the file.

        The file is read again first: another run may have added to it. `runs` says what is known
        of the runs that the rows are from.
        """
        self._read()
        self.runs |= runs
        self._rows |= {row.key: row for row in rows}
        used = {row.run for row in self._rows.values()}
        self.runs = {name: run for name, run in self.runs.items() if name in used}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(_spell(self.runs, self.rows))
        part.replace(self.path)


def _spell(runs: dict[str, dict[str, Any]], rows: Sequence[Row]) -> str:
    """JSON with one row a line, so that files can be compared."""
    lines = ",\n".join(json.dumps(_told(row)) for row in rows)
    return f'{{"runs": {json.dumps(runs, indent=1)},\n"rows": [\n{lines}\n]}}\n'


def _told(row: Row) -> dict[str, Any]:
    """A row's facts without those that it does not have."""
    return {name: value for name, value in asdict(row).items() if value not in ("", None, {})}


def machine() -> dict[str, Any]:
    """The machine: CPU, its vector features, cores, memory, system."""
    facts = _cpu_facts()
    flags = facts.get("flags", "").split()
    wide = [f for f in flags if f.startswith(("avx", "amx", "asimd", "sve"))]
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": facts.get("model name", platform.processor() or platform.machine()),
        "family": " ".join(facts.get(k, "?") for k in ("vendor_id", "cpu family", "model")),
        "features": wide,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The installed versions; `missing` where there is none."""
    return {package: _version(package) for package in sorted(set(packages))}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _cpu_facts() -> dict[str, str]:
    """The first processor of /proc/cpuinfo, where there is such a file."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text().split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
