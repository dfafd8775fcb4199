"""States of a program or module to lines of text: one for all that are alike but for a number."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgec.runtime.signature import TensorSpec

__all__ = ["state_lines"]


def state_lines(states: "Iterable[TensorSpec]") -> list[str]:
    """`state position: i32[]`, and `state keys_0 … keys_29: f32[1, 3, 1088, 64], 30 of them`."""
    alike: dict[tuple[str, str], list[str]] = {}
    for spec in states:
        kind = str(spec).removeprefix(f"{spec.name}: ")
        alike.setdefault((re.sub(r"\d+", "#", spec.name), kind), []).append(spec.name)
    return [
        f"state {names[0]}: {kind}"
        if len(names) == 1
        else f"state {names[0]} … {names[-1]}: {kind}, {len(names)} of them"
        for (_, kind), names in alike.items()
    ]
