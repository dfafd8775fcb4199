"""What follows a product element by element as a GPU's kernels do it before they store.

They all finish in one order: bias, activation, scale, another tensor, clip. What a kernel cannot do
stays with the compiler, after the longest part that it can.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgec.toolchain.ir.rows import is_widening, unwidened
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.longest import longest, say_cut_short
from edgec.toolchain.kernels.spec import Answers, Declined
from edgec.toolchain.match.activation import Clip, Gate, activation, bounds, gate_value, is_identity
from edgec.toolchain.match.description import Array, Description, validate
from edgec.toolchain.match.expression import Operand, Source, Step, pieces
from edgec.toolchain.match.tail import Tail, find_tails

__all__ = ["Finish", "find_finish"]

_GATES = {
    Gate.GELU_TANH: 1,
    Gate.GELU: 2,
    Gate.SILU: 3,
    Gate.SIGMOID: 4,
    Gate.TANH: 5,
    Gate.HARD_SWISH: 6,
    Gate.HARD_SIGMOID: 7,
}
"""The number of a `gate` of the kernels."""
_RELU = Clip(low=0.0)


@dataclass(frozen=True, kw_only=True)
class Finish(Description):
    """What a kernel does after its sum, in this order.

    Attributes:
        total: the sums.
        columns: how long a row of them is.
        bias: one number a column, or None.
        gate: an activation, or None.
        scale: one factor a column, or None.
        other: a tensor added after that, or None.
        clip: bounds and a slope at the end, or None.
        is_early: the clip comes before the other tensor.
        last: the value that is stored; the product's own if nothing follows.
    """

    total: Any
    columns: int
    bias: Any = None
    gate: Gate | None = None
    scale: Any = None
    other: Any = None
    clip: Clip | None = None
    is_early: bool = False
    last: Any

    @property
    def what(self) -> int:
        """The bits that tell the kernel; see `finish.py` and `finish.glsl`."""
        wide = str(self.last.type.element_type) == "f32"
        relu = self.clip == _RELU and not self.is_early
        return (
            (self.bias is not None)
            | (self.other is not None) << 1
            | wide << 2
            | relu << 3
            | (self.clip is not None and not relu) << 4
            | self.is_early << 5
            | (self.scale is not None) << 6
            | (_GATES[self.gate] if self.gate else 0) << 8
        )

    @property
    def numbers(self) -> list[int]:
        """The clip's slope and bounds, the bits of each as f32."""
        clip = self.clip or Clip()
        # A bound that is not there is one that no f32 is beyond.
        return [bits(_finite(number)) for number in (clip.slope, clip.low, clip.high)]

    @property
    def folded(self) -> dict[str, int]:
        """The same by the names of a kernel's parameters."""
        return {
            "what": self.what,
            **dict(zip(("clip_slope", "clip_low", "clip_high"), self.numbers, strict=True)),
        }

    @property
    def operands(self) -> tuple[Any, ...]:
        """The sums, and what else is read."""
        found = (self.total, self.bias, self.scale, self.other)
        return tuple(v for v in found if v is not None)

    def reads(self, unread: Any) -> dict[str, Any]:
        """What a kernel reads for it by the names of its parameters; `unread` for the rest."""
        given = {"bias": self.bias, "scale": self.scale, "other": self.other}
        return {name: unread if value is None else value for name, value in given.items()}

    @property
    def results(self) -> tuple[Any, ...]:
        """What is stored."""
        return (self.last,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Bias, activation, scale, other tensor and clip in their order."""
        value = inputs[0].reshape(-1, self.columns)
        if self.bias is not None:
            value = value + inputs[1].reshape(1, self.columns)
        if self.gate is not None:
            value = gate_value(self.gate, value)
        if self.scale is not None:
            value = value * inputs[1 + (self.bias is not None)].reshape(1, self.columns)
        if self.clip is not None and self.is_early:
            value = self.clip.value(value)
        if self.other is not None:
            value = value + inputs[-1].reshape(-1, self.columns)
        if self.clip is not None and not self.is_early:
            value = self.clip.value(value)
        return (np.asarray(value).reshape(shape(self.last)),)


def find_finish(value: Any, element: Any, columns: int, answers: Answers) -> Finish:
    """The longest tail of a sum that a kernel of `element` type does.

    Rounding in between is left out: the kernel keeps f32 until it stores. Why it does no longer
    one, is kept in `answers`.
    """

    def taken(tail: Tail) -> Finish | Declined:
        return _finish(tail, element)

    found, why = longest(find_tails(value, columns, narrow=True), taken)
    validate(found, "tail")
    say_cut_short(found.last, why, answers)
    return found


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A tensor that is added, a row of factors, or steps over the newest value alone."""

    added: Operand | None = None
    factor: Operand | None = None
    steps: tuple[Step, ...] = field(default=())


def _finish(tail: Tail, element: Any) -> Finish | Declined:
    finish = Finish(total=tail.total, columns=tail.columns, last=tail.value)
    if not tail.operations:
        return finish
    # Narrow values are cheaper to store; and only these two types are stored.
    kind = str(tail.value.type.element_type)
    if kind not in (str(element), "f32"):
        return Declined(reason=f"a result of {kind}")
    if is_widening(tail.operations[-1]):
        return Declined(reason="")
    parts = _parts(tail)
    if isinstance(parts, Declined):
        return parts
    for part in parts:
        following = _with(finish, part, tail, element)
        if isinstance(following, Declined):
            return following
        finish = following
    return finish


def _parts(tail: Tail) -> list[_Part] | Declined:
    """The steps as parts in order, what is over one value joined."""
    found: list[_Part] = []
    for piece in pieces(tail.steps):
        outside = [o for step in piece for o in step.operands if _is_outside(o)]
        if not outside:
            if found and found[-1].added is None and found[-1].factor is None:
                found[-1] = _Part(steps=_joined(found[-1].steps, piece))
            else:
                found.append(_Part(steps=piece))
        elif len(piece) == 1 and piece[0].name == "add" and len(outside) == 1:
            found.append(_Part(added=outside[0]))
        elif _is_scale(piece, outside):
            found.append(_Part(factor=outside[0]))
        else:
            names = sorted({step.name for step in piece if any(map(_is_outside, step.operands))})
            return Declined(reason=f"{' and '.join(names)} with another tensor")
    return [
        part
        for part in found
        if part.added is not None or part.factor is not None or not is_identity(part.steps)
    ]


def _is_scale(piece: tuple[Step, ...], outside: list[Operand]) -> bool:
    row = len(outside) == 1 and outside[0].source is Source.ROW
    return row and len(piece) == 1 and piece[0].name == "multiply"


def _is_outside(operand: Operand) -> bool:
    return operand.source in (Source.ROW, Source.TENSOR)


def _joined(first: tuple[Step, ...], second: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps over the value of other steps."""

    def moved(operand: Operand) -> Operand:
        if operand.source is Source.SUM:
            return Operand(source=Source.STEP, number=len(first) - 1)
        if operand.source is Source.STEP:
            return replace(operand, number=operand.number + len(first))
        return operand

    return (
        *first,
        *(replace(s, operands=tuple(moved(o) for o in s.operands)) for s in second),
    )


def _with(finish: Finish, part: _Part, tail: Tail, element: Any) -> Finish | Declined:
    """A finish with one more part."""
    if part.added is not None:
        return _with_tensor(finish, part.added, tail, element)
    if part.factor is not None:
        row = tail.rows[int(part.factor.number)]
        if row.type.element_type != element:
            return Declined(reason=f"a scale of {row.type.element_type}")
        if any(v is not None for v in (finish.scale, finish.other, finish.clip)):
            return Declined(reason="a scale after something else")
        if finish.bias is not None and row == finish.bias:
            return Declined(reason="a scale that is the bias, too")
        return replace(finish, scale=row)
    if finish.clip is not None:
        return Declined(reason="an activation after another")
    is_last = finish.other is not None or finish.scale is not None
    for cut in _cuts(part.steps):
        before, after = cut
        gate = activation(before) if before else None
        clip = bounds(after) if after else None
        if (before and gate is None) or (after and clip is None):
            continue
        if gate is not None and (is_last or finish.gate is not None):
            continue
        return replace(finish, gate=gate or finish.gate, clip=clip)
    names = sorted({step.name for step in part.steps})
    return Declined(reason=f"a function of {', '.join(names)}")


def _cuts(steps: tuple[Step, ...]) -> list[tuple[tuple[Step, ...], tuple[Step, ...]]]:
    """Steps over one value cut in two, in every way: the first over it, the second over the cut."""
    found: list[tuple[tuple[Step, ...], tuple[Step, ...]]] = []
    whole = pieces(steps)
    for cut in range(len(whole), -1, -1):
        halves: list[tuple[Step, ...]] = []
        for group in (whole[:cut], whole[cut:]):
            made: tuple[Step, ...] = ()
            for piece in group:
                made = _joined(made, piece) if made else piece
            halves.append(made)
        first, second = halves
        found.append((first, () if second and is_identity(second) else second))
    return found


def _with_tensor(finish: Finish, added: Operand, tail: Tail, element: Any) -> Finish | Declined:
    place = int(added.number)
    if added.source is Source.ROW:
        row = tail.rows[place]
        if row.type.element_type != element:
            return Declined(reason=f"a bias of {row.type.element_type}")
        # Another tensor may come first: sums do not mind their order.
        before = (finish.bias, finish.gate, finish.scale, finish.clip)
        if any(v is not None for v in before):
            return Declined(reason="a bias after something else")
        return replace(finish, bias=row)
    other = unwidened(tail.tensors[place])
    if other.type.element_type != element:
        return Declined(reason=f"another tensor of {other.type.element_type}")
    if finish.other is not None:
        return Declined(reason="two tensors added")
    return replace(finish, other=other, is_early=finish.clip is not None)


def _finite(number: float) -> float:
    return number if math.isfinite(number) else math.copysign(sys.float_info.max, number)
