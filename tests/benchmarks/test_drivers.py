"""The page that sets edgert's drivers beside IREE's: what counts, and what is told."""

from dataclasses import replace

from benchmarks.operators import table
from benchmarks.operators.drivers import page
from benchmarks.operators.sweep import Row
from benchmarks.zoo.drivers import NetworkRow

COMMIT = "0123456789"


def _row(
    key: str, outcome: str = "right", reason: str = "", iree: str = "right", same: bool = True
) -> Row:
    return Row(
        key=key,
        group="g",
        outcome=outcome,
        reason=reason,
        seconds=1.0,
        commit=COMMIT,
        iree=iree,
        same=same,
    )


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
    operators = [
        _row("one"),
        _row("bits", same=False),
        _row("refused", outcome="refused", iree="", same=False),
        _row("lost", outcome="wrong", reason="0.5 and should be 1", same=False),
    ]
    text = page({"cpu": operators}, networks, {"cpu": "a device"})
    assert "| cpu | a device | operators | 3 of 4 | 3 | 2 | 1 |" in text
    assert "| cpu | a device | networks | 2 of 3 | 2 | 1 | 1 |" in text
    assert "| cpu | `bits` | right | right | no |" in text
    assert "| cpu | `lost` | right | wrong (0.5 and should be 1) | no |" in text
    assert "| cpu | `a/off` | right | wrong: 3 | no |" in text
    assert "| cpu | `a/none` | Crash: it died | | |" in text
    assert "`one`" not in text
    assert text.endswith(f"Measured at commit {COMMIT}.\n")


def test_operators_that_edgert_alone_gets_wrong_are_listed() -> None:
    rows = [
        _row("one"),
        _row("lost", outcome="wrong", reason="0.5 and should be 1", same=False),
        _row("neither", outcome="failed", reason="died", iree="failed (died)", same=False),
        _row("mine", iree="wrong (0.5)", same=False),
    ]
    ran = {row.key: row for row in rows}
    text = table.page({"cpu": ran}, {"jax": "1"}, "a device")
    assert "| | cpu | cpu, IREE's driver |" in text
    assert "| **all** | 2 of 4 (50.0 %) | 2 of 4 (50.0 %) |" in text
    assert f"| measured at | {COMMIT} | {COMMIT} |" in text
    lost = text.partition("## Right on IREE's driver for cpu, and not on edgert's\n")[2]
    assert "`lost`" in lost
    assert "`one`" not in lost and "`neither`" not in lost and "`mine`" not in lost


def test_columns_that_are_not_measured_anew_stay() -> None:
    one, other = _row("one"), _row("other", outcome="failed", reason="died", iree="")
    whole = table.page({"cpu": {"other": other}, "vulkan": {"one": one}}, {"jax": "1"}, "a device")
    assert table.page({"vulkan": {"one": one}}, {"jax": "1"}, "a device", whole) == whole
    later = replace(one, commit="9876543210", outcome="wrong", reason="it is 1 and should be 2")
    text = table.page({"vulkan": {"one": later}}, {"jax": "1"}, "a device", whole)
    assert f"| measured at | {COMMIT} | {COMMIT} | 9876543210 | 9876543210 |" in text
    assert "## What is not right on cpu\n\n- failed, 1: died (`other`)" in text
    assert f"Measured at commits {COMMIT} and 9876543210." in text
