"""A model's folder to the instructions of one call on 64-bit Arm: edgec's, and its peers' there.

`edgert` makes two calls, then four, under qemu with a plugin that counts; half of the difference
is a call. A peer starts with Python, whose billions of instructions differ from one start to the
next by more than many a model has, so its calls stand between two marks (count.c), and those are
counted. No times are told: an emulator has none that mean anything.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage.process import ROOT

__all__ = ["MACHINE", "TARGET", "counted"]

TARGET = "cpu:arm64-v8.2"
MACHINE = Path(os.environ.get("EDGEC_ARM_MACHINE", ROOT / "build" / "arm64"))
"""What `machine.sh` makes."""

_PROCESSOR = "neoverse-n1"  # armv8.2-a, as the target
_CALLS = 2


def counted(program: Path, onnx: Path, tflite: Path | None) -> dict[str, Any]:
    """By engine, the instructions of a call; of a peer that cannot make it, why.

    Args:
        program: the model's, with its golden answers beside it.
        onnx: its ONNX form, which may be missing.
        tflite: the file that it came from, if that was TensorFlow Lite's.
    """
    from edgec.runtime import Golden

    inputs = list(Golden.load(Golden.path_for(program)).calls[0].inputs)
    peers = {"ort": onnx if onnx.exists() else None, "litert": tflite}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        found["edgec"] = _edgec(program, inputs, Path(scratch))
        for name, model in peers.items():
            if model is None:
                continue
            try:
                found[name] = _peer(name, model, inputs, Path(scratch))
            except subprocess.CalledProcessError as error:
                lines = error.stderr.strip().splitlines() or [""]
                found[name] = f"ended with {error.returncode}: {lines[-1][:200]}"
    return found


def _edgec(program: Path, inputs: Sequence[np.ndarray], scratch: Path) -> int:
    from edgec import targets, toolchain
    from edgec.ondevice.edgert_command import edgert_command
    from edgec.ondevice.machines import MACHINES

    module = scratch / "module.vmfb"
    options = toolchain.CompileOptions(output=module, check=False, cache=False)
    found, device = toolchain.load_program(program), targets.find(TARGET)
    made = toolchain.compile_with_report(found, device, options).module
    machine = next(m for m in MACHINES if m.name == "arm_64")
    words = []
    for number, array in enumerate(inputs):
        np.save(scratch / f"{number}.npy", array)
        words.append(f"--input=@{scratch / f'{number}.npy'}")
    function = next(iter(made.signatures))
    command = (str(edgert_command(machine, lambda _: None)), "bench", str(module), *words)
    command += (f"--function={function}", "--threads=1", "--json")
    few, many = (
        _counts((*command, f"--iterations={calls}"), scratch / "count")[0]
        for calls in (_CALLS, 2 * _CALLS)
    )
    return (many - few) // _CALLS


def _peer(name: str, model: Path, inputs: Sequence[np.ndarray], scratch: Path) -> int:
    given = scratch / "inputs.npz"
    np.savez(given, **{f"{number:04}": array for number, array in enumerate(inputs)})
    python = str(MACHINE / "root" / "usr" / "bin" / "python3.11")
    script = str(Path(__file__).with_name("peer.py"))
    words = (python, "-S", script, name, str(model), str(given), str(_CALLS))
    return _counts(words, scratch / "count")[1] // _CALLS


def _counts(command: Sequence[str], count: Path) -> tuple[int, int]:
    """Instructions of a program, and those between its marks."""
    environment = {
        **os.environ,
        "QEMU_PLUGIN": f"file={MACHINE / 'count.so'},out={count}",
        "PYTHONHOME": str(MACHINE / "root" / "usr"),
        "PYTHONPATH": str(MACHINE / "site"),
    }
    emulator = ("qemu-aarch64", "-cpu", _PROCESSOR, "-L", str(MACHINE / "root"))
    subprocess.run(
        [*emulator, *command], env=environment, capture_output=True, check=True, text=True
    )
    whole, marked = count.read_text().split()
    return int(whole), int(marked)
