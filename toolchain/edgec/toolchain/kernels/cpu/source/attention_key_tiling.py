"""How attention of few queries is cut up: queries of a tile, keys of a block on the stack."""

from edgec.toolchain.kernels.cpu.source.attention import Attention
from edgec.toolchain.kernels.cpu.source.attention_keys import KeyCut
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["keys_of_block", "rows_of_tile"]

_LEAST_PANELS = 4


def rows_of_tile(unit: VectorUnit, attention: Attention) -> int:
    """Queries of a tile: as many as registers hold sums for, over-lapping little."""
    vectors = max(KeyCut.of(unit, n).vectors for n in (attention.keys, attention.depth))
    most = min(attention.queries, (unit.registers - vectors - 1) // vectors)
    return min(
        range(max(1, most // 2), most + 1), key=lambda n: (-(-attention.queries // n)) * (n + 2)
    )


def keys_of_block(attention: Attention, unit: VectorUnit) -> int:
    """Keys of a block: whole panels that the stack has room for, the last block a panel or more.

    The last panel of all begins so that it ends with the last key; it must lie in one block.
    """
    panel = KeyCut.of(unit, attention.keys).panel
    room = attention.stack // (4 * rows_of_tile(unit, attention) * panel)
    if room * panel >= attention.keys:
        return -(-attention.keys // panel) * panel
    for panels in range(max(room, _LEAST_PANELS), 0, -1):
        rest = attention.keys % (panels * panel)
        if rest == 0 or rest >= panel:
            return panels * panel
    return -(-attention.keys // panel) * panel
