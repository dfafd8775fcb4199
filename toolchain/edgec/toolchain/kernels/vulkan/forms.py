"""The tiles of the kernels for Vulkan: what a workgroup computes, its threads, what they share."""

from dataclasses import dataclass

__all__ = [
    "ATTENTION_FORMS",
    "MATRIX_FORMS",
    "NORM_FORMS",
    "SUM_FORMS",
    "AttentionForm",
    "NormForm",
    "ProductForm",
]

_SUBGROUP = 32
_PATCH = 1024
"""Bytes that a subgroup turns results of the matrix units around in."""


@dataclass(frozen=True, kw_only=True)
class ProductForm:
    """A tile of a product or convolution, with its times on an H200 at `choice.CLOCK`.

    Attributes:
        rows, columns, inner: the tile.
        high, wide: of a thread's share of it; of a subgroup's, for matrix units.
        matrix: whether matrix units multiply it, in f16.
        start: microseconds of a launch without steps.
        step: of one step along the inner dimension, with one workgroup on each multiprocessor.
        load: how the time grows with workgroups per multiprocessor.
    """

    rows: int
    columns: int
    inner: int
    high: int
    wide: int
    matrix: bool = False
    start: float
    step: float
    load: float

    @property
    def source(self) -> str:
        """The kernel that has such tiles."""
        return "matrix_product" if self.matrix else "product"

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        shares = self.rows * self.columns // (self.high * self.wide)
        return shares * _SUBGROUP if self.matrix else shares

    @property
    def shared(self) -> int:
        """Bytes that a workgroup shares: two tiles of each side in turns, rows in other banks."""
        if not self.matrix:
            return 2 * 4 * (self.rows * (self.inner + 4) + self.inner * self.columns)
        tiles = 2 * 2 * (self.rows * (self.inner + 8) + self.inner * (self.columns + 8))
        return tiles + self.threads // _SUBGROUP * _PATCH

    @property
    def sizes(self) -> dict[str, int]:
        """What the source calls them."""
        high, wide = ("WM", "WN") if self.matrix else ("TM", "TN")
        sizes = {"BM": self.rows, "BN": self.columns, "BK": self.inner}
        return {**sizes, high: self.high, wide: self.wide}


SUM_FORMS: dict[str, ProductForm] = {
    "small": ProductForm(
        rows=32, columns=32, inner=32, high=4, wide=4, start=3.0, step=0.35, load=0.5
    ),
    "middle": ProductForm(
        rows=64, columns=64, inner=16, high=8, wide=4, start=3.0, step=0.38, load=0.8
    ),
}
"""Those of f32."""

MATRIX_FORMS: dict[str, ProductForm] = {
    "thin": ProductForm(
        rows=32, columns=32, inner=64, high=16, wide=32, matrix=True, start=3.0, step=0.3, load=0.5
    ),
    "deep": ProductForm(
        rows=64, columns=64, inner=64, high=32, wide=32, matrix=True, start=3.0, step=0.4, load=0.5
    ),
}
"""Those that use a GPU's matrix units, for f16."""


@dataclass(frozen=True, kw_only=True)
class AttentionForm:
    """A tile of an attention.

    Attributes:
        width: of the widest head that fits.
        queries, keys: of the tile.
        each: keys whose scores one thread finds.
    """

    width: int
    queries: int
    keys: int
    each: int

    threads = 128

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
}
"""By their words, the quickest first."""
