"""What a call costs by edgert's CUDA driver and by IREE's, and a token of a language model.

python benchmarks/cuda/calls.py MODULE.vmfb … --json=calls.json      where the GPU is
python -m benchmarks.cuda.calls_page COMMIT=calls.json               the page

Each module on each driver has a process of its own; arrays are drawn at random. A language model is
a module of `edgec export` that says so, its weights beside it.
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DRIVERS = ("cuda://0", "edgert://cuda")
CALLS, WARM = 300, 60


def _median(call: Callable[[], object]) -> float:
    """Seconds of a call: the median of those behind the first, when the GPU's clock is up."""
    times = []
    for _ in range(WARM + CALLS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times[WARM:])


def calls(path: Path, device: str) -> dict[str, Any]:
    """Seconds to load a module and call it once, and of a call with arrays here and there."""
    from edgec import runtime
    from edgec.runtime.benchmark import example_inputs

    began = time.perf_counter()
    with runtime.load(path, device=device) as module:
        function = module["main"]
        arrays = example_inputs(function.signature)
        answer = [np.array(each.numpy()) for each in function.call_flat(arrays)]
        row: dict[str, Any] = {"first": time.perf_counter() - began}
        there = [module.device.put(array) for array in arrays]
        row["stay"] = _median(lambda: function.call_flat(there))
        row["host"] = _median(lambda: [each.numpy() for each in function.call_flat(arrays)])
        row["answer"] = hashlib.sha256(b"".join(each.tobytes() for each in answer)).hexdigest()
    return row


def tokens(path: Path, device: str) -> dict[str, Any]:
    """Seconds of a token behind a prompt of 64, and which tokens there were."""
    from edgec.runtime.text import TextModel

    began = time.perf_counter()
    model = TextModel(path, device=device)
    text = [(7919 * i + 13) % 1000 for i in range(64)]
    text.append(model.next_token(text))
    row: dict[str, Any] = {"first": time.perf_counter() - began}
    row["token"] = _median(lambda: text.append(model.next_token(text)))
    return row | {"answer": text}


def _apart(path: Path, device: str) -> dict[str, Any]:
    words = [sys.executable, __file__, str(path), f"--one={device}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip()[-600:]}
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", metavar="DEVICE", help="one module, in this process")
    options = parser.parse_args()
    if options.one:
        from edgec.runtime.module import Module

        (path,) = options.modules
        is_text = "main" not in Module.read(path).signatures
        print(json.dumps((tokens if is_text else calls)(path, options.one)))
        return
    from edgec.runtime.edgert import device_names

    found: dict[str, Any] = {"gpu": device_names("cuda")[0], "rows": {}}
    for path in options.modules:
        rows = {device: _apart(path, device) for device in DRIVERS}
        answers = [row.pop("answer", None) for row in rows.values()]
        found["rows"][path.stem] = rows | {"same": None not in answers and answers[0] == answers[1]}
        print(path.stem, json.dumps(found["rows"][path.stem]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
