"""Example arguments of a PyTorch function to named flat inputs.

A tensor or array is an input. Everything else (None, numbers, strings, bools) is configuration:
torch.export fixes it in the graph, and the signature does not ask for it.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_torch.values import skeleton, to_numpy
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Argument
from edgec.runtime.tree import leaf_names
from edgec.toolchain.program import Input, State

__all__ = ["Arguments", "bind_arguments", "named_values"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of one function, taken apart.

    Attributes:
        arguments: what the caller gives, as the signature has it.
        names: the name of each input.
        examples: the example of each input.
        roles: for each leaf of `(args, kwargs)` in torch's order, what it is; None: configuration.
    """

    arguments: tuple[Argument, ...]
    names: tuple[str, ...]
    examples: tuple[np.ndarray, ...]
    roles: tuple[Input | State | None, ...]


def bind_arguments(
    parameters: Sequence[inspect.Parameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    states: Sequence[str] | None,
) -> Arguments:
    """Take the example arguments of a function apart.

    Args:
        parameters: the function's own; empty where they are not known.
        args: positional examples, the state first if there is one.
        kwargs: examples by keyword.
        states: the names of the leaves of the first argument if that is the state, else None.

    Raises:
        UsageError: the function does not take these arguments.
    """
    _check(parameters, args, kwargs)
    names = _positional_names(parameters, len(args))
    order = {parameter.name: index for index, parameter in enumerate(parameters)}
    roles: list[Input | State | None] = []
    inputs: list[str] = []
    examples: list[np.ndarray] = []
    bound: list[Argument] = []

    def number(leaf: Any) -> int | None:
        if not hasattr(leaf, "detach"):
            roles.append(None)
            return None
        roles.append(Input(index=len(examples)))
        examples.append(leaf)
        return len(examples) - 1

    if states is not None:
        roles += [State(name=name) for name in states]
    start = 0 if states is None else 1
    positional = list(zip(names[start:], args[start:], strict=True))
    for name, value in [*positional, *kwargs.items()]:
        first, before = len(examples), len(roles)
        tree = skeleton(value, number)
        labels = leaf_names(tree, name)
        inputs += [labels[index] for index in range(first, len(examples))]
        if first == len(examples) and len(roles) > before and value is not None:
            continue
        bound.append(
            Argument(name=name, tree=tree, keyword_only=_only_by_keyword(parameters, name, kwargs))
        )
    # Those by keyword may come in any order; those by position, `*rest` among them, are in theirs.
    bound.sort(key=lambda each: order.get(each.name, len(order)) if each.name in kwargs else -1)
    if all(argument.name in order for argument in bound):
        bound = _after_gaps(bound, parameters)
    return Arguments(
        arguments=tuple(bound),
        names=tuple(inputs),
        examples=tuple(to_numpy(e, n) for e, n in zip(examples, inputs, strict=True)),
        roles=tuple(roles),
    )


def named_values(
    parameters: Sequence[inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by the names of the function's parameters."""
    return {**dict(zip(_positional_names(parameters, len(args)), args, strict=True)), **kwargs}


def _check(
    parameters: Sequence[inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    if not parameters:
        return
    signature = inspect.Signature(list(parameters))
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the example inputs do not fit the model: {error}", hint=f"it takes {signature}"
        ) from error


def _positional_names(parameters: Sequence[inspect.Parameter], count: int) -> list[str]:
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    return [
        plain[index] if index < len(plain) else f"{variadic}{index - len(plain)}"
        for index in range(count)
    ]


def _only_by_keyword(
    parameters: Sequence[inspect.Parameter], name: str, kwargs: Mapping[str, Any]
) -> bool:
    if name not in kwargs:
        return False
    return not any(p.name == name and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def _after_gaps(
    bound: Sequence[Argument], parameters: Sequence[inspect.Parameter]
) -> list[Argument]:
    """The arguments with those after a parameter that is left out only by keyword."""
    result: list[Argument] = []
    given = {argument.name for argument in bound}
    first = next((i for i, p in enumerate(parameters) if p.name in given), 0)
    names = [p.name for p in parameters[first:]]
    for position, argument in enumerate(bound):
        gap = names[position] != argument.name
        result.append(
            Argument(
                name=argument.name, tree=argument.tree, keyword_only=argument.keyword_only or gap
            )
        )
    return result
