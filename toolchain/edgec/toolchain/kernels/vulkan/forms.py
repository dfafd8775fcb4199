"""The tiles of the kernels for Vulkan: what a workgroup computes, its threads, what they share."""

from dataclasses import dataclass
from functools import partial

__all__ = [
    "ATTENTION_FORMS",
    "BLOCK_TILES",
    "COLUMNS_FORM",
    "DIRECT_ATTENTION_FORMS",
    "DIRECT_FORMS",
    "FEWEST_REGISTERS",
    "FEW_ATTENTION_FORMS",
    "MATRIX_ATTENTION_FORMS",
    "MATRIX_FORMS",
    "MOST_GROUPS",
    "NORM_FORMS",
    "SUBGROUP",
    "SUM_FORMS",
    "USUAL",
    "WINDOW_FORMS",
    "AttentionForm",
    "BlockForm",
    "BlockTileForm",
    "ColumnsForm",
    "NormForm",
    "ProductForm",
]

MOST_GROUPS = 65535
"""Workgroups along one axis that every device takes."""
SUBGROUP = 32
"""Threads, on the GPUs whose matrix units are used."""
_FOURS = 4


@dataclass(frozen=True, kw_only=True)
class ProductForm:
    """A tile of a product or convolution, with its times on an H200 or H100 at `choice.CLOCK`.

    Attributes:
        rows, columns, inner: the tile.
        high, wide: of a thread's share of it; of a subgroup's, for matrix units.
        source: the kernel that has such tiles: `product` shares them, `direct` shares nothing, and
            `matrix_product` and `matrix_convolution` give them to matrix units, in f16.
        ahead: steps for which a thread holds what it has asked for, for matrix units.
        split: subgroups that share the inside of what one would sum, for matrix units.
        start: microseconds of a launch without steps.
        step: of one step along the inner dimension, with one workgroup on each multiprocessor.
        ends: of what comes before and after the steps of a tile.
        load: how the time grows with workgroups per multiprocessor. Of matrix units, what as many
            as find room there at once take against one alone; where one does, what each further
            one takes.
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
    split: int = 1
    start: float
    step: float
    ends: float = 0.0
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
        return shares * SUBGROUP * self.split if self.matrix else shares

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares: two tiles of each side in turns, rows in other banks."""
        if self.source == "direct":
            return 0
        if not self.matrix:
            return 2 * 4 * (self.rows * (self.inner + 4) + self.inner * self.columns)
        return 2 * 2 * (self.rows * (self.inner + 8) + self.inner * (self.columns + 8))

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        high, wide = ("WM", "WN") if self.matrix else ("TM", "TN")
        sizes = {"BM": self.rows, "BN": self.columns, "BK": self.inner}
        ahead = {"AHEAD": self.ahead, "SPLIT": self.split} if self.matrix else {}
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


def _units(
    tile: tuple[int, int, int],
    share: tuple[int, int],
    *,
    start: float,
    step: float,
    load: float = 1.0,
    ends: float = 0.0,
    ahead: int = 2,
    split: int = 1,
    source: str = "matrix_product",
) -> ProductForm:
    """A form of matrix units: its rows, columns and inner, and a subgroup's share of them."""
    rows, columns, inner = tile
    high, wide = share
    return ProductForm(
        rows=rows,
        columns=columns,
        inner=inner,
        high=high,
        wide=wide,
        source=source,
        ahead=ahead,
        split=split,
        start=start,
        step=step,
        ends=ends,
        load=load,
    )


MATRIX_FORMS: dict[str, ProductForm] = {
    "thin": _units((32, 32, 128), (16, 16), start=6.3, step=0.556, ends=0.75, load=0.85),
    "quick": _units((32, 32, 64), (16, 16), ahead=3, start=7.3, step=0.34, load=1.43),
    "deep": _units((64, 64, 64), (16, 32), start=5.9, step=0.517, ends=1.0, load=0.95),
    "half": _units((64, 64, 32), (32, 32), ahead=3, start=8.1, step=0.376, load=1.33),
    "square": _units((128, 128, 32), (64, 32), start=5.6, step=0.645, ends=3.0, load=1.0),
}
"""Those of products that use a GPU's matrix units, for f16; times are those of an H100 with weights
out of the cache (`benchmarks/vulkan/tiles.py`)."""

_window = partial(_units, source="matrix_convolution")

WINDOW_FORMS: dict[str, ProductForm] = {
    "thin": _window((32, 32, 128), (16, 16), start=8.9, step=0.96, ends=0.8, load=0.75),
    "split": _window((32, 32, 64), (32, 32), split=4, start=9.0, step=0.44, ends=0.75, load=1.25),
    "deep": _window((64, 64, 64), (16, 32), start=7.5, step=0.78, ends=1.2, load=0.8),
    "half": _window((64, 64, 32), (32, 32), ahead=3, start=8.5, step=0.6, ends=0.8, load=1.06),
    "square": _window((128, 128, 32), (64, 32), start=7.0, step=0.64, ends=3.2, load=1.0),
}
"""Those of convolutions that use them; times are out of the cache, too (`--windows`)."""

USUAL = ("thin", "deep")
"""Those of matrix units that are compiled beforehand."""


@dataclass(frozen=True, kw_only=True)
class AttentionForm:
    """A tile of an attention.

    Attributes:
        width: of the widest head that fits.
        queries, keys: of the tile.
        each: keys whose scores one thread finds; 0 for matrix units, which find them in f16.
        threads: of a workgroup.
        few: whether it is for as few queries, whose keys may be split.
    """

    width: int
    queries: int
    keys: int
    each: int = 0
    threads: int = 128
    few: bool = False

    @property
    def matrix(self) -> bool:
        """Whether matrix units multiply it."""
        return self.each == 0

    @property
    def word(self) -> str:
        """What names it in the kernel's name."""
        sizes = f"{self.width}x{self.queries}"
        return f"matrix_{sizes}" if self.matrix else sizes if self.few else str(self.width)

    @property
    def source(self) -> str:
        """The kernel that has such tiles."""
        return "matrix_attention" if self.matrix else "attention"

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares."""
        if self.matrix:
            halves = (self.queries + self.keys) * (self.width + 8) + self.queries * (self.keys + 8)
            return 2 * halves + 4 * self.queries * (max(self.keys, self.width) + 8 + 16)
        tiles = (self.queries + self.keys) * (self.width + 4) + self.queries * (self.keys + 4)
        return 4 * (tiles + self.threads + self.queries)

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        sizes = {"D": self.width, "BM": self.queries, "BN": self.keys}
        return sizes if self.matrix else {**sizes, "SN": self.each}


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

_few = partial(AttentionForm, few=True, threads=64)

FEW_ATTENTION_FORMS = (
    _few(width=32, queries=4, keys=32, each=4, threads=32),
    _few(width=32, queries=8, keys=32, each=4),
    _few(width=64, queries=4, keys=32, each=2),
    _few(width=64, queries=8, keys=32, each=4),
    _few(width=128, queries=4, keys=16, each=1),
    _few(width=128, queries=8, keys=16, each=2),
    _few(width=256, queries=4, keys=16, each=1),
    _few(width=256, queries=8, keys=16, each=2),
)
"""Those of few queries, on all GPUs, by width and queries."""

MATRIX_ATTENTION_FORMS = (
    AttentionForm(width=32, queries=32, keys=64, threads=64),
    AttentionForm(width=64, queries=16, keys=64),
    AttentionForm(width=64, queries=32, keys=64),
    AttentionForm(width=128, queries=16, keys=64),
)
"""Those of matrix units by width (`benchmarks/vulkan/attention_tiles.py`)."""


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


@dataclass(frozen=True, kw_only=True)
class BlockForm:
    """How threads share a product of few rows by weights in blocks.

    Attributes:
        lanes: threads that do an output together.
        each: outputs that they do side by side.
    """

    lanes: int
    each: int
    threads = 64
    """Of a workgroup."""

    @property
    def outputs(self) -> int:
        """Of a workgroup."""
        return self.threads // self.lanes * self.each

    def shared(self, sums: int, *, normed: bool) -> int:
        """Bytes that a workgroup shares, for so many sums of an output, with a norm or without."""
        return 4 * self.threads * (self.each * sums + normed)


@dataclass(frozen=True, kw_only=True)
class BlockTileForm:
    """How threads share a product of many rows by weights in blocks.

    Attributes:
        high, wide: rows and outputs of a thread.
        across: threads that read the same rows.
        pace: microseconds on an H200 for each 16 bytes of codes, with one workgroup on each
            multiprocessor.
        load: how the time grows with workgroups per multiprocessor.
    """

    high: int
    wide: int
    across: int = 16
    pace: float
    load: float
    threads = 64
    """Of a workgroup."""

    @property
    def rows(self) -> int:
        """Of a workgroup's tile."""
        return self.threads // self.across * self.high

    @property
    def columns(self) -> int:
        """Outputs of a workgroup's tile."""
        return self.across * self.wide

    @property
    def registers(self) -> int:
        """Numbers that a thread holds in its inner loop: sums, codes, weights, scales, a row."""
        return self.high * self.wide + (2 * _FOURS + 2) * self.wide + _FOURS

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        return {"TM": self.high, "TN": self.wide, "ACROSS": self.across}


BLOCK_TILES = (
    BlockTileForm(high=8, wide=4, pace=3.5, load=0.24),
    BlockTileForm(high=4, wide=4, pace=2.3, load=0.24),
    BlockTileForm(high=4, wide=2, pace=2.3, load=0.12),
    BlockTileForm(high=4, wide=1, across=32, pace=1.7, load=0.12),
)
"""The last one holds the fewest numbers."""
