"""A package's test of itself: a program in which its model makes the golden calls it brings."""

from edgec.packaging.plan import Plan
from edgec.packaging.templates import render

__all__ = ["FOLDER", "proves_itself", "write_c_self_test"]

FOLDER = "selftest"
"""The folder in the package; nothing in it goes into an app."""


def proves_itself(plan: Plan) -> bool:
    """Whether the package's modules bring golden calls."""
    return all(variant.compiled.module.golden for variant in plan.variants)


def write_c_self_test(plan: Plan, *, opening: str, module: str = "") -> None:
    """Write `selftest/selftest.c`.

    Args:
        plan: the package.
        opening: how the program opens the model; it may use `path`.
        module: what `path` is where the program is given none; empty where it takes none.
    """
    values = {
        "name": plan.name,
        "title": plan.title.replace("*/", "* /"),
        "opening": opening,
        "default": module,
        "arguments": " [MODULE]" if module else "",
    }
    plan.write(f"{FOLDER}/selftest.c", render("c/selftest.c", values))
