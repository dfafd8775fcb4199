"""A program to what its module gives on IREE's driver and on edgert's: right, and the same bits."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DEVICES", "on_both"]

DEVICES = {"cpu": ("local-sync", "edgert://cpu"), "vulkan": ("vulkan", "edgert://vulkan")}
"""By target IREE's driver, then edgert's."""


def on_both(program_file: Path, target: str, output: Path) -> dict[str, Any]:
    """Compile once and make the golden calls on both drivers.

    Returns:
        `iree` and `edgert`: "right", or what is wrong; `same`: both answer, with the same bits.
    """
    from edgec import runtime, toolchain
    from edgec.runtime.errors import EdgecError

    program = toolchain.load_program(program_file)
    options = toolchain.CompileOptions(output=output, check=False, cache=False)
    made = toolchain.compile_with_report(program, target, options)
    golden = runtime.Golden.load(runtime.Golden.path_for(program_file))
    words: list[str] = []
    bits: list[list[tuple[str, tuple[int, ...], bytes]] | None] = []
    for device in DEVICES[target]:
        try:
            with runtime.load(made.module, device=device) as loaded:
                result = runtime.check_golden(loaded, golden, made.report.tolerance)
                outputs = [
                    np.array(array.numpy())
                    for call in golden.calls
                    for array in loaded[call.signature].call_flat(call.inputs)
                ]
        except EdgecError as error:
            words.append(error.what)
            bits.append(None)
            continue
        worst = "" if result.worst is None else result.worst[2].problem
        words.append("right" if result.ok else f"wrong: {worst}")
        bits.append([(str(a.dtype), a.shape, a.tobytes()) for a in outputs])
    return {
        "iree": words[0],
        "edgert": words[1],
        "same": bits[0] is not None and bits[0] == bits[1],
    }
