"""Products of f32 in many tiles to PTX (`compile FOLDER`), and on a GPU to times (`run`).

Rows, columns and what is summed are drawn by a seed from those that networks have, as PyTorch
keeps weights ([n, k]), and a few as JAX does. The times in `choice.py` were fitted to others,
drawn by another seed. The last line says how far edgec's choice is from the quickest.
"""

import random
from pathlib import Path

from benchmarks.cuda.tiles import Form, Size, compile_products, main

_SEED = 29
_COUNT = 24
_ROWS = (16, 49, 64, 128, 196, 197, 256, 384, 512, 784, 1024, 2048, 3136, 4096)
_INSIDE = (64, 96, 128, 192, 256, 320, 384, 512, 768, 1000, 1024, 1280, 1536, 2048, 3072, 4096)
_ACROSS: list[Size] = [(128, 3072, 768, "nn"), (197, 768, 768, "nn"), (2048, 2048, 2048, "nn")]
FORMS: list[Form] = [
    # rows, columns, inner, warps, stages
    *((64, 32, 64, 4, 4), (64, 32, 32, 4, 6), (64, 64, 32, 4, 4), (64, 64, 64, 4, 3)),
    *((128, 64, 32, 4, 3), (128, 64, 32, 8, 4), (64, 128, 32, 4, 3), (128, 128, 32, 8, 3)),
]


def sizes() -> list[Size]:
    """Those that are drawn, and those that lie across."""
    drawn = random.Random(_SEED)
    found: list[Size] = [
        (drawn.choice(_ROWS), drawn.choice(_INSIDE), drawn.choice(_INSIDE), "nt")
        for _ in range(_COUNT)
    ]
    return found + _ACROSS


def compile_all(folder: Path) -> None:
    """Every tile for every size."""
    compile_products(folder, sizes(), FORMS, "f32")


if __name__ == "__main__":
    main(compile_all, __doc__)
