"""Golden calls to more calls, with inputs that no example has, and NumPy's answers to them.

A norm that lost its epsilon, a division that nobody guarded, a clip at the wrong end show where
numbers are all the same; examples are not.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from edgec.runtime.comparison import compare_call
from edgec.runtime.errors import ProgramError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.computed import answered, weights_of
from edgec.toolchain.program import Program
from edgec.verifying.reference import numbered

__all__ = ["with_corners"]

_Array = np.ndarray[Any, np.dtype[Any]]
_CORNERS = (0, 1)
"""What every number of an input is."""


def with_corners(program: Program, golden: Golden) -> Golden:
    """The calls, and behind them one of each function for each corner.

    Args:
        program: in StableHLO.
        golden: its calls.

    Raises:
        ProgramError: something in the program is not known in NumPy, or its answers to the golden
            calls are not the framework's.
    """
    firsts = {call.signature: call for call in reversed(golden.calls)}
    more = [
        GoldenCall(
            signature=name,
            inputs=tuple(np.full_like(array, corner) for array in first.inputs),
            outputs=first.outputs,
        )
        for corner in _CORNERS
        for name, first in firsts.items()
        if first.inputs
    ]
    asked = Golden(calls=(*golden.calls, *more))
    found = answered(numbered(program).module, program.info, weights_of(program), asked)
    for expected, given in zip(golden.calls, found.calls, strict=False):
        for each in compare_call(expected, given.outputs):
            if not each.ok:
                raise ProgramError(
                    f"NumPy's evaluation of {program.path or 'the program'} does not give the "
                    f"framework's answers, so that it has none to other inputs: {each.problem}",
                    hint="`edgec verify --layers` says where the program is another than the model",
                )
    return replace(golden, calls=(*golden.calls, *found.calls[len(golden.calls) :]))
