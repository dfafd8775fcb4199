"""Every case, in the order of the report."""

from benchmarks.operators import (
    cases_elementwise,
    cases_functions,
    cases_moves,
    cases_products,
    cases_reductions,
)
from benchmarks.operators.case import Case

__all__ = ["all_cases"]


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
