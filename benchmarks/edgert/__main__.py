"""edgert and IREE's own CPU drivers side by side on the same modules, as a table.

    python -m benchmarks.edgert MODULE.vmfb ...

Each module's first function runs on zeros, on one thread and on two, in processes of their own;
the runtimes take turns, so that what else the machine does hits all alike, and the least time of
all rounds counts. IREE is measured by its own `iree-benchmark-module`.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from edgec.runtime import Module

ROOT = Path(__file__).resolve().parents[2]
EDGERT = ROOT / "build" / "edgert" / "release" / "edgert"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One runtime on so many threads."""

    name: str
    device: str
    threads: int


CONTENDERS = (
    Contender(name="edgert, 1 thread", device="edgert", threads=1),
    Contender(name="local-sync", device="local-sync", threads=1),
    Contender(name="edgert, 2 threads", device="edgert", threads=2),
    Contender(name="local-task, 2 threads", device="local-task", threads=2),
)


def _edgert(path: Path, threads: int, seconds: float) -> float:
    command = [str(EDGERT), "bench", str(path), f"--threads={threads}"]
    done = subprocess.run(
        [*command, f"--seconds={seconds}", "--json"], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout)["min"])


def _iree(path: Path, contender: Contender, seconds: float) -> float:
    signature = next(iter(Module.read(path).signatures.values()))
    inputs = [
        "x".join([*(str(size) for size in spec.shape), spec.dtype.mlir])
        for spec in signature.inputs
    ]
    tool = Path(sys.executable).with_name("iree-benchmark-module")
    command = [
        *(str(tool), f"--module={path}", f"--device={contender.device}"),
        *(f"--function={signature.name}", *(f"--input={text}" for text in inputs)),
        *("--benchmark_format=json", f"--benchmark_min_time={seconds / 3}s"),
        "--benchmark_repetitions=3",
    ]
    if contender.device == "local-task":
        command.append(f"--task_topology_group_count={contender.threads}")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["benchmarks"]
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    return min(
        float(run["real_time"]) * units[run["time_unit"]]
        for run in found
        if run["run_type"] == "iteration"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    chosen = parser.parse_args()
    source = ROOT / "runtime" / "c"
    for command in (["--preset", "release"], ["--build", "--preset", "release"]):
        subprocess.run(["cmake", *command], cwd=source, check=True, capture_output=True)
    print("| module | " + " | ".join(f"{c.name} (ms)" for c in CONTENDERS) + " |")
    print("|---|" + "---|" * len(CONTENDERS), flush=True)
    for path in chosen.modules:
        times: dict[Contender, list[float]] = {contender: [] for contender in CONTENDERS}
        for _ in range(chosen.rounds):
            for contender in CONTENDERS:
                if contender.device == "edgert":
                    seconds = _edgert(path, contender.threads, chosen.seconds)
                else:
                    seconds = _iree(path, contender, chosen.seconds)
                times[contender].append(seconds)
        cells = [f"{min(found) * 1e3:.4g}" for found in times.values()]
        print(f"| {path.stem} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
