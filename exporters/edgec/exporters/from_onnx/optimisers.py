"""Steps of optimisers (`ai.onnx.preview.training`) in ONNX' usual operations.

A step takes a rate, how many steps were taken, and some tensors, their gradients and the
optimiser's own tensors for each; it gives new tensors, then new ones of the optimiser's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["DOMAIN", "RULES"]

DOMAIN = "ai.onnx.preview.training"
_F32 = 1
"""ONNX' number of f32."""

_Step = Callable[["_Maths", Mapping[str, Any], str, str, Sequence[str]], Sequence[str]]
"""Rate, count, and a tensor with all that belongs to it, to all of these anew."""


class _Maths:
    """Arithmetic of values and numbers."""

    def __init__(self, work: Rewriting) -> None:
        self.work = work

    def __call__(self, kind: str, *values: str | float) -> str:
        """An operation on values, or numbers in their place."""
        names = (v if isinstance(v, str) else self.work.number(v) for v in values)
        return self.work.node(kind, *names)


def _rule(step: _Step, own: int) -> Callable[[Rewriting, Any], bool]:
    """A rule for an optimiser that keeps so many tensors for each that it optimises."""

    def rule(work: Rewriting, node: Any) -> bool:
        rate, steps, *tensors = node.input
        count = len(tensors) // (own + 2)
        maths, given = _Maths(work), work.attributes(node)
        taken = work.node("Cast", steps, to=_F32)
        for number in range(count):
            found = step(maths, given, rate, taken, tensors[number::count])
            for name, value in zip(node.output[number::count], found, strict=True):
                work.node("Identity", value, output=name)
        return True

    return rule


def _regularised(maths: _Maths, given: Mapping[str, Any], value: str, gradient: str) -> str:
    return maths("Add", maths("Mul", value, given.get("norm_coefficient", 0.0)), gradient)


def _adagrad(
    maths: _Maths, given: Mapping[str, Any], rate: str, steps: str, tensors: Sequence[str]
) -> Sequence[str]:
    value, gradient, squares = tensors
    slower = maths("Add", maths("Mul", steps, given.get("decay_factor", 0.0)), 1.0)
    gradient = _regularised(maths, given, value, gradient)
    squares = maths("Add", squares, maths("Mul", gradient, gradient))
    root = maths("Add", maths("Sqrt", squares), given.get("epsilon", 1e-6))
    change = maths("Div", maths("Mul", maths("Div", rate, slower), gradient), root)
    return maths("Sub", value, change), squares


def _adam(
    maths: _Maths, given: Mapping[str, Any], rate: str, steps: str, tensors: Sequence[str]
) -> Sequence[str]:
    value, gradient, mean, squares = tensors
    alpha, beta = given.get("alpha", 0.9), given.get("beta", 0.999)
    gradient = _regularised(maths, given, value, gradient)
    mean = maths("Add", maths("Mul", mean, alpha), maths("Mul", gradient, 1 - alpha))
    squared = maths("Mul", gradient, gradient)
    squares = maths("Add", maths("Mul", squares, beta), maths("Mul", squared, 1 - beta))
    root = maths("Add", maths("Sqrt", squares), given.get("epsilon", 1e-6))
    # Both means begin at zero, which is made good but at step 0.
    wide = maths("Sqrt", maths("Sub", 1.0, maths("Pow", beta, steps)))
    corrected = maths(
        "Div", maths("Mul", rate, wide), maths("Sub", 1.0, maths("Pow", alpha, steps))
    )
    rate = maths("Where", maths("Greater", steps, 0.0), corrected, rate)
    value = maths("Sub", value, maths("Mul", rate, maths("Div", mean, root)))
    return maths("Mul", value, 1 - given.get("norm_coefficient_post", 0.0)), mean, squares


def _momentum(
    maths: _Maths, given: Mapping[str, Any], rate: str, steps: str, tensors: Sequence[str]
) -> Sequence[str]:
    value, gradient, moment = tensors
    gradient = _regularised(maths, given, value, gradient)
    share = maths("Where", maths("Greater", steps, 0.0), given["beta"], 1.0)
    moment = maths("Add", maths("Mul", moment, given["alpha"]), maths("Mul", share, gradient))
    change = moment
    if given["mode"] == "nesterov":
        change = maths("Add", gradient, maths("Mul", moment, given["alpha"]))
    return maths("Sub", value, maths("Mul", rate, change)), moment


RULES: Mapping[str, Callable[[Rewriting, Any], bool]] = {
    "Adagrad": _rule(_adagrad, 1),
    "Adam": _rule(_adam, 2),
    "Momentum": _rule(_momentum, 1),
}
