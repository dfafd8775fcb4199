"""A Keras model on JAX as a pure function over its variables, with the caller's argument names."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.exporters.from_jax_models import Pure
from edgec.runtime.errors import SourceError

__all__ = ["input_names", "pure"]

_COUNTED = ("keras_tensor", "input_layer")
"""How names begin that Keras made up by counting."""


def pure(model: Any, inputs: tuple[Any, ...], name: str) -> Pure:
    """The model in inference mode; arrays are its variables by their paths.

    The argument of a model with a single input is named like that.

    Raises:
        SourceError: it is no Keras model or layer, or not built and not to be built from `inputs`.
    """
    if not hasattr(model, "stateless_call"):
        raise SourceError(
            f"{name} is a {type(model).__name__}, which is no Keras model or layer",
            hint="give the model itself",
        )
    if not model.built:
        try:
            model(*inputs, **_training(model))
        except Exception as error:
            raise SourceError(
                f"the Keras model {name} cannot be built on the example inputs: {error}",
                hint="call the model on the example inputs yourself; it must run",
            ) from error
    trainable = list(model.trainable_variables)
    fixed = list(model.non_trainable_variables)
    arrays = {
        path: variable.value
        for path, variable in zip(_paths([*trainable, *fixed]), [*trainable, *fixed], strict=True)
    }
    training = _training(model)

    def call(
        leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        count = len(trainable)
        result, after = model.stateless_call(
            list(leaves[:count]), list(leaves[count:]), *args, **kwargs, **training
        )
        return [*leaves[:count], *after], result

    return Pure(call=call, arrays=arrays, signature=_signature(model, inputs))


def input_names(model: Any) -> list[str]:
    """The names of a functional model's inputs, as Python can spell them.

    Names that Keras made up itself, by counting, are not told: a lone input is `inputs` then.
    """
    found: list[str] = []
    for tensor in getattr(model, "inputs", None) or ():
        name = "".join(c if c.isalnum() else "_" for c in tensor.name) or "input"
        found.append(f"_{name}" if name[0].isdigit() else name)
    if len(found) == 1 and found[0].startswith(_COUNTED):
        return ["inputs"]
    if len(set(found)) < len(found) or any(name.startswith(_COUNTED) for name in found):
        return [f"input_{number}" for number in range(len(found))]
    return found


def _training(model: Any) -> dict[str, bool]:
    """The argument that switches training off, for models that take it."""
    try:
        parameters = inspect.signature(model.call).parameters
    except (TypeError, ValueError):
        return {}
    return {"training": False} if "training" in parameters else {}


def _signature(model: Any, inputs: tuple[Any, ...]) -> inspect.Signature | None:
    names = input_names(model)
    own = inspect.signature(model.call)
    hidden = ("training", "mask")
    parameters = [p for p in own.parameters.values() if p.name not in hidden]
    if len(names) == 1 and len(inputs) == 1 and parameters:
        first = parameters[0]
        parameters[0] = inspect.Parameter(names[0], first.kind)
    return own.replace(parameters=parameters)


def _paths(variables: Sequence[Any]) -> list[str]:
    """The path of each variable, numbered where two layers have one name."""
    found: list[str] = []
    for variable in variables:
        path = base = variable.path
        number = 1
        while path in found:
            number += 1
            path = f"{base}_{number}"
        found.append(path)
    return found
