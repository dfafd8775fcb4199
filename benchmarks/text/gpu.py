"""How fast language models read and write on a GPU, and what its memory gives, in one run.

python benchmarks/text/gpu.py smol.vmfb llama.vmfb --answers=smol.vmfb=answers.json --json=gpu.json
python benchmarks/text/gpu.py smol.vmfb vulkan.vmfb --on=vulkan.vmfb=edgert://vulkan --json=gpu.json

Run where the GPU is, with PyTorch for its memory's speed; weights lie beside the modules. A file of
answers holds `{"name": {"prompt": [tokens], "answer": [tokens]}}`, what the same weights gave
greedily elsewhere: each token must be the same. Each model has a process of its own.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WARM = 16
"""Tokens before those that are timed: a GPU that was idle begins at a slow clock."""


def bandwidth() -> float:
    """Bytes a second that a copy of 2 GB on the device reads and writes, the best of ten."""
    import torch

    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(10):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        target.copy_(source)
        ended.record()
        torch.cuda.synchronize()
        best = min(best, began.elapsed_time(ended) / 1e3)
    return 2 * source.nbytes / best


def measure(path: Path, device: str, answers: Path | None, count: int) -> dict[str, Any]:
    """One model: seconds to load, to read 64 and 256 tokens, and to write one (the median)."""
    from edgec.runtime.module import Module
    from edgec.runtime.parameters import weights_path
    from edgec.runtime.text import TextModel

    began = time.perf_counter()
    model = TextModel(path, device=device)
    row: dict[str, Any] = {"name": path.name.partition(".")[0], "device": device}
    row["load_s"] = time.perf_counter() - began
    weights = weights_path(Module.read(path), None)
    row["bytes"] = weights.stat().st_size if weights else path.stat().st_size
    began = time.perf_counter()
    model.next_token([1, 2, 3])
    row["first_s"] = time.perf_counter() - began
    if answers is not None:
        row["same"] = {
            name: _same(model, each["prompt"], each["answer"])
            for name, each in json.loads(answers.read_text()).items()
        }
    for size in (64, 256):
        prompt = [(7919 * i + 13) % 1000 for i in range(size)]
        found = []
        for _ in range(3):
            model.next_token([(prompt[0] + 1) % 1000])
            began = time.perf_counter()
            token = model.next_token(prompt)
            found.append(time.perf_counter() - began)
        row[f"prompt_{size}_s"] = min(found)
        text = [*prompt, token]
        times = []
        for _ in range(WARM + count):
            began = time.perf_counter()
            text.append(model.next_token(text))
            times.append(time.perf_counter() - began)
        row[f"token_{size}_s"] = statistics.median(times[WARM:])
    if device.startswith("edgert://"):
        row["kernels"] = _kernels(path, device, text)
    return row


def _same(model: Any, prompt: list[int], answer: list[int]) -> list[int]:
    """How many of the tokens are the same, and how many there are."""
    text, same = list(prompt), 0
    for wanted in answer:
        text.append(model.next_token(text))
        same += text[-1] == wanted
    return [same, len(answer)]


def _kernels(path: Path, device: str, text: list[int]) -> dict[str, Any]:
    """How many kernels a token takes, their microseconds one by one, and the longest of them.

    By time stamps before and behind each, so that none overlaps with another: in a call that is not
    timed a kernel begins while the one before ends.
    """
    from edgec.runtime.device import Device
    from edgec.runtime.edgert import Ran
    from edgec.runtime.edgert_profiler import timed_device
    from edgec.runtime.text import TextModel

    ran: list[Ran] = []
    model = TextModel(path, device=timed_device(Device.open(device), ran.append))
    text = list(text)
    text.append(model.next_token(text))
    ran.clear()
    tokens = 4
    for _ in range(tokens):
        text.append(model.next_token(text))
    found: dict[str, list[float]] = {}
    for one in ran:
        found.setdefault(one.kernel, []).append(1e6 * one.seconds)
    rows = [(n, len(us) / tokens, round(sum(us) / tokens, 1)) for n, us in found.items()]
    rows.sort(key=lambda row: -row[2])
    return {
        "count": round(sum(row[1] for row in rows)),
        "busy_us": round(sum(row[2] for row in rows), 1),
        "longest": rows[:16],
    }


def _apart(path: Path, options: argparse.Namespace, answers: str) -> dict[str, Any]:
    """`measure` in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "row.json")
        words = [sys.executable, __file__, str(path), "--one", f"--json={out}"]
        device = dict(each.split("=", 1) for each in options.on).get(str(path), options.device)
        words += [f"--device={device}", f"--count={options.count}"]
        words += [f"--answers={path}={answers}"] if answers else []
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not out.exists():
            return {"name": path.name, "failed": done.stderr.strip()[-1500:]}
        row: dict[str, Any] = json.loads(out.read_text())
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", type=Path, nargs="+")
    parser.add_argument("--answers", action="append", default=[], metavar="MODULE=FILE")
    parser.add_argument("--device", default="edgert://cuda")
    parser.add_argument("--on", action="append", default=[], metavar="MODULE=DEVICE")
    parser.add_argument("--count", type=int, default=128, help="tokens to write")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", action="store_true", help="one model, in this process")
    options = parser.parse_args()
    answers = dict(each.split("=", 1) for each in options.answers)
    if options.one:
        (path,) = options.modules
        given = answers.get(str(path))
        row = measure(path, options.device, Path(given) if given else None, options.count)
        options.json.write_text(json.dumps(row) + "\n")
        return
    import torch

    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "memory": bandwidth()}
    torch.cuda.empty_cache()
    found["rows"] = [_apart(each, options, answers.get(str(each), "")) for each in options.modules]
    print(json.dumps(found), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
