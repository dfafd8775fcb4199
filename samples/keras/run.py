"""Denoise a photograph in Keras and in compiled modules, several tiles at a time, side by side.

python samples/keras/run.py [--target cpu --target vulkan] [--keep FOLDER]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pictures

from edgec import runtime, toolchain
from edgec.runtime.errors import EdgecError

HERE = Path(__file__).resolve().parent
BATCHES = (1, 5, 13)
CLOSE = 1e-4


def export(folder: Path) -> Path:
    """The program, with any number of tiles from 1 to 64 in a call."""
    program = folder / "denoiser.mlirbc"
    edgec = Path(sys.executable).with_name("edgec")
    model = HERE / "denoiser.keras"
    command = [edgec, "export", model, "--dynamic", "batch=1..64", "-o", program]
    subprocess.run(command, check=True)
    return program


def in_keras(noisy: np.ndarray, folder: Path) -> np.ndarray:
    tiles, answers = folder / "noisy.npy", folder / "keras.npy"
    np.save(tiles, noisy)
    subprocess.run([sys.executable, HERE / "answers.py", tiles, answers], check=True)
    return np.load(answers)


def in_module(path: Path, noisy: np.ndarray, batch: int) -> tuple[np.ndarray, float]:
    """The denoised tiles, `batch` of them in a call, and the seconds that took."""
    with runtime.load(path) as module:
        module.main(noisy[:batch])
        start = time.perf_counter()
        parts = [module.main(noisy[at : at + batch]) for at in range(0, len(noisy), batch)]
        seconds = time.perf_counter() - start
    return np.concatenate(parts), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="default: cpu and vulkan")
    parser.add_argument("--keep", type=Path, help="a folder for the program and the modules")
    parser.add_argument("--tiles", type=int, default=13, help="how many, spread over the picture")
    chosen = parser.parse_args()

    tiles = pictures.held_out().some(chosen.tiles)
    same = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        program = export(folder)
        reference = in_keras(tiles.noisy, folder)
        print(f"\n{len(tiles.clean)} tiles of a photograph that the network has not learnt from")
        print(f"with noise {pictures.decibels(tiles.noisy, tiles.clean):.2f} dB")
        print(f"{'':8} {'batch':>6} {'quality':>9} {'max error':>10} {'ms per tile':>12}")
        print(f"{'Keras':8} {'':6} {pictures.decibels(reference, tiles.clean):>6.2f} dB")
        for target in chosen.target or ["cpu", "vulkan"]:
            output = folder / f"denoiser.{target.replace(':', '-')}.vmfb"
            try:
                options = toolchain.CompileOptions(output=output)
                module = toolchain.compile(program, target, options)
                for batch in BATCHES:
                    result, seconds = in_module(module.path, tiles.noisy, batch)
                    error = float(np.abs(result - reference).max())
                    same &= error <= CLOSE
                    print(
                        f"{target:8} {batch:>6} {pictures.decibels(result, tiles.clean):>6.2f} dB "
                        f"{error:>10.1e} {seconds / len(tiles.clean) * 1e3:>12.2f}"
                    )
            except EdgecError as error:
                print(error, file=sys.stderr)
                return error.exit_code
    print(f"\nEvery way within {CLOSE:g} of Keras." if same else "\nTHE PICTURES DIFFER.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
