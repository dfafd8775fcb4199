"""Sizes of a product to the kernel and the number of parts that should be fastest."""

import math
from dataclasses import dataclass

__all__ = ["Choice", "choose"]

_MULTIPROCESSORS = 132
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """A tile form with its expected times, in microseconds: how forms compare, not what they take.

    Attributes:
        rows, columns, inner: the tile.
        start: a launch without steps.
        step: one step along the inner dimension, with one workgroup on each multiprocessor.
        load: how the time grows with workgroups per multiprocessor.
    """

    rows: int
    columns: int
    inner: int
    start: float
    step: float
    load: float


_FORMS: dict[str, _Form] = {
    "small": _Form(rows=32, columns=32, inner=32, start=3.0, step=0.35, load=0.5),
    "middle": _Form(rows=64, columns=64, inner=16, start=3.0, step=0.38, load=0.8),
}
_MATRIX_FORMS: dict[str, _Form] = {
    "thin": _Form(rows=32, columns=32, inner=64, start=3.0, step=0.3, load=0.5),
    "deep": _Form(rows=64, columns=64, inner=64, start=3.0, step=0.4, load=0.5),
}
"""Those that use a GPU's matrix units, for f16."""
_JOIN = 3.0
_JOIN_BYTES = 1.5e6
"""Bytes of parts that a join reads in a microsecond."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A tile form by name, and how to launch it.

    Attributes:
        form: the word in the kernel's name.
        tiles: workgroups for one part of one product of the batch.
        parts: into how many sums the inner dimension is split.
        inside: how much of the inner dimension one part sums.
        time: the expected microseconds.
    """

    form: str
    tiles: int
    parts: int
    inside: int
    time: float


def choose(
    m: int, n: int, k: int, *, batch: int = 1, matrix: bool = False, without: str = ""
) -> Choice:
    """The choice for `batch` products of [m, k] and [k, n].

    Args:
        m, n, k: the sizes.
        batch: how many such products.
        matrix: whether to use matrix units; n and k are multiples of 8 then.
        without: a form that the operation has no kernel of.
    """
    found = []
    for word, form in (_MATRIX_FORMS if matrix else _FORMS).items():
        if word == without:
            continue
        tiles = math.ceil(m / form.rows) * math.ceil(n / form.columns)
        steps = math.ceil(k / form.inner)
        for parts in _PARTS if batch == 1 else (1,):
            each = math.ceil(steps / parts)
            if math.ceil(steps / each) != parts:
                continue
            load = max(1.0, tiles * parts * batch / _MULTIPROCESSORS * form.load)
            time = form.start + each * form.step * load
            if parts > 1:
                time += _JOIN + parts * m * n * 4 / _JOIN_BYTES
            found.append(
                Choice(form=word, tiles=tiles, parts=parts, inside=each * form.inner, time=time)
            )
    return min(found, key=lambda choice: choice.time)
