"""Example arguments of a JAX function to named flat inputs, and back to the function's own form.

A Python bool, string, None, enum or function among the arguments is configuration: it stays in the
program as it is. Everything that JAX takes as an array is an input: arrays, NumPy scalars, Python
ints, floats and complex numbers, typed random keys (as their uint32 data), `ShapeDtypeStruct`s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_jax.models import Pure
from edgec.runtime import tree
from edgec.runtime.errors import InputError, UsageError
from edgec.runtime.signature import Argument
from edgec.runtime.tree import Tree

__all__ = ["Arguments", "Leaf", "bind_arguments", "is_array", "skeleton_of"]


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One input: its name and example, as raw data.

    Attributes:
        value: an example array, or a `ShapeDtypeStruct` where there is none.
        weak: a Python number, whose type gives way to that of arrays.
        key: the kind of random key that the data stands for, or None.
    """

    name: str
    value: Any
    weak: bool = False
    key: Any = None

    def wrap(self, data: Any) -> Any:
        """The value as the function takes it."""
        import jax

        return data if self.key is None else jax.random.wrap_key_data(data, impl=self.key)


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """All arguments of one function, taken apart."""

    leaves: tuple[Leaf, ...]
    arguments: tuple[Argument, ...]
    structure: Any
    template: tuple[Any, ...]
    """Every leaf of (args, kwargs): an input's index as `_Slot`, or a configured value."""

    def build(self, data: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Args and kwargs for the function, from one value for each leaf."""
        import jax

        filled = [
            self.leaves[item.index].wrap(data[item.index]) if isinstance(item, _Slot) else item
            for item in self.template
        ]
        args, kwargs = jax.tree_util.tree_unflatten(self.structure, filled)
        return args, kwargs


@dataclass(frozen=True)
class _Slot:
    index: int


def bind_arguments(
    model: Pure, args: Sequence[Any], kwargs: Mapping[str, Any], *, skip: int = 0
) -> Arguments:
    """Take example arguments apart.

    Args:
        model: what they are for.
        args: positional examples, without the state.
        kwargs: examples by keyword.
        skip: leading parameters that are not the caller's (the state).

    Raises:
        UsageError: the function does not take these arguments.
    """
    import jax

    names, keywords = _parameter_names(model, args, kwargs, skip)
    leaves: list[Leaf] = []
    arguments: list[Argument] = []
    slots: dict[str, list[Any]] = {}
    everything = [*zip(names, args, strict=True), *((k, kwargs[k]) for k in sorted(kwargs))]
    for name, value in everything:
        items: list[Any] = []
        first = len(leaves)
        if name in model.static:
            items = jax.tree_util.tree_leaves(value)
        else:
            skeleton = skeleton_of(value, items)
            numbers: dict[int, int] = {}
            for position, item in enumerate(items):
                if is_array(item):
                    numbers[position] = first + len(numbers)
            shown = tree.renumber(skeleton, numbers)
            labels = tree.leaf_names(shown, name)
            for position, number in numbers.items():
                leaves.append(_leaf(labels[number], items[position]))
                items[position] = _Slot(number)
            if numbers or not items:
                arguments.append(Argument(name=name, tree=shown, keyword_only=name in keywords))
        slots[name] = items
    _, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    template = [item for name, _ in everything for item in slots[name]]
    if structure.num_leaves != len(template):
        raise UsageError(
            "the example arguments hold a pytree that JAX flattens in an unknown way",
            hint="give dicts, lists, tuples and arrays",
        )
    return Arguments(
        leaves=tuple(leaves),
        arguments=tuple(arguments),
        structure=structure,
        template=tuple(template),
    )


def is_array(value: Any) -> bool:
    """Whether a leaf is an input rather than configuration."""
    import jax

    if isinstance(value, bool):
        return False
    return isinstance(
        value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct | int | float | complex
    )


def skeleton_of(value: Any, leaves: list[Any]) -> Tree:
    """The nesting of any pytree in JAX's own order of leaves, which are added to `leaves`.

    Named tuples, dataclasses and other nodes with named children are dicts, the rest tuples.
    """
    import jax

    if value is None:
        return None
    children = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)[
        0
    ]
    if len(children) == 1 and not children[0][0]:
        leaves.append(value)
        return len(leaves) - 1
    named: dict[str, Tree] = {}
    for path, child in children:
        (key,) = path
        name = getattr(key, "idx", getattr(key, "key", getattr(key, "name", key)))
        named[str(name)] = skeleton_of(child, leaves)
    if isinstance(value, Mapping):
        missing = {str(key): None for key in value}
        return {name: named.get(name) for name in missing}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        nested = [named.get(str(index)) for index in range(len(value))]
        return nested if isinstance(value, list) else tuple(nested)
    attributes = isinstance(value, tuple) or any(
        hasattr(path[0], "name") or isinstance(getattr(path[0], "key", None), str)
        for path, _ in children
    )
    return named if attributes else tuple(named.values())


def _leaf(name: str, value: Any) -> Leaf:
    import jax

    if jax.dtypes.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.prng_key):
        if isinstance(value, jax.ShapeDtypeStruct):
            raise UsageError(
                f"the example {name} is a random key without a value",
                hint="give a key, as jax.random.key(0)",
            )
        return Leaf(name=name, value=jax.random.key_data(value), key=jax.random.key_impl(value))
    if isinstance(value, jax.ShapeDtypeStruct):
        return Leaf(name=name, value=value)
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biufcV":
        raise InputError(
            f"the example {name} holds {value.dtype} elements, which JAX cannot take",
            hint="give numbers",
        )
    weak = isinstance(value, int | float | complex) and not isinstance(value, np.generic)
    return Leaf(name=name, value=jax.numpy.asarray(value), weak=weak)


def _parameter_names(
    model: Pure, args: Sequence[Any], kwargs: Mapping[str, Any], skip: int
) -> tuple[list[str], set[str]]:
    """A name for each positional argument, and which of `kwargs` only go by keyword."""
    signature = model.signature
    if signature is None:
        return [f"x{i}" for i in range(len(args))], set(kwargs)
    parameters = list(signature.parameters.values())
    try:
        signature.bind(*[None] * skip, *args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the example inputs do not fit the function: {error}",
            hint=f"it takes {signature}: give example inputs, as export(f, (x, y)), as (f, (x, y)) "
            "from a function without parameters, or as example_inputs in the same file",
        ) from error
    names: list[str] = []
    variadic = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][
        skip:
    ]
    for index in range(len(args)):
        if index < len(positional):
            names.append(positional[index].name)
        elif variadic is not None:
            names.append(f"{variadic.name}{index - len(positional)}")
    return names, set(kwargs)
