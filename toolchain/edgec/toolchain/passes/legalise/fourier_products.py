"""Fourier transforms of any kind and length as matrix products."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["FourierProducts"]

_DIRECT = 128
_PRIME = 512

Pair = tuple[Any, Any | None]
"""Real and imaginary parts, both of shape (rows, length); None for zeros."""


@dataclass(frozen=True, kw_only=True)
class FourierProducts:
    """`fft`, `ifft`, `rfft` and `irfft` become products with constant matrices.

    iree-compile 3.13 takes lengths that are powers of two only, refuses them in f64, and its
    SPIR-V gives wrong numbers. Lengths up to 128 are one product with the transform's matrix.
    Longer ones are split into two factors, with a rotation between the two products (so that
    1000 points are products with 25 and 40 columns); a prime beyond 512 is a convolution
    (Bluestein), made of transforms of a power of two. Matrices are computed in f64.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 78 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 0 without.
    """

    name = "fourier-products"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "FourierProducts | None":
        """For programs in StableHLO with a Fourier transform."""
        return cls() if "stablehlo.fft" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many transforms."""
        return rewrite_each(module, ["stablehlo.fft"], _transform)


def _transform(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    value, result = op.operands[0], op.results[0]
    form = str(op.attributes["fft_type"]).rstrip(">").split()[-1]
    lengths = graph.integers(op, "fft_length")
    rank = len(graph.shape(value))
    if 0 in graph.shape(result) or 0 in graph.shape(value):
        return None
    kind = graph.element(value)
    if isinstance(kind, ir.ComplexType):
        pair: Pair = (graph.part("real", value), graph.part("imag", value))
    else:
        pair = (value, None)
    axes = list(range(rank - len(lengths), rank))
    inverse = form in ("IFFT", "IRFFT")
    whole = axes if form in ("FFT", "IFFT") else axes[:-1]
    if form == "RFFT":
        pair = _along(pair, axes[-1], lambda p: _real_to_half(p, lengths[-1]))
    for axis in whole:
        pair = _along(pair, axis, lambda p: _transformed(p, inverse=inverse))
    if form == "IRFFT":
        (real, _) = _along(pair, axes[-1], lambda p: _half_to_real(p, lengths[-1]))
        return [real]
    real, imaginary = pair
    if imaginary is None:
        imaginary = graph.fill(0, graph.shape(real), graph.element(real))
    return [graph.complex_(real, imaginary)]


def _along(pair: Pair, axis: int, work: Any) -> Pair:
    """Do the work on rows along an axis."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(pair[0])
    order = [a for a in range(len(sizes)) if a != axis] + [axis]
    back = [order.index(a) for a in range(len(sizes))]
    outer = [sizes[a] for a in order[:-1]]

    def rows(value: Any) -> Any:
        return graph.reshape(graph.transpose(value, order), [math.prod(outer), sizes[axis]])

    def whole(value: Any) -> Any:
        length = graph.shape(value)[1]
        return graph.transpose(graph.reshape(value, [*outer, length]), back)

    real, imaginary = work((rows(pair[0]), None if pair[1] is None else rows(pair[1])))
    return whole(real), None if imaginary is None else whole(imaginary)


def _times(pair: Pair, matrix: np.ndarray) -> Pair:
    """Rows times a complex matrix of shape (inputs, outputs)."""
    from edgec.toolchain.ir import write as graph

    real, imaginary = pair
    kind = graph.element(real)
    outputs = matrix.shape[1]
    if imaginary is None:
        joined, stacked = real, np.concatenate([matrix.real, matrix.imag], 1)
    else:
        joined = graph.concatenate([real, imaginary], 1)
        stacked = np.block([[matrix.real, matrix.imag], [-matrix.imag, matrix.real]])
    result = graph.product(joined, _constant(stacked, kind), ([1], [0]))
    rows = graph.shape(real)[0]
    return (
        graph.slice_(result, [0, 0], [rows, outputs]),
        graph.slice_(result, [0, outputs], [rows, 2 * outputs]),
    )


def _constant(values: np.ndarray, kind: Any) -> Any:
    from edgec.toolchain.ir import write as graph

    return graph.constant(values.astype(np.float64 if str(kind) == "f64" else np.float32), kind)


@cache
def _matrix(length: int, sign: int) -> np.ndarray:
    """`exp(sign 2 pi i j k / length)`; the exponents are reduced first, for accuracy."""
    count = np.arange(length)
    turns: np.ndarray = sign * 2j * np.pi * (np.outer(count, count) % length) / length
    return np.asarray(np.exp(turns))


def _transformed(pair: Pair, *, inverse: bool, scaled: bool = True) -> Pair:
    """The transform of each row."""
    from edgec.toolchain.ir import write as graph

    length = graph.shape(pair[0])[1]
    sign = 1 if inverse else -1
    scale = 1 / length if inverse and scaled else 1.0
    if length == 1:
        return pair
    first = _factor(length)
    if length <= _DIRECT or (first == 1 and length <= _PRIME):
        return _times(pair, _matrix(length, sign) * scale)
    if first == 1:
        return _chirped(pair, sign, scale)
    return _split(pair, first, sign, scale)


def _factor(length: int) -> int:
    """The largest factor up to the square root; 1 for a prime."""
    return next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)


def _split(pair: Pair, first: int, sign: int, scale: float) -> Pair:
    """Cooley and Tukey: `x[a * second + b]`, over a, rotated, over b, to `y[c + first * d]`."""
    from edgec.toolchain.ir import write as graph

    rows, length = graph.shape(pair[0])
    second = length // first
    inverse = sign == 1

    def each(value: Any, work: Any) -> Any:
        return None if value is None else work(value)

    def columns(value: Any) -> Any:
        apart = graph.reshape(value, [rows, first, second])
        return graph.reshape(graph.transpose(apart, [0, 2, 1]), [rows * second, first])

    inner = _transformed((columns(pair[0]), each(pair[1], columns)), inverse=inverse, scaled=False)

    def crossed(value: Any) -> Any:
        apart = graph.reshape(value, [rows, second, first])
        return graph.reshape(graph.transpose(apart, [0, 2, 1]), [rows, length])

    turn = np.exp(
        sign * 2j * np.pi * np.outer(np.arange(first), np.arange(second)).ravel() / length
    )
    real, imaginary = _rotated((crossed(inner[0]), each(inner[1], crossed)), turn * scale)
    outer = _transformed(
        tuple(graph.reshape(v, [rows * first, second]) for v in (real, imaginary)),
        inverse=inverse,
        scaled=False,
    )

    def ordered(value: Any) -> Any:
        apart = graph.reshape(value, [rows, first, second])
        return graph.reshape(graph.transpose(apart, [0, 2, 1]), [rows, length])

    return ordered(outer[0]), each(outer[1], ordered)


def _rotated(pair: Pair, turn: np.ndarray) -> tuple[Any, Any]:
    """Rows times complex numbers, elementwise."""
    from edgec.toolchain.ir import write as graph

    real, imaginary = pair
    sizes, kind = graph.shape(real), graph.element(real)
    cosine, sine = (
        graph.broadcast(_constant(part, kind), sizes, [1]) for part in (turn.real, turn.imag)
    )
    if imaginary is None:
        return graph.binary("multiply", real, cosine), graph.binary("multiply", real, sine)
    return (
        graph.binary(
            "subtract",
            graph.binary("multiply", real, cosine),
            graph.binary("multiply", imaginary, sine),
        ),
        graph.binary(
            "add",
            graph.binary("multiply", real, sine),
            graph.binary("multiply", imaginary, cosine),
        ),
    )


def _chirped(pair: Pair, sign: int, scale: float) -> Pair:
    """Bluestein: a transform of prime length as a convolution of a longer, even one."""
    from edgec.toolchain.ir import write as graph

    rows, length = graph.shape(pair[0])
    longer = 1 << (2 * length - 1).bit_length()
    squares = np.arange(length) ** 2 % (2 * length)
    chirp = np.exp(sign * 1j * np.pi * squares / length)
    answer = np.zeros(longer, np.complex128)
    answer[:length] = np.conj(chirp)
    answer[-length + 1 :] = np.conj(chirp[1:])[::-1]
    filler = graph.fill(0, (), graph.element(pair[0]))
    turned = _rotated(pair, chirp)
    padded = tuple(graph.pad(v, filler, [0, 0], [0, longer - length]) for v in turned)
    there = _transformed(padded, inverse=False)
    back = _transformed(_rotated(there, np.fft.fft(answer)), inverse=True)
    cut = tuple(graph.slice_(v, [0, 0], [rows, length]) for v in back if v is not None)
    return _rotated((cut[0], cut[1]), chirp * scale)


def _real_to_half(pair: Pair, length: int) -> Pair:
    """The first half of the transform of real rows."""
    from edgec.toolchain.ir import write as graph

    half = length // 2 + 1
    if length <= _DIRECT:
        return _times(pair, _matrix(length, -1)[:, :half])
    rows = graph.shape(pair[0])[0]
    real, imaginary = _transformed(pair, inverse=False)
    return graph.slice_(real, [0, 0], [rows, half]), graph.slice_(imaginary, [0, 0], [rows, half])


def _half_to_real(pair: Pair, length: int) -> Pair:
    """Real rows whose transform begins with these; the other half is its mirror image."""
    from edgec.toolchain.ir import write as graph

    real, imaginary = pair
    rows, half = graph.shape(real)[0], length // 2 + 1
    real = graph.slice_(real, [0, 0], [rows, half])
    imaginary = (
        graph.fill(0, (rows, half), graph.element(real))
        if imaginary is None
        else graph.slice_(imaginary, [0, 0], [rows, half])
    )
    if length <= _DIRECT:
        weights = np.full((half, 1), 2.0)
        weights[0] = 1
        if length % 2 == 0:
            weights[-1] = 1
        matrix = _matrix(length, 1)[:half] * weights / length
        joined = graph.concatenate([real, imaginary], 1)
        stacked = _constant(np.concatenate([matrix.real, -matrix.imag]), graph.element(real))
        return graph.product(joined, stacked, ([1], [0])), None
    mirrored = length - half

    def mirror(value: Any) -> Any:
        from iree.compiler import ir

        rest = graph.slice_(value, [0, 1], [rows, mirrored + 1])
        axes = ir.DenseI64ArrayAttr.get([1])
        return graph.create("stablehlo.reverse", rest.type, [rest], {"dimensions": axes})

    whole = (
        graph.concatenate([real, mirror(real)], 1),
        graph.concatenate([imaginary, graph.unary("negate", mirror(imaginary))], 1),
    )
    return _transformed(whole, inverse=True)[0], None
