"""Figures of products by weights with zeros to a table and a plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.standing import measured_at, sentence
from edgec.toolchain.kernels.cpu.sparse_products import MOST_DENSE, MOST_DENSE_FEW

__all__ = ["Row", "write_page"]

_DOCS = Path(__file__).resolve().parents[2] / "docs"


_ON_GPUS = (
    "On GPUs there is no kernel for zeros: JAX's sparse arrays and PyTorch's sparse weights "
    "([export.md](export.md)) compile for CUDA and Vulkan from the same program, and are gathered "
    "and added, or multiplied with their zeros."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One product.

    Attributes:
        rows: of what is multiplied by the weights.
        form: of the weights.
        density: the part of them that is not zero.
        seconds, dense: of a call, as edgec compiles it, and with the zeros multiplied.
    """

    rows: int
    form: str
    density: float
    seconds: float
    dense: float

    @property
    def gain(self) -> float:
        """How many times as fast it is as the dense product."""
        return self.dense / self.seconds


def write_page(rows: Sequence[Row], size: int) -> None:
    """Write docs/benchmarks_sparse.md and docs/benchmarks_sparse.png."""
    table = "\n".join(
        f"| {row.rows} | {row.form} | {row.density:.1%} | {row.seconds * 1e6:.0f} | "
        f"{row.dense * 1e6:.0f} | {row.gain:.2f} |"
        for row in rows
    )
    text = f"""# Products by weights with zeros

{_said(size)}

{_ON_GPUS}

| rows | weights | not zero | µs | dense, µs | times as fast |
|---|---|---|---|---|---|
{table}

![How many times as fast as dense, by density](benchmarks_sparse.png)
"""
    (_DOCS / "benchmarks_sparse.md").write_text(text, encoding="utf-8")
    _draw(rows)


def _said(size: int) -> str:
    """What was measured, and how."""
    return (
        f"A product by a constant matrix of which at most {MOST_DENSE:.0%} is not zero "
        f"({MOST_DENSE_FEW:.1%} where fewer rows than a vector holds are multiplied) multiplies "
        "these numbers alone (the pass `sparse-products`, on CPUs, in f32). Denser ones, 2:4 among "
        "them, are the dense kernel's: with 64 rows the kernel for zeros was as quick as that at "
        f"29 %, with one at 14 %. {sentence([measured_at()])[:-1]} by "
        "`python -m benchmarks.sparse` "
        f"on one core with AVX-512: x of f32[rows, {size}] times weights of f32[{size}, {size}], "
        "the fastest call, all of it, beside the same module with the pass left out. Zeros lie "
        "anywhere, in blocks of 16 x 16, or are the smaller two of each four (2:4)."
    )


def _draw(rows: Sequence[Row]) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for count in dict.fromkeys(row.rows for row in rows):
        random = [row for row in rows if row.rows == count and row.form.startswith("random")]
        label = f"{count} rows" if count > 1 else "1 row"
        (line,) = axes.plot(
            [row.density * 100 for row in random],
            [row.gain for row in random],
            marker="o",
            label=label,
        )
        for row in rows:
            if row.rows == count and not row.form.startswith("random"):
                marker = "s" if row.form.startswith("blocks") else "^"
                axes.plot(row.density * 100, row.gain, marker, color=line.get_color())
    axes.axhline(1, color="grey", linewidth=0.8)
    for limit in (MOST_DENSE, MOST_DENSE_FEW):
        axes.axvline(limit * 100, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks([2, 5, 10, 20, 50], ["2 %", "5 %", "10 %", "20 %", "50 %"])
    axes.set_xlabel("weights that are not zero (squares: in blocks; triangles: 2:4)")
    axes.set_ylabel("times as fast as dense")
    axes.legend()
    figure.savefig(_DOCS / "benchmarks_sparse.png", dpi=110)
    pyplot.close(figure)
