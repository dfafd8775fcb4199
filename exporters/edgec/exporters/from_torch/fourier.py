"""PyTorch's Fourier transforms as StableHLO's, which torch-mlir does not write.

A transform along one axis is an operation of its own (`edgec::fourier`) in the graph, on real and
imaginary parts; it is cut out before the graph is lowered, and put back as `stablehlo.fft`.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["OPERATION", "FourierCut", "complex_to_complex", "complex_to_real", "real_to_complex"]

OPERATION = "edgec.fourier"
"""How the operation's name begins in a graph."""

_PARTS = ("real", "imag")
_FORWARD, _BACKWARD, _HALF, _WHOLE = "FFT", "IFFT", "RFFT", "IRFFT"

Pair = tuple[Any, Any]
"""Real and imaginary part."""


@dataclass(frozen=True, kw_only=True)
class FourierCut:
    """A transform along the last axis, which was cut out.

    Attributes:
        form: the name of StableHLO's `fft_type`.
        length: of the transform.
    """

    form: str
    length: int

    @classmethod
    def of(cls, node: Any) -> "FourierCut":
        """The cut of a node."""
        _, form, length = node.args
        return cls(form=form, length=length)

    @property
    def reads(self) -> int:
        """How many tensors it reads."""
        return 1 if self.form == _HALF else 2

    @property
    def writes(self) -> int:
        """How many tensors it writes."""
        return 1 if self.form == _WHOLE else 2

    def build(self, module: Any, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        """`stablehlo.fft` of one axis."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write

        value = operands[0] if self.reads == 1 else write.complex_(*operands)
        kind = types[0]
        if self.writes == 2:
            kind = write.tensor(kind.shape, ir.ComplexType.get(kind.element_type))
        described = {
            "fft_type": ir.Attribute.parse(f"#stablehlo<fft_type {self.form}>"),
            "fft_length": ir.DenseI64ArrayAttr.get([self.length]),
        }
        found = write.create("stablehlo.fft", kind, [value], described)
        return [found] if self.writes == 1 else [write.part(name, found) for name in _PARTS]


def complex_to_complex(x: Pair, dims: Sequence[int], normalization: int, forward: bool) -> Any:
    """`aten._fft_c2c`: a pair of a pair."""
    size = math.prod(x[0].shape[dim] for dim in dims)
    for dim in dims:
        x = _along(x, dim, _FORWARD if forward else _BACKWARD, x[0].shape[dim])
    return _scaled(x, _factor(normalization, size, done=not forward))


def real_to_complex(x: Any, dims: Sequence[int], normalization: int, onesided: bool) -> Any:
    """`aten._fft_r2c`: a pair of real numbers; the last of `dims` is cut to one half, if asked."""
    import torch

    size = math.prod(x.shape[dim] for dim in dims)
    *others, last = dims
    if onesided:
        found = _along((x,), last, _HALF, x.shape[last])
    else:
        found = _along((x, torch.zeros_like(x)), last, _FORWARD, x.shape[last])
    for dim in others:
        found = _along(found, dim, _FORWARD, x.shape[dim])
    return _scaled(found, _factor(normalization, size, done=False))


def complex_to_real(x: Pair, dims: Sequence[int], normalization: int, length: int) -> Any:
    """`aten._fft_c2r`: back from one half of the last of `dims`, `length` real numbers."""
    *others, last = dims
    size = math.prod([x[0].shape[dim] for dim in others]) * length
    for dim in others:
        x = _along(x, dim, _BACKWARD, x[0].shape[dim])
    # The half that is there may be longer than what the transform reads of it.
    half = length // 2 + 1
    if x[0].shape[last] != half:
        x = (x[0].narrow(last, 0, half), x[1].narrow(last, 0, half))
    (found,) = _along(x, last, _WHOLE, length)
    return _scaled((found,), _factor(normalization, size, done=True))[0]


def _factor(normalization: int, size: Any, *, done: bool) -> Any:
    """What is left to multiply by; StableHLO divides by the size on the way back (`done`)."""
    wanted = {0: 1.0, 1: 1 / math.sqrt(size), 2: 1 / size}[normalization]
    return wanted * size if done else wanted


def _scaled(parts: Any, factor: float) -> Any:
    return parts if factor == 1 else tuple(part * factor for part in parts)


def _along(parts: tuple[Any, ...], dim: int, form: str, length: int) -> Any:
    """The transform along one axis."""
    last = parts[0].ndim - 1
    turned = [part.transpose(dim, last) for part in parts]
    return tuple(part.transpose(dim, last) for part in _operation()(turned, form, length))


@functools.cache
def _operation() -> Any:
    import torch

    def fourier(parts: Sequence[torch.Tensor], form: str, length: int) -> list[torch.Tensor]:
        if form == _WHOLE:
            return [torch.fft.irfft(torch.complex(*parts), length).clone()]
        whole = {_FORWARD: torch.fft.fft, _BACKWARD: torch.fft.ifft}
        found = (
            torch.fft.rfft(parts[0], length)
            if form == _HALF
            else whole[form](torch.complex(*parts), length)
        )
        return [found.real.clone(), found.imag.clone()]

    made: Any = torch.library.custom_op(
        "edgec::fourier",
        fourier,
        mutates_args=(),
        schema="(Tensor[] parts, str form, int length) -> Tensor[]",
    )

    def empty(parts: Sequence[torch.Tensor], form: str, length: int) -> list[torch.Tensor]:
        *outer, size = parts[0].shape
        size = {_HALF: length // 2 + 1, _WHOLE: length}.get(form, size)
        return [parts[0].new_empty([*outer, size]) for _ in range(1 if form == _WHOLE else 2)]

    made.register_fake(empty)
    return made
