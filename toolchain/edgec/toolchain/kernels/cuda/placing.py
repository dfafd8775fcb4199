"""A program's operations to dispatches of CUDA's kernels, in an order that leaves each the most.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.kernels.cuda.attentions import attention_of, refusal, rewrite_attention
from edgec.toolchain.kernels.cuda.block_products import place_block_products
from edgec.toolchain.kernels.cuda.convolutions import place_convolution
from edgec.toolchain.kernels.cuda.library import Library
from edgec.toolchain.kernels.cuda.moves import Mover
from edgec.toolchain.kernels.cuda.norms import rewrite_norm
from edgec.toolchain.kernels.cuda.products import rewrite_product
from edgec.toolchain.kernels.gpu.row_moves import move_rows
from edgec.toolchain.kernels.gpu.slices import place_slices
from edgec.toolchain.kernels.gpu.states import keep_states, spread_tests
from edgec.toolchain.kernels.gpu.turned_sides import turn_sides
from edgec.toolchain.match.norm import ROOTS
from edgec.toolchain.match.product import operations_named

__all__ = ["place_kernels"]


def place_kernels(module: Any, library: Library) -> None:
    """Rewrite `module` (an `ir.Module` in StableHLO) in place."""
    # Products of few rows by blocks before all: they take norms along, and what comes next moves
    # how weights lie.
    place_block_products(module, library)
    turn_sides(module)
    move_rows(module, attention_of, lambda attention: refusal(attention) is None)
    # Attention first: its two products are then gone. Norms next: what they read is then what a
    # product before them stores.
    for name, rewrite in (
        ("stablehlo.dot_general", rewrite_attention),
        *((name, rewrite_norm) for name in ROOTS),
        ("stablehlo.convolution", place_convolution),
        ("stablehlo.dot_general", rewrite_product),
    ):
        for op in operations_named(module, name):
            rewrite(op, library)
    # Slices last: what reads an array is then one dispatch, before which updates can wait.
    mover = Mover(library)
    place_slices(module, mover)
    keep_states(module, mover)
    spread_tests(module)
