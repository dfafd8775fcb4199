"""A framework's answers to golden calls that say themselves how far they are settled."""

import logging
from collections.abc import Sequence

import numpy as np

from edgec.exporters.traced import TracedCall
from edgec.runtime.conditioning import answers_beside, apart, largest, nearby, unsettled

__all__ = ["answers_beside", "conditioned", "moves", "nearby"]

_LOG = logging.getLogger("edgec.exporters")
_LITTLE = 0.1
"""Of the spread of answers: what may be off by so much proves little."""


def conditioned(
    data: Sequence[np.ndarray],
    answers: Sequence[np.ndarray],
    others: Sequence[Sequence[np.ndarray]],
    *,
    name: str,
) -> TracedCall:
    """A golden call that takes into account how far its answers are settled.

    Args:
        data: the inputs.
        answers: the framework's answers.
        others: its answers to nearby inputs, or in more digits.
        name: the signature, for a warning where answers are hardly settled.
    """
    fitting = [
        other
        for other in others
        if [a.shape for a in other] == [np.shape(answer) for answer in answers]
    ]
    pairs = [[other[number] for other in fitting] for number in range(len(answers))]
    within = tuple(apart(a, found) for a, found in zip(answers, pairs, strict=True))
    open_ = tuple(unsettled(a, found) for a, found in zip(answers, pairs, strict=True))
    loose = [
        number
        for number, (answer, far) in enumerate(zip(answers, within, strict=True))
        if far > _LITTLE * largest(answer)
    ]
    if loose:
        _LOG.warning(
            "answers of %s (%d of %d outputs) move by a tenth of their size and more when inputs "
            "move by rounding: the check of a module proves little there",
            name,
            len(loose),
            len(answers),
        )
    return TracedCall(
        inputs=tuple(data),
        outputs=tuple(answers),
        within=within if any(within) else (),
        open=open_ if any(mask.any() for mask in open_) else (),
    )


def moves(answers: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    """Whether answers of the same shapes are apart by more than is usual."""
    return [a.shape for a in answers] == [a.shape for a in others] and any(
        apart(answer, [other]) for answer, other in zip(answers, others, strict=True)
    )
