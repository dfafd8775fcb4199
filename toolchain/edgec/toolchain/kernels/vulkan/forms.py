"""The tiles of the kernels for Vulkan: what a workgroup computes, its threads, what they share."""

from dataclasses import dataclass
from functools import partial

__all__ = [
    "ATTENTION_FORMS",
    "COLUMNS_FORM",
    "DIRECT_ATTENTION_FORMS",
    "DIRECT_FORMS",
    "FEWEST_REGISTERS",
    "MATRIX_FORMS",
    "NORM_FORMS",
    "SUM_FORMS",
    "WINDOW_FORMS",
    "AttentionForm",
    "ColumnsForm",
    "NormForm",
    "ProductForm",
]

_SUBGROUP = 32
_FOURS = 4
_PATCH = 1024
"""Bytes that a subgroup turns results of the matrix units around in."""


@dataclass(frozen=True, kw_only=True)
class ProductForm:
    """A tile of a product or convolution, with its times on an H200 at `choice.CLOCK`.

    Attributes:
        rows, columns, inner: the tile.
        high, wide: of a thread's share of it; of a subgroup's, for matrix units.
        source: the kernel that has such tiles: `product` shares them, `direct` shares nothing, and
            `matrix_product` and `matrix_convolution` give them to matrix units, in f16.
        ahead: steps for which a thread of `matrix_product` holds what it has asked for.
        start: microseconds of a launch without steps.
        step: of one step along the inner dimension, with one workgroup on each multiprocessor.
        load: how the time grows with workgroups per multiprocessor.
        rate: the most of a GPU's arithmetic rate that it reaches. Forms that share nothing are by
            what a thread multiplies for each number that it loads; on Mesa's llvmpipe `broad` was
            1.27 times as fast as `each` (five products and convolutions).
    """

    rows: int
    columns: int
    inner: int
    high: int
    wide: int
    source: str = "product"
    ahead: int = 1
    start: float
    step: float
    load: float
    rate: float = 0.85

    @property
    def registers(self) -> int:
        """Numbers that a thread holds in the inner loop of a form that shares nothing."""
        return self.high * self.wide + _FOURS * (self.high + 1)

    @property
    def matrix(self) -> bool:
        """Whether matrix units multiply it."""
        return self.source.startswith("matrix_")

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        shares = self.rows * self.columns // (self.high * self.wide)
        return shares * _SUBGROUP if self.matrix else shares

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares: two tiles of each side in turns, rows in other banks."""
        if self.source == "direct":
            return 0
        if not self.matrix:
            return 2 * 4 * (self.rows * (self.inner + 4) + self.inner * self.columns)
        tiles = 2 * 2 * (self.rows * (self.inner + 8) + self.inner * (self.columns + 8))
        return tiles + self.threads // _SUBGROUP * _PATCH

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        high, wide = ("WM", "WN") if self.matrix else ("TM", "TN")
        sizes = {"BM": self.rows, "BN": self.columns, "BK": self.inner}
        ahead = {"AHEAD": self.ahead} if self.source == "matrix_product" else {}
        return {**sizes, high: self.high, wide: self.wide, **ahead}


SUM_FORMS: dict[str, ProductForm] = {
    "small": ProductForm(
        rows=32, columns=32, inner=32, high=4, wide=4, start=3.0, step=0.35, load=0.5
    ),
    "middle": ProductForm(
        rows=64, columns=64, inner=16, high=8, wide=4, start=3.0, step=0.38, load=0.8
    ),
}
"""Those of f32 that share memory."""

_direct = partial(ProductForm, inner=4, source="direct", start=3.0, step=0.1, load=0.5)

DIRECT_FORMS: dict[str, ProductForm] = {
    "each": _direct(rows=32, columns=64, high=4, wide=8, rate=0.45),
    "broad": _direct(rows=64, columns=64, high=8, wide=8, rate=0.57),
    "line": _direct(rows=1, columns=256, high=1, wide=4, rate=0.2),
}
"""Those that share no memory, for f32 and f16."""

FEWEST_REGISTERS = 64
"""For a thread, on any GPU that is known: what is compiled beforehand keeps to them."""

_matrix = partial(ProductForm, source="matrix_product", ahead=2, start=12.0, step=0.65, load=1.2)

MATRIX_FORMS: dict[str, ProductForm] = {
    "thin": _matrix(rows=32, columns=32, inner=128, high=16, wide=16),
    "deep": _matrix(rows=64, columns=64, inner=64, high=16, wide=32),
}
"""Those of products that use a GPU's matrix units, for f16; times are with weights out of the cache
(`benchmarks/vulkan/tiles.py`)."""

_window = partial(ProductForm, inner=64, wide=32, source="matrix_convolution", start=3.0, load=0.5)

WINDOW_FORMS: dict[str, ProductForm] = {
    "thin": _window(rows=32, columns=32, high=16, step=0.3),
    "deep": _window(rows=64, columns=64, high=32, step=0.4),
}
"""Those of convolutions that use them; times are with weights in the cache."""


@dataclass(frozen=True, kw_only=True)
class AttentionForm:
    """A tile of an attention.

    Attributes:
        width: of the widest head that fits.
        queries, keys: of the tile.
        each: keys whose scores one thread finds.
        threads: of a workgroup.
    """

    width: int
    queries: int
    keys: int
    each: int
    threads: int = 128

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares."""
        tiles = (self.queries + self.keys) * (self.width + 4) + self.queries * (self.keys + 4)
        return 4 * (tiles + self.threads + self.queries)

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        return {"D": self.width, "BM": self.queries, "BN": self.keys, "SN": self.each}


ATTENTION_FORMS = (
    AttentionForm(width=32, queries=32, keys=32, each=2),
    AttentionForm(width=64, queries=32, keys=32, each=2),
    AttentionForm(width=128, queries=16, keys=32, each=2),
    AttentionForm(width=256, queries=8, keys=16, each=1),
)
"""By width."""

DIRECT_ATTENTION_FORMS = (
    AttentionForm(width=32, queries=32, keys=32, each=4, threads=64),
    AttentionForm(width=64, queries=32, keys=16, each=4, threads=64),
    AttentionForm(width=128, queries=16, keys=8, each=2, threads=64),
)
"""Those of 16 KiB, where what a thread loads takes as long whether it is shared or not."""


@dataclass(frozen=True, kw_only=True)
class NormForm:
    """How threads share the rows of a norm.

    Attributes:
        threads: of a workgroup.
        lanes: threads that do a row together.
        keep: rooms of memory that each holds in registers; 0 where a row may be of any length.
        beside: whether the rows lie side by side.
        most: rooms of a row, where that is less than it could do.
    """

    threads: int
    lanes: int
    keep: int
    beside: bool = False
    most: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        return {"LANES": self.lanes, "KEEP": self.keep}

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares, at most."""
        return 4 * 4 * self.threads

    def fits(self, rooms: int, *, beside: bool) -> bool:
        """Whether rows of so many rooms are done."""
        most = self.most or self.keep * self.lanes
        return self.beside == beside and (not most or rooms <= most)


NORM_FORMS: dict[str, NormForm] = {
    "narrow": NormForm(threads=64, lanes=8, keep=4),
    "row": NormForm(threads=64, lanes=32, keep=8),
    "wide": NormForm(threads=256, lanes=256, keep=8),
    "some": NormForm(threads=64, lanes=32, keep=0, most=2048),
    "long": NormForm(threads=256, lanes=256, keep=0),
    "columns": NormForm(threads=256, lanes=32, keep=8, beside=True),
    "deep": NormForm(threads=256, lanes=32, keep=0, beside=True),
    "long_half": NormForm(threads=128, lanes=128, keep=0),
    "deep_half": NormForm(threads=128, lanes=16, keep=0, beside=True),
}
"""By their words, the quickest first; the last ones for devices of 128 threads a workgroup."""


@dataclass(frozen=True, kw_only=True)
class ColumnsForm:
    """How threads share the columns of a matrix.

    Attributes:
        threads: of a workgroup.
        lanes: threads that sum the same four columns, each every so many rows.
    """

    threads: int
    lanes: int

    @property
    def rooms(self) -> int:
        """Fours of columns of a workgroup."""
        return self.threads // self.lanes

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares."""
        return 4 * _FOURS * self.threads


COLUMNS_FORM = ColumnsForm(threads=256, lanes=64)
"""Also few columns of many rows, such as the pixels of an image, then keep a GPU at work."""
