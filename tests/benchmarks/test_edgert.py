"""The benchmark of edgert beside IREE: what it measures lives by, and what it says of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.edgert.measure import CONTENDERS, Figures
from benchmarks.edgert.page import draw, page
from benchmarks.edgert.results import Result, read, write
from benchmarks.edgert.sizes import ROWS, table

LAUNCH = Path(__file__).resolve().parents[2] / "benchmarks" / "edgert" / "launch.c"
ABOUT = {
    "date": "2026-01-02",
    "machine": {
        "cpu": "A processor",
        "family": "a b c",
        "cores": 2,
        "memory_gib": 4,
        "system": "Linux",
        "load_before": 0.25,
    },
    "versions": {"edgec": "1.0"},
    "commit": "0123456789",
    "rounds": 3,
    "seconds": 0.5,
}


def _result(name: str, *calls: float) -> Result:
    """edgert's and IREE's calls on one thread and two, in seconds."""
    figures = {
        contender: Figures(
            calls=[call * 1.5, call] if contender.calls else [],
            lives=[0.004, 0.002 * (1 + number)] if contender.mode else [],
            peaks=[2e6 * (1 + number)] if contender.mode else [],
        )
        for number, (contender, call) in enumerate(zip(CONTENDERS, (*calls, 0.0), strict=True))
    }
    return Result(name=name, title=name.upper(), figures=figures)


RESULTS = [_result("small", 8e-6, 1e-5, 9e-6, 9e-5), _result("large", 3e-2, 2e-2, 1e-2, 2e-2)]


def test_the_page_says_which_aims_are_missed() -> None:
    text = page(ABOUT, RESULTS, "plot.png")
    assert "| one thread, of local-sync | ≤ 1 | 0.80 to 1.50 | LARGE 1.50 |" in text
    assert "| two threads, of local-task | ≤ 0.9 | 0.10 to 0.50 |  |" in text
    assert "| a call of the SMALL | ≤ 10 µs | 8.0 µs |  |" in text
    assert "| LARGE | 30 | 20 | 1.50 | 10 | 20 | 0.50 |" in text
    assert "| LARGE | 2 | 10 | 0.20 | 4 | 0.50 |" in text
    assert "trust the ratios" not in text


def test_a_busy_machine_is_named() -> None:
    about = {**ABOUT, "machine": {**ABOUT["machine"], "load_before": 2.5}}
    assert "of two threads nothing" in page(about, RESULTS, "plot.png")


def test_results_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "kept.json", ABOUT, RESULTS)
    assert read(tmp_path / "kept.json") == (ABOUT, RESULTS)


def test_there_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(RESULTS, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_launched_process_is_measured_alone(tmp_path: Path) -> None:
    launch = tmp_path / "launch"
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", LAUNCH, "-o", launch], check=True)
    own = b"x" * (100 << 20)  # what this process has is none of the other's
    peaks = {}
    for size in (0, 32):
        words = [launch, sys.executable, "-S", "-c", f"b'x' * ({size} << 20); print('unseen')"]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        seconds, peak = printed.split()
        assert float(seconds) > 0
        peaks[size] = int(peak)
    assert len(own) > peaks[0]
    assert (30 << 20) < peaks[32] - peaks[0] < (34 << 20)


def test_a_process_that_fails_is_not_measured(tmp_path: Path) -> None:
    launch = tmp_path / "launch"
    subprocess.run(["cc", "-std=c11", LAUNCH, "-o", launch], check=True)
    assert subprocess.run([launch, "false"], check=False, capture_output=True).returncode == 1
    assert subprocess.run([launch, "/none"], check=False, capture_output=True).returncode == 127


def test_sizes_stand_beside_their_aims() -> None:
    small, large = ROWS[0], ROWS[4]
    text = table({small: 94.06, large: 84.5})
    assert "| x86-64 | 94.1 | ≤ 110 |" in text
    assert "| x86-64, no sentences | 84.5 | ≤ 64, missed |" in text


def test_each_part_is_measured_where_only_a_few_builds_are() -> None:
    few = [row for row in ROWS if row.few]
    for kind in ("messages", "vulkan", "proves", "trusts"):
        assert {getattr(row, kind) for row in few} == {getattr(row, kind) for row in ROWS}
    assert {part for row in few for part in row.parts} == {
        part for row in ROWS for part in row.parts
    }
