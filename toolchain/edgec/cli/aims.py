"""`--for`: whether a call is to end soon, or many calls in a second."""

from enum import Enum
from typing import Annotated

import typer

from edgec.runtime.errors import UsageError

__all__ = ["Aim", "AimOption", "aim_of"]


class Aim(Enum):
    """What a way to use several devices is chosen by."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


AimOption = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="latency|throughput",
        help="One call at a time, as quick as it can be; or most calls a second, several of them "
        "under way at once.",
    ),
]


def aim_of(word: str) -> Aim:
    """What `--for` says.

    Raises:
        UsageError: there is no such aim.
    """
    known = {each.value: each for each in Aim}
    if word not in known:
        raise UsageError(
            f"--for={word} is nothing that devices are chosen for",
            hint=f"it is {' or '.join(known)}",
        )
    return known[word]
