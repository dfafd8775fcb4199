"""Activations by what they compute: what has corners is proved, what is smooth agrees to 1e-6.

Free of the compiler: from the steps of an expression over one number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np

from edgec.toolchain.match.description import Array
from edgec.toolchain.match.expression import Source, Step, evaluate_steps
from edgec.toolchain.match.piecewise import IDENTITY, Piecewise, clip, corners, piecewise

__all__ = [
    "Clip",
    "Gate",
    "activation",
    "agrees",
    "bounds",
    "erf",
    "gate_value",
    "gelu",
    "is_identity",
]

_CLOSE = 1e-6
_BETWEEN = np.linspace(0, 1, 34)[1:-1]
"""Where a function is looked at between two of its corners."""


class Gate(Enum):
    """Activations that are not a clip."""

    GELU_TANH = "GELU by tanh"
    GELU = "GELU"
    SILU = "SiLU"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    HARD_SWISH = "hard swish"
    HARD_SIGMOID = "hard sigmoid"


@dataclass(frozen=True, kw_only=True)
class Clip:
    """min(max(x if x > 0 else slope * x, low), high)."""

    slope: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def value(self, x: Array) -> Array:
        """What it gives."""
        return np.asarray(
            np.minimum(np.maximum(np.where(x > 0, x, self.slope * x), self.low), self.high)
        )


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_ERF(x))


def gelu(x: Array, root: float = math.sqrt(0.5)) -> Array:
    """x / 2 * (1 + erf(x * root)); the root is that of a half, as the program's type rounds it."""
    return np.asarray(0.5 * x * (1 + _ERF(x * root)))


_VALUES: Mapping[Gate, Callable[[Array], Array]] = {
    Gate.GELU_TANH: lambda x: _gelu_tanh(x, math.sqrt(2 / math.pi), 0.044715),
    Gate.GELU: gelu,
    Gate.SILU: lambda x: x / (1 + np.exp(-x)),
    Gate.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    Gate.TANH: np.tanh,
    Gate.HARD_SWISH: lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    Gate.HARD_SIGMOID: lambda x: np.clip(x / 6 + 0.5, 0, 1),
}
_HARD_SIGMOID = Piecewise(corners=(-3.0, 3.0), parts=((), (0.5, 1 / 6), (1.0,)))
_HARD_SWISH = Piecewise(corners=(-3.0, 3.0), parts=((), (0.0, 0.5, 1 / 6), (0.0, 1.0)))


def gate_value(gate: Gate, x: Array) -> Array:
    """What an activation gives."""
    with np.errstate(all="ignore"):
        return np.asarray(_VALUES[gate](x))


def is_identity(steps: Sequence[Step]) -> bool:
    """Whether steps over one number give that number."""
    found = piecewise(steps)
    return found is not None and found.is_like(IDENTITY)


def bounds(steps: Sequence[Step]) -> Clip | None:
    """The clip that steps over one number are, if they are one."""
    found = piecewise(steps)
    if found is None or not found.is_continuous:
        return None
    low, high = (part[0] if len(part) == 1 else 0.0 if not part else None for part in _ends(found))
    below = found.at(-1e-30)
    slope = below[1] if len(below) == 2 else 1.0
    made = Clip(
        slope=slope,
        low=-math.inf if low is None else low,
        high=math.inf if high is None else high,
    )
    return made if clip(made.slope, made.low, made.high).is_like(found) else None


def _ends(value: Piecewise) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return value.parts[0], value.parts[-1]


def activation(steps: Sequence[Step]) -> Gate | None:
    """The activation that steps over one number are, if it is one of those named."""
    found = piecewise(steps)
    if found is not None:
        for gate, hard in ((Gate.HARD_SWISH, _HARD_SWISH), (Gate.HARD_SIGMOID, _HARD_SIGMOID)):
            if found.is_like(hard):
                return gate
        return None
    from edgec.toolchain.ir.elementwise import has_corner

    if any(has_corner(step.name) for step in steps) or not _is_of_one_number(steps):
        return None
    got = evaluate_steps(steps, _points())
    size = _CLOSE * (1 + np.abs(_points()))
    with np.errstate(all="ignore"):
        for gate, wanted in _smooth():
            if bool((np.abs(got - wanted) <= size).all()):
                return gate
    return None


def agrees(steps: Sequence[Step], wanted: Callable[[Array], Array]) -> bool:
    """Whether steps over one number are a smooth function, to 1e-6 over all of f32.

    They may choose between forms of it. Where a choice falls otherwise is worked out, and the
    function looked at between each two such places, however near they are.
    """
    found = corners(steps) if _is_of_one_number(steps) else None
    if found is None:
        return False
    ends = np.array([-12.0, *found, 12.0])
    near = (ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * _BETWEEN).ravel()
    points = np.concatenate([_points(), near, found])
    with np.errstate(all="ignore"):
        error = np.abs(evaluate_steps(steps, points) - wanted(points))
        return bool((error <= _CLOSE * (1 + np.abs(points))).all())


def _is_of_one_number(steps: Sequence[Step]) -> bool:
    """Whether nothing is read but the sum and constants."""
    others = (Source.ROW, Source.TENSOR)
    return not any(operand.source in others for step in steps for operand in step.operands)


@cache
def _points() -> Array:
    """Numbers from all of f32, close together where activations bend."""
    sizes = np.concatenate([np.linspace(1e-3, 12, 2400), np.logspace(-38, 38, 229)])
    return np.concatenate([-sizes[::-1], [0.0], sizes])


@cache
def _smooth() -> list[tuple[Gate, Array]]:
    """Values of smooth activations, with their constants as each type rounds them."""
    x = _points()
    gates = (Gate.SILU, Gate.SIGMOID, Gate.TANH)
    found = [(gate, gate_value(gate, x)) for gate in gates]
    for rounded in (float, _half, _brain):
        factor, root = rounded(math.sqrt(2 / math.pi)), rounded(math.sqrt(2))
        found.append((Gate.GELU_TANH, _gelu_tanh(x, factor, rounded(0.044715))))
        found.append((Gate.GELU, gelu(x, rounded(math.sqrt(0.5)))))
        found.append((Gate.GELU, gelu(x, 1 / root)))
    return found


def _gelu_tanh(x: Array, factor: float, cubic: float) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(factor * (x + cubic * x**3))))


def _half(number: float) -> float:
    return float(np.float16(number))


def _brain(number: float) -> float:
    """The nearest bf16: the upper half of an f32's bits."""
    bits = int(np.float32(number).view(np.uint32))
    return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))
