"""edgec on edgert: the module that edgec made, run by its C runtime instead of IREE's."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.engines.edgec_engine import MODULE, Edgec
from benchmarks.peers.models.model import Model

__all__ = ["EdgecOnEdgert"]

_ROOT = Path(__file__).resolve().parents[3]
_SOURCES = ("exporters", "toolchain", "targets", "benchmarks/peers")


class EdgecOnEdgert(Edgec):
    """The same module as edgec's; it is compiled here only where that is older than edgec is."""

    name = "edgert"
    title = "edgec on edgert"
    packages = ("edgec", "iree-base-compiler", "jax")
    device = "edgert://cpu"

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        module = folder / MODULE
        newest = max(file.stat().st_mtime for file in _sources())
        if module.exists() and module.stat().st_mtime > newest:
            return {}
        return super().build(model, folder)


def _sources() -> Iterator[Path]:
    for source in _SOURCES:
        yield from (_ROOT / source).rglob("*.py")
