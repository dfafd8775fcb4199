"""What the passes left in a program, to the share that edgec's own kernels do.

A module imported only by what runs passes; it needs the compiler.
"""

from dataclasses import replace
from typing import Any

from edgec.runtime.kernel_share import KernelShare, Left
from edgec.toolchain.ir.places import place_of, written_out
from edgec.toolchain.ir.work import census, title, uncounted
from edgec.toolchain.kernels.spec import Answers, Declined, Work

__all__ = ["share_of", "total_work"]

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")


def total_work(module: Any) -> Work:
    """All that a module (an `ir.Module`) computes outside of dispatched kernels."""
    flops = moved = 0
    for each in census(module):
        flops += each.work.flops
        moved += each.work.bytes
    return Work(flops=flops, bytes=moved)


def share_of(module: Any, answers: Answers) -> KernelShare:
    """What share of the work of before kernels were placed is no longer in the module.

    Args:
        module: the `ir.Module` after all passes that place kernels.
        answers: what the device said, and the work that there was when the first of them began; an
            operation that the device declined is listed with the reason.
    """
    before = answers.before or Work()
    reasons = _reasons(answers)
    kinds: dict[tuple[str, str], Left] = {}
    flops = moved = 0
    for each in census(module):
        flops += each.work.flops
        moved += each.work.bytes
        what, where = title(each.op), place_of(each.op) or ""
        name = written_out(each.op) or each.op.name
        reason = reasons.get((name, where)) or _plain_reason(name)
        known = kinds.get((what, reason))
        kinds[what, reason] = Left(
            what=what,
            where=known.where if known else where,
            reason=reason,
            count=1 + (known.count if known else 0),
            flops=each.work.flops + (known.flops if known else 0),
            bytes=each.work.bytes + (known.bytes if known else 0),
        )
    share = KernelShare(
        flops=max(before.flops, flops),
        own_flops=max(0, before.flops - flops),
        bytes=max(before.bytes, moved),
        own_bytes=max(0, before.bytes - moved),
        left=tuple(kinds.values()),
        uncounted=uncounted(module),
    )
    return replace(share, left=tuple(sorted(share.left, key=lambda left: -share.weight(left))))


def _reasons(answers: Answers) -> dict[tuple[str, str], str]:
    """Why the device declined what was found at an operation, by its name and line."""
    found: dict[tuple[str, str], str] = {}
    for each in answers:
        if isinstance(each.outcome, Declined):
            # What was said first is of the whole; what came later, of a part that was left.
            for name, where in ((each.operation, each.where), *each.others):
                found.setdefault((name, where or ""), each.outcome.reason)
    return found


def _plain_reason(name: str) -> str:
    if name in _PRODUCTS:
        return "of a form that no kernel of edgec's own takes on this target"
    return "not part of what a kernel of edgec's own does"
