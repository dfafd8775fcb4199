"""A module to times and memory of edgert and of IREE's own CPU drivers, which take turns.

Calls are timed by each runtime's own program: `edgert bench` and `iree-benchmark-module`. What
loading costs is the life of a process that loads a module, calls it once and ends: `edgert run`
and `iree-run-module`, as it comes and told to map the module as edgert does. All run on zeros.
"""

import importlib.util
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgec.runtime import Module

__all__ = ["CONTENDERS", "Contender", "Figures", "build", "measure"]

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "edgert"
EDGERT = BUILD / "release" / "edgert"
LAUNCH = BUILD / "bench" / "launch"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One runtime on so many threads.

    Attributes:
        name: as in tables.
        device: IREE's, or `edgert`.
        threads: how many.
        calls: whether its calls are timed.
        mode: how IREE reads the module, where processes are measured; `mmap` for edgert.
    """

    name: str
    device: str
    threads: int
    calls: bool = True
    mode: str | None = None


CONTENDERS = (
    Contender(name="edgert, 1 thread", device="edgert", threads=1, mode="mmap"),
    Contender(name="local-sync", device="local-sync", threads=1, mode="mmap"),
    Contender(name="edgert, 2 threads", device="edgert", threads=2),
    Contender(name="local-task, 2 threads", device="local-task", threads=2),
    Contender(
        name="local-sync, as it comes", device="local-sync", threads=1, calls=False, mode="preload"
    ),
)


@dataclass(kw_only=True)
class Figures:
    """What was measured of one module on one contender, a number a round.

    Attributes:
        calls: the fastest call, in seconds.
        lives: a process that loads and calls once, in seconds.
        peaks: the most memory of such a process, in bytes.
    """

    calls: list[float] = field(default_factory=list)
    lives: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)


def build() -> None:
    """Compile the `edgert` command and `launch.c`.

    Raises:
        subprocess.CalledProcessError: a compiler fails.
    """
    source = ROOT / "runtime" / "c"
    LAUNCH.parent.mkdir(parents=True, exist_ok=True)
    launcher = Path(__file__).with_name("launch.c")
    subprocess.run(["cc", "-std=c11", "-O2", str(launcher), "-o", str(LAUNCH)], check=True)
    for words in (["--preset", "release"], ["--build", "--preset", "release"]):
        subprocess.run(["cmake", *words], cwd=source, check=True, capture_output=True)


def measure(
    path: Path, *, rounds: int, seconds: float, tell: Callable[[str], None] = print
) -> dict[Contender, Figures]:
    """All figures of one module; `seconds` is how long a contender's turn of calls lasts."""
    found = {contender: Figures() for contender in CONTENDERS}
    for number in range(rounds):
        for contender, figures in found.items():
            if contender.calls:
                figures.calls.append(_call(path, contender, seconds))
        for contender, figures in [*found.items()] * 3:
            if contender.mode:
                life, peak = _life(path, contender)
                figures.lives.append(life)
                figures.peaks.append(peak)
        tell(f"  round {number + 1} of {rounds}")
    return found


def _call(path: Path, contender: Contender, seconds: float) -> float:
    if contender.device == "edgert":
        command = [str(EDGERT), "bench", str(path), f"--threads={contender.threads}"]
        text = _output(*command, f"--seconds={seconds}", "--json")
        return float(json.loads(text)["min"])
    text = _output(
        *(_tool("iree-benchmark-module"), *_words(path, contender), "--benchmark_format=json"),
        *(f"--benchmark_min_time={seconds / 3}s", "--benchmark_repetitions=3"),
    )
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    return min(
        float(run["real_time"]) * units[run["time_unit"]]
        for run in json.loads(text)["benchmarks"]
        if run["run_type"] == "iteration"
    )


def _life(path: Path, contender: Contender) -> tuple[float, float]:
    """Seconds and bytes of a process that calls once."""
    if contender.device == "edgert":
        inputs = [f"--input={text}" for text in _inputs(path)]
        command = [str(EDGERT), "run", str(path), f"--threads={contender.threads}", *inputs]
        command.append("--json")
    else:
        command = [_tool("iree-run-module"), *_words(path, contender)]
        command += [f"--module_mode={contender.mode}", "--output_max_element_count=1"]
    life, peak = _output(str(LAUNCH), *command).split()
    return float(life), float(peak)


def _words(path: Path, contender: Contender) -> list[str]:
    """What both of IREE's programs are told."""
    name = next(iter(Module.read(path).signatures))
    words = [f"--module={path}", f"--device={contender.device}", f"--function={name}"]
    if contender.device == "local-task":
        # Kernels take up to 256 KiB of a thread's stack; these threads have 128 KiB by themselves.
        words.append("--task_worker_stack_size=1048576")
        words.append(f"--task_topology_group_count={contender.threads}")
    return words + [f"--input={text}" for text in _inputs(path)]


def _inputs(path: Path) -> list[str]:
    """Zeros of the shapes that the first function takes, as both commands spell them."""
    signature = next(iter(Module.read(path).signatures.values()))
    return [
        "x".join([*(str(size) for size in spec.shape), spec.dtype.mlir])
        for spec in signature.inputs
    ]


def _tool(name: str) -> str:
    """IREE's program itself; what is on the path is a Python that starts it."""
    spec = importlib.util.find_spec("iree._runtime_libs")
    if spec is None or spec.origin is None:
        raise RuntimeError("iree-base-runtime is not installed")
    return str(Path(spec.origin).with_name(name))


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
