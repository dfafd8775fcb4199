"""Sizes of a product to the kernel and the number of parts that should be fastest."""

import math
from dataclasses import dataclass, replace

from edgec.targets import Gpu
from edgec.toolchain.kernels.cuda.variants import FAMILIES, Constant
from edgec.toolchain.kernels.gpu.tiles import Tile

__all__ = ["Choice", "choose", "ranked"]

_COUNTED_TILES = 128
_STAGES = (6, 12)
_OTHER_SHARED = 2048
"""Bytes of shared memory that a program needs beside its tiles."""
_CLOCK = 1980
"""MHz of the H200 that the times were taken on."""
_RATE = 0.85
"""The most of its arithmetic rate that a kernel reached on an H200."""


@dataclass(frozen=True, kw_only=True)
class _Form:
    """A tile form with its times on an H200, in microseconds, from a sweep over 20 sizes.

    On another GPU a step takes as many cycles, but no less than its arithmetic takes there.

    Attributes:
        rows, columns, inner: the tile.
        warps, stages: how Triton is to schedule it.
        start: a launch without steps.
        step: one step along the inner dimension, with one program on each multiprocessor.
        load: how the time grows with programs per multiprocessor.
        whole: whether programs run in waves, so that a last partial one costs as much.
    """

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    start: float
    step: float
    load: float
    whole: bool


def _form(
    rows: int, columns: int, inner: int, warps: int, stages: int,
    *, start: float, step: float, load: float, whole: bool,
) -> _Form:  # fmt: skip
    return _Form(
        rows=rows,
        columns=columns,
        inner=inner,
        warps=warps,
        stages=stages,
        start=start,
        step=step,
        load=load,
        whole=whole,
    )


_PRODUCTS: dict[str, _Form] = {
    "narrow": _form(64, 32, 128, 4, 4, start=2.4, step=0.26, load=1.5, whole=False),
    "middle": _form(64, 64, 64, 4, 4, start=2.25, step=0.184, load=0.9, whole=False),
    "broad": _form(64, 128, 64, 4, 6, start=2.25, step=0.26, load=1.0, whole=True),
    "deep": _form(64, 64, 128, 4, 3, start=2.5, step=0.256, load=1.45, whole=False),
    "square": _form(128, 128, 64, 4, 4, start=3.0, step=0.44, load=1.0, whole=True),
    "wide": _form(128, 256, 64, 8, 3, start=3.0, step=0.775, load=1.0, whole=True),
    "large": _form(128, 256, 64, 8, 3, start=9.0, step=0.68, load=1.0, whole=True),
}
_CONVOLUTIONS: dict[str, _Form] = {
    "thin": _form(64, 64, 32, 4, 4, start=2.4, step=0.16, load=0.9, whole=False),
    "middle": _form(64, 64, 64, 4, 4, start=2.4, step=0.22, load=0.9, whole=False),
    "square": _form(128, 128, 64, 4, 4, start=3.0, step=0.5, load=1.0, whole=True),
    "deep": _form(64, 64, 128, 4, 3, start=2.6, step=0.31, load=1.45, whole=False),
    "narrow": _form(64, 32, 128, 4, 4, start=2.5, step=0.26, load=1.5, whole=False),
}
_F32_ALONG: dict[str, _Form] = {
    "narrow": _form(64, 32, 64, 4, 4, start=2.0, step=0.81, load=0.75, whole=False),
    "middle": _form(64, 64, 32, 4, 4, start=2.5, step=0.73, load=0.7, whole=False),
    "deep": _form(64, 64, 64, 4, 3, start=2.0, step=1.34, load=0.7, whole=False),
    "square": _form(128, 128, 32, 8, 3, start=6.0, step=1.63, load=1.0, whole=False),
}
"""Three products a step, what is summed lies together. Fitted to 55 sizes; of 20 that another
seed drew they take 7 % longer than the quickest of 8 tiles (`benchmarks/cuda/f32_tiles.py`)."""
_F32_ACROSS: dict[str, _Form] = {
    "narrow": _form(64, 32, 64, 4, 4, start=2.75, step=0.99, load=0.8, whole=False),
    "middle": _form(64, 64, 32, 4, 4, start=2.25, step=1.4, load=0.75, whole=False),
    "tall": _form(128, 64, 32, 4, 3, start=5.5, step=1.8, load=0.7, whole=False),
}
"""Columns lie together, and each tile is turned on its way to the matrix units: of 8 sizes."""
_JOIN = 1.0
_JOIN_PART = 0.36
_GATHERED = 1.15
"""How much longer a step of f32 takes whose rows are gathered from an image."""
_F32_WINDOW = 2.2
"""How much longer than one of f16, of half as many elements, where weights lie across."""


def _forms(gpu: Gpu, *, taps: int, f32: bool, along: bool) -> dict[str, _Form]:
    """Those that there are for a product, or a convolution."""
    if not f32:
        return _CONVOLUTIONS if taps else _PRODUCTS
    if taps and along:
        found = {w: replace(form, step=form.step * _GATHERED) for w, form in _F32_ALONG.items()}
    elif taps:
        found = {
            word: replace(form, inner=form.inner // 2, step=form.step * _F32_WINDOW)
            for word, form in _CONVOLUTIONS.items()
        }
    else:
        found = _F32_ALONG if along else _F32_ACROSS
    # Three products of a larger tile take more registers than units have that read from these.
    is_large = FAMILIES[gpu.kernels].sums_along_memory and (along or not taps)
    largest = (128 if is_large else 64) ** 2
    return {word: form for word, form in found.items() if form.rows * form.columns <= largest}


def _stages(gpu: Gpu, form: _Form, programs: float, steps: int, element: int) -> int:
    """How many steps ahead a loop copies: as many as there is shared memory for.

    Weights come from memory, which answers after as long as several steps take; what is asked for
    at once is there soonest. Where there are more programs than multiprocessors, two share one. The
    numbers are few, so that a kernel that is built beforehand serves many sizes.
    """
    if form.whole:
        return form.stages  # Their steps take longer than memory needs to answer.
    room = gpu.shared_memory // (1 if programs <= 1 else 2) - _OTHER_SHARED
    fitting = room // ((form.rows + form.columns) * form.inner * element)
    found = [n for n in (form.stages, *_STAGES) if n == form.stages or n <= fitting]
    return next((n for n in found if n >= steps), max(found))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A tile form by name, and how to launch it.

    Attributes:
        form: the word in the kernel's name.
        rows, columns, inner: the tile.
        warps, stages: how Triton is to schedule it.
        tiles: programs for one product of the batch.
        parts: into how many sums the inner dimension is split.
        steps: steps of one part along the inner dimension.
        time: the expected microseconds.
    """

    form: str
    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    tiles: int
    parts: int
    steps: int
    time: float

    @property
    def constants(self) -> dict[str, Constant]:
        """Those of a kernel that say its tile."""
        return {"BM": self.rows, "BN": self.columns, "BK": self.inner}

    @property
    def tile(self) -> Tile:
        """What names it in a profile."""
        return Tile(form=self.form, parts=self.parts)


def choose(
    gpu: Gpu,
    sizes: tuple[int, int, int],
    *,
    batch: int = 1,
    taps: int = 0,
    f32: bool = False,
    along: bool = True,
    large: bool = False,
    wanted: Tile | None = None,
) -> Choice:
    """The choice for [m, k] times [k, n]: what was measured to be best, if there is such a one.

    Args:
        wanted: the tile that was measured to be best.
        gpu, sizes, batch, taps, f32, along, large: see `ranked`.
    """
    found = ranked(gpu, sizes, batch=batch, taps=taps, f32=f32, along=along, large=large)
    return next((choice for choice in found if choice.tile == wanted), found[0])


def ranked(
    gpu: Gpu,
    sizes: tuple[int, int, int],
    *,
    batch: int = 1,
    taps: int = 0,
    f32: bool = False,
    along: bool = True,
    large: bool = False,
) -> list[Choice]:
    """All choices for [m, k] times [k, n], those expected to be quick first.

    Args:
        gpu: what is known of the device.
        sizes: m, n, k; for a convolution k is its input channels.
        batch: how many such products.
        taps: for a convolution, how many places its window has; 0 for a product.
        f32: whether elements have 4 bytes.
        along: whether what is summed lies together on the right side.
        large: whether the form `large` exists and may be used.
    """
    m, n, k = sizes
    element = 4 if f32 else 2
    found = []
    for word, form in _forms(gpu, taps=taps, f32=f32, along=along).items():
        if word == "large" and (not large or batch > 1):
            continue
        inner = form.inner
        if (form.rows + form.columns) * inner * element * (form.stages - 1) > gpu.shared_memory:
            continue
        tiles = math.ceil(m / form.rows) * math.ceil(n / form.columns)
        pace = form.step * _CLOCK / gpu.clock
        # Three products of half the rate take six times as long for each of half as many.
        flops = 2 * form.rows * form.columns * inner * (6 if f32 else 1)
        pace = max(pace, flops * gpu.multiprocessors / (gpu.tensor * 1e6 * _RATE))
        steps = math.ceil(k / inner) * max(taps, 1)
        for parts in (1, 2, 4, 8, 16):
            if parts > 1 and (
                word == "large" or batch > 1 or tiles > _COUNTED_TILES or steps < 2 * parts
            ):
                break
            each = math.ceil(steps / parts)
            used = math.ceil(steps / each)
            if used != parts:
                continue
            programs = tiles * parts * batch / gpu.multiprocessors
            load = math.ceil(programs) if form.whole else max(1.0, programs * form.load)
            if not taps and not form.whole and programs > 1:
                # With weights that come from memory, a few programs more cost as much as a wave.
                load = math.ceil(programs) * form.load
            time = form.start + each * pace * load
            time += (_JOIN + _JOIN_PART * parts) if parts > 1 else 0.0
            found.append(
                Choice(
                    form=word,
                    rows=form.rows,
                    columns=form.columns,
                    inner=inner,
                    warps=form.warps,
                    stages=_stages(gpu, form, programs, each, element),
                    tiles=tiles,
                    parts=parts,
                    steps=each,
                    time=time,
                )
            )
    return sorted(found, key=lambda choice: choice.time)
