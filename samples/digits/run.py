"""Read the held-out digits in JAX and in compiled modules, and put the accuracies side by side.

python samples/digits/run.py [--target cpu --target vulkan] [--keep FOLDER]
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import data
import numpy as np
from model import classifier
from train import accuracy

from edgec import exporters, runtime, toolchain
from edgec.runtime.errors import EdgecError

REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one way to run the model gave: digits, scores, and seconds for all images."""

    where: str
    labels: np.ndarray
    scores: np.ndarray
    seconds: float


def in_jax(held_out: data.Digits) -> Reading:
    import jax

    function, _ = classifier()
    read = jax.jit(function)
    return _timed("JAX", lambda: jax.device_get(read(held_out.images)))


def compiled(program: toolchain.Program, target: str, folder: Path) -> Path:
    """The module for one target, checked on its device if that is here."""
    options = toolchain.CompileOptions(output=folder / f"digits.{target.replace(':', '-')}.vmfb")
    done = toolchain.compile_with_report(program, target, options)
    size = done.module.path.stat().st_size
    print(f"{target:10} compiled to {size / 1024:.0f} KB in {done.report.total:.1f} s; ", end="")
    print(done.report.check)
    return done.module.path


def in_module(path: Path, target: str, held_out: data.Digits) -> Reading:
    with runtime.load(path) as module:
        return _timed(target, lambda: module.main(held_out.images))


def table(readings: list[Reading], held_out: data.Digits) -> str:
    reference = readings[0]
    lines = [f"{'':10} {'accuracy':>9} {'max error':>10} {'µs per image':>13}"]
    for reading in readings:
        error = np.abs(reading.scores - reference.scores).max()
        lines.append(
            f"{reading.where:10} {accuracy(reading.labels, held_out.labels):>9.2%} "
            f"{'' if reading is reference else f'{error:.1e}':>10} "
            f"{reading.seconds / len(held_out.labels) * 1e6:>13.1f}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="default: cpu and vulkan")
    parser.add_argument("--keep", type=Path, help="a folder for the program and the modules")
    chosen = parser.parse_args()
    targets = chosen.target or ["cpu", "vulkan"]

    _, held_out = data.load()
    readings = [in_jax(held_out)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            program = exporters.export_source(f"{Path(__file__).with_name('model.py')}:classifier")
            program = program.save(folder / "digits.mlirbc")
            for target in targets:
                module = compiled(program, target, folder)
                readings.append(in_module(module, target, held_out))
        except EdgecError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    print(f"\n{len(held_out.labels)} held-out images")
    print(table(readings, held_out))
    same = all((reading.labels == readings[0].labels).all() for reading in readings)
    print("\nEvery way reads every image alike." if same else "\nTHE READINGS DIFFER.")
    return 0 if same else 1


def _timed(where: str, call) -> Reading:
    result = call()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return Reading(
        where=where,
        labels=np.asarray(result["label"]),
        scores=np.asarray(result["scores"]),
        seconds=best,
    )


if __name__ == "__main__":
    sys.exit(main())
