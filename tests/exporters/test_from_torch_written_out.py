"""Operators that torch-mlir does not lower, written as others; compared with PyTorch."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Dialect, Program
from tests.exporters.torch_functions import Of, randn

Replay = Callable[[Program], float]


NUMBERS = torch.tensor([[3.0, math.nan, 1.0, 1.0, -2.0], [0.5, 0.5, -math.inf, 2.0, 2.0]])
PLACES = torch.tensor([[0, 1, 1, 2], [0, 0, 2, 1], [1, 1, 1, 1]])
MASK = torch.tensor([True, False, True, True, False])

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "running products": (
        lambda x: (x.cumprod(1), x.cumprod(0), x.to(torch.int32).cumprod(1)),
        (randn(0, 4, 7),),
    ),
    "running extremes": (lambda x: (*x.cummax(1), *x.cummin(0)), (NUMBERS,)),
    "logarithms of running sums": (
        lambda x: x.logcumsumexp(1),
        (torch.tensor([[-math.inf, 100.0, -3.0, 101.0], [1e3, 1e3, -1e3, 0.0]]),),
    ),
    "rows by a mask": (
        lambda x, row, rows: (
            torch.index_put(x, (MASK,), row),
            torch.index_put(x, (MASK,), rows),
            torch.index_put(x, (MASK,), rows, accumulate=True),
            torch.index_put(x, (MASK,), row, accumulate=True),
        ),
        (randn(0, 5, 4), randn(1, 4), randn(2, 3, 4)),
    ),
    "numbers by a mask": (
        lambda x, source: x.masked_scatter(x > 0, source) + x.masked_scatter(MASK[:4], source),
        (randn(3, 5, 4), randn(4, 30)),
    ),
    "medians": (
        # Of those that are the same, any place may be given.
        lambda x, y: (
            *(x.median(1).values, x.nanmedian(1, keepdim=True).values, x.median(), x[1].median()),
            *y.median(0),
            *y.nanmedian(1),
        ),
        (NUMBERS, randn(0, 4, 5)),
    ),
    "what is no number, sorted": (
        lambda x: (*x.sort(1), *x.sort(1, descending=True), *x.topk(3, 1), x.argsort(0)),
        (torch.cat([NUMBERS, torch.tensor([[math.nan, math.inf], [-0.0, math.nan]])], 1),),
    ),
    "places of what is no number": (
        lambda x: (x.argmax(1), *x.max(0), *x.min(1), x.argmin(0), x.argmax(), *x.half().max(1)),
        (
            torch.cat(
                [NUMBERS, torch.tensor([[math.nan, math.inf, math.nan], [-math.inf, -0.0, 7.0]])], 1
            ),
        ),
    ),
    "the smallest but k": (lambda x: (*x.kthvalue(2, 1), *x.kthvalue(1, 0)), (randn(0, 4, 5),)),
    "places among sorted numbers": (
        lambda x: (
            torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0]), x, right=True),
            torch.bucketize(x, torch.tensor([-1.0, 0.5, 2.0])),
            torch.searchsorted(x.sort(1).values, x),
        ),
        (torch.cat([randn(0, 3, 4), torch.full((3, 1), 0.5)], 1),),
    ),
    "logarithms of the gamma function": (
        lambda x: torch.lgamma(x),
        (torch.tensor([-2.5, -0.3, -0.0, 1e-20, 0.2, 0.5, 1.0, 1.0001, 2.0, 3.7, 30.0, 1e6]),),
    ),
    "the error function's inverse": (
        lambda x: torch.erfinv(x),
        (torch.tensor([-1.0, -0.9999999, -0.7, -1e-9, 0.0, 0.3, 0.99, 1.0, 1.5]),),
    ),
    "angles and lengths": (
        lambda x: (x.angle(), torch.hypot(x[:1], x), torch.fmax(x[:1], x), torch.fmin(x, x[1:])),
        (NUMBERS,),
    ),
    "distances": (
        lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, math.inf)],
        (randn(0, 2, 4, 3), randn(1, 2, 5, 3)),
    ),
    "distances of many": (lambda x, y: torch.cdist(x, y), (randn(0, 40, 3), randn(1, 30, 3))),
    "numbers along an axis that they lack": (
        lambda x: (x.softmax(0), x.cumsum(0), x.sort(0).values, x.max(0).values, x.logsumexp(0)),
        (torch.tensor(0.7),),
    ),
    "by PyTorch's own decompositions": (
        lambda x, y: (torch.addmv(y, x, y), x.trace(), torch.clamp(x[0, 0], max=x)),
        (randn(0, 4, 4), randn(1, 4)),
    ),
    "scatters that combine": (
        lambda x, src: [
            x.scatter_reduce(1, PLACES, src, how, include_self=itself)
            for how in ("sum", "prod", "mean", "amax", "amin")
            for itself in (True, False)
        ],
        (randn(0, 3, 5), randn(1, 3, 6)),
    ),
    "slices that are combined": (
        lambda x, src: (
            x.index_reduce(0, torch.tensor([2, 0, 2]), src, "amax"),
            x.index_reduce(0, torch.tensor([2, 0, 2]), src, "mean", include_self=False),
            x.scatter(0, PLACES[:, :3], 2.0, reduce="multiply"),
        ),
        (randn(0, 4, 3), randn(1, 3, 3)),
    ),
    "diagonals put in": (
        lambda x, src: (x.diagonal_scatter(src, 1), x.diagonal_scatter(src[:2], -2)),
        (randn(0, 4, 5), randn(1, 4)),
    ),
    "factors of columns": (
        lambda x, y: (*torch.linalg.qr(x), *torch.linalg.qr(y, mode="complete")),
        (randn(0, 2, 5, 3), randn(1, 3, 4)),
    ),
    "covariances": (
        lambda x, often, much: (
            torch.cov(x),
            x[0].cov(correction=0),
            torch.cov(x, fweights=often, aweights=much),
            torch.cov(x, correction=0, aweights=much),
            torch.corrcoef(torch.complex(x, x.roll(1, 1))),
            x.corrcoef(),
            torch.corrcoef(x[1]),
        ),
        (randn(0, 3, 6), torch.tensor([2, 1, 1, 0, 3, 1]), randn(1, 6).abs()),
    ),
    "places in a volume": (
        lambda x, at: [
            nn.functional.grid_sample(x, at, mode, padding, corners)
            for mode in ("bilinear", "nearest")
            for padding in ("zeros", "border", "reflection")
            for corners in (True, False)
        ],
        (randn(0, 2, 2, 3, 4, 5), randn(1, 2, 2, 3, 2, 3) * 1.5),
    ),
    "places in a volume of one element": (
        lambda x, at: nn.functional.grid_sample(
            x, at, padding_mode="reflection", align_corners=True
        ),
        (randn(0, 1, 2, 1, 4, 1), randn(1, 1, 2, 3, 2, 3)),
    ),
    "the digamma function": (
        lambda x: torch.digamma(x),
        (torch.tensor([-3.0, -2.5, -0.1, -0.0, 0.0, 0.3, 1.0, 1.4616, 5.0, 1e4]),),
    ),
    "what is close": (
        lambda x: (torch.isclose(x, x[0]), torch.isclose(x, x + 1e-6, equal_nan=True)),
        (NUMBERS,),
    ),
    "means of windows that differ": (nn.AdaptiveAvgPool3d((3, 4, 2)), (randn(0, 1, 2, 7, 8, 5),)),
    "systems of equations": (
        lambda x, y: (
            torch.linalg.inv(x),
            torch.linalg.solve(x, y),
            torch.linalg.solve(x.transpose(-1, -2), y[..., 0]),
            torch.linalg.solve_triangular(x.triu(), y, upper=True),
            torch.linalg.solve_triangular(x.tril(), y[..., 0, None].mT, upper=False, left=False),
        ),
        (randn(0, 2, 4, 4) + torch.eye(4), randn(1, 2, 4, 3)),
    ),
    "rows in the way of elimination": (
        lambda x: torch.linalg.inv(x),
        (torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0], [3.0, 0.0, 1.0]]),),
    ),
    "steps that fail": (
        lambda x: (
            torch.linalg.inv_ex(x).info,
            torch.linalg.solve_ex(x, x[..., :1]).info,
            torch.linalg.cholesky_ex(x).info,
        ),
        (torch.tensor([[[2.0, 0.0], [0.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]], [[0.0, 0], [0, 1]]]),),
    ),
    "Cholesky's factors": (
        lambda x, y: (
            torch.linalg.cholesky(x @ x.mT + torch.eye(4)),
            torch.linalg.cholesky(x @ x.mT + torch.eye(4), upper=True),
            torch.cholesky_solve(y, torch.linalg.cholesky(x @ x.mT + torch.eye(4))),
        ),
        (randn(0, 2, 4, 4), randn(1, 2, 4, 3)),
    ),
    "the error function's rest": (
        lambda x: (torch.erfc(x) * torch.exp(x.clamp(0, 8) ** 2), torch.special.erfcx(x)),
        (torch.tensor([-2.0, -0.1, 0.0, 0.4, 0.6, 2.0, 5.0, 8.0]),),
    ),
    "a transform there and back": (lambda x: torch.fft.irfft(x, 9), (randn(0, 2, 5),)),
}


@pytest.mark.sweep(fast=12)
@pytest.mark.filterwarnings("ignore:index_reduce.*beta")
@pytest.mark.parametrize("name", CASES)
def test_what_torch_mlir_does_not_lower(name: str, replay: Replay) -> None:
    function, inputs = CASES[name]
    program = export(Of(function), inputs)
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-5


def test_what_has_no_form_is_named() -> None:
    with pytest.raises(UnsupportedOp, match=r"aten\.mode"):
        export(Of(lambda x: x.mode(0).values), (randn(0, 5),))
