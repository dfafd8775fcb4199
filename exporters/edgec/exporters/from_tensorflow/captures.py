"""What TensorFlow functions take from outside: variables and tensors, with the user's names."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_tensorflow.call import SavedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, UnsupportedOp

__all__ = ["Captures"]

_NOT_WEIGHTS = {"signatures", "optimizer", "keras_api", "variables", "trainable_variables"}
"""Children of a saved object that only list what is named better elsewhere."""


class Captures:
    """The captured inputs of several functions over the same variables.

    A key stands for one variable or tensor, however many functions capture it.

    Args:
        models: what the functions come from; modules know their variables by path.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self._paths: dict[int, str] = {}
        for model in models:
            self._gather(model)
        self._tensors: dict[int, Any] = {}
        self._variables: dict[int, Any] = {}
        self._names: dict[int, str] = {}

    def key(self, tensor: Any, concrete: Any, name: str) -> int:
        """The key of a captured input of a `ConcreteFunction`.

        Raises:
            UnsupportedOp: it is neither a variable of numbers nor a tensor of numbers.
        """
        import tensorflow as tf

        key = id(tensor)
        if key in self._tensors:
            return key
        base = "constant"
        if tensor.dtype == tf.resource:
            variable = next((v for v in concrete.graph.variables if v.handle is tensor), None)
            if variable is None:
                raise UnsupportedOp(
                    f"{name} uses a lookup table or another resource that is no variable",
                    hint="look keys up before, and pass the indices in; tf.gather from a "
                    "constant can be exported",
                )
            self._variables[key] = variable
            base = self._paths.get(key) or _own_name(variable)
        value = self._variables.get(key, tensor)
        try:
            DType.of(value.dtype.as_numpy_dtype if hasattr(value.dtype, "name") else value.dtype)
        except InputError as error:
            raise UnsupportedOp(
                f"{name} uses {base} of type {value.dtype}, which no module can hold",
                hint="export the part of the model that works on numbers",
            ) from error
        self._tensors[key] = tensor
        taken = set(self._names.values())
        number, chosen = 1, base
        while chosen in taken:
            number += 1
            chosen = f"{base}_{number}"
        self._names[key] = chosen
        return key

    def name(self, key: int) -> str:
        """The name of a captured input, unlike any other's."""
        return self._names[key]

    def value(self, key: int) -> np.ndarray:
        """Its value now."""
        return np.asarray(self._variables.get(key, self._tensors[key]).numpy())

    def assign(self, key: int, value: np.ndarray) -> None:
        """Give a variable a value."""
        self._variables[key].assign(value)

    def _gather(self, model: Any) -> None:
        import tensorflow as tf

        if isinstance(model, SavedFunction):
            self._gather_saved(model.root)
            return
        owner = getattr(getattr(model, "python_function", model), "__self__", model)
        for module in (model, owner):
            for variable in getattr(module, "weights", None) or ():
                path = getattr(variable, "path", None)
                own = getattr(variable, "value", variable)
                handle = getattr(own, "handle", None)
                if path is not None and handle is not None:
                    self._paths.setdefault(id(handle), path)
            if not isinstance(module, tf.Module):
                continue
            found = module._flatten(
                predicate=lambda value: isinstance(value, tf.Variable), with_path=True
            )
            for path, variable in found:
                self._paths.setdefault(id(variable.handle), ".".join(map(str, path)))

    def _gather_saved(self, root: Any) -> None:
        """Paths in a SavedModel, the shortest for each variable."""
        import tensorflow as tf

        seen: set[int] = set()
        level = [("", root)]
        while level:
            below: list[tuple[str, Any]] = []
            for path, node in level:
                if id(node) in seen:
                    continue
                seen.add(id(node))
                if isinstance(node, tf.Variable):
                    self._paths.setdefault(id(node.handle), path)
                children: dict[str, Any] = getattr(node, "_trackable_children", dict)()
                below += [
                    (f"{path}.{name}" if path else str(name), child)
                    for name, child in children.items()
                    if name not in _NOT_WEIGHTS
                ]
            level = below


def _own_name(variable: Any) -> str:
    return str(variable.name).removesuffix(":0")
