"""Complex numbers and Fourier transforms of PyTorch, as real parts; compared with PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Dialect, Program
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.exporters.torch_functions import Of, randn

Replay = Callable[[Program], float]


class Rotary(nn.Module):
    """Places of words as turns of complex numbers, which a buffer holds."""

    turns: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(6.0), 10000 ** -(torch.arange(4.0) / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(words * self.turns).flatten(-2).type_as(x)


class Spectral(nn.Module):
    """A convolution by products of frequencies (Fourier neural operators), trained weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5, 4, 4, dtype=torch.cfloat) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.fft.rfft2(x)
        kept = torch.zeros(x.shape[0], 5, *found.shape[2:], dtype=torch.cfloat)
        kept[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", found[:, :, :4, :4], self.weight)
        return torch.fft.irfft2(kept, s=x.shape[-2:])


class Turning(nn.Module):
    """A complex state."""

    phase: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("phase", torch.ones(4, dtype=torch.cfloat))

    def forward(self, angle: torch.Tensor) -> torch.Tensor:
        self.phase *= torch.polar(torch.ones_like(angle), angle)
        return self.phase.real


def _complex(seed: int, *size: int) -> torch.Tensor:
    return randn(seed, *size, dtype=torch.cfloat)


def _text(program: Program) -> str:
    from iree.compiler import ir

    with ir.Context() as context:
        return str(parse_stablehlo(program.bytecode, context))


def _there_and_back(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(16)
    found = torch.stft(x, 16, hop_length=4, window=window, return_complex=True)
    return torch.istft(found * 0.5, 16, hop_length=4, window=window)


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "arithmetic": (
        lambda x, y: (x * y - x / (y + 3) + 2j * x, (x - y).abs(), x.conj() * y),
        (_complex(0, 4, 5), _complex(1, 4, 5)),
    ),
    "functions": (
        lambda x: (x.exp(), x.sin() + x.cosh(), torch.sqrt(x), torch.log(x), x.angle(), x**2),
        (_complex(2, 4, 5),),
    ),
    "products of matrices": (
        lambda x, y: (x @ y, torch.einsum("ij,jk->ki", x, y)),
        (_complex(0, 4, 5), _complex(1, 5, 6)),
    ),
    "moves": (
        lambda x: (
            torch.cat([x, x.flip(0)], 1).roll(1, 1)[:, 2:7],
            torch.nn.functional.pad(x, (1, 2)).tril(),
            torch.where(x.real > 0, x, 0.0),
        ),
        (_complex(3, 4, 5),),
    ),
    "real and complex": (
        lambda x, y: (x * y, x + y, torch.complex(y, y) * x, y.to(torch.cfloat) - x),
        (_complex(4, 4, 5), randn(5, 4, 5)),
    ),
    "sums": (lambda x: (x.sum(0), x.mean(), x.var(1), x.prod(1)), (_complex(6, 4, 5),)),
    "transforms": (
        lambda x, y: (
            torch.fft.fft(x, norm="ortho"),
            torch.fft.ifft2(x),
            torch.fft.rfft(y, n=12),
            torch.fft.irfft(x, n=7, norm="forward"),
            torch.fft.hfft(x),
            torch.fft.fftn(y, dim=(0, 1)),
            torch.fft.fftshift(torch.fft.fft(y, dim=0)),
        ),
        (_complex(7, 6, 9), randn(8, 6, 9)),
    ),
    "pieces of a sound, and it again": (_there_and_back, (randn(9, 2, 64),)),
    "f64": (
        lambda x: torch.fft.fft(x.to(torch.cdouble) * 1j),
        (randn(10, 3, 12, dtype=torch.float64),),
    ),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize("name", CASES)
def test_complex_numbers(name: str, replay: Replay) -> None:
    function, inputs = CASES[name]
    program = export(Of(function), inputs)
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-4


def test_a_transform_stays_one(replay: Replay) -> None:
    program = export(Of(lambda x: torch.fft.rfft(x).abs()), (randn(0, 4, 24),))
    assert "stablehlo.fft" in _text(program)
    assert replay(program) < 1e-4


def test_turns_of_words(replay: Replay) -> None:
    assert replay(export(Rotary(), (randn(0, 2, 6, 8),))) < 1e-5


def test_products_of_frequencies(replay: Replay) -> None:
    torch.manual_seed(0)
    assert replay(export(Spectral(), (randn(1, 2, 3, 12, 10),))) < 1e-4


def test_a_complex_state(replay: Replay) -> None:
    assert replay(export(Turning(), (randn(0, 4),))) < 1e-5


def test_any_batch(replay: Replay) -> None:
    program = export(
        Of(lambda x: torch.view_as_real(torch.fft.fft(x) * 2j)),
        (randn(0, 3, 8),),
        dynamic="batch=1..8",
    )
    assert replay(program) < 1e-4


def test_a_gradient_through_complex_numbers(replay: Replay) -> None:
    def slope(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda v: (torch.fft.rfft(v).abs() ** 2).sum())(x)

    assert replay(export(slope, (randn(0, 16),))) < 1e-4


def test_lengths_neither_overflow_nor_vanish(replay: Replay) -> None:
    x = torch.tensor([[1e30, 1e-30, 0.0, 3.0], [1e30, 1e-30, 0.0, -4.0]])
    program = export(Of(lambda x: torch.hypot(x[0], x[1])), (x,))
    assert replay(program) < 1e25
    inverse = export(Of(lambda x: 1 / torch.hypot(x[0], x[1]).clamp(min=1e-32)), (x,))
    assert replay(inverse) < 1e26


def test_what_has_no_form_is_named_at_its_line() -> None:
    with pytest.raises(UnsupportedOp, match="of complex numbers"):
        export(Of(lambda x: torch.linalg.eig(x).eigenvalues), (_complex(0, 4, 4),))
