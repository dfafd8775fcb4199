"""JAX models of every kind as one pure function over a flat list of their arrays.

Flax linen (`(module, variables)` or a bound module), Flax nnx, Equinox and any other callable
pytree, and plain functions, which have no arrays of their own.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from edgec.exporters.lift_weights import SMALLEST
from edgec.runtime.errors import SourceError

__all__ = ["Pure", "captured_arrays", "path_name", "pure"]


@dataclass(frozen=True, kw_only=True)
class Pure:
    """A model without side effects.

    Attributes:
        call: `(arrays, args, kwargs) -> (arrays afterwards, result)`; the arrays in the order of
            `arrays`.
        arrays: the model's own arrays by name.
        signature: its parameters, as the caller writes them.
        static: names of parameters that are configuration, never arrays.
    """

    call: Callable[[Sequence[Any], Sequence[Any], Mapping[str, Any]], tuple[Sequence[Any], Any]]
    arrays: Mapping[str, Any] = field(default_factory=dict)
    signature: inspect.Signature | None = None
    static: frozenset[str] = frozenset()


def pure(model: Any) -> Pure:
    """Take a model apart.

    Raises:
        SourceError: it is nothing that JAX can call, or a linen module without its variables.
    """
    origins = {f"{c.__module__}.{c.__qualname__}" for c in type(model).__mro__}
    if isinstance(model, tuple) and len(model) == 2 and _is_linen(model[0]):
        return _linen(*model)
    if _is_linen(model):
        if model.scope is None:
            raise SourceError(
                f"the Flax module {type(model).__name__} has no variables",
                hint="give (module, variables), or module.bind(variables)",
            )
        return _linen(*model.unbind())
    if "flax.nnx.module.Module" in origins:
        return _nnx(model)
    if not callable(model):
        raise SourceError(
            f"a {type(model).__name__} is no model that JAX can call",
            hint="give a function, a Flax or Equinox model, or a function that returns one",
        )
    if _is_pytree(model):
        return _callable_pytree(model)
    return _function(model)


def captured_arrays(function: Any) -> dict[str, Any]:
    """The arrays that a function takes from where it was written, by the user's names.

    Looked for in its closure, the globals it names, the arguments that a partial fixes, the object
    it is bound to, and what it wraps.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def gather(name: str, value: Any) -> None:
        if callable(value) and not _is_pytree(value):
            walk(value)
            return
        if callable(value) or isinstance(value, Mapping | list | tuple) or hasattr(value, "shape"):
            for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
                if hasattr(leaf, "shape") and _nbytes(leaf) >= SMALLEST:
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
        code = getattr(value, "__code__", None)
        if code is not None:
            cells = zip(code.co_freevars, value.__closure__ or (), strict=True)
            for name, cell in cells:
                gather(name, cell.cell_contents)
            for name in code.co_names:
                if name in value.__globals__ and not isinstance(
                    value.__globals__[name], ModuleType
                ):
                    gather(name, value.__globals__[name])
        for inner in (getattr(value, "__wrapped__", None), getattr(value, "__self__", None)):
            if inner is not None and not isinstance(inner, ModuleType):
                gather("", inner)

    import jax
    import numpy as np

    walk(function)
    return found


def path_name(path: Sequence[Any]) -> str:
    """A name for a place in a pytree: `layers[0].weight`."""
    text = ""
    for key in path:
        index = getattr(key, "idx", None)
        if index is not None:
            text += f"[{index}]"
            continue
        name = getattr(key, "key", getattr(key, "name", key))
        text += f".{name}" if text else str(name)
    return text


def _is_linen(value: Any) -> bool:
    return any(
        c.__module__ == "flax.linen.module" and c.__name__ == "Module" for c in type(value).__mro__
    )


def _nbytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))


def _is_pytree(value: Any) -> bool:
    import jax

    return not jax.tree_util.all_leaves([value])


def _named(tree: Any) -> tuple[dict[str, Any], Any]:
    import jax

    found, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {path_name(path): leaf for path, leaf in found}, structure


def _linen(module: Any, variables: Mapping[str, Any]) -> Pure:
    import jax

    arrays, structure = _named(variables)
    caches = [name for name in variables if name == "cache"]

    def call(
        leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        tree = jax.tree_util.tree_unflatten(structure, leaves)
        if not caches:
            return leaves, module.apply(tree, *args, **kwargs)
        result, changed = module.apply(tree, *args, mutable=caches, **kwargs)
        return jax.tree_util.tree_leaves({**tree, **changed}), result

    return Pure(call=call, arrays=arrays, signature=_signature(module))


def _nnx(model: Any) -> Pure:
    import jax
    from flax import nnx

    # Modules that a view shares keep their arrays; only the switches of dropout and batch norm
    # are set, on a copy.
    copy = nnx.clone(model)
    copy.eval()
    definition, state = nnx.split(copy)
    named, structure = _named(state)
    arrays = {name.removesuffix(".value"): leaf for name, leaf in named.items()}

    def call(
        leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        merged = nnx.merge(definition, jax.tree_util.tree_unflatten(structure, leaves))
        result = merged(*args, **kwargs)
        return jax.tree_util.tree_leaves(nnx.split(merged)[1]), result

    return Pure(call=call, arrays=arrays, signature=_signature(model))


def _callable_pytree(model: Any) -> Pure:
    import jax
    import numpy as np

    module = next((c.__module__ for c in type(model).__mro__ if "equinox" in c.__module__), None)
    if module is not None:
        import equinox

        model = equinox.nn.inference_mode(model)
    found, structure = jax.tree_util.tree_flatten_with_path(model)
    is_array = [isinstance(leaf, jax.Array | np.ndarray) for _, leaf in found]
    arrays = {
        path_name(path): leaf for (path, leaf), own in zip(found, is_array, strict=True) if own
    }

    def call(
        leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        given = iter(leaves)
        filled = [
            next(given) if own else leaf for (_, leaf), own in zip(found, is_array, strict=True)
        ]
        return leaves, jax.tree_util.tree_unflatten(structure, filled)(*args, **kwargs)

    return Pure(call=call, arrays=arrays, signature=_signature(model))


def _function(function: Callable[..., Any]) -> Pure:
    def call(
        leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        return leaves, function(*args, **kwargs)

    signature = _signature(function)
    # A function under jax.jit knows which of its arguments are not arrays.
    jitted = getattr(function, "_jit_info", None)
    static = set(getattr(jitted, "static_argnames", None) or ())
    if signature is not None:
        names = list(signature.parameters)
        static |= {names[i] for i in getattr(jitted, "static_argnums", None) or ()}
    return Pure(call=call, signature=signature, static=frozenset(static))


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
