"""The smallest model of each family of `equimo`, image models in Equinox, by its own builders."""

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable
from typing import Any

from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_MOST = 30_000_000  # parameters


def names() -> list[str]:
    """A family is what the builders of one file share: the first part of their names."""
    found = sorted((_family(name, builder), name) for name, builder in _builders().items())
    return [family for family, _ in itertools.groupby(found, lambda pair: pair[0])]


def build(name: str) -> Built:
    import jax
    import numpy as np

    members = {
        n: _parameters(builder) for n, builder in _builders().items() if _family(n, builder) == name
    }
    smallest = min(members, key=lambda n: members[n])
    if members[smallest] > _MOST:
        raise Left(f"{members[smallest] // 1_000_000} million parameters")
    model = _builders()[smallest](key=jax.random.key(0))
    side = getattr(getattr(model, "patch_embed", None), "img_size", None) or 224
    height, width = side if isinstance(side, list | tuple) else (side, side)
    image = np.random.default_rng(0).standard_normal((3, height, width), np.float32)
    key = inspect.signature(type(model).__call__).parameters.get("key")
    needs_key = key is not None and key.default is inspect.Parameter.empty
    keys = (np.asarray(jax.random.PRNGKey(0)),) if needs_key else ()  # of dropout, in training
    return Built(model=model, inputs=(image, *keys))


def _builders() -> dict[str, Callable[..., Any]]:
    from equimo import models

    found = {}
    for info in pkgutil.iter_modules(models.__path__):
        module = importlib.import_module(f"equimo.models.{info.name}")
        for name, value in vars(module).items():
            made_here = getattr(value, "__module__", "") == module.__name__
            if inspect.isfunction(value) and made_here and f"_build_{info.name}" in vars(module):
                found[name] = value
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _family(name: str, builder: Callable[..., Any]) -> str:
    return f"{builder.__module__.rpartition('.')[2]}-{name.partition('_')[0]}"


def _parameters(builder: Callable[..., Any]) -> int:
    import equinox
    import jax

    shapes = equinox.filter_eval_shape(builder, key=jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes) if hasattr(leaf, "size"))
