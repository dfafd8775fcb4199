"""Sizes of a product to the kernel and the number of parts that should be fastest on a GPU."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from edgec.targets import Gpu
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.kernels.vulkan.forms import (
    DIRECT_FORMS,
    MATRIX_FORMS,
    SUM_FORMS,
    USUAL,
    WINDOW_FORMS,
    ProductForm,
)

__all__ = ["Choice", "choose", "multiplies", "ranked"]

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_CLOCK = 1980
"""MHz of the H200 that the forms' times were taken on."""
_BANDWIDTH = 4800
"""10^9 bytes a second of its memory."""
_SOME = 2
_JOIN, _JOIN_PLAIN = 3.0, 5.0
"""Microseconds of a join itself: of products by matrix units, and of others, which fill the GPU so
that what joins waits longer for their ends (measured on networks, an H200)."""
_JOIN_BYTES = 1.5e6
"""Bytes of parts that a join reads in a microsecond there."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A tile form by name, and how to launch it.

    Attributes:
        word: the form's word in the kernel's name.
        form: the form.
        tiles: workgroups for one part of one product of the batch.
        parts: into how many sums the inner dimension is split.
        inside: how much of the inner dimension one part sums.
        time: the expected microseconds.
    """

    word: str
    form: ProductForm
    tiles: int
    parts: int
    inside: int
    time: float

    @property
    def tile(self) -> Tile:
        """What names it in a profile."""
        return Tile(form=self.word, parts=self.parts)


def multiplies(gpu: Gpu, element: str) -> bool:
    """Whether a GPU's matrix units multiply elements of a type."""
    return element == "f16" and gpu.kernels == "nvidia"


def choose(
    gpu: Gpu,
    sizes: tuple[int, int, int],
    *,
    batch: int = 1,
    matrix: bool = False,
    window: bool = False,
    usual: bool = False,
    wanted: Tile | None = None,
) -> Choice:
    """The choice for a product: what was measured to be best, if there is such a one.

    Args:
        wanted: the tile that was measured to be best.
        gpu, sizes, batch, matrix, window, usual: see `ranked`.
    """
    found = ranked(gpu, sizes, batch=batch, matrix=matrix, window=window, usual=usual)
    return next((choice for choice in found if choice.tile == wanted), found[0])


def ranked(
    gpu: Gpu,
    sizes: tuple[int, int, int],
    *,
    batch: int = 1,
    matrix: bool = False,
    window: bool = False,
    usual: bool = False,
) -> list[Choice]:
    """All choices for `batch` products of [m, k] and [k, n], those expected to be quick first.

    Args:
        gpu: what is known of the device.
        sizes: m, n, k.
        batch: how many such products.
        matrix: whether to use matrix units; n and k are multiples of 8 then.
        window: whether it is a convolution, whose rows are windows.
        usual: whether to keep to forms of matrix units that are compiled beforehand.
    """
    plain: Mapping[str, ProductForm] = DIRECT_FORMS if gpu.kernels == "direct" else SUM_FORMS
    units = WINDOW_FORMS if window else MATRIX_FORMS
    forms = units if matrix else plain
    found = [
        choice
        for word, form in forms.items()
        if _fits(gpu, form) and not (usual and matrix and word not in USUAL)
        for choice in _choices(gpu, word, form, sizes, batch)
    ]
    return sorted(found, key=lambda choice: choice.time)


def _fits(gpu: Gpu, form: ProductForm) -> bool:
    """Whether a form's tiles find room in a core."""
    direct = form.source == "direct"
    holds = not (direct and gpu.registers and form.registers > gpu.registers)
    return form.shared <= gpu.shared_memory and holds


def _choices(
    gpu: Gpu, word: str, form: ProductForm, sizes: tuple[int, int, int], batch: int
) -> list[Choice]:
    """Every number of parts with its expected time.

    A step takes as many cycles as on the GPU that was measured, but no less than its arithmetic.
    """
    m, n, k = sizes
    tiles = math.ceil(m / form.rows) * math.ceil(n / form.columns)
    steps = math.ceil(k / form.inner)
    slower = _CLOCK / gpu.clock
    flops = 2 * form.rows * form.columns * form.inner
    rate = gpu.tensor if form.matrix else gpu.vector
    pace = max(form.step * slower, flops * gpu.multiprocessors / (rate * 1e6 * form.rate))
    found = []
    for parts in _PARTS if batch == 1 else (1,):
        each = math.ceil(steps / parts)
        if math.ceil(steps / each) != parts:
            continue
        load = _load(gpu, form, tiles * parts * batch)
        time = form.start + (each * pace + form.ends * slower) * load
        if parts > 1:
            join = _JOIN if form.matrix else _JOIN_PLAIN
            time += join + parts * m * n * 4 / _JOIN_BYTES * _BANDWIDTH / gpu.bandwidth
        found.append(
            Choice(
                word=word,
                form=form,
                tiles=tiles,
                parts=parts,
                inside=each * form.inner,
                time=time,
            )
        )
    return found


def _load(gpu: Gpu, form: ProductForm, workgroups: int) -> float:
    """How much longer so many workgroups take than one on each multiprocessor.

    On an H100 NVIDIA's driver gives workgroups 48 KiB to share of a multiprocessor's 228, so that
    of most forms of matrix units one is there at a time, and others wait for it.
    """
    each = workgroups / gpu.multiprocessors
    if not form.matrix:
        return max(1.0, each * form.load)
    room = gpu.shared_memory // form.shared
    if room < _SOME:
        return 1.0 + max(0, math.ceil(each) - 1) * form.load
    sets, rest = divmod(each, room)
    last = 1.0 + max(0.0, rest - 1.0) * (form.load - 1.0) / (room - 1) if rest else 0.0
    return max(1.0, sets * form.load + last)
