"""Eigenvalues, singular values and factors in PyTorch's models, compared with PyTorch's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg

from edgec.exporters import export
from edgec.exporters.from_torch import eigen, factors
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Dialect, Program
from tests.exporters.torch_functions import Of, randn

Replay = Callable[[Program], float]


def eigenvalues(x: torch.Tensor) -> Any:
    """Of both triangles; vectors as the matrix that they make up again."""
    values, vectors = linalg.eigh(x)
    back = (vectors * values.unsqueeze(-2)) @ vectors.mT
    turned = vectors.mT @ vectors
    return values, linalg.eigvalsh(x, UPLO="U"), back, turned


def singular_values(x: torch.Tensor) -> Any:
    """Alone, and with vectors that make up the matrix and are at right angles."""
    left, values, right = linalg.svd(x)
    thin, _, across = linalg.svd(x, full_matrices=False)
    back = (thin * values.unsqueeze(-2)) @ across
    return linalg.svdvals(x), back, left.mT @ left, right @ right.mT


def of_singular_values(x: torch.Tensor) -> Any:
    """What PyTorch makes of them."""
    low = x[:, :2] @ x[:2]
    least = linalg.pinv(low, atol=torch.tensor(1.0), rtol=torch.tensor(1e-4))
    return (
        *(
            linalg.pinv(x),
            linalg.pinv(low, rtol=1e-4),
            least,
            linalg.pinv(x @ x.mT, hermitian=True),
        ),
        *(linalg.matrix_norm(x, 2), linalg.matrix_norm(x, "nuc"), linalg.cond(x)),
        linalg.matrix_rank(low),
    )


def factorised(x: torch.Tensor) -> Any:
    """L and U by rows that change places, and Q and R, packed and not."""
    packed, taus = torch.geqrf(x[:, :3])
    found, swaps = linalg.lu_factor(x)
    return (
        *linalg.lu(x),
        *linalg.lu(x[:, :3]),
        *linalg.lu_factor_ex(x[:3]),
        *torch.lu_unpack(found, swaps),
        *(packed, taus, linalg.householder_product(packed, taus)),
    )


def solved(x: torch.Tensor) -> Any:
    """By factors, on both sides and of the transposed matrix."""
    found, swaps = linalg.lu_factor(x)
    return [
        linalg.lu_solve(found, swaps, x[:, :3] if left else x[:3], left=left, adjoint=adjoint)
        for left in (True, False)
        for adjoint in (True, False)
    ]


CASES: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "eigenvalues": (eigenvalues, randn(0, 2, 5, 5)),
    "singular values": (singular_values, randn(1, 5, 3)),
    "singular values of wide ones": (singular_values, randn(1, 2, 3, 4)),
    "of singular values": (of_singular_values, randn(2, 4, 5)),
    "factors": (factorised, randn(3, 5, 5)),
    "equations": (solved, randn(4, 4, 4)),
}


@pytest.mark.sweep(fast=1)
@pytest.mark.parametrize("name", CASES)
def test_factors_are_pytorchs(name: str, replay: Replay) -> None:
    function, x = CASES[name]
    x = x + x.mT if name == "eigenvalues" else x
    program = export(Of(function), (x,))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 2e-5


SPECTRA = (
    torch.linspace(-1, 1, 30),
    torch.cat([torch.ones(15), torch.zeros(15)]),
    torch.logspace(-14, 3, 30),
    torch.cat([1 + 1e-7 * randn(0, 15), 1e-3 * randn(1, 15)]),
    torch.zeros(30),
)


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", range(len(SPECTRA)))
def test_matrices_whose_values_are_alike_or_far_apart(number: int, kind: torch.dtype) -> None:
    random = np.random.default_rng(0)
    bases = [linalg.qr(torch.tensor(random.standard_normal((30, 30)))).Q for _ in "lr"]
    values = SPECTRA[number].double()
    x = ((bases[0] * values) @ bases[0].mT).to(kind)
    unit = torch.finfo(kind).eps * float(values.abs().max())
    found, vectors = (each.double() for each in eigen._eigh(x))
    x = x.double().tril() + x.double().tril(-1).mT
    assert (found - linalg.eigvalsh(x)).abs().max() <= 10 * unit
    assert (x @ vectors - vectors * found).abs().max() <= 10 * unit
    assert (vectors.mT @ vectors - torch.eye(30)).abs().max() < 10 * torch.finfo(kind).eps
    y = ((bases[0] * values) @ bases[1]).to(kind)
    left, found, right = (each.double() for each in eigen._svd(y))
    assert (found - linalg.svdvals(y.double())).abs().max() <= 10 * unit
    assert ((left * found) @ right - y.double()).abs().max() <= 30 * unit


def test_singular_vectors_beside_zeros_are_at_right_angles() -> None:
    x = randn(0, 6, 4)
    x[:, 1] = 2 * x[:, 0]
    for each in (x, x.mT, torch.zeros(5, 3), torch.ones(1, 1), 1e30 * x, 1e-30 * x):
        for full in (True, False):
            left, values, right = eigen._svd(each, full)
            expected = linalg.svd(each, full)
            assert left.shape == expected.U.shape
            assert right.shape == expected.Vh.shape
            scale = float(expected.S.max()) or 1.0
            assert (values - expected.S).abs().max() < 2e-6 * scale
            for vectors in (left.mT, right):
                lack = vectors @ vectors.mT - torch.eye(vectors.shape[0])
                assert lack.abs().max() < 2e-6


def test_the_first_column_without_a_pivot_is_told() -> None:
    x = randn(0, 2, 4, 4)
    x[0, :, 2] = x[0, :, 0] * 0
    found = factors._lu_factor_ex(x)
    for one, other in zip(found, linalg.lu_factor_ex(x), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_matrices_of_more_rows_than_are_written_out(replay: Replay, tmp_path: Path) -> None:
    x = randn(0, 80, 80)
    program = export(Of(lambda x: (linalg.eigvalsh(x + x.mT), linalg.svdvals(x))), (x,))
    assert replay(program) < 1e-4
    program.save(tmp_path / "p.mlirbc")
    assert (tmp_path / "p.mlirbc").stat().st_size < 500_000


def test_complex_matrices_are_refused_by_name() -> None:
    x = torch.complex(randn(0, 3, 3), randn(1, 3, 3))
    with pytest.raises(UnsupportedOp, match=r"aten\._linalg_eigh"):
        export(Of(linalg.eigvalsh), (x,))
