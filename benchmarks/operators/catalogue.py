"""Every case, in the order of the report."""

import functools
import re

from benchmarks.operators import (
    cases_elementwise,
    cases_functions,
    cases_moves,
    cases_products,
    cases_reductions,
)
from benchmarks.operators.case import Case

__all__ = ["all_cases", "find_case"]


def all_cases() -> list[Case]:
    """The cases, each with its own key.

    Raises:
        ValueError: two cases have one key.
    """
    found = [
        case
        for module in (
            cases_elementwise,
            cases_moves,
            cases_reductions,
            cases_products,
            cases_functions,
        )
        for case in module.cases()
    ]
    keys = [case.key for case in found]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise ValueError(f"cases with one name: {sorted(twice)}")
    return found


def find_case(key: str) -> Case:
    """The case of a key, for as many at once as it says.

    Raises:
        KeyError: there is none.
    """
    found = re.fullmatch(r"(.*)-x(\d+)", key)
    case = _by_key().get(key)
    if case is None and found:
        case = _by_key()[found[1]].many(int(found[2]))
    if case is None:
        raise KeyError(key)
    return case


@functools.cache
def _by_key() -> dict[str, Case]:
    return {case.key: case for case in all_cases()}
