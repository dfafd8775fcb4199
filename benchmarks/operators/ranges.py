"""Functions of a number over all that f32 holds: `python -m benchmarks.operators.ranges`.

The cases of `benchmarks.operators` have numbers as networks have them. Here every function gets
thousands from 1e-37 to 3e38, both signs, and the corners, and what it gives is compared with NumPy
and SciPy in 64 bits, XLA's answers beside it. One program has all functions, so that a run takes a
minute. Writes docs/ranges.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special

from benchmarks.operators.sweep import ROOT
from benchmarks.standing import measured_at, sentence
from benchmarks.vulkan_device import vulkan_device
from edgec import runtime, toolchain

__all__ = ["Off", "main", "numbers", "off", "page"]

_PAGE = ROOT / "docs" / "ranges.md"
_TARGETS = ("cpu", "vulkan")
_CORNERS = (0, -0.0, 1, -1, 3, 88.7, 89, -87, -104, 2.0**24, 2.0**31, 3.4e38)
_RELATIVE, _ABSOLUTE = 1e-4, 1e-6

Array = np.ndarray[Any, np.dtype[Any]]
Function = tuple[Callable[[Any], Any], Callable[[Array], Array]]

_ALIKE = (
    *("abs", "ceil", "floor", "trunc", "sign", "square", "reciprocal", "sqrt", "cbrt"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
)
_SPECIAL = {
    **{"erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "lgamma": "gammaln"},
    **{"digamma": "digamma", "bessel_i0e": "i0e", "bessel_i1e": "i1e", "log_ndtr": "log_ndtr"},
}


def _functions() -> dict[str, Function]:
    third, seventh = np.float32(1 / 3), np.float32(0.7)
    others: dict[str, Function] = {
        "logistic": (jax.nn.sigmoid, scipy.special.expit),
        "softplus": (jax.nn.softplus, lambda x: np.logaddexp(0, x)),
        "silu": (jax.nn.silu, lambda x: x * scipy.special.expit(x)),
        "gelu": (
            lambda x: jax.nn.gelu(x, approximate=False),
            lambda x: x * scipy.special.ndtr(x),
        ),
        "rsqrt": (jax.lax.rsqrt, lambda x: 1 / np.sqrt(x)),
        "remainder by 0.7": (
            lambda x: jnp.mod(x, seventh),
            lambda x: np.mod(x, np.float64(seventh)),
        ),
        "power 1/3": (
            lambda x: jnp.power(jnp.abs(x), third),
            lambda x: np.abs(x) ** np.float64(third),
        ),
        "power 3": (lambda x: x**3, lambda x: x**3),
        "atan2": (lambda x: jnp.arctan2(x, x[::-1]), lambda x: np.arctan2(x, x[::-1])),
        "quotient": (lambda x: x / x[::-1], lambda x: x / x[::-1]),
        "hypot": (lambda x: jnp.hypot(x, x[::-1]), lambda x: np.hypot(x, x[::-1])),
        "logaddexp": (lambda x: jnp.logaddexp(x, x[::-1]), lambda x: np.logaddexp(x, x[::-1])),
    }
    return {
        **{name: (getattr(jnp, name), getattr(np, name)) for name in _ALIKE},
        **{
            name: (getattr(special, word), getattr(scipy.special, word))
            for name, word in _SPECIAL.items()
        },
        **others,
    }


@dataclass(frozen=True, kw_only=True)
class Off:
    """How many answers are off, and for a number in their middle what came and what is right."""

    count: int
    number: float
    given: float
    right: float


def numbers(count: int = 9000) -> Array:
    """f32 of every magnitude and both signs, some as networks have them, and the corners."""
    rng = np.random.default_rng(0)
    far = 10.0 ** rng.uniform(-37.9, 38.5, count * 2 // 3) * rng.choice([-1, 1], count * 2 // 3)
    corners = [*_CORNERS, np.inf, -np.inf, np.nan]
    return np.concatenate([far, rng.normal(0, 3, count // 3), corners]).astype(np.float32)


def off(x: Array, given: Array, right: Array) -> Off | None:
    """What of `given` (f32) is neither `right` (f64, rounded to f32) nor next to it."""
    with np.errstate(all="ignore"):
        right = right.astype(np.float32).astype(np.float64)
        error = np.abs(given.astype(np.float64) - right)
        small = _ABSOLUTE * np.minimum(1, np.abs(x.astype(np.float64)))
        is_near = np.isfinite(right) & (error <= np.maximum(_RELATIVE * np.abs(right), small))
    alike = (given == right) | (np.isnan(given) & np.isnan(right)) | is_near
    places = np.flatnonzero(~alike)
    if not places.size:
        return None
    middle = sorted(places, key=lambda place: abs(float(x[place])))[places.size // 2]
    values = (float(each[middle]) for each in (x, given, right))
    return Off(count=places.size, **dict(zip(("number", "given", "right"), values, strict=True)))


def _measured(functions: Mapping[str, Function]) -> dict[str, dict[str, Off | None]]:
    x = numbers()

    def program(x: Any) -> tuple[Any, ...]:
        return tuple(function(x) for function, _ in functions.values())

    with np.errstate(all="ignore"):
        right = [np.asarray(each(x.astype(np.float64))) for _, each in functions.values()]
    compiled = jax.jit(program)
    answers = {"XLA's CPU": [np.asarray(each) for each in compiled(x)]}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "ranges.mlir"
        source.write_text(compiled.lower(x).as_text(), encoding="utf-8")
        for target in _TARGETS:
            with runtime.load(toolchain.compile(source, target)) as loaded:
                answers[target] = [np.asarray(each) for each in loaded.main(x)]
    return {
        where: {
            name: off(x, given, wanted)
            for name, given, wanted in zip(functions, all_given, right, strict=True)
        }
        for where, all_given in answers.items()
    }


def page(found: Mapping[str, Mapping[str, Off | None]], count: int, devices: Sequence[str]) -> str:
    """docs/ranges.md of what was off where, by function."""
    names = list(next(iter(found.values())))
    wrong = [name for name in names if any(each[name] for each in found.values())]
    lines = [
        "# Functions over all of f32",
        "",
        f"{len(names)} functions of {count:,} numbers each: every magnitude of f32 but for what is",
        "below 1.2e-38, which devices may take for zero; both signs, zeros, infinities and what is",
        "no number. Compiled with edgec, compared with NumPy and SciPy in 64 bits, XLA's answers",
        f"beside them. Off is what differs by more than {_RELATIVE:g} of the answer and by more",
        f"than {_ABSOLUTE:g} of the number (of 1, if that is less). For each function the middle",
        "one by magnitude is shown: the number, what came, what is right. Written by",
        "`python -m benchmarks.operators.ranges`.",
        "",
        *(f"- `{target}`: {device}" for target, device in zip(_TARGETS, devices, strict=True)),
        "",
        f"| function | {' | '.join(found)} |",
        "|---|" + "---|" * len(found),
    ]
    for name in wrong:
        cells = [_cell(each[name]) for each in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    right = [name for name in names if name not in wrong]
    lines += ["", f"Right everywhere: {', '.join(right)}.", "", sentence([measured_at()])]
    return "\n".join(lines) + "\n"


def _cell(found: Off | None) -> str:
    if found is None:
        return ""
    return f"{found.count}: {found.number:.4g} gave {found.given:.5g}, not {found.right:.5g}"


def main() -> int:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    devices = ["this machine's CPU", vulkan_device("no Vulkan device")]
    text = page(_measured(_functions()), numbers().size, devices)
    _PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
