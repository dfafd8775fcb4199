"""JAX models of every kind as one pure function over a flat list of their arrays.

Flax linen (`(module, variables)` or a bound module), Flax nnx, Equinox and any other callable
pytree, and plain functions, which have no arrays of their own.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgec.runtime.errors import SourceError

__all__ = ["Pure", "is_pytree", "path_name", "pure"]


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
    if isinstance(model, Pure):
        return model
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
    if is_pytree(model):
        return _callable_pytree(model)
    return _function(model)


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


def is_pytree(value: Any) -> bool:
    """Whether JAX sees a container in this value rather than a leaf."""
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
