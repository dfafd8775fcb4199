"""Functions of real numbers that torch-mlir does not lower, by series and by simpler ones."""

import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["special"]

# Lanczos' coefficients for g = 7, n = 9 (Numerical Recipes, 3rd edition, 6.1, and many others).
_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313),
    *(-176.61502916214059, 12.507343278686905, -0.13857109526572012),
    *(9.9843695780195716e-6, 1.5056327351493116e-7),
)
# Giles, Approximating the erfinv function, 2010: single precision.
_NEAR = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_FAR = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
# Numerical Recipes, 1st edition, 6.2 (erfcc), the highest power first.
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
# B2n / 2n of Bernoulli's numbers (Abramowitz and Stegun, 6.3.18), the highest power first.
_DIGAMMA = (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def special() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.hypot.default: _hypot,
        aten.angle.default: _angle,
        aten.lgamma.default: _lgamma,
        aten.digamma.default: _digamma,
        aten.erfinv.default: _erfinv,
        aten.erfc.default: _erfc,
        aten.special_erfcx.default: _erfcx,
        aten.isclose.default: _isclose,
        aten.fmax.default: _greater,
        aten.fmin.default: _smaller,
        aten.clamp.Tensor: _clamp,
        aten.clamp_min.Tensor: lambda x, least: _clamp(x, least),
        aten.clamp_max.Tensor: lambda x, most: _clamp(x, None, most),
        aten._cdist_forward.default: _distances,
    }


def _hypot(x: Any, y: Any) -> Any:
    """The larger by the root of 1 and the ratio's square: squares alone overflow and vanish."""
    import torch

    x, y = x.abs(), y.abs()
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = torch.where(large == small, 1.0, small / large)
    length = torch.where(large == 0, large, large * torch.sqrt(1 + ratio * ratio))
    infinite = torch.isinf(x) | torch.isinf(y)
    return torch.where(infinite, torch.full_like(length, math.inf), length)


def _angle(x: Any) -> Any:
    """Of real numbers."""
    import torch

    if x.is_complex():
        return NotImplemented
    x = x if x.dtype.is_floating_point else x.to(torch.float32)
    turned = torch.where(x < 0, torch.full_like(x, math.pi), torch.zeros_like(x))
    return torch.where(torch.isnan(x), x, turned)


def _lgamma(x: Any) -> Any:
    """By Lanczos' series, and for numbers below a half by their reflection."""
    import torch

    x = x if x.dtype.is_floating_point else x.to(torch.float32)
    reflected = x < 0.5
    z = torch.where(reflected, -x, x - 1)
    total = torch.full_like(z, _LANCZOS[0])
    # About 1 and 2 the logarithm vanishes, so what is added to 1 is kept apart.
    for place, factor in enumerate(_LANCZOS[1:]):
        total = total + factor / (z + (place + 1))
    t = z + 7.5
    found = (z + 0.5) * (torch.log1p(z / 7.5) + math.log(7.5)) - t
    found = found + math.log(2 * math.pi) / 2 + torch.log(total)
    part = x.abs() - x.abs().floor()
    part = torch.where(part > 0.5, 1 - part, part)
    mirrored = math.log(math.pi) - torch.log(torch.sin(math.pi * part)) - found
    found = torch.where(reflected, mirrored, found)
    infinite = torch.isinf(x) | (reflected & (part == 0))
    return torch.where(infinite, torch.full_like(x, math.inf), found)


def _digamma(x: Any) -> Any:
    """Of numbers beyond 6 by its asymptotic series, of others by recurrence and reflection."""
    import torch

    x = x if x.dtype.is_floating_point else x.to(torch.float32)
    reflected = x < 0
    z = torch.where(reflected, 1 - x, x)
    before: Any = 0.0
    for step in range(6):
        before = before + 1 / (z + step)
    far = z + 6
    square = 1 / (far * far)
    series = _polynomial(square, _DIGAMMA) * square
    found = torch.log(far) - 0.5 / far - series - before
    part = x - torch.round(x)
    mirrored = found - math.pi / torch.tan(math.pi * part)
    found = torch.where(reflected, mirrored, found)
    # At 0 the sign is that of the zero; at other whole numbers there is none.
    zero = torch.where(torch.signbit(x), math.inf, -math.inf).to(x.dtype)
    found = torch.where(x == 0, zero, found)
    return torch.where(reflected & (part == 0), torch.full_like(x, math.nan), found)


def _erfinv(x: Any) -> Any:
    """Polynomials of the logarithm of 1 - x², in f64 corrected by Newton's steps."""
    import torch

    x = x if x.dtype.is_floating_point else x.to(torch.float32)
    w = -torch.log((1 - x) * (1 + x))
    near = _polynomial(w - 2.5, _NEAR) * x
    far = _polynomial(torch.sqrt(w.clamp(min=5.0)) - 3, _FAR) * x
    found = torch.where(w < 5, near, far)
    if x.dtype == torch.float64:
        for _ in range(2):
            wrong = torch.erf(found) - x
            found = found - wrong * (math.sqrt(math.pi) / 2) * torch.exp(found * found)
    bound = torch.full_like(x, math.inf)
    found = torch.where(x == 1, bound, torch.where(x == -1, -bound, found))
    return torch.where(x.abs() > 1, torch.full_like(x, math.nan), found)


def _erfc(x: Any) -> Any:
    """1 - erf(x), where that has digits; else by `_erfcx`."""
    import torch

    if x.dtype == torch.float64:
        return NotImplemented
    x = x if x.dtype.is_floating_point else x.to(torch.float32)
    return torch.where(x < 0.5, 1 - torch.erf(x), torch.exp(-x * x) * _scaled(x.clamp(min=0.0)))


def _erfcx(x: Any) -> Any:
    import torch

    if x.dtype == torch.float64:
        return NotImplemented
    x = x if x.dtype.is_floating_point else x.to(torch.float32)
    return torch.where(x < 0.5, torch.exp(x * x) * (1 - torch.erf(x)), _scaled(x.clamp(min=0.0)))


def _scaled(x: Any) -> Any:
    """erfc(x) exp(x²) of positive numbers, to 1.2e-7 of itself."""
    import torch

    t = 1 / (1 + x / 2)
    return t * torch.exp(_polynomial(t, _ERFC))


def _polynomial(x: Any, factors: tuple[float, ...]) -> Any:
    import torch

    found = torch.full_like(x, factors[0])
    for factor in factors[1:]:
        found = found * x + factor
    return found


def _isclose(
    x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Equal, or finite and near."""
    import torch

    if not (x.dtype.is_floating_point and y.dtype.is_floating_point):
        return NotImplemented
    away = (x - y).abs()
    close = (x == y) | (torch.isfinite(away) & (away <= atol + (rtol * y).abs()))
    return close | (torch.isnan(x) & torch.isnan(y)) if equal_nan else close


def _greater(x: Any, y: Any) -> Any:
    """The number, where the other is none."""
    import torch

    x, y = torch.broadcast_tensors(x, y)
    found = torch.maximum(x, y)
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, found))


def _smaller(x: Any, y: Any) -> Any:
    return -_greater(-x, -y)


def _clamp(x: Any, least: Any = None, most: Any = None) -> Any:
    """Between tensors, which may be larger than what is between; torch-mlir dies of it."""
    import torch

    x = x if least is None else torch.maximum(x, least)
    return x if most is None else torch.minimum(x, most)


def _distances(x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """Of each row of one to each of the other; many rows by a product, as PyTorch does."""
    import torch

    rows = (x.shape[-2], y.shape[-2])
    by_product = compute_mode == 1 or (
        compute_mode in (None, 0) and all(isinstance(n, int) for n in rows) and max(rows) > 25
    )
    if p == 2 and by_product:
        squares = (x * x).sum(-1, keepdim=True) + (y * y).sum(-1, keepdim=True).transpose(-1, -2)
        return torch.sqrt((squares - 2 * (x @ y.transpose(-1, -2))).clamp(min=0))
    away = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 0:
        return (away != 0).to(x.dtype).sum(-1)
    if p == 1:
        return away.sum(-1)
    if p == 2:
        return torch.sqrt((away * away).sum(-1))
    if math.isinf(p):
        return away.amax(-1)
    return away.pow(p).sum(-1).pow(1 / p)
