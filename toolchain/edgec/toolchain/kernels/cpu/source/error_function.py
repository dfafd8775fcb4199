"""The error function of a vector, as a quotient of two polynomials.

The compiler takes `math.erf` apart into two branches with an exponential, some 60 cycles for a
vector. Here it is x P(x^2) / Q(x^2) up to where f32 knows nothing but 1, fitted for the least
relative error (2e-8); computed in f32 it is off by at most 4e-7 of its value, everywhere.
"""

from collections.abc import Callable, Sequence

from edgec.toolchain.kernels.cpu.source.literals import literal

__all__ = ["error_function"]

_TOP = (1.12837911, 0.190595105, 0.0527694821, 0.00377260917, 0.000284845097, 2.0460202e-06)
_BOTTOM = (1.0, 0.502243221, 0.114183284, 0.014983316, 0.00116387254, 3.80477795e-05)
_END = 3.925
"""From here on erf is 1 in f32."""
_MAY_FUSE = "fastmath<contract>"


def error_function(result: str, value: str, kind: str, fresh: Callable[[], str]) -> list[str]:
    """The lines that compute `result`, a vector of f32 of the type `kind`."""
    lines: list[str] = []

    def line(text: str) -> str:
        name = fresh()
        lines.append(f"{name} = {text} : {kind}")
        return name

    def number(value: float) -> str:
        return line(f"arith.constant dense<{literal(value)}>")

    def polynomial(coefficients: Sequence[float]) -> str:
        total = number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            product = line(f"arith.mulf {total}, {square} {_MAY_FUSE}")
            total = line(f"arith.addf {product}, {number(coefficient)} {_MAY_FUSE}")
        return total

    square = line(f"arith.mulf {value}, {value}")
    top = line(f"arith.mulf {value}, {polynomial(_TOP)}")
    inside = line(f"arith.divf {top}, {polynomial(_BOTTOM)}")
    size = line(f"math.absf {value}")
    end = line(f"math.copysign {number(1.0)}, {value}")
    beyond = fresh()
    truth = kind.replace("f32", "i1")
    lines.append(f"{beyond} = arith.cmpf ogt, {size}, {number(_END)} : {kind}")
    lines.append(f"{result} = arith.select {beyond}, {end}, {inside} : {truth}, {kind}")
    return lines
