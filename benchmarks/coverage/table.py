"""Rows of a sweep to the page docs/coverage.md."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.coverage.sweep import TARGETS, Row
from benchmarks.standing import sentence

__all__ = ["page", "state"]

_LONGEST = 140

_HEAD = """\
# Coverage

Small models of every framework, exported, compiled for this machine's CPU and for Vulkan \
({vulkan}), run there, and compared with their own framework's answers. Written by

<!-- not run: a quiet machine: it measures for hours -->
```console
$ make coverage
```

A number is the largest absolute error over all outputs of all calls. `right` means within the \
tolerance of the element type: 1e-4 absolute and relative for f32, 1e-2 for f16, 5e-2 for bf16, \
exact for integers and bool. Models with dynamic dimensions are called at several sizes, models \
with state several times in a row. Where something fails, the reason is given in short.

Versions: {versions}. {measured}
"""


def state(row: Row, target: str) -> str:
    """One word: right, wrong, refused (by the compiler or the device) or not exported."""
    if row.export:
        return "not exported"
    result = row.results[target]
    if "error" in result:
        return "wrong" if result["error"] == "WrongAnswer" else "refused"
    return "right" if result["ok"] else "wrong"


def page(rows: Sequence[Row], *, versions: Mapping[str, str], vulkan: str) -> str:
    """The whole page as Markdown."""
    head = _HEAD.format(
        measured=sentence(sorted(row.commit for row in rows)),
        vulkan=vulkan,
        versions=", ".join(f"{name} {v}" for name, v in versions.items()),
    )
    parts = [head, _summary(rows)]
    for framework in _frameworks(rows):
        parts.append(_section(framework, [row for row in rows if row.framework == framework]))
    return "\n".join(parts)


def _frameworks(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.framework for row in rows))


def _summary(rows: Sequence[Row]) -> str:
    lines = [
        "| | cases | " + " | ".join(f"right on {t}" for t in TARGETS) + " |",
        "|---|---|" + "---|" * len(TARGETS),
    ]
    groups = {name: [r for r in rows if r.framework == name] for name in _frameworks(rows)}
    for name, group in {**groups, "**all**": list(rows)}.items():
        counts = [Counter(state(row, t) for row in group)["right"] for t in TARGETS]
        lines.append(f"| {name} | {len(group)} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines) + "\n"


def _section(framework: str, rows: Sequence[Row]) -> str:
    lines = [
        f"## {framework}\n",
        "| model or feature | element types | " + " | ".join(TARGETS) + " |",
        "|---|---|" + "---|" * len(TARGETS),
    ]
    for row in rows:
        cells = [_cell(row, target) for target in TARGETS]
        lines.append(f"| {row.name} | {row.dtype} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, target: str) -> str:
    if row.export:
        return f"not exported: {_short(row.export)}"
    result = row.results[target]
    if "error" in result:
        return f"refused: {_short(_reason(result))}"
    if not result["ok"]:
        return f"**{_short(result['problem'])}**"
    error = result["max_abs"]
    return "right" if error == 0 else f"right, {error:.0e}"


def _reason(result: Mapping[str, Any]) -> str:
    return f"{result['error']}: {result['what']}"


def _short(text: str) -> str:
    """One line that cannot break a table."""
    line = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…"
