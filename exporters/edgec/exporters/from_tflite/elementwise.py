"""TensorFlow Lite's operators that work element by element, in real numbers."""

from typing import Any

from edgec.exporters.from_tflite.call import Call

__all__ = [
    "add",
    "add_n",
    "binary",
    "cast",
    "divide",
    "elu",
    "fake_quant",
    "gelu",
    "hard_swish",
    "leaky_relu",
    "logistic",
    "multiply",
    "prelu",
    "relu",
    "round_even",
    "rsqrt",
    "select",
    "select_v2",
    "square",
    "squared_difference",
    "subtract",
    "unary",
    "zeros_like",
]


def unary(name: str) -> Any:
    """The function of NumPy of this name, of one array."""
    return lambda call: getattr(call.xp, name)(call[0])


def binary(name: str) -> Any:
    """The function of NumPy of this name, of two arrays that broadcast."""
    return lambda call: getattr(call.xp, name)(call[0], call[1])


def add(call: Call) -> Any:
    """ADD, with the fused activation."""
    return call.activated(call[0] + call[1])


def subtract(call: Call) -> Any:
    """SUB, with the fused activation."""
    return call.activated(call[0] - call[1])


def multiply(call: Call) -> Any:
    """MUL, with the fused activation."""
    return call.activated(call[0] * call[1])


def divide(call: Call) -> Any:
    """DIV, with the fused activation; of integers towards zero, as in C."""
    from jax import lax

    if call.outputs[0].dtype.kind in "iu" and call.outputs[0].quantization is None:
        one, other = call.xp.broadcast_arrays(call[0], call[1])
        return call.activated(lax.div(one, other))
    return call.activated(call[0] / call[1])


def add_n(call: Call) -> Any:
    """ADD_N: the sum of all inputs."""
    total = call[0]
    for value in call.values[1:]:
        total = total + value
    return total


def squared_difference(call: Call) -> Any:
    """SQUARED_DIFFERENCE."""
    difference = call[0] - call[1]
    return difference * difference


def square(call: Call) -> Any:
    """SQUARE."""
    return call[0] * call[0]


def rsqrt(call: Call) -> Any:
    """RSQRT."""
    from jax import lax

    return lax.rsqrt(call[0])


def round_even(call: Call) -> Any:
    """ROUND: halves to the even neighbour."""
    return call.xp.round(call[0])


def logistic(call: Call) -> Any:
    """LOGISTIC."""
    from jax import lax

    return lax.logistic(call[0])


def relu(low: float | None, high: float | None) -> Any:
    """The RELU family: values cut at `low` and `high`."""
    return lambda call: call.xp.clip(call[0], low, high)


def elu(call: Call) -> Any:
    """ELU."""
    x = call[0]
    return call.xp.where(x > 0, x, call.xp.expm1(call.xp.minimum(x, 0)))


def leaky_relu(call: Call) -> Any:
    """LEAKY_RELU."""
    x = call[0]
    return call.xp.where(x > 0, x, x * call.option("alpha", 0.0))


def prelu(call: Call) -> Any:
    """PRELU: a slope for each channel."""
    x = call[0]
    return call.xp.where(x >= 0, x, x * call[1])


def hard_swish(call: Call) -> Any:
    """HARD_SWISH."""
    x = call[0]
    return x * call.xp.clip(x + 3, 0, 6) * (1 / 6)


def gelu(call: Call) -> Any:
    """GELU, exact or by tanh."""
    import jax

    return jax.nn.gelu(call[0], approximate=bool(call.option("approximate", False)))


def cast(call: Call) -> Any:
    """CAST: floats to integers towards zero; sizes stay what they are."""
    if call[0].dtype == object:
        return call[0]
    return call[0].astype(call.outputs[0].dtype)


def select(call: Call) -> Any:
    """SELECT: a condition of rank 1 chooses whole rows."""
    condition, one, other = call[0], call[1], call[2]
    if condition.ndim == 1 and one.ndim > 1:
        condition = condition.reshape(-1, *[1] * (one.ndim - 1))
    return call.xp.where(condition, one, other)


def select_v2(call: Call) -> Any:
    """SELECT_V2: all three broadcast."""
    return call.xp.where(call[0], call[1], call[2])


def zeros_like(call: Call) -> Any:
    """ZEROS_LIKE."""
    return call.xp.zeros_like(call[0])


def fake_quant(call: Call) -> Any:
    """FAKE_QUANT: real numbers on the grid of a quantisation, its zero moved onto a grid point."""
    low, high = float(call.option("min", 0.0)), float(call.option("max", 0.0))
    first = 1 if call.option("narrowRange", False) else 0
    last = 2 ** int(call.option("numBits", 8)) - 1
    if not low < high:
        call.refuse(f"of the range {low} to {high}")
    step = (high - low) / (last - first)
    zero = min(max(round(first - low / step), first), last)
    low, high = (first - zero) * step, (last - zero) * step
    steps = call.xp.floor((call.xp.clip(call[0], low, high) - low) / step + 0.5)
    return steps * step + low
