"""Rows of the sweeps to the page docs/operators.md."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from benchmarks.operators.sweep import Row
from benchmarks.standing import sentence

__all__ = ["on_iree", "page", "share", "summary"]

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


def page(results: Mapping[str, Mapping[str, Row]], versions: Mapping[str, str], device: str) -> str:
    """The whole page as Markdown; `results` are rows by key, by column of the table."""
    lines = [
        "# Operators",
        "",
        "Small programs of one operation each, made from JAX: every primitive of `jax.lax` and the",
        "common functions on top of it, on each element type it takes, vmapped and differentiated",
        "ones too. Each is exported, compiled for this machine's CPU and for Vulkan, run there by",
        f"edgert ({device}),",
        "and compared with JAX's own answer on the CPU. The very same module runs on IREE's",
        "driver, too, and what is right there alone is listed. Written by",
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
        "driver. A column with fewer cases than the others is a random sample of them.",
        "",
        f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.",
        sentence(sorted({row.commit for rows in results.values() for row in rows.values()})),
        "",
        "## Share that is right",
        "",
    ]
    columns: dict[str, Mapping[str, Row]] = {}
    for name, rows in results.items():
        columns[name] = rows
        if _beside(name):
            columns[f"{name}, IREE's driver"] = on_iree(rows)
    names = list(columns)
    lines += [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    groups = sorted({row.group for rows in results.values() for row in rows.values()})
    for group in (*groups, ""):
        cells = []
        for name in names:
            right, of = share(r for r in columns[name].values() if group in ("", r.group))
            cells.append(f"{right} of {of} ({100 * right / of:.1f} %)" if of else "")
        lines.append(f"| {group or '**all**'} | {' | '.join(cells)} |")
    for name, rows in results.items():
        if _beside(name):
            lines += ["", f"## What is not right on {name}", "", *_reasons(rows.values())]
            lines += ["", f"## Right on IREE's driver for {name}, and not on edgert's", ""]
            lines += _lost(rows)
    return "\n".join(lines) + "\n"


def _beside(name: str) -> bool:
    """Whether a column's modules ran on both drivers."""
    return "plain" not in name


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
