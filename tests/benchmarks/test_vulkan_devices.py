"""Figures of several Vulkan devices stand side by side, the last of each."""

from typing import Any

from benchmarks.vulkan.devices_page import merged, page


def figures(device: str, ms: float | None) -> dict[str, Any]:
    row = {"name": "net-f32", "ms": {}, "failed": {"edgert": "no room"}, "error": {}, "first_s": {}}
    if ms is not None:
        row |= {"ms": {"edgert": ms}, "error": {"edgert": 2e-6}, "first_s": {"edgert": 1.5}}
    return {"device": device, "rows": [row], "rounds": 2, "calls": 3, "cores": 2, "load": 1.0}


def test_each_device_has_its_last_figures() -> None:
    one = merged({}, [("a" * 10, figures("program", 90.0)), ("b" * 10, figures("card", 0.5))])
    both = merged(one, [("c" * 10, figures("program", 80.0))])
    text = page(both)
    assert "| net-f32 | program | 80 | 1.5 s | 2.0e-06 |" in text
    assert "| net-f32 | card | 0.5 | 1.5 s | 2.0e-06 |" in text
    assert "the largest is 2.0e-06" in text
    assert "a" * 10 not in text


def test_what_a_device_refuses_is_said() -> None:
    text = page(merged({}, [("a" * 10, figures("old", None))]))
    assert "| net-f32 | old | - | - | no room |" in text
