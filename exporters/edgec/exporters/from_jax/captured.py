"""The arrays that a JAX function takes from where it was written, by the user's names for them."""

import functools
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from edgec.exporters.from_jax.models import is_pytree, path_name
from edgec.exporters.lift_weights import SMALLEST
from edgec.exporters.places import is_users

__all__ = ["captured_arrays"]


def captured_arrays(function: Any) -> dict[str, Any]:
    """Arrays of 1 KiB and more: `params.w1` for a closure's or global `params`.

    Looked for in its closure, the globals it names, the arguments that a partial fixes, the object
    it is bound to, and what it wraps. Names serve only to call weights in a file something better
    than a number.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def gather(name: str, value: Any) -> None:
        if callable(value) and not is_pytree(value):
            walk(value)
            return
        if not (
            callable(value) or isinstance(value, Mapping | list | tuple) or hasattr(value, "shape")
        ):
            return
        try:
            leaves = jax.tree_util.tree_flatten_with_path(value)[0]
        except (TypeError, ValueError):  # a dict with keys of several types is no pytree
            return
        for path, leaf in leaves:
            if not _is_plain_array(leaf) or leaf.nbytes < SMALLEST:
                continue
            inner = path_name(path)
            joint = "" if not inner or inner.startswith("[") else "."
            found.setdefault(f"{name}{joint}{inner}".strip("."), np.asarray(leaf))

    def walk(value: Any) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, functools.partial):
            for number, fixed in enumerate(value.args):
                gather(f"arg{number}", fixed)
            for name, fixed in value.keywords.items():
                gather(name, fixed)
            walk(value.func)
            return
        for inner in (getattr(value, "__wrapped__", None), getattr(value, "__self__", None)):
            if inner is not None and not isinstance(inner, ModuleType):
                gather("", inner)
        code = getattr(value, "__code__", None)
        if code is None or not is_users(code.co_filename):
            return
        outside = inspect.getclosurevars(value)
        for name, inner in (*outside.nonlocals.items(), *outside.globals.items()):
            if not isinstance(inner, ModuleType):
                gather(name, inner)

    import jax
    import numpy as np

    walk(function)
    return found


def _is_plain_array(value: Any) -> bool:
    import jax
    import numpy as np

    if isinstance(value, np.ndarray):
        return True
    return isinstance(value, jax.Array) and not jax.dtypes.issubdtype(
        value.dtype, jax.dtypes.prng_key
    )
