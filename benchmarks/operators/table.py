"""Rows of the sweeps to the page docs/operators.md."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from benchmarks.operators.catalogue import all_cases
from benchmarks.operators.former import MEASURED, Column, columns_of
from benchmarks.operators.sweep import Row
from benchmarks.standing import sentence

__all__ = ["cases_of", "on_iree", "page", "share", "summary"]

_ALL = "**all**"
_LONGEST = 160
_BAD = ("wrong", "failed", "crash", "timeout", "not made")


def share(rows: Iterable[Row]) -> tuple[int, int]:
    """How many cases are right, and how many there are that the device could run at all."""
    counted = [row for row in rows if row.outcome != "outside"]
    return sum(row.outcome == "right" for row in counted), len(counted)


def on_iree(rows: Mapping[str, Row]) -> dict[str, Row]:
    """The rows as they are on IREE's driver, which ran the modules beside edgert's."""
    return {
        key: replace(row, outcome=row.iree.partition(" ")[0] or row.outcome, reason=row.iree)
        for key, row in rows.items()
    }


def summary(rows: Iterable[Row]) -> str:
    """One line: the share, and how the others ended."""
    rows = list(rows)
    right, of = share(rows)
    others = Counter(row.outcome for row in rows if row.outcome != "right")
    ended = ", ".join(f"{n} {outcome}" for outcome, n in others.most_common())
    return f"{right} of {of} right ({100 * right / max(of, 1):.1f} %); {ended}"


def cases_of(text: str, name: str) -> int:
    """How many cases a column of the page has; 0 if it has no such column."""
    column = columns_of(text).get(name)
    found = re.search(r"of (\d+)", column.cells.get(_ALL, "")) if column else None
    return int(found[1]) if found else 0


def page(
    results: Mapping[str, Mapping[str, Row]],
    versions: Mapping[str, str],
    device: str,
    before: str = "",
) -> str:
    """The whole page as Markdown.

    Args:
        results: rows by key, by column of the table.
        versions: of packages.
        device: the one for Vulkan.
        before: the page as it was, whose other columns stay.
    """
    columns = columns_of(before)
    for name, rows in results.items():
        columns |= _columns(name, rows)
    measured = {commit for column in columns.values() for commit in column.commits}
    lines = [
        "# Operators",
        "",
        "Small programs of one operation each, made from JAX: every primitive of `jax.lax` and the",
        "common functions on top of it, on each element type it takes, vmapped and differentiated",
        "ones too. Each is exported, compiled for this machine's CPU and for Vulkan, run there by",
        f"edgert ({device}),",
        "and compared with JAX's own answer on the CPU. The very same module runs on IREE's",
        "driver, too, and what is right there alone is listed. For CUDA they are compiled here and",
        "run on a machine with a GPU (`benchmarks/operators/elsewhere.py`). Written by",
        "",
        "<!-- not run: a quiet machine: it measures for hours -->",
        "```console",
        "$ make operators",
        "```",
        "",
        "`right` means within the tolerance of the element type: 1e-4 for f32, 1e-2 for f16,",
        "5e-2 for bf16, 1e-8 for f64, of an answer's size and of how far the answers lie apart,",
        "exact for integers and bool; for ill-conditioned functions a few times that, as the case",
        "says. `refused` means that edgec says so before the",
        "compiler runs, with the operation and its line. Programs with 64-bit floats at their",
        "surface do not count on Vulkan, which has none. `plain` is the compiler alone, on IREE's",
        f"driver. There are {len(all_cases()):,} cases; a column with fewer is a random sample of",
        "them, with what was not right before. Cases are small; those of a column `32 at once` are",
        "each for 32 arguments at once by `jax.vmap`, so that they fill vectors and tiles.",
        "",
        f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.",
        sentence(sorted(measured)),
        "",
        "## Share that is right",
        "",
    ]
    names = sorted(columns)
    lines += [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    groups = {group for column in columns.values() for group in column.cells}
    for group in (*sorted(groups - {_ALL, MEASURED}), _ALL, MEASURED):
        cells = [columns[name].cells.get(group, "") for name in names]
        lines.append(f"| {group} | {' | '.join(cells)} |")
    for name in names:
        for heading, told in columns[name].sections.items():
            lines += ["", f"## {heading}", "", *told]
    return "\n".join(lines) + "\n"


def _columns(name: str, rows: Mapping[str, Row]) -> dict[str, Column]:
    """A column of rows, and the same on IREE's driver where that ran beside."""
    if "plain" in name:
        return {name: Column(cells=_cells(rows), sections={})}
    devices = sorted({row.device for row in rows.values() if row.device})
    ran = [f"It ran on {', '.join(devices)}.", ""] if devices else []
    sections = {
        f"What is not right on {name}": [*ran, *_reasons(rows.values())],
        f"Right on IREE's driver for {name}, and not on edgert's": _lost(rows),
    }
    other = Column(cells=_cells(on_iree(rows)), sections={})
    return {name: Column(cells=_cells(rows), sections=sections), f"{name}, IREE's driver": other}


def _cells(rows: Mapping[str, Row]) -> dict[str, str]:
    cells = {}
    for group in (*sorted({row.group for row in rows.values()}), _ALL):
        right, of = share(r for r in rows.values() if group in (_ALL, r.group))
        cells[group] = f"{right} of {of} ({100 * right / of:.1f} %)" if of else ""
    return cells | {MEASURED: ", ".join(sorted({row.commit for row in rows.values()}))}


def _lost(rows: Mapping[str, Row]) -> list[str]:
    found = [row for row in rows.values() if row.iree == "right" and row.outcome != "right"]
    return _reasons(found)


def _reasons(rows: Iterable[Row]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.outcome in (*_BAD, "refused"):
            found[row.outcome, _reason(row)].append(row.key)
    if not found:
        return ["Nothing."]
    lines = []
    for (outcome, reason), keys in sorted(found.items(), key=lambda item: -len(item[1])):
        listed = ", ".join(f"`{key}`" for key in sorted(keys))
        lines.append(f"- {outcome}, {len(keys)}: {reason} ({listed})")
    return lines


def _reason(row: Row) -> str:
    text = row.reason
    if row.outcome == "wrong" and "should be" in text:
        text = "other values" if "values are off" in text else text
    text = re.sub(r"[|<>`]", "", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
