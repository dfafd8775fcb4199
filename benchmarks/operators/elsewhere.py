"""Operators' cases that were compiled here, on a machine that has their device and no compiler.

    python -m benchmarks.operators --target=cuda          here: modules into build/operators/made
    python -m benchmarks.operators.elsewhere FOLDER ROWS  there, with that folder
    python -m benchmarks.operators --kept --ran=ROWS      here, for the page

Each module runs on edgert's driver and on IREE's; a crash ends one case.
"""

import argparse
import json
import time
from pathlib import Path

from benchmarks.operators.worker import Worker
from edgec import runtime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="modules and their cases")
    parser.add_argument("rows", type=Path, help="what becomes of each, a line of JSON")
    parser.add_argument("--driver", default="cuda", help="or vulkan: edgert's and IREE's")
    chosen = parser.parse_args()
    own = f"edgert://{chosen.driver}"
    device = runtime.Device.open(own).name
    worker = Worker("-m", "benchmarks.operators.answers", str(chosen.folder), own, chosen.driver)
    start = time.monotonic()
    with chosen.rows.open("w") as stream:
        for module in sorted(chosen.folder.glob("*.vmfb")):
            key = module.stem.replace("--", "/")
            answer = worker.ask(key)
            answer.pop("ok", None)
            stream.write(json.dumps({"key": key, "device": device, **answer}) + "\n")
            stream.flush()
            if answer["outcome"] != "right":
                print(f"{answer['outcome']:8} {key}: {answer['reason'][:150]}", flush=True)
    worker.close()
    print(f"{time.monotonic() - start:.0f} s on {device}")


if __name__ == "__main__":
    main()
