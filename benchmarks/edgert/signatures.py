"""What a signature costs when a module is loaded, and when its weights are first used.

    python -m benchmarks.edgert.signatures [--megabytes 64]

edgert opens a module, makes a session of it and calls it twice, without a key and with one: of a
module with so many megabytes of weights beside it, whose pages are compared in the first call, and
of one that holds a sixteenth of that, all of which is hashed when it is opened. Medians of five.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertWeights
from edgec.signing import PrivateKey, new_key, sign_module
from edgec.toolchain.process import compiler_path
from edgec.toolchain.weights_file import write_weights

__all__ = ["main", "measure"]

REPEATS = 5
STEPS = ("open", "session", "first call", "second call")
OUTSIDE = '#flow.parameter.named<"model"::"w"> : tensor<{0}xf32>'
FACTS = (
    r'attributes {iree.reflection = {"edgec.module" = "{\"target\": \"cpu\", \"driver\": '
    r"\"local-task\", \"edgec\": \"0.1.0\", \"compiler\": \"\", \"cpu_features\": [], "
    r"\"weights\": {\"scope\": \"model\", \"file\": \"outside.safetensors\", \"names\": "
    r'[\"w\"]}}"}}'
)
TEXT = """
module @weighted {{
  util.global private @w = {value}
  func.func @main(%x: tensor<f32>) -> tensor<f32> {facts} {{
    %w = util.global.load @w : tensor<{count}xf32>
    %0 = stablehlo.reduce(%w init: %x) applies stablehlo.add across dimensions = [0]
      : (tensor<{count}xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }}
}}
"""


def _compiled(folder: Path, name: str, count: int, value: str, facts: str) -> Path:
    source = folder / f"{name}.mlir"
    source.write_text(TEXT.format(value=value, facts=facts, count=count))
    command = (
        *(compiler_path(), source, "--iree-hal-target-device=local"),
        *("--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"),
        *("--iree-opt-const-eval=false", "-o", source.with_suffix(".vmfb")),
    )
    subprocess.run(command, check=True, capture_output=True)
    return source.with_suffix(".vmfb")


def measure(module: Path, weights: Path | None, key: bytes | None) -> list[float]:
    """Milliseconds of each step, medians of several times over."""
    device = EdgertDevice("cpu", threads=1)
    x = np.zeros((), np.float32)
    rows = []
    for _ in range(REPEATS):
        marks = [time.perf_counter()]
        opened = EdgertModule(module, key=key)
        marks.append(time.perf_counter())
        file = None if weights is None else EdgertWeights(weights)
        session = EdgertSession(opened, device, weights=file)
        marks.append(time.perf_counter())
        for _ in range(2):
            session.call("main", (x,))
            marks.append(time.perf_counter())
        rows.append(np.diff(marks) * 1e3)
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        key = new_key(folder / "own.key")
        count = megabytes * 10**6 // 4
        numbers = np.random.default_rng(0).normal(size=count).astype(np.float32)
        write_weights({"w": numbers}, folder / "outside.safetensors")
        inner = count // 16
        inside = f'dense<"0x{numbers[:inner].tobytes().hex()}"> : tensor<{inner}xf32>'
        modules = (
            (_compiled(folder, "outside", count, OUTSIDE.format(count), FACTS), True, count),
            (_compiled(folder, "inside", inner, inside, ""), False, inner),
        )
        print(f"| weights | key | {' | '.join(STEPS)} |\n|---|---|{'---:|' * len(STEPS)}")
        for module, is_beside, size in modules:
            _table(module, is_beside, size, key)
    return 0


def _table(module: Path, is_beside: bool, size: int, key: PrivateKey) -> None:
    weights = module.with_suffix(".safetensors") if is_beside else None
    sign_module(module, key, module)
    words = f"{size * 4 / 1e6:.0f} MB {'beside' if is_beside else 'inside'}"
    for given in (None, key.public):
        times = " | ".join(f"{time:.2f}" for time in measure(module, weights, given))
        print(f"| {words} | {'no' if given is None else 'yes'} | {times} |", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
