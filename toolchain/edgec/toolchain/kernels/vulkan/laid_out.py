"""Elements that lie anywhere in a tensor to a dispatch that writes them beside each other.

For weights, which lie in a file as their framework wrote them and are turned once, when a module is
loaded: the compiler makes a kernel for each size, most of them slow, and others that multiply with
the factors of a norm. Here one kernel serves all sizes.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.views import Digit, Strided, dense, identity, strided
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.kernels.vulkan.shaders import Shader

__all__ = [
    "AXES",
    "Axis",
    "LaidOut",
    "find_laid_out",
    "grid_of",
    "laid_out_here",
    "moved",
    "write_laid_out",
]

_LARGEST = 2**31
_ACROSS = 32768
"""Workgroups along x; Vulkan promises 65535."""
AXES = ("x", "y", "z", "w")
"""What kernels call the axes by which elements lie, the outermost first."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """How many elements, and from one to the next in the memory and in that of its factors."""

    size: int
    step: int
    scale: int


@dataclass(frozen=True, kw_only=True)
class LaidOut:
    """Where the elements of a value lie.

    Attributes:
        memory: in which tensor, dense.
        factor: the tensor whose elements they are multiplied with; None without one.
        start: the first element in each.
        axes: the value's, each in parts that have one step, the outermost first.
    """

    memory: Any
    factor: Any
    start: tuple[int, int]
    axes: tuple[tuple[Axis, ...], ...]

    @property
    def joined(self) -> list[Axis]:
        """All parts, neighbours that are one run joined."""
        found: list[Axis] = []
        for axis in (each for parts in self.axes for each in parts):
            last = found[-1] if found else None
            ends = (axis.step * axis.size, axis.scale * axis.size)
            if last is not None and (last.step, last.scale) == ends:
                axis = replace(axis, size=found.pop().size * axis.size)
            found.append(axis)
        return found


def find_laid_out(value: Any) -> LaidOut | None:
    """Where elements lie, seen through what moves them and one product with another tensor.

    Returns:
        None where steps do not say it.
    """
    view = moved(identity(value))
    for first, second in _products(view):
        axes = [_common(a, b) for a, b in zip(first.axes, second.axes, strict=True)]
        # What repeats is the factor.
        less = write.shape(second.value), write.shape(first.value)
        if None in axes or math.prod(less[0]) > math.prod(less[1]):
            continue
        return _made(first, second, axes)
    return _made(view, None, [_common(digits, ()) for digits in view.axes])


def laid_out_here(value: Any) -> LaidOut:
    """A value's elements in its own memory."""
    steps = dense(write.shape(value))
    axes = tuple(
        (Axis(size=size, step=step, scale=0),)
        for size, step in zip(write.shape(value), steps, strict=True)
    )
    return LaidOut(memory=value, factor=None, start=(0, 0), axes=axes)


def _made(
    view: Strided, factor: Strided | None, axes: Sequence[tuple[Axis, ...] | None]
) -> LaidOut | None:
    known = tuple(parts for parts in axes if parts is not None)
    if len(known) < len(axes) or math.prod(write.shape(view.value)) >= _LARGEST:
        return None
    return LaidOut(
        memory=view.value,
        factor=factor.value if factor else None,
        start=(view.start, factor.start if factor else 0),
        axes=known,
    )


def write_laid_out(
    kernel: Callable[[bool], Shader],
    found: LaidOut,
    axes: Sequence[Axis],
    sizes: Sequence[int],
    library: Library,
    threads: int | None = None,
) -> Any | Declined:
    """Dispatch a kernel that reads elements by up to four axes.

    Args:
        kernel: takes what `shaders.turn` does; with factors, or without.
        found: where they lie.
        axes: by which it takes them, the outermost first.
        sizes: of the result.
        library: the kernels.
        threads: how many do it; None for one an element.
    """
    if len(axes) > len(AXES):
        return Declined(reason=f"elements that lie by {len(axes)} axes")
    one = Axis(size=1, step=0, scale=0)
    four = [*[one] * (len(AXES) - len(axes)), *axes]
    many = threads or math.prod(axis.size for axis in four)
    shader = kernel(found.factor is not None)
    numbers = {"many": many, "start": found.start[0], "scale_start": found.start[1]}
    for name, axis in zip(AXES, four, strict=True):
        numbers |= {f"size_{name}": axis.size, f"step_{name}": axis.step}
        numbers |= {f"scale_{name}": axis.scale}
    return library.call(
        shader,
        grid_of(many, shader),
        {name: numbers[name] for name in shader.numbers},
        [found.memory, *([] if found.factor is None else [found.factor])],
        write.tensor(sizes, ir.F32Type.get()),
    )


def grid_of(many: int, shader: Shader) -> tuple[int, int, int]:
    """Workgroups along x, y and z for so many threads, more than Vulkan promises along one axis."""
    groups = math.ceil(many / shader.threads)
    across = min(groups, _ACROSS)
    return across, math.ceil(groups / across), 1


def moved(view: Strided) -> Strided:
    """A view followed back to where its elements lie as they are, each at a place by steps."""
    return strided(view, accept=lambda each: each.scale == 1.0 and not each.rolls)


def _products(view: Strided) -> Iterator[tuple[Strided, Strided]]:
    """The two sides of a product of two tensors, either first; nothing where it is none."""
    if isinstance(view.value.owner, ir.Block):
        return
    op = view.value.owner.operation
    if op.name == "stablehlo.multiply":
        left, right = (moved(replace(view, value=each)) for each in op.operands)
        yield left, right
        yield right, left


def _common(digits: Sequence[Digit], others: Sequence[Digit]) -> tuple[Axis, ...] | None:
    """An axis of two memories in parts that have one step in each; None if there are no such."""
    if len(others) > len(digits):
        turned = _common(others, digits)
        return turned and tuple(Axis(size=a.size, step=a.scale, scale=a.step) for a in turned)
    sizes = [digit.size for digit in digits]
    if len(others) < 2:
        # One run, or none, in as many parts as the other is.
        step = others[0].step if others else 0
        inside = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        others = [Digit(size=n, step=step * i) for n, i in zip(sizes, inside, strict=True)]
    if sizes != [digit.size for digit in others]:
        return None
    pairs = zip(digits, others, strict=True)
    return tuple(Axis(size=a.size, step=a.step, scale=b.step) for a, b in pairs)
