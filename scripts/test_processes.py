"""Files of tests to what became of them: a process for each, a few at a time.

Importing pytest, JAX, PyTorch and the compiler's bindings takes a core five seconds, and there are
hundreds of files. So this process imports them once (`warm`) and forks itself for each file, before
anything has started a thread that counts: no framework has a device yet, the compiler no context. A
job that asks for it, and each where the system is not Linux, gets an interpreter of its own.
"""

import atexit
import contextlib
import gc
import importlib
import io
import os
import pkgutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["Ended", "Job", "run", "warm"]

FORKS = sys.platform == "linux"
WARM = (
    *("numpy", "ml_dtypes", "jax", "jax.numpy", "jax.export", "torch", "torch.export"),
    *("torch._dynamo", "torch._export.utils", "torch.export._trace", "iree.compiler.ir"),
    *("iree.compiler.dialects.stablehlo", "iree.compiler.dialects.func", "iree.runtime"),
    *("iree.compiler.dialects.flow", "iree.compiler.dialects.hal", "onnx", "onnx.reference"),
    *("torch_mlir.fx", "torch_mlir.dialects.torch", "typer.testing"),
)
"""Beside edgec's own modules. Not TensorFlow, which may not be where IREE's Vulkan driver is; not
what reads the environment when it is imported (Keras)."""
_POLL = 0.02


@dataclass(frozen=True, kw_only=True)
class Job:
    """One call of pytest, or of another program of Python's.

    Attributes:
        arguments: what it is given.
        output: the file for what it prints on both streams.
        timeout: seconds after which it is killed.
        alone: whether it has an interpreter of its own.
        module: the program; another than pytest has an interpreter of its own.
    """

    arguments: tuple[str, ...]
    output: Path
    timeout: float
    alone: bool = False
    module: str = "pytest"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a job ended.

    Attributes:
        code: its exit code, negative for a signal.
        late: it was killed for taking too long.
        seconds: wall time.
        work: seconds of a core that it and its children took.
    """

    code: int
    late: bool
    seconds: float
    work: float


def warm() -> None:
    """Import what most tests need; pytest's plugins through pytest, which rewrites them.

    All of edgec, too: else each child of a compile would spend a fifth of a second on passes.
    """
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", "tests/conftest.py"])
        for name in (*WARM, *_own()):
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # Else each child's collector would write to, and so copy, what it shares.
    gc.set_threshold(20_000, 20, 50)  # Tests are short; the collector took 3 % of their time.


def _own() -> Iterator[str]:
    """edgec's own modules, which import no framework before they need it."""
    for found in pkgutil.walk_packages(importlib.import_module("edgec").__path__, "edgec."):
        if not found.name.endswith(".__main__"):
            yield found.name


def run(
    jobs: Iterable[tuple[str, Job]], workers: int, begin: Callable[[], object] | None = None
) -> Iterator[tuple[str, Ended]]:
    """Run jobs by name, `workers` at a time; each as it ends. A fork calls `begin` first."""
    waiting, running = list(jobs)[::-1], dict[int, tuple[str, Job, float]]()
    late: set[int] = set()
    while waiting or running:
        while waiting and len(running) < workers:
            name, job = waiting.pop()
            running[_begin(job, begin)] = (name, job, time.monotonic())
        child, status, usage = os.wait4(-1, os.WNOHANG)
        if child in running:
            name, job, start = running.pop(child)
            yield (
                name,
                Ended(
                    code=os.waitstatus_to_exitcode(status),
                    late=child in late,
                    seconds=time.monotonic() - start,
                    work=usage.ru_utime + usage.ru_stime,
                ),
            )
            continue
        for child, (_, job, start) in running.items():
            if time.monotonic() - start > job.timeout and child not in late:
                late.add(child)
                os.kill(child, signal.SIGKILL)
        time.sleep(_POLL)


def _begin(job: Job, begin: Callable[[], object] | None) -> int:
    """Start a job, and give its process."""
    job.output.parent.mkdir(parents=True, exist_ok=True)
    if job.alone or not FORKS or job.module != "pytest":
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", job.module, *job.arguments],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(job.output), write, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a fork beside NumPy's idle threads.
        child = os.fork()
    if not child:
        _work(job.arguments, job.output, begin)
    return child


def _work(arguments: Sequence[str], output: Path, begin: Callable[[], object] | None) -> None:
    """Be the child, to its end."""
    with output.open("wb") as stream, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    if begin is not None:
        begin()
    sys.argv = ["pytest", *arguments]
    code = int(pytest.main([*arguments]))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # To take apart all that was imported would take a second of a core.
