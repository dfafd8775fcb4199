"""Sizes that a model file leaves open: those of its examples, and a word on what stays fixed.

A program has fixed sizes but for those that are asked to be dynamic; who gave no example inputs
does not know which were taken.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence

from edgec.exporters.dynamic import Dynamic
from edgec.runtime.errors import EdgecError
from edgec.runtime.signature import Dim

__all__ = ["INNER", "example_shape", "say_fixed", "with_guesses"]

INNER = (64, 32, 128, 224, 256, 512, 1024)
"""What an open dimension is tried as, other than the leading one, which is 1."""

_LOG = logging.getLogger("edgec.exporters")

Opened = Sequence[int | str | None]
"""A shape as the file has it: an open dimension is its name there, or None."""


def example_shape(
    name: str, opened: Opened, size: int, dynamic: Dynamic, *, leading: Sequence[str | None] = ()
) -> tuple[int, ...]:
    """The shape of an example: 1 for the leading open dimension, `size` for others.

    Each is moved into the range in which it is asked to be dynamic.

    Args:
        name: the input's name.
        opened: its shape as the file has it.
        size: for open dimensions other than the leading one.
        dynamic: what is asked.
        leading: names of dimensions that lead in some input.
    """
    return tuple(
        said
        if isinstance(said, int)
        else _within(dynamic, name, axis, len(opened), 1 if axis == 0 or said in leading else size)
        for axis, said in enumerate(opened)
    )


def _within(dynamic: Dynamic, name: str, axis: int, rank: int, size: int) -> int:
    for asked in dynamic.axes:
        own = asked.covers(name) and asked.axis % rank == axis
        if own or (asked.tensor is None and axis == 0):
            dim = asked.dim
            return max(dim.minimum, size if dim.maximum is None else min(size, dim.maximum))
    return size


def say_fixed(
    function: str, opened: Mapping[str, Opened], shapes: Mapping[str, Sequence[int | Dim]]
) -> None:
    """Tell which dimensions are fixed in the program although the file leaves them open.

    Args:
        function: the function's name.
        opened: the shape of each input as the file has it.
        shapes: the same in the program.
    """
    fixed = list(_fixed(opened, shapes))
    if not fixed:
        return
    name, axis, label, _ = fixed[-1]
    _LOG.warning(
        "%s has a fixed size where its file leaves one open: %s; "
        "--dynamic='%s:%d=%s=1..' keeps one open, --inputs=@FILE.npz gives another",
        function,
        ", ".join(f"{n}:{a}{f' ({said})' if said else ''} is {size}" for n, a, said, size in fixed),
        name,
        axis,
        label or "n",
    )


def with_guesses(
    error: EdgecError, opened: Mapping[str, Opened], shapes: Mapping[str, Sequence[int | Dim]]
) -> EdgecError:
    """A refusal that also says which sizes nobody gave.

    Args:
        error: what the model is refused with; its hint is changed.
        opened: the shape of each input as the file has it; none where examples were given.
        shapes: those that were taken.
    """
    guesses = [f"{name}:{axis} as {size}" for name, axis, _, size in _fixed(opened, shapes)]
    if guesses:
        were = f"sizes were guessed ({', '.join(guesses)}): --inputs=@FILE.npz gives others"
        error.hint = f"{error.hint}; {were}" if error.hint else were
    return error


def _fixed(
    opened: Mapping[str, Opened], shapes: Mapping[str, Sequence[int | Dim]]
) -> Iterator[tuple[str, int, str, int]]:
    """Input, axis, the dimension's name if it has one, its size."""
    for name, shape in opened.items():
        for axis, (said, size) in enumerate(zip(shape, shapes[name], strict=True)):
            if not isinstance(said, int) and isinstance(size, int):
                label = said if said and re.fullmatch(r"[A-Za-z_]\w*", said) else ""
                yield name, axis, label, size
