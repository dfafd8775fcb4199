"""What call_parts.py measured to docs/benchmarks_vulkan_calls.md, old beside new.

`python -m benchmarks.vulkan.calls_page COMMIT=parts.json …`, the oldest first; the commit is that
whose code compiled modules and driver. No GPU is needed.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.standing import sentence

__all__ = ["DOCS", "page"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = DOCS / "benchmarks_vulkan_calls.md"
_FIGURES = DOCS / "benchmarks_vulkan_calls.json"
_WAYS = {"on the device": "stay there", "from the host": "from and to the host"}
_PARTS = (
    *("before", "until the GPU begins", "on the GPU"),
    *("from its end to the answer", "behind"),
)
_HEAD = """# Where a call's time goes through Vulkan on an NVIDIA H200

Microseconds of a call of edgert's Vulkan driver from Python, batch 1, medians of 100. A library between edgert and Vulkan notes when a call submits and waits, and has the GPU write a time stamp before and behind each submission, whose clock its driver tells on the host's. {measured}

| network | arrays | commit | call | before it submits | until the GPU begins | on the GPU | from its end to the answer | behind | outside the GPU | submissions | recordings |
|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""  # noqa: E501
_TAIL = """
- **arrays** that stay there lie on the GPU before and behind a call; from and to the host they are NumPy's, copied within the call.
- **outside the GPU** is all of the call but what lies between the stamps. *Recordings* are command buffers that a call makes anew: a program's own are replayed.
- Calls of commit 8f1f1aa98f recorded their commands each time, since kernels of edgec's own were declared without the flag by which the compiler binds buffers through a table; and they slept until a fence woke them.
- A GPU that is asked for little runs at a slow clock for the first tenth of a second: figures are of calls behind others.

<!-- not run: a GPU: and weights of hundreds of megabytes -->
```console
$ python benchmarks/cuda/torch_modules.py FOLDER NAMES --target vulkan:nvidia-hopper      # here, no GPU
$ python benchmarks/vulkan/call_parts.py FOLDER STEMS --json parts.json                    # where the GPU is
$ python -m benchmarks.vulkan.calls_page COMMIT=parts.json                                 # this page
```
"""  # noqa: E501


def page(runs: list[dict[str, Any]]) -> str:
    """The page of what was measured, the oldest first."""
    lines = []
    names = dict.fromkeys(row["name"] for run in runs for row in run["rows"])
    for name in names:
        for way, said in _WAYS.items():
            for run in runs:
                lines += [_line(row, way, said, run) for row in run["rows"] if row["name"] == name]
    head = _HEAD.format(measured=sentence([run["commit"] for run in runs]))
    return head + "\n".join(lines) + "\n" + _TAIL


def _line(row: dict[str, Any], way: str, said: str, run: dict[str, Any]) -> str:
    found = row[way]["stamped"]
    outside = found["call"] - found["on the GPU"]
    cells = [row["name"], said, run["commit"], f"{found['call']:.0f}"]
    cells += [f"{found[part]:.0f}" for part in _PARTS]
    cells += [f"{outside:.0f}", f"{found['submissions']:.0f}", f"{found['recordings']:.0f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    runs = []
    for each in sys.argv[1:]:
        commit, _, path = each.partition("=")
        runs.append({"commit": commit, **json.loads(Path(path).read_text())})
    _FIGURES.write_text(json.dumps(runs, indent=1) + "\n")
    _PAGE.write_text(page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
