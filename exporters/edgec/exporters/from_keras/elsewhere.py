"""A Keras model that lives on another backend than JAX: saved, and traced in a child (`on_jax`).

Keras' backend is fixed for a process, so the child is a fresh one. The golden answers are the
original model's own, from this process, so that the move is proven with the rest.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle
from edgec.exporters.conditioning import answers_beside, conditioned
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.extras import need
from edgec.exporters.traced import TracedFunction
from edgec.runtime import tree
from edgec.runtime.errors import EdgecError, ExportError

__all__ = ["ANSWER", "HINT", "MODELS", "TASK", "NotReopened", "trace_in_child"]

MODELS = "model{}.keras"
TASK = "task.pickle"
ANSWER = "answer.pickle"
"""What lies in the folder that parent and child share."""

HINT = "run with KERAS_BACKEND=jax in the environment, so that the model is built on JAX"
"""What helps whatever failed on the way."""


class NotReopened(ExportError):
    """The saved model needs Python code that only the process it was made in has."""


def trace_in_child(bundle: Bundle, *, dynamic: Dynamic, values: bool) -> tuple[TracedFunction, ...]:
    """Trace the bundle's Keras models on JAX, with golden answers of these very models.

    Raises:
        NotReopened: a model cannot be saved, or not be opened again without its own Python code.
        And what tracing raises.
    """
    need("jax", extra="keras", why="exporting a Keras model")
    with tempfile.TemporaryDirectory(prefix="edgec-keras-") as name:
        folder = Path(name)
        for number, entry in enumerate(bundle.entries):
            try:
                entry.function.save(folder / MODELS.format(number))
            except Exception as error:
                raise NotReopened(
                    f"the Keras model {entry.name} cannot be saved: {error}", hint=HINT
                ) from error
        entries = tuple(
            replace(e, function=None, inputs=_plain(e.inputs), kwargs=_plain(e.kwargs))
            for e in bundle.entries
        )
        task = (replace(bundle, entries=entries), dynamic, values)
        (folder / TASK).write_bytes(pickle.dumps(task))
        child = subprocess.run(
            [sys.executable, "-m", f"{__package__}.on_jax", name],
            env={**os.environ, "KERAS_BACKEND": "jax"},
            capture_output=True,
            text=True,
            check=False,
        )
        answer = folder / ANSWER
        if not answer.exists():
            last = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
            raise ExportError(f"tracing on JAX in a child process failed: {last[0]}", hint=HINT)
        result = pickle.loads(answer.read_bytes())
    if isinstance(result, EdgecError):
        raise result
    return tuple(
        _with_own_answers(entry.function, traced)
        for entry, traced in zip(bundle.entries, result, strict=True)
    )


def _with_own_answers(model: Any, traced: TracedFunction) -> TracedFunction:
    """The function with the original model's answers, and how far these are settled."""
    if traced.states:
        return traced
    signature = traced.signature

    def answers(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        arguments = signature.arguments
        values = [tree.unflatten(a.tree, inputs) for a in arguments if not a.keyword_only]
        named = {a.name: tree.unflatten(a.tree, inputs) for a in arguments if a.keyword_only}
        result = _plain(model(*values, **named, training=False))
        leaves = tree.match(signature.result, result, "result")
        return [leaves[i] for i in range(len(signature.outputs))]

    calls = []
    for call in traced.calls:
        found = answers(call.inputs)
        others = answers_beside(answers, call.inputs, found)
        calls.append(conditioned(call.inputs, found, others, name=signature.name))
    return replace(traced, calls=tuple(calls))


def _plain(value: Any) -> Any:
    """The same nesting with NumPy arrays in it."""
    import keras

    if value is None or isinstance(value, str | bool | int | float | np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(child) for child in value)
    return np.asarray(keras.ops.convert_to_numpy(value))
