"""What networks.py measured on several Vulkan devices to docs/benchmarks_vulkan_devices.md.

`python -m benchmarks.vulkan.devices_page COMMIT=figures.json …`, a file of figures for each device;
the commit is the one whose code compiled the modules. Figures of other devices and
networks stay.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.standing import sentence

__all__ = ["DOCS", "merged", "page"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = DOCS / "benchmarks_vulkan_devices.md"
_FIGURES = DOCS / "benchmarks_vulkan_devices.json"
_HEAD = """# The same modules on several Vulkan devices

Networks as on [benchmarks_vulkan_networks.md](benchmarks_vulkan_networks.md), batch 1, f32, compiled once for `vulkan:android` and called on edgert's Vulkan driver. Devices that are programs show that answers are right there, too; what a GPU takes they do not show. {measured}

| network | device | call (ms) | first answer | error |
|---|---|--:|--:|--:|
"""  # noqa: E501
_TAIL = """
A call's time is the median of {calls} or more, the best of {rounds} or more turns; other work was on the machine, at a load of up to {load:.0f}. Errors are |difference| / |answer| against the network in f64; {spread}. The numbers are in [benchmarks_vulkan_devices.json](benchmarks_vulkan_devices.json).

<!-- not run: three devices: and minutes a network -->
```console
$ python benchmarks/cuda/torch_modules.py FOLDER mobilenetv3-l minilm --type f32 --target vulkan:android
$ python benchmarks/vulkan/networks.py FOLDER --engines edgert --rounds 2 --calls 2 --limit 900 --json llvmpipe.json
$ VK_DRIVER_FILES=/usr/lib/chromium/vk_swiftshader_icd.json python benchmarks/vulkan/networks.py FOLDER --engines edgert --rounds 2 --calls 2 --limit 900 --json swiftshader.json
$ python benchmarks/vulkan/networks.py FOLDER --engines edgert --json nvidia.json                  # where the GPU is
$ python -m benchmarks.vulkan.devices_page COMMIT=llvmpipe.json COMMIT=swiftshader.json COMMIT=nvidia.json
```
"""  # noqa: E501


def merged(before: dict[str, Any], runs: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The figures by device, each network's from the last run that has it."""
    found = dict(before)
    for commit, run in runs:
        earlier = found.get(run["device"], {"rows": []})["rows"]
        circumstances = {name: run[name] for name in ("rounds", "calls", "load")}
        rows = {row["name"]: row for row in earlier}
        rows |= {row["name"]: row | circumstances | {"commit": commit} for row in run["rows"]}
        found[run["device"]] = {"rows": [rows[name] for name in sorted(rows)]}
    return found


def page(figures: dict[str, Any]) -> str:
    """The page of what the file of figures holds."""
    found = [(row, device) for device, run in figures.items() for row in run["rows"]]
    lines, errors = [], list[float]()
    for row, device in sorted(found, key=lambda each: (each[0]["name"], each[1])):
        if "edgert" not in row["ms"]:
            why = next(iter(row["failed"].values()), "no answer")
            lines.append(f"| {row['name']} | {device} | - | - | {why} |")
            continue
        errors.append(row["error"]["edgert"])
        first = row["first_s"]["edgert"]
        ms = row["ms"]["edgert"]
        lines.append(f"| {row['name']} | {device} | {ms:.4g} | {first} s | {errors[-1]:.1e} |")
    rows = [row for row, _ in found]
    head = _HEAD.format(measured=sentence(sorted({row["commit"] for row in rows})))
    tail = _TAIL.format(
        calls=min(row["calls"] for row in rows),
        rounds=min(row["rounds"] for row in rows),
        load=max(row["load"] for row in rows),
        spread=f"the largest is {max(errors, default=0):.1e}",
    )
    return head + "\n".join(lines) + "\n" + tail


def main() -> None:
    before = json.loads(_FIGURES.read_text()) if _FIGURES.exists() else {}
    runs = []
    for each in sys.argv[1:]:
        commit, _, path = each.partition("=")
        runs.append((commit, json.loads(Path(path).read_text())))
    figures = merged(before, runs)
    _FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    _PAGE.write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
