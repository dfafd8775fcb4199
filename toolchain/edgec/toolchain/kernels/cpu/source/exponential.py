"""Powers of e of a vector of numbers that are not above 0, as softmax takes them.

The compiler's own form serves all of f32. Here the power of two is made of the exponent's bits,
the rest is a polynomial (1 + r + r^2 P(r), fitted for the least relative error, 3e-9), and what is
below the smallest normal number is 0. It is off by at most 1e-7 of its value; NaN stays NaN.
"""

import math

from edgec.toolchain.kernels.cpu.source.body import Body

__all__ = ["powers_of_e"]

_POLYNOMIAL = (1.0, 1.0, 0.49999994, 0.166665196, 0.0416683927, 0.00836878084, 0.00138144626)
_LEAST = -87.3365
_LN2 = (0.693359375, -2.12194440e-4)
"""The logarithm of 2 in two parts, the first with few enough bits for exact products."""
_ROUND = 12582912.0
"""1.5 * 2^23: what is added to it is rounded, and stands in its lowest bits."""
_ONE = 127 << 23
"""The bits of 1."""


def powers_of_e(body: Body, value: str, kind: str) -> str:
    """The name of e to the power of `value`, f32 or a vector of it, none of it above 0."""
    whole = kind.replace("f32", "i32")

    def bits(number: int) -> str:
        wide = f"dense<{number}>" if kind.startswith("vector") else str(number)
        return body.value(f"arith.constant {wide}", whole)

    shift = body.number(_ROUND, kind)
    shifted = body.multiply_add(value, body.number(1 / math.log(2), kind), shift, kind)
    twos = body.value(f"arith.subf {shifted}, {shift}", kind)
    rest = value
    for part in _LN2:
        rest = body.multiply_add(twos, body.number(-part, kind), rest, kind)
    total = body.number(_POLYNOMIAL[-1], kind)
    for coefficient in reversed(_POLYNOMIAL[:-1]):
        total = body.multiply_add(total, rest, body.number(coefficient, kind), kind)
    read = body.value(f"arith.bitcast {shifted}", f"{kind} to {whole}")
    high = body.value(f"arith.shli {read}, {bits(23)}", whole)
    scale = body.value(f"arith.addi {high}, {bits(_ONE)}", whole)
    scale = body.value(f"arith.bitcast {scale}", f"{whole} to {kind}")
    power = body.value(f"arith.mulf {total}, {scale}", kind)
    below = body.value(f"arith.cmpf olt, {value}, {body.number(_LEAST, kind)}", kind)
    truth = kind.replace("f32", "i1")
    return body.value(
        f"arith.select {below}, {body.number(0.0, kind)}, {power}", f"{truth}, {kind}"
    )
