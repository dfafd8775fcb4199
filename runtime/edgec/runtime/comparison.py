"""Two arrays, or a module and its golden answers, compared number by number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.device import Device
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, ModuleError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.module import Module
from edgec.runtime.tolerance import Tolerance, root_mean_square, spread_of, widened

__all__ = [
    "CallResult",
    "Comparison",
    "GoldenResult",
    "check_golden",
    "compare",
    "compare_call",
]


_TOGETHER = 1 / 3
_MANY = 16
"""So many values have a root mean square worth looking at."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How an array compares with what was expected.

    Attributes:
        ok: whether every element is within the tolerance.
        problem: what is wrong, as one sentence; empty when `ok`.
        max_abs: the largest difference among elements finite in both.
        max_rel: the largest difference relative to the expected value.
        worst: the index of the element furthest outside (or nearest to) the tolerance; None for
            empty arrays and differing shapes.
        actual: the value there.
        expected: the expected value there.
        wrong: how many elements are outside.
        count: how many elements there are.
        tolerance: what was allowed.
        error: the root mean square of the differences as a part of the expected values' spread;
            infinite where one of two numbers is not finite, and the other is another.
        ties: how many elements are another value that was said to be as right.
    """

    ok: bool
    problem: str
    max_abs: float
    max_rel: float
    worst: tuple[int, ...] | None
    actual: complex | float | int | None
    expected: complex | float | int | None
    wrong: int
    count: int
    tolerance: Tolerance
    error: float = 0.0
    ties: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; numbers that JSON has not (NaN, infinity, complex) as text."""
        return {
            "ok": self.ok,
            "problem": self.problem,
            "max_abs": _json_number(self.max_abs),
            "max_rel": _json_number(self.max_rel),
            "worst": None if self.worst is None else list(self.worst),
            "actual": _json_number(self.actual),
            "expected": _json_number(self.expected),
            "wrong": self.wrong,
            "count": self.count,
            "absolute": self.tolerance.absolute,
            "relative": self.tolerance.relative,
            "spread": self.tolerance.spread,
            "error": _json_number(self.error),
            "ties": self.ties,
        }


def _json_number(value: complex | float | int | None) -> Any:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, complex) or not np.isfinite(value):
        return str(value)
    return value


def compare(
    actual: np.ndarray,
    expected: np.ndarray,
    tolerance: Tolerance | None = None,
    *,
    open_: np.ndarray | None = None,
    others: np.ndarray | None = None,
) -> Comparison:
    """Compare element by element; NaN equals NaN, an infinity equals the same infinity.

    Without a tolerance the expected array's element type has a default. Where `open_` is true, any
    element will do; each along the first axis of `others` is as right as what is expected.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    allowed = Tolerance.of(DType.of(expected.dtype)) if tolerance is None else tolerance
    if actual.shape != expected.shape:
        return Comparison(
            ok=False,
            problem=f"the shape is {actual.shape} and should be {expected.shape}",
            max_abs=float("inf"),
            max_rel=float("inf"),
            worst=None,
            actual=None,
            expected=None,
            wrong=expected.size,
            count=expected.size,
            tolerance=allowed,
        )
    if expected.size == 0:
        return Comparison(
            ok=True,
            problem="",
            max_abs=0.0,
            max_rel=0.0,
            worst=None,
            actual=None,
            expected=None,
            wrong=0,
            count=0,
            tolerance=allowed,
        )
    if open_ is not None:
        actual = np.where(open_, expected, actual)
    if others is None or others.shape[1:] != expected.shape:
        return _compare_elements(actual, expected, allowed)
    tied = (others == actual).any(axis=0) & (actual != expected)
    found = _compare_elements(np.where(tied, expected, actual), expected, allowed)
    return replace(found, ties=int(tied.sum()))


def _compare_elements(actual: np.ndarray, expected: np.ndarray, allowed: Tolerance) -> Comparison:
    exact = expected.dtype.kind in "biu" and actual.dtype.kind in "biu"
    a, e = (actual, expected) if exact else (widened(actual), widened(expected))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        same = a == e
        if not exact:
            same |= np.isnan(a) & np.isnan(e)
        difference = np.where(same, 0.0, _distance(a, e))
        size = np.abs(widened(expected))
        relative = np.where(same, 0.0, difference / np.maximum(size, _TINY))
        scale = 0.0 if exact else spread_of(e)
        limit = allowed.absolute + allowed.relative * size + allowed.spread * scale
        # How far outside, in units of the limit; whatever is not finite on one side only is worst.
        excess = np.where(same, 0.0, difference / np.maximum(limit, _TINY))
        unequal_kind = ~same & ~(np.isfinite(difference) & np.isfinite(size))
        wrong = ~same & (unequal_kind | ~(difference <= limit))
        excess = np.where(unequal_kind, np.inf, excess)
    finite = np.isfinite(difference)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), expected.shape))
    count = int(wrong.sum())
    problem = ""
    together = root_mean_square(difference[finite])
    error = math.inf if unequal_kind.any() else together / scale if scale else 0.0
    if not count and allowed.spread and expected.size >= _MANY:
        most = root_mean_square(limit[finite]) * _TOGETHER
        if together > most:
            problem = (
                f"the values are off by {error:.1e} of their spread in the root mean square, "
                f"and {most / scale:.1e} is allowed"
            )
    if count:
        place = f" at {list(at)}" if at else ""
        problem = (
            f"{count} of {expected.size} values are off; the worst{place} is {actual[at]} "
            f"and should be {expected[at]}"
        )
    return Comparison(
        ok=not problem,
        problem=problem,
        max_abs=float(np.max(difference, initial=0.0, where=finite)),
        max_rel=float(np.max(relative, initial=0.0, where=finite & np.isfinite(relative))),
        worst=at,
        actual=_plain(actual[at]),
        expected=_plain(expected[at]),
        wrong=count,
        count=expected.size,
        tolerance=allowed,
        error=error,
    )


_TINY = float(np.finfo(np.float64).tiny)


def _distance(a: np.ndarray, e: np.ndarray) -> np.ndarray:
    """|a - e| as float64; of integers exactly, so that unequal ones are at least 1 apart."""
    if a.dtype.kind not in "biu":
        return np.asarray(np.abs(a - e), dtype=np.float64)
    if {a.dtype.kind, e.dtype.kind} == {"i", "u"}:
        return np.asarray(np.abs(a.astype(object) - e.astype(object)), dtype=np.float64)
    low, high = np.minimum(a, e), np.maximum(a, e)
    return np.asarray(high.astype(np.uint64) - low.astype(np.uint64), dtype=np.float64)


def _plain(value: Any) -> complex | float | int:
    item = value.item() if hasattr(value, "item") else value
    return item if isinstance(item, bool | int | float | complex) else float(item)


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """One golden call: the function, its outputs' names and how each compares."""

    signature: str
    names: tuple[str, ...]
    outputs: tuple[Comparison, ...]


@dataclass(frozen=True, kw_only=True)
class GoldenResult:
    """How a module's answers compare with the framework's, call by call."""

    calls: tuple[CallResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every output of every call is within the tolerance."""
        return all(output.ok for call in self.calls for output in call.outputs)

    @property
    def ties(self) -> int:
        """How many answers are another one that the framework's own rounding allows."""
        return sum(output.ties for call in self.calls for output in call.outputs)

    @property
    def max_abs(self) -> float:
        """The largest difference of all."""
        return max((o.max_abs for call in self.calls for o in call.outputs), default=0.0)

    @property
    def max_rel(self) -> float:
        """The largest relative difference of all."""
        return max((o.max_rel for call in self.calls for o in call.outputs), default=0.0)

    @property
    def worst(self) -> tuple[str, str, Comparison] | None:
        """The output furthest off: function, output's name, comparison. None without outputs."""
        found = [
            (call.signature, name, output)
            for call in self.calls
            for name, output in zip(call.names, call.outputs, strict=True)
        ]
        return max(found, key=lambda f: (not f[2].ok, f[2].wrong, f[2].max_abs), default=None)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "ok": self.ok,
            "max_abs": _json_number(self.max_abs),
            "max_rel": _json_number(self.max_rel),
            "calls": [
                {
                    "signature": call.signature,
                    "outputs": [
                        {"name": name} | output.to_json()
                        for name, output in zip(call.names, call.outputs, strict=True)
                    ],
                }
                for call in self.calls
            ],
        }


def check_golden(
    module: Module | LoadedModule | Path | str,
    golden: Golden,
    tolerance: Tolerance | None = None,
    *,
    device: str | Device | None = None,
    weights: Path | str | None = None,
) -> GoldenResult:
    """Make the golden calls in their order on fresh state, and compare every answer.

    A module that is loaded already is reset before and after.

    Raises:
        InputError: the golden answers are of another program.
        ModuleError, DeviceError: the module does not load or run.
    """
    if isinstance(module, LoadedModule):
        module.reset()
        try:
            return _check(module, golden, tolerance)
        finally:
            module.reset()
    with load(module, device=device, weights=weights) as loaded:
        return _check(loaded, golden, tolerance)


def _check(loaded: LoadedModule, golden: Golden, tolerance: Tolerance | None) -> GoldenResult:
    calls = []
    for call in golden.calls:
        if call.signature not in loaded.signatures:
            raise InputError(
                f"the golden answers call {call.signature}, which {loaded.module.path} has not",
                hint="use the golden answers that were exported with the program",
            )
        function = loaded[call.signature]
        outputs = function.call_flat(call.inputs)
        if len(outputs) != len(call.outputs):
            raise ModuleError(
                f"{call.signature} gives {len(outputs)} outputs and "
                f"the golden answers have {len(call.outputs)}",
                hint="export and compile the model again",
            )
        calls.append(
            CallResult(
                signature=call.signature,
                names=tuple(spec.name for spec in function.signature.outputs),
                outputs=compare_call(call, [output.numpy() for output in outputs], tolerance),
            )
        )
    return GoldenResult(calls=tuple(calls))


def compare_call(
    call: GoldenCall, answers: Sequence[np.ndarray], tolerance: Tolerance | None = None
) -> tuple[Comparison, ...]:
    """How answers to a golden call compare with the framework's, ties and loose ones known.

    Args:
        call: with as many outputs as there are answers.
        answers: what computed them does not matter.
        tolerance: how far they may be off; None for what the call and each type allow.
    """
    return tuple(
        compare(
            answer,
            expected,
            tolerance or _allowed(call, number),
            open_=call.open[number] if call.open else None,
            others=call.others[number] if call.others else None,
        )
        for number, (answer, expected) in enumerate(zip(answers, call.outputs, strict=True))
    )


def _allowed(call: GoldenCall, number: int) -> Tolerance | None:
    """What the golden answers themselves allow; None for the element type's default."""
    if not call.within:
        return None
    usual = Tolerance.of(DType.of(call.outputs[number].dtype))
    return replace(usual, absolute=max(usual.absolute, call.within[number]))
