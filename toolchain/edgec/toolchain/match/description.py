"""What every description of a piece of a program can say of itself, and the check of it.

A matcher reads a description from operations; a device's kernel takes their place. Both could be
wrong alike wherever the matcher is, on every device and in silence. So a description says what it
means in NumPy, and `validate` computes the operations themselves beside it, on random values.

To join, a frozen dataclass inherits from `Description` and gives three things:

    @dataclass(frozen=True, kw_only=True)
    class Attention(Description):
        ...
        @property
        def operands(self) -> tuple[Any, ...]:      # the `ir.Value`s that its meaning reads
            return (self.query.value, self.key.value, self.mask)

        @property
        def results(self) -> tuple[Any, ...]:       # the `ir.Value`s whose place a kernel takes
            return (self.value,)

        def reference(self, *inputs: Array) -> tuple[Array, ...]:   # numbers of `operands`, in
            ...                                                     # order; those of `results`

    and the code that places a kernel calls, before it replaces anything:

        validate(attention, "attention")

`reference` works from the description's fields alone (views, scales, axes), never from the
operations: it is what a kernel would compute. Numbers arrive and are compared in f64, whatever the
type in the program; integers and truth values as they are. An operand may take any value; one
that has to be special (a mask that leaves something, a variance above zero) is drawn by the
description itself: `inputs`. `validate` does nothing unless it runs inside of `validating()`
(`match.validation`), which is what `edgec compile --validate` and all tests do.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from iree.compiler import ir

from edgec.runtime.errors import CompileError
from edgec.toolchain.ir.evaluate import NotEvaluated, NotNamed, between, dtype_of, evaluate
from edgec.toolchain.ir.places import source_line
from edgec.toolchain.ir.read import convolution_layout, numbers_of, shape_of
from edgec.toolchain.match.expression import Array
from edgec.toolchain.match.validation import being_compared

__all__ = ["Array", "Description", "draw", "validate"]

_CLOSE = {"f16": 4e-3, "bf16": 3e-2}
"""What constants rounded to a type may change; for wider ones 2e-6."""
_MOST_ELEMENTS = 40_000_000
_MOST_WORK = 4e9


class Description(Protocol):
    """What a piece of a program computes; see the module for how to write one."""

    @property
    def operands(self) -> tuple[Any, ...]:
        """The `ir.Value`s that it reads."""

    @property
    def results(self) -> tuple[Any, ...]:
        """The `ir.Value`s that it computes."""

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The numbers of `results` from those of `operands`."""

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Numbers for `operands` to compare on; wide ones unless a description knows better."""
        return tuple(draw(value, rng) for value in self.operands)


def draw(value: Any, rng: np.random.Generator) -> Array:
    """Random numbers for a value: floats from small to some hundreds, small integers, truths."""
    sizes = [size or 0 for size in shape_of(value)]
    kind = np.dtype(dtype_of(value))
    if kind == np.bool_:
        return np.asarray(rng.random(sizes) < 0.5)
    if kind.kind in "iu":
        return np.asarray(rng.integers(0, 8, sizes).astype(kind))
    scales = rng.choice([0.1, 1.0, 1.0, 10.0, 100.0], sizes)
    return np.asarray(rng.standard_normal(sizes) * scales)


def validate(description: Description, what: str) -> None:
    """Compare a description with the operations that it describes, inside of `validating()`.

    Args:
        description: what a kernel is about to take the place of.
        what: what it is, for messages (`attention`).

    Raises:
        CompileError: the two differ: the match is wrong.
    """
    current = being_compared()
    if current is None:
        return
    first = description.results[0].owner
    where = None if isinstance(first, ir.Block) else source_line(first.operation)
    try:
        difference = _compare(description)
    except NotEvaluated as error:
        current.left.append(f"{what}{f' at {where}' if where else ''}: {error}")
        return
    except NotNamed as error:
        difference = f"they read {error}"
    if difference is not None:
        raise CompileError(
            f"edgec took operations for {what} that compute something else: {difference}",
            where=where,
            hint="leave out the pass that places it with --disable-pass, and please report this",
        )
    current.same[what] = current.same.get(what, 0) + 1


def _compare(description: Description) -> str | None:
    """How the two differ, if they do."""
    operands, results = description.operands, description.results
    piece = between(results, operands)
    values = [*operands, *(value for op in piece for value in op.results)]
    if sum(math.prod(size or 0 for size in shape_of(v)) for v in values) > _MOST_ELEMENTS:
        raise NotEvaluated("too many elements to compare")
    if sum(_work(op) for op in piece) > _MOST_WORK:
        raise NotEvaluated("too much work to compare")
    drawn = dict(zip(operands, description.inputs(np.random.default_rng(0)), strict=True))
    inputs = [drawn[value] for value in operands]  # one that is read twice has one number
    difference = _difference_on(description, inputs, values)
    if difference is not None:
        follows = _consistent(operands, inputs)
        if follows is not None:
            return _difference_on(description, follows, values)
    return difference


def _difference_on(
    description: Description, inputs: Sequence[Array], values: Sequence[Any]
) -> str | None:
    wanted = evaluate(description.results, dict(zip(description.operands, inputs, strict=True)))
    with np.errstate(all="ignore"):
        got = description.reference(*inputs)
    kinds = [str(v.type.element_type) for v in values]
    close = max((_CLOSE.get(kind, 2e-6) for kind in kinds), default=2e-6)
    for right, found in zip(wanted, got, strict=True):
        difference = _difference(right, np.asarray(found), close)
        if difference is not None:
            return difference
    return None


def _consistent(operands: Sequence[Any], inputs: Sequence[Array]) -> list[Array] | None:
    """Numbers of operands of which some follow from the others; None where none does.

    A description may read what is computed from something else that it reads: keys through
    their product, values behind it. It has to hold for numbers that belong together.
    """
    known = dict(zip(operands, inputs, strict=True))
    is_other = False
    for operand in operands:
        others = [value for value in operands if value != operand]
        try:
            piece = between((operand,), others)
            if sum(_work(op) for op in piece) > _MOST_WORK:
                continue
            if any(value in others for op in piece for value in op.operands):
                known[operand] = evaluate((operand,), {v: known[v] for v in others})[0]
                is_other = True
        except (NotEvaluated, NotNamed):
            continue
    return list(known.values()) if is_other else None


def _difference(right: Array, found: Array, close: float) -> str | None:
    if right.shape != found.shape:
        return f"of shape {list(found.shape)} instead of {list(right.shape)}"
    with np.errstate(all="ignore"):
        same = (right == found) | (np.isnan(right) & np.isnan(found))
        near = np.abs(right - found) <= close * (1 + np.abs(right))
    wrong = ~(same | near)
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return (
        f"{float(found[at]):.6g} instead of {float(right[at]):.6g}, "
        f"and {int(wrong.sum())} of {wrong.size} elements are off"
    )


def _work(op: Any) -> float:
    """Roughly how many operations of a product or convolution are to be done."""
    if op.name == "stablehlo.convolution":
        outputs = _sizes(op.operands[1])[convolution_layout(op)[1].index("o")]
        inside = math.prod(_sizes(op.operands[1])) // max(outputs, 1)
    elif op.name == "stablehlo.dot_general":
        numbers = numbers_of(op.attributes["dot_dimension_numbers"])
        sizes = _sizes(op.operands[0])
        inside = math.prod(sizes[axis] for axis in numbers.get("lhs_contracting_dimensions", ()))
    else:
        return 0.0
    return 2.0 * math.prod(_sizes(op.results[0])) * inside


def _sizes(value: Any) -> Sequence[int]:
    return [size or 0 for size in shape_of(value)] or [1]
