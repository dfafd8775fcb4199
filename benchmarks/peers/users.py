"""The zoo's models at their real size, as a part of docs/benchmarks.md."""

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.peers.tables import digits, table
from benchmarks.zoo.row import Row

__all__ = ["KIND", "section"]

KIND = "users"
_ENGINES = {"edgec": "edgec on edgert", "ort": "ONNX Runtime", "openvino": "OpenVINO"}
_INTRO = """## Models as their users bring them

Models of timm and transformers at their real size, which were not written for this page:
edgec has them from PyTorch, the peers as ONNX files of `torch.onnx`. The fastest call in
milliseconds, arrays in the host's memory, engines in turns; *speed* as above. They are rows of
[the zoo](zoo.md) (`python -m benchmarks.zoo --kind=users --write`); those marked are held out:
nobody looks at them while they work on edgec. Rows are of different days, on which the machine was
not equally fast: compare what stands in one row.
"""


def section(rows: Iterable[Row]) -> str:
    """The part; empty where no such model was timed."""
    timed = sorted((r for r in rows if r.kind == KIND and r.times), key=lambda r: r.name)
    if not timed:
        return ""
    counts = sorted({threads for row in timed for threads in row.times}, key=int)
    titles = ["model", *(row.name + (" (held out)" if row.held_out else "") for row in timed)]
    lines = [
        [f"{_ENGINES[engine]}, {_threads(count)}" for count in counts for engine in _ENGINES]
        + [f"speed, {_threads(count)}" for count in counts]
    ]
    for row in timed:
        times = [row.times.get(count, {}) for count in counts]
        lines.append(
            [_cell(each.get(engine)) for each in times for engine in _ENGINES]
            + [_speed(each) for each in times]
        )
    return f"{_INTRO}\n{table(titles, lines)}"


def _threads(count: str) -> str:
    return f"{count} thread{'' if count == '1' else 's'}"


def _cell(value: Any) -> str:
    return digits(value) if isinstance(value, float) else "refused" if value else ""


def _speed(times: Mapping[str, Any]) -> str:
    ours = times.get("edgec")
    peers = [times.get(name) for name in ("ort", "openvino")]
    best = min((each for each in peers if isinstance(each, float)), default=None)
    return f"{best / ours:.2f}" if best and isinstance(ours, float) else ""
