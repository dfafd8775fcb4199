"""The kernels that networks usually need, as programs that need them: what is built beforehand.

A kernel that is built beforehand takes sizes and what follows a product as numbers, so that one
serves many programs; tiles, types and how operands lie are its own.

A module imported only where kernels are built; it needs the compiler.
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain.kernels.cuda.library import Library
from edgec.toolchain.kernels.cuda.placing import place_kernels
from edgec.toolchain.kernels.cuda.prebuilt import ARCHIVE, holds, write
from edgec.toolchain.kernels.cuda.variants import Variant
from edgec.toolchain.kernels.gpu.dispatches import Binary

__all__ = ["make", "usual"]

TARGETS = ("cuda", "cuda:sm_90")
"""One for each family of GPUs."""

ELEMENTS = ("f16", "bf16", "f32")
_ROWS = (1, 128, 197, 4096)
_INSIDE = (768, 3072, 4096)
_OUTSIDE = (768, 2304, 3072, 4096)
_IMAGES = ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512), (224, 8, 64))


class _Asked:
    """Takes down what is asked for, and gives kernels without code."""

    folds = False

    def __init__(self) -> None:
        self.variants: dict[str, Variant] = {}

    def find(self, variant: Variant) -> Binary:
        self.variants[variant.key] = variant
        return Binary(name=variant.symbol, data=b"-", threads=32, shared=0)


def usual() -> Iterator[Variant]:
    """Every usual kernel of every family, once."""
    for target in TARGETS:
        gpu = find(target).gpu
        if gpu is None:
            continue
        asked = _Asked()
        for text in _programs():
            with ir.Context(), ir.Location.unknown():
                module: Any = ir.Module.parse(text)
                place_kernels(module, Library(module, gpu, asked))
        yield from asked.variants.values()


def _programs() -> Iterator[str]:
    for element in ELEMENTS:
        for m, k, n in itertools.product(_ROWS, _INSIDE, _OUTSIDE):
            x, y = f"tensor<{m}x{k}x{element}>", f"tensor<{m}x{n}x{element}>"
            for axis, w in ((0, f"tensor<{k}x{n}x{element}>"), (1, f"tensor<{n}x{k}x{element}>")):
                yield _program(
                    x, w, y, f"stablehlo.dot_general %x, %w, contracting_dims = [1] x [{axis}]"
                )
        for size, inputs, outputs in _IMAGES:
            for taps in (1, 3):
                x, y = (f"tensor<1x{size}x{size}x{n}x{element}>" for n in (inputs, outputs))
                w = f"tensor<{taps}x{taps}x{inputs}x{outputs}x{element}>"
                pad = taps // 2
                for known in (False, True) if element == "f32" else (False,):
                    yield _program(
                        *(x, w, y),
                        "stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]"
                        f"->[b, 0, 1, f], window = {{pad = [[{pad}, {pad}], [{pad}, {pad}]]}} "
                        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
                        known=known,
                    )


def _program(x: str, w: str, y: str, operation: str, *, known: bool = False) -> str:
    """One operation; its weights are `known` before the first call, or an argument."""
    given = "" if known else f", %w: {w}"
    made = f"%w = stablehlo.constant dense<1.0> : {w}" if known else ""
    return f"""
func.func @main(%x: {x}{given}) -> {y} {{
  {made}
  %0 = {operation} : ({x}, {w}) -> {y}
  return %0 : {y}
}}"""


def make(path: Path) -> str:
    """Compile the usual kernels into an archive, if it does not hold them; what it is then."""
    found = list(usual())
    if not holds(path, found):
        write(path, found)
    return f"{path}: {len(found)} kernels, {path.stat().st_size / 1e6:.1f} MB"


def main() -> None:
    """Make the archive that is named, or the one that a wheel takes along."""
    print(make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(str(ARCHIVE))))


if __name__ == "__main__":
    main()
