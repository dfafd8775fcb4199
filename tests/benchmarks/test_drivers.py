"""The page that sets edgert's drivers beside IREE's: what counts, and what is told."""

import json

from benchmarks.operators.drivers import page
from benchmarks.operators.sweep import Row
from benchmarks.zoo.drivers import NetworkRow

COMMIT = "0123456789"


def _row(key: str, outcome: str = "right", **found: object) -> Row:
    reason = json.dumps({"iree": "right", "edgert": "right", "same": True} | found)
    return Row(key=key, group="g", outcome=outcome, reason=reason, seconds=1.0, commit=COMMIT)


def test_what_differs_or_did_not_run_is_told() -> None:
    networks = [
        NetworkRow(
            key="a/net", target="cpu", iree="right", edgert="right", same=True, commit=COMMIT
        ),
        NetworkRow(
            key="a/off", target="cpu", iree="right", edgert="wrong: 3", same=False, commit=COMMIT
        ),
        NetworkRow(key="a/none", target="cpu", error="Crash: it died", commit=COMMIT),
    ]
    operators = [_row("one"), _row("bits", same=False), _row("refused", outcome="refused")]
    text = page({"cpu": operators}, networks, {"cpu": "a device"})
    assert "| cpu | a device | operators | 2 of 3 | 2 | 2 | 1 |" in text
    assert "| cpu | a device | networks | 2 of 3 | 2 | 1 | 1 |" in text
    assert "| cpu | `bits` | right | right | no |" in text
    assert "| cpu | `a/off` | right | wrong: 3 | no |" in text
    assert "| cpu | `a/none` | Crash: it died | | |" in text
    assert "`one`" not in text
    assert text.endswith(f"Measured at commit {COMMIT}.\n")
