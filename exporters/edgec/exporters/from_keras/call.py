"""A Keras model on JAX as a pure function over its variables, with the caller's argument names."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from edgec.exporters.failures import user_errors
from edgec.exporters.from_jax.models import Pure
from edgec.runtime.errors import SourceError

__all__ = ["input_names", "output_names", "pure", "user_frames"]

_COUNTED = ("keras_tensor", "input_layer")
"""How names begin that Keras made up by counting."""


def pure(model: Any, inputs: tuple[Any, ...], name: str) -> Pure:
    """The model in inference mode; arrays are its variables by their paths.

    The argument of a model with a single input is named like that.

    Raises:
        SourceError: it is no Keras model or layer.
        ExportError: it is not built, and cannot be on `inputs`.
    """
    if not hasattr(model, "stateless_call"):
        raise SourceError(
            f"{name} is a {type(model).__name__}, which is no Keras model or layer",
            hint="give the model itself",
        )
    training = _training(model)
    if not model.built:
        with user_frames():
            _build(model, inputs, training, name)
    variables = _variables(model)
    arrays = dict(zip(_paths(variables), (v.value for v in variables), strict=True))

    def call(
        leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        import keras

        with keras.StatelessScope(state_mapping=list(zip(variables, leaves, strict=True))) as scope:
            result = model(*args, **kwargs, **training)
        after = [scope.get_current_value(variable) for variable in variables]
        return after, result

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


def output_names(model: Any) -> list[str]:
    """The names of a functional or sequential model's outputs, as Python can spell them.

    An output is called after the layer that it comes from; empty where Keras named that itself,
    after its class and by counting.
    """
    found: list[str] = []
    for tensor in getattr(model, "outputs", None) or ():
        history = getattr(tensor, "_keras_history", None)
        operation = getattr(history, "operation", None)
        name = str(getattr(operation, "name", ""))
        plain = re.sub(r"_\d+$", "", name).replace("_", "").lower()
        counted = plain == type(operation).__name__.lower()
        name = "".join(c if c.isalnum() else "_" for c in name)
        found.append("" if counted or not name or name in found or name[0].isdigit() else name)
    return found


@contextmanager
def user_frames() -> Iterator[None]:
    """Keep the user's lines in what Keras raises, which it cuts out unless told not to."""
    import keras

    if not keras.config.is_traceback_filtering_enabled():
        yield
        return
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        keras.config.enable_traceback_filtering()


def _build(model: Any, inputs: tuple[Any, ...], training: Mapping[str, bool], name: str) -> None:
    hint = "call the model on the example inputs yourself; it must run"
    with user_errors(f"the Keras model {name}", "called on the example inputs", hint=hint):
        model(*inputs, **training)


def _variables(model: Any) -> list[Any]:
    """All that a call reads or writes; Keras does not list the memory of stateful layers."""
    found = list(model.variables)
    known = {id(variable) for variable in found}
    for layer in model._flatten_layers():
        for states in getattr(layer, "states", None) or ():
            for state in states if isinstance(states, list | tuple) else [states]:
                if hasattr(state, "path") and id(state) not in known:
                    known.add(id(state))
                    found.append(state)
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
