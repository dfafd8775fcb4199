"""Keras 3 models and `.keras` files to traced functions, through JAX; TensorFlow is not needed.

A model is called as `stateless_call`: its variables become weights named by their paths, what a
call changes (the memory of a stateful layer) becomes state. The backend is fixed when Keras is
imported: edgec chooses JAX if it comes first, and a model that lives on another backend is saved
and traced in a process of its own.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.examples import example_array
from edgec.exporters.extras import need
from edgec.exporters.failures import reason_of
from edgec.exporters.from_jax import export as from_jax
from edgec.exporters.from_keras.call import input_names, output_names, pure, user_frames
from edgec.exporters.open_sizes import INNER, example_shape, say_fixed
from edgec.exporters.places import place_of_error
from edgec.exporters.traced import TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError, SourceError
from edgec.runtime.signature import TensorSpec

__all__ = ["load", "trace"]

_WHY = "exporting a Keras model"


def trace(bundle: Bundle, *, dynamic: Dynamic, values: bool = False) -> tuple[TracedFunction, ...]:
    """Trace each model of a bundle on its example inputs, and run it for golden answers.

    With `values`, what JAX (or TensorFlow, where only that runs the model) computes on the way to
    each one's first answer is kept, too.

    A model without example inputs is given some that fit its own input shapes; an open
    dimension of these is 1 if it leads (the batch), else the first of `INNER` that gives numbers.

    Raises:
        ExportError: the model cannot be traced; UnsupportedOp where an operation is the reason.
        MissingExtra: Keras or JAX is not installed.
        UsageError: example inputs or dynamic dimensions that do not fit.
    """
    need("keras", extra="keras", why=_WHY)
    _choose_backend()
    import keras

    entries = tuple(_with_examples(entry, dynamic) for entry in bundle.entries)
    bundle = replace(bundle, entries=entries)
    if keras.backend.backend() != "jax":
        return _trace_elsewhere(bundle, dynamic, keras.backend.backend(), values=values)
    need("jax", extra="keras", why=_WHY)
    models = tuple(replace(e, function=pure(e.function, e.inputs, e.name)) for e in entries)
    with user_frames():
        traced = from_jax.trace(replace(bundle, entries=models), dynamic=dynamic, values=values)
    return tuple(
        _with_names(each, output_names(entry.function))
        for each, entry in zip(traced, entries, strict=True)
    )


def _with_names(traced: TracedFunction, names: Sequence[str]) -> TracedFunction:
    """The outputs called as their layers are; those of a dict have the names of its keys."""
    signature = traced.signature
    if isinstance(signature.result, dict) or len(names) != len(signature.outputs):
        return traced
    outputs = tuple(
        replace(spec, name=name or spec.name)
        for spec, name in zip(signature.outputs, names, strict=True)
    )
    return replace(traced, signature=replace(signature, outputs=outputs))


def _trace_elsewhere(
    bundle: Bundle, dynamic: Dynamic, backend: str, *, values: bool
) -> tuple[TracedFunction, ...]:
    """Through JAX in a child; through TensorFlow if only the model's own Python can make it.

    JAX goes first because dimensions can be dynamic there, and because the compiler dies of the
    loops that TensorFlow makes of recurrent layers.
    """
    from edgec.exporters.from_keras.elsewhere import NotReopened, trace_in_child

    try:
        return trace_in_child(bundle, dynamic=dynamic, values=values)
    except NotReopened:
        if backend != "tensorflow" or dynamic:
            raise
    from edgec.exporters.from_tensorflow.export import trace as trace_tensorflow

    return trace_tensorflow(bundle, dynamic=dynamic, values=values)


def load(path: Path, *, signatures: tuple[str, ...]) -> Bundle:
    """Open a `.keras` file; the example inputs are made from its input shapes.

    Raises:
        MissingExtra: Keras or its backend is not installed.
        SourceError: it is no such file, or its layers are not known here.
    """
    need("keras", extra="keras", why="opening a .keras file")
    _choose_backend()
    import keras

    if len(signatures) > 1 or any(name != "main" for name in signatures):
        raise SourceError(
            f"{path} has no signature {next(n for n in signatures if n != 'main')}",
            hint="a .keras file has one, main; give --signature NAME=main to rename it",
        )
    try:
        model = keras.models.load_model(path, compile=False)
    except EdgecError:
        raise
    except Exception as error:
        raise SourceError(
            f"Keras cannot open {path}: {reason_of(error)}",
            where=place_of_error(error),
            hint="a model with own layers or Lambdas is exported from Python: name a function "
            "that returns it, as model.py:make_model",
        ) from error
    return Bundle((Entry(model),))


def _choose_backend() -> None:
    """Have Keras run on JAX, unless it was imported before or the user chose another backend.

    Opening a file brings TensorFlow along where it is installed, with notes about this machine.
    """
    if "keras" not in sys.modules:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    if "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    need(
        {"jax": "jax", "tensorflow": "tensorflow", "torch": "torch"}.get(
            os.environ.get("KERAS_BACKEND", ""), "keras"
        ),
        extra="keras",
        why=_WHY,
    )


def _with_examples(entry: Entry, dynamic: Dynamic) -> Entry:
    if entry.inputs or entry.kwargs:
        return entry
    given = getattr(entry.function, "inputs", None)
    names = input_names(entry.function)
    if not given or not names:
        raise SourceError(
            f"the Keras model {entry.name} has no input shapes to make example inputs from",
            hint="give example inputs: return (model, example_inputs)",
        )
    opened = {name: tuple(tensor.shape) for name, tensor in zip(names, given, strict=True)}
    found = entry
    for size in INNER:
        shapes = {n: example_shape(n, shape, size, dynamic) for n, shape in opened.items()}
        found = _with_arrays(
            entry, [_example(n, t, shapes[n]) for n, t in zip(names, given, strict=True)]
        )
        if all(None not in shape[1:] for shape in opened.values()) or _gives_numbers(found):
            break
    say_fixed(entry.name, opened, dynamic.shapes(shapes))
    return found


def _gives_numbers(entry: Entry) -> bool:
    """Whether the model runs on the entry's examples, and answers with numbers."""
    from keras import ops, tree

    try:
        answers = tree.flatten(entry.function(*entry.inputs))
    except Exception:  # noqa: BLE001 - whatever a layer says of a size that it does not take
        return False
    arrays = [np.asarray(ops.convert_to_numpy(answer), np.float64) for answer in answers]
    return all(array.size and not np.isnan(array).any() for array in arrays)


def _with_arrays(entry: Entry, arrays: Sequence[np.ndarray]) -> Entry:
    """The entry with these for its examples, nested as the model takes them."""
    given = entry.function.inputs
    structure = getattr(entry.function, "_inputs_struct", None)
    if isinstance(structure, Mapping):
        by_tensor = {id(t): array for t, array in zip(given, arrays, strict=True)}
        return replace(entry, inputs=({k: by_tensor[id(t)] for k, t in structure.items()},))
    if isinstance(structure, list | tuple) and len(arrays) > 1:
        return replace(entry, inputs=(list(arrays),))
    return replace(entry, inputs=tuple(arrays))


def _example(name: str, tensor: Any, shape: tuple[int, ...]) -> np.ndarray:
    return example_array(TensorSpec(name=name, shape=shape, dtype=DType.of(tensor.dtype)))
