"""Steps of the zoo in forks of one process that has imported a kind's libraries.

python -m benchmarks.zoo.nursery KIND

Importing PyTorch, transformers, JAX and the compiler's bindings takes a core five to ten seconds,
more than a small model's whole compile. What a step does stays its own: a fork dies alone. Of kinds
whose libraries may not be there before a step begins (TensorFlow may not be beside IREE's Vulkan
driver) only edgec is imported before.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.coverage.process import RESULT, ended, python_path, watch

__all__ = ["Nursery", "main"]

_EDGEC = (
    *("numpy", "ml_dtypes", "edgec.exporters", "edgec.toolchain", "edgec.runtime"),
    *("edgec.toolchain.prepare", "iree.compiler.ir", "iree.runtime"),
)
_TORCH = (
    *("torch", "torch.export", "torch._dynamo", "torch._export.utils", "torch.export._trace"),
    *("torch_mlir.ir", "torch_mlir.extras.fx_importer", "edgec.exporters.from_torch.export"),
)
_TRANSFORMERS = (
    *("transformers", "transformers.modeling_utils", "transformers.models.auto.modeling_auto"),
    *("transformers.integrations.executorch", "transformers.masking_utils"),
)
_JAX = ("jax", "jax.numpy", "jax.export", "edgec.exporters.from_jax.export")
_ONNX = (
    *("onnx", "onnx.reference", "onnxruntime", "edgec.exporters.from_onnx.export"),
    *("torch_mlir.passmanager", "torch_mlir.extras.onnx_importer", "torch_mlir.dialects.torch"),
    *("iree.compiler.passmanager", "iree.compiler.extras.onnx_importer"),
    "jaxlib.mlir.dialects.stablehlo",
)
_KERAS = (*_JAX, "benchmarks.zoo.kinds.keras_on_jax", "keras")
_SCIKIT = ("skl2onnx", "sklearn.datasets", "sklearn.linear_model", "sklearn.ensemble")
_WARM: Mapping[str, tuple[str, ...]] = {
    "users": _TORCH,
    "known": (*_TORCH, *_TRANSFORMERS),
    "transformers": (*_TORCH, *_TRANSFORMERS),
    "causal": (*_TORCH, *_TRANSFORMERS),
    "chat": (*_TORCH, *_TRANSFORMERS, "edgec.exporters.from_transformers.export"),
    "timm": _TORCH,
    "torchvision": _TORCH,
    "diffusers": (*_TORCH, "diffusers"),
    "flax": (*_JAX, "flax"),
    "equimo": (*_JAX, "equinox"),
    "keras": _KERAS,
    "keras-hub": (*_KERAS, "keras_hub.models"),
    "onnx-exported": (*_ONNX, *_SCIKIT),
    "onnx-files": _ONNX,
    "onnx-nodes": _ONNX,
    "packages": _ONNX,
}
"""What the steps of a kind need besides edgec."""


class Nursery:
    """The process of a kind that forks a child a step; one step at a time."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.zoo.nursery", kind],
            env={**os.environ, "PYTHONPATH": python_path(), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def step(self, *words: str, folder: Path, seconds: float, memory: int) -> Any:
        """What `benchmarks.zoo.child WORDS…` leaves in the folder, as `in_child` says it."""
        request = {"words": words, "folder": str(folder), "seconds": seconds, "memory": memory}
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the nursery has no pipes")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"error": "Crash", "what": f"the nursery died of {self._process.wait()}"}
        return json.loads(line)

    @property
    def alive(self) -> bool:
        """Whether it takes another step."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def main() -> int:
    """The nursery: a line of JSON a step, and one with its result, until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # libraries write what they like
    _warm(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        found = _step(request["words"], Path(request["folder"]), **_limits(request))
        replies.write(json.dumps(found) + "\n")
        replies.flush()
    return 0


def _limits(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"seconds": request["seconds"], "memory": request["memory"]}


def _warm(kind: str) -> None:
    """Import what the kind's steps need; a library that is missing is the step's to say."""
    warnings.simplefilter("ignore")
    from benchmarks.zoo import child  # noqa: F401 - so that forks have it

    if "torch" in _WARM.get(kind, ()):
        from benchmarks.zoo.kinds.torch_models import declare_torchvision

        declare_torchvision()
    for name in (*_EDGEC, *_WARM.get(kind, ())):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else each child's collector would write to, and so copy, what it shares


class _Fork:
    """A forked child, as `watch` wants it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while self.code is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("a step", timeout)
            else:
                time.sleep(_POLL)
        return self.code


_POLL = 0.02  # seconds


def _step(words: Sequence[str], folder: Path, *, seconds: float, memory: int) -> Any:
    result = folder / RESULT
    result.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as stderr:
        pid = os.fork()
        if not pid:
            _work(words, folder, stderr)
        process = _Fork(pid)
        failure = watch(process, seconds, memory)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it started and left behind
        return failure or ended(process.wait(0), stderr, result)


def _work(words: Sequence[str], folder: Path, stderr: BinaryIO) -> None:
    """Be the child, to its end."""
    import traceback

    from benchmarks.zoo import child
    from edgec.toolchain import isolated
    from edgec.toolchain.forking import everything_forked

    code = 1
    try:
        os.setsid()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(stderr.fileno(), 2)
        os.chdir(folder)
        with everything_forked(isolated.main):
            code = child.main(words)
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # to take apart all that was imported would take a second of a core


if __name__ == "__main__":
    sys.exit(main())
