"""A norm's root to the norm that a GPU's kernel should take, and its answer.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable
from typing import Any

from edgec.toolchain.kernels.spec import Answers, Declined, Kernel, Origin, Work
from edgec.toolchain.match.norm import Norm, NotANorm, find_norms, longest

__all__ = ["kind_of", "place_norm"]


def place_norm(
    op: Any,
    answers: Answers,
    take: Callable[[Norm], Kernel | Declined],
    fits: Callable[[Norm], bool] = lambda _: True,
) -> None:
    """Let a device take what ends after `op`, a root, if it is a norm; keep its answer.

    Args:
        op: a root, or a reciprocal of one.
        answers: where the answer is kept.
        take: puts a kernel in the place of a norm, or says why there is none.
        fits: whether it can take a norm with such a scale and shift: an end is looked for before
            what does not (a residual that is added looks like a shift).
    """
    found = find_norms(op)
    if found is None:
        return
    if isinstance(found, NotANorm):
        answers.record(op, "norm", Work(), Declined(reason=found.reason), found.sums)
        return
    best = longest(found)
    upto = found[: found.index(best) + 1]
    # The longest end that is as wide as the tensor before it was widened.
    even = [n for n in reversed(upto) if kind_of(n.value) == kind_of(n.source)]
    norm = next(filter(fits, even), next(iter(even), best))
    origin = Origin(name=op.name, location=op.location)
    # Nothing is left of these after a kernel is placed.
    what, work, operations = str(norm), norm.work, norm.operations
    outcome = take(norm)
    left = operations if isinstance(outcome, Declined) else ()
    answers.record(origin, what, work, outcome, left)


def kind_of(value: Any) -> str:
    """The name of a tensor's element type."""
    return str(value.type.element_type)
