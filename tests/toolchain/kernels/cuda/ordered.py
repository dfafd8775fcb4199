"""Rows that the CUDA kernel for sorts gets otherwise than NumPy, by Triton's interpreter.

Run in a process of its own with TRITON_INTERPRET=1: prints JSON, the wrong places by case.
"""

import json

import numpy as np
import torch

from edgec.toolchain.kernels.cuda.triton.order import order

NAN = float("nan")
KINDS = {
    "f32": (torch.float32, 23),
    "f16": (torch.float16, 10),
    "bf16": (torch.bfloat16, 7),
    "i8": (torch.int8, 0),
    "i32": (torch.int32, 0),
}


def numbers(kind: str, rows: int, length: int) -> torch.Tensor:
    """Some of them equal, and floats with NaN, infinity and zeros of both signs."""
    rng = np.random.default_rng(4)
    x = torch.from_numpy(rng.standard_normal((rows, length)) * 9).round()
    if kind[0] != "i":
        x[0, :6] = torch.tensor([NAN, 0.0, -0.0, float("inf"), -float("inf"), -NAN])
    return x.to(KINDS[kind][0])


def expected(x: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """Places by PyTorch's stable sort, whose NaN is the largest, too."""
    return torch.sort(x.double(), dim=1, descending=descending, stable=True).indices


def ordered(x: torch.Tensor, kept: int, part: int, **how: int) -> tuple[torch.Tensor, ...]:
    """The places of the first ones, and these, in one step or in two."""
    rows, length = x.shape
    parts = -(-length // part)
    fraction = next(f for dtype, f in KINDS.values() if dtype == x.dtype)
    candidates = torch.full((rows, parts * kept), 99, dtype=torch.int32)
    y, at = (torch.zeros((rows, kept), dtype=kind) for kind in (x.dtype, torch.int32))
    first, end = (candidates, None) if parts > 1 else (at, y)
    order[(rows, parts, 1)](
        x, None, end, first, length, length, kept, fraction, BN=part, EARLY=0, **how
    )
    if parts > 1:
        size = 1 << (parts * kept - 1).bit_length()
        order[(rows, 1, 1)](
            x, candidates, y, at, length, parts * kept, kept, fraction, BN=size, EARLY=0, **how
        )
    return at, y


def main() -> None:
    """Try all kinds, both ways."""
    wrong = {}
    for kind in KINDS:
        for rows, length, kept, part in ((3, 60, 60, 64), (2, 100, 7, 128), (2, 150, 5, 32)):
            x = numbers(kind, rows, length)
            for descending in (False, True):
                how = {"DESCENDING": int(descending), "UNSIGNED": 0, "BY_BITS": 0}
                at, y = ordered(x, kept, part, **how)
                places = expected(x, descending=descending)[:, :kept]
                values = torch.gather(x, 1, places)
                same = torch.equal(at.long(), places) and torch.equal(
                    y.double().nan_to_num(7e9), values.double().nan_to_num(7e9)
                )
                wrong[f"{kind} {length} {kept} {descending}"] = not same
    x = torch.tensor([[3, -1, 5, -128, 127]], dtype=torch.int8)
    at, _ = ordered(x, 5, 16, DESCENDING=0, UNSIGNED=1, BY_BITS=0)
    wrong["unsigned"] = at.tolist() != [[0, 2, 4, 3, 1]]
    x = torch.tensor([[0.0, -0.0, 1.0, -1.0, -NAN, NAN]])
    at, _ = ordered(x, 6, 16, DESCENDING=0, UNSIGNED=0, BY_BITS=1)
    wrong["by bits"] = at.tolist() != [[4, 3, 1, 0, 2, 5]]
    print(json.dumps(wrong))


if __name__ == "__main__":
    main()
