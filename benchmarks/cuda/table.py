"""What was measured on a GPU as a table; needs nothing, since it runs there, too."""

from typing import Any


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| network | edgec | plain IREE | XLA | XLA, calls queued | XLA / edgec "
        "| error of edgec, XLA |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ms, error = row["ms"], row["error"]
        ratio = f"{ms['XLA'] / ms['edgec']:.2f}" if "edgec" in ms else "-"
        cells = [f"{ms[e]:.3f}" if e in ms else "-" for e in ("edgec", "plain", "XLA")]
        lines.append(
            f"| {row['name']} | {' | '.join(cells)} | {row['xla_queued_ms']:.3f} | {ratio} "
            f"| {error.get('edgec', '-')}, {error['XLA']} |"
        )
    return "\n".join(lines)
