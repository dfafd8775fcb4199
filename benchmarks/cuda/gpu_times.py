"""Calls on a GPU to the time that each kernel takes there, by CUPTI through PyTorch's profiler.

It sees every kernel of the process, whoever launches it: edgec's modules, too.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

__all__ = ["gpu_times"]

CALLS = 5
_LONGEST = 60
_NAME = 80


def gpu_times(call: Callable[[], Any]) -> dict[str, Any]:
    """Microseconds of one call: of all kernels, from the first to the last, and by kernel.

    Each of `longest` is a name, how often it ran, how long, and how long the GPU idled before it.
    """
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    spans = []
    found: dict[str, list[float]] = {}
    idle: dict[str, float] = {}
    for _ in range(CALLS):
        with profile(activities=[ProfilerActivity.CUDA]) as taken:
            call()
            torch.cuda.synchronize()
        events = [each for each in taken.events() if each.device_type == DeviceType.CUDA]
        if events:
            starts, ends = zip(
                *((each.time_range.start, each.time_range.end) for each in events), strict=True
            )
            spans.append(max(ends) - min(starts))
        for each in events:
            found.setdefault(each.name[:_NAME], []).append(each.time_range.elapsed_us())
        events.sort(key=lambda each: each.time_range.start)
        for before, each in pairwise(events):
            gap = each.time_range.start - before.time_range.end
            idle[each.name[:_NAME]] = idle.get(each.name[:_NAME], 0.0) + max(0.0, gap)
    rows = [(name, len(times) / CALLS, sum(times) / CALLS) for name, times in found.items()]
    rows.sort(key=lambda row: -row[2])
    return {
        "kernels": round(sum(row[1] for row in rows)),
        "busy_us": round(sum(row[2] for row in rows), 1),
        "span_us": round(min(spans), 1) if spans else None,
        "longest": [
            [name, round(count, 1), round(us, 2), round(idle.get(name, 0.0) / CALLS, 2)]
            for name, count, us in rows[:_LONGEST]
        ],
    }
