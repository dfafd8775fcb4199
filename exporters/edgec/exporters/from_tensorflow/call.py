"""A TensorFlow model with example inputs as one flat `tf.function` over named tensors."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgec.exporters.bundle import Entry
from edgec.runtime import tree
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, InputError, SourceError, UnsupportedOp, UsageError
from edgec.runtime.signature import Argument, Signature, TensorSpec
from edgec.runtime.tree import Tree

__all__ = ["Flat", "SavedFunction", "flatten_entry"]


@dataclass(frozen=True, kw_only=True)
class SavedFunction:
    """A function of a SavedModel; `root` is the model, whose variables live as long as it does."""

    function: Any
    root: Any
    names: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as the SavedModel's own."""
        return self.function(*args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Flat:
    """One entry, flat.

    Attributes:
        call: takes a list of tensors and gives a list of tensors.
        names: a name for each input.
        examples: example inputs as NumPy arrays.
        arguments: how the caller nests them.
        made: filled by each call: the nesting of the results, under `result`.
    """

    name: str
    call: Callable[[Sequence[Any]], list[Any]]
    names: tuple[str, ...]
    examples: tuple[np.ndarray, ...]
    arguments: tuple[Argument, ...]
    made: dict[str, Tree] = field(default_factory=dict)

    def signature(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Signature:
        """The signature, once a call has been made."""
        return Signature(
            name=self.name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            arguments=self.arguments,
            result=self.made["result"],
        )

    def output_names(self) -> tuple[str, ...]:
        """A name for each result, once a call has been made."""
        result = self.made["result"]
        names = tree.leaf_names(result, "" if isinstance(result, dict) else "result")
        return tuple(names[i] for i in range(len(names)))


def flatten_entry(entry: Entry) -> Flat:
    """Take an entry's example inputs apart: tensors, arrays and NumPy scalars are inputs.

    Python numbers, strings and booleans are configuration, as they are to `tf.function`.

    Raises:
        SourceError: the entry's model cannot be called.
        UsageError: the model does not take these arguments.
        UnsupportedOp: an example is of an element type that no module can take, such as strings.
    """
    model = entry.function
    if not callable(model):
        raise SourceError(
            f"{entry.name} is a {type(model).__name__}, which cannot be called",
            hint="give a tf.function, a tf.Module with __call__, or one of its methods",
        )
    kwargs = dict(entry.kwargs or {})
    names = _argument_names(model, entry.inputs, kwargs, entry.name)
    arguments: list[Argument] = []
    leaf_names: list[str] = []
    examples: list[np.ndarray] = []
    templates: list[tuple[Tree, list[Any]]] = []
    for name, value in zip([*names, *kwargs], [*entry.inputs, *kwargs.values()], strict=True):
        leaves, skeleton = tree.flatten(value)
        numbers: dict[int, int] = {}
        for position, leaf in enumerate(leaves):
            if not _is_array(leaf):
                continue
            numbers[position] = len(examples)
            examples.append(_array(leaf, name))
        shown = tree.renumber(skeleton, numbers)
        labels = tree.leaf_names(shown, name)
        leaf_names += [labels[number] for number in numbers.values()]
        if numbers:
            arguments.append(Argument(name=name, tree=shown))
        slots = [_Slot(numbers[i]) if i in numbers else leaf for i, leaf in enumerate(leaves)]
        templates.append((skeleton, slots))
    count = len(entry.inputs)
    made: dict[str, Tree] = {}

    def call(tensors: Sequence[Any]) -> list[Any]:
        values = [
            tree.unflatten(
                skeleton, [tensors[s.index] if isinstance(s, _Slot) else s for s in slots]
            )
            for skeleton, slots in templates
        ]
        result = model(*values[:count], **dict(zip(kwargs, values[count:], strict=True)))
        leaves, made["result"] = tree.flatten(result)
        return [_result(leaf, entry.name) for leaf in leaves]

    return Flat(
        name=entry.name,
        call=call,
        names=tuple(leaf_names),
        examples=tuple(examples),
        arguments=tuple(arguments),
        made=made,
    )


@dataclass(frozen=True)
class _Slot:
    index: int


def _is_array(value: Any) -> bool:
    import tensorflow as tf

    return tf.is_tensor(value) or isinstance(value, np.ndarray | np.generic | tf.Variable)


def _array(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    try:
        DType.of(array.dtype)
    except InputError as error:
        kind = "strings" if array.dtype.kind in "OSU" else str(array.dtype)
        raise UnsupportedOp(
            f"the input {name} holds {kind}, which no module can take",
            hint="export the part of the model after strings have become numbers",
        ) from error
    return array


def _result(leaf: Any, name: str) -> Any:
    import tensorflow as tf

    if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
        raise UnsupportedOp(
            f"{name} returns a {type(leaf).__name__}, which no module can give",
            hint="return a dense tensor: call .to_tensor() or tf.sparse.to_dense",
        )
    try:
        return tf.convert_to_tensor(leaf)
    except (TypeError, ValueError) as error:
        raise ExportError(
            f"{name} returns a {type(leaf).__name__}, which is no tensor",
            hint="return tensors, in dicts, lists and tuples as you like",
        ) from error


def _argument_names(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> list[str]:
    if isinstance(model, SavedFunction):
        return list(model.names[: len(args)])
    signature = _signature(model)
    if signature is None:
        return [f"x{number}" for number in range(len(args))]
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the example inputs do not fit {name}: {error}", hint=f"it takes {signature}"
        ) from error
    found: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = len(args) - len(found)
            found += [f"{parameter.name}{number}" for number in range(rest)]
    return found[: len(args)]


def _signature(model: Any) -> inspect.Signature | None:
    """The parameters as the caller gives them, seen through `tf.function`."""
    function = model
    if hasattr(model, "call") and hasattr(model, "built"):
        function = model.call  # a Keras layer's own __call__ takes anything
    while not inspect.ismethod(function) and hasattr(function, "python_function"):
        function = function.python_function
    try:
        return inspect.signature(functools.partial(function))
    except (TypeError, ValueError):
        return None
