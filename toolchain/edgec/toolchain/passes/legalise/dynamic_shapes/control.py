"""Loops in functions with dynamic shapes.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter

__all__ = ["keep_outside", "loop"]


def keep_outside(op: Any) -> None:
    """Let a loop's regions read what it carries unchanged from outside.

    With its bound outside, a counted loop becomes one that the host counts; otherwise the counter
    is read back from the device at every turn.
    """
    condition, body = _blocks(op)
    for i, value in enumerate(_end(body).operands):
        if value == body.arguments[i]:
            for block in (condition, body):
                block.arguments[i].replace_all_uses_with(op.operands[i])


def loop(e: Emitter) -> bool:
    """What enters a loop to be changed there gets memory of its own."""
    _, body = _blocks(e.op)
    for i, value in enumerate(_end(body).operands):
        if value != e.op.operands[i]:
            e.op.operands[i] = e.owned(e.op.operands[i])
    return False


def _blocks(op: Any) -> list[Any]:
    return [region.blocks[0] for region in op.regions]


def _end(block: Any) -> Any:
    return block.operations[len(block.operations) - 1].operation
