"""A program before a pass and after it, and what comes out of the whole compile."""

from pathlib import Path

import numpy as np
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes import Pass
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["rewrite", "run"]


def rewrite(step: Pass, text: str | bytes) -> tuple[int, str]:
    """In how many places the pass changed the program, and the program then."""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        count = step.run(module)
        assert module.operation.verify()
        return count, str(module)


def run(text: str, folder: Path, *inputs: np.ndarray, target: str = "cpu") -> np.ndarray:
    """What the compiled program answers."""
    (folder / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(folder / "case.mlir", target)) as loaded:
        return np.asarray(loaded.main(*inputs))
