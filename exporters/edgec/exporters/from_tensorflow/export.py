"""TensorFlow functions, modules and SavedModels to traced StableHLO functions.

TensorFlow's own compiler lowers a flat `tf.function`. Variables that are only read become
parameters, those that some function assigns become state; names are kept.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle
from edgec.exporters.conditioning import answers_beside, conditioned
from edgec.exporters.dynamic import Dynamic, other_sizes, resize
from edgec.exporters.extras import need
from edgec.exporters.failures import user_errors
from edgec.exporters.from_tensorflow.call import Flat, flatten_entry
from edgec.exporters.from_tensorflow.captures import Captures
from edgec.exporters.from_tensorflow.lower import Lowered, lower
from edgec.exporters.from_tensorflow.nodes import Nodes
from edgec.exporters.from_tensorflow.on_the_way import values_of
from edgec.exporters.places import first_users, place_of_error
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, InputError, UnsupportedOp
from edgec.runtime.signature import Dim, TensorSpec
from edgec.toolchain.framework_values import FrameworkValue
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Role, State

__all__ = ["load", "trace"]

_ROUNDS_WITH_STATE = 3
_WHY = "exporting a TensorFlow model"


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """One entry after TensorFlow's compiler.

    Attributes:
        captures: keys of `Captures`, in order.
        concrete: the traced function.
        nodes: what is known of its nodes.
    """

    flat: Flat
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    lowered: Lowered
    captures: tuple[int, ...]
    concrete: Any
    nodes: Nodes


def trace(bundle: Bundle, *, dynamic: Dynamic, values: bool = False) -> tuple[TracedFunction, ...]:
    """Compile each entry of a bundle, and run it in TensorFlow for golden answers.

    Variables that a function assigns get their values back after the runs. With `values`, what
    TensorFlow computes on the way to each one's first answer is kept, too.

    Raises:
        ExportError: TensorFlow cannot run or compile it; UnsupportedOp where an operation is why.
        MissingExtra: TensorFlow is not installed.
        UsageError: example inputs or dynamic dimensions that do not fit.
    """
    need("tensorflow", extra="tensorflow", why=_WHY)
    _quiet()
    for entry in bundle.entries:
        if entry.has_state:
            raise ExportError(
                f"{entry.name} takes the bundle's state, and TensorFlow keeps state in variables",
                hint="keep it in a tf.Variable and assign to it in the function",
            )
    captures = Captures([entry.function for entry in bundle.entries])
    compiled = [
        _compile(flatten_entry(entry), dynamic, captures, values=values) for entry in bundle.entries
    ]
    updated = {c.captures[i - len(c.inputs)] for c in compiled for i in c.lowered.updates}
    before = {key: captures.value(key) for c in compiled for key in c.captures}
    calls: list[list[TracedCall]] = [[] for _ in compiled]
    noted: list[tuple[FrameworkValue, ...]] = [() for _ in compiled]
    try:
        for number in range(_ROUNDS_WITH_STATE if updated else 1):
            for index, one in enumerate(compiled):
                if number == 0:
                    noted[index] = _values(one, captures, updated)
                for data in _example_data(one, other=not updated and number == 0):
                    calls[index].append(_run(one.flat, data, once=bool(updated)))
    finally:
        for key in updated:
            captures.assign(key, before[key])
    return tuple(
        replace(
            _traced(one, tuple(made), captures, updated, before),
            values=values_on_way,
            computed_by="tensorflow",
        )
        for one, made, values_on_way in zip(compiled, calls, noted, strict=True)
    )


def load(path: Path, *, signatures: tuple[str, ...]) -> Bundle:
    """Open a SavedModel folder; example inputs are made from the shapes of its signatures.

    Without names, `serving_default` is taken, as `main`; else its only signature, else all.

    Raises:
        SourceError: it is no SavedModel, or has no such signature.
    """
    need("tensorflow", extra="tensorflow", why="opening a SavedModel")
    _quiet()
    from edgec.exporters.from_tensorflow.saved import open_saved_model

    return open_saved_model(path, signatures)


def _quiet() -> None:
    """Keep TensorFlow's notes about this machine off the terminal, if it is not yet here.

    With oneDNN it warns of another order of summation; golden answers do without.
    """
    if "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")


def _compile(flat: Flat, dynamic: Dynamic, captures: Captures, *, values: bool) -> _Compiled:
    import tensorflow as tf

    shapes = dynamic.shapes({n: a.shape for n, a in zip(flat.names, flat.examples, strict=True)})
    inputs = tuple(
        TensorSpec(name=name, shape=shapes[name], dtype=DType.of(array.dtype))
        for name, array in zip(flat.names, flat.examples, strict=True)
    )
    specs = [
        tf.TensorSpec([None if isinstance(d, Dim) else d for d in s.shape], s.dtype.numpy)
        for s in inputs
    ]

    def call(*tensors: Any) -> list[Any]:
        return flat.call(tensors)

    call.__name__ = flat.name
    function = tf.function(call, jit_compile=True)
    with _user_errors(flat.name, "traced by tf.function"):
        concrete = function.get_concrete_function(*specs)
    keys = tuple(captures.key(tensor, concrete, flat.name) for tensor in concrete.captured_inputs)
    results = concrete.structured_outputs
    dims = {str(d) for s in inputs for d in s.shape if isinstance(d, Dim)}
    if dims:
        raise ExportError(
            f"TensorFlow compiles {flat.name} for fixed sizes only, not for {', '.join(dims)}",
            hint="export it at the sizes of the example inputs, without --dynamic; a Keras model "
            "saved as .keras goes through JAX, where dimensions can be dynamic",
        )
    nodes = Nodes.of(concrete, numbered=values)
    lowered = lower(function, specs, outputs=len(results), name=flat.name, nodes=nodes)
    outputs = tuple(
        _output(name, tensor, inputs, flat.name)
        for name, tensor in zip(flat.output_names(), results, strict=True)
    )
    return _Compiled(
        flat=flat,
        inputs=inputs,
        outputs=outputs,
        lowered=lowered,
        captures=keys,
        concrete=concrete,
        nodes=nodes,
    )


def _output(name: str, tensor: Any, inputs: Sequence[TensorSpec], entry: str) -> TensorSpec:
    try:
        dtype = DType.of(tensor.dtype.as_numpy_dtype)
    except InputError as error:
        raise UnsupportedOp(
            f"{entry} returns {name} of type {tensor.dtype.name}, which no module can give",
            hint="return numbers",
        ) from error
    dims = [d for spec in inputs for d in spec.shape if isinstance(d, Dim)]
    shape = [d if d is not None else _output_dim(dims, name) for d in tensor.shape]
    return TensorSpec(name=name, shape=tuple(shape), dtype=dtype)


def _output_dim(dims: Sequence[Dim], name: str) -> Dim:
    """TensorFlow does not say which size an unknown one is: with one range it is that one."""
    names = {d.name for d in dims}
    return dims[0] if len(names) == 1 else Dim(name=f"{name.replace('.', '_')}_size")


def _example_data(one: _Compiled, *, other: bool) -> list[list[np.ndarray]]:
    sets = [list(one.flat.examples)]
    dims: dict[str, Dim] = {}
    sizes: dict[str, int] = {}
    for spec, array in zip(one.inputs, one.flat.examples, strict=True):
        for dim, size in zip(spec.shape, array.shape, strict=True):
            if isinstance(dim, Dim):
                dims[dim.name], sizes[dim.name] = dim, size
    for chosen in other_sizes(dims, sizes) if other and dims else ():
        sets.append(
            [
                resize(a, [d if isinstance(d, int) else chosen[d.name] for d in spec.shape])
                for a, spec in zip(one.flat.examples, one.inputs, strict=True)
            ]
        )
    return sets


def _values(one: _Compiled, captures: Captures, updated: set[int]) -> tuple[FrameworkValue, ...]:
    """What is computed on the way from the example inputs, where that is asked for."""
    import tensorflow as tf

    if not one.nodes.numbered:
        return ()
    before = {key: captures.value(key) for key in one.captures if key in updated}
    given = [tf.constant(array) for array in one.flat.examples]
    varying = [True] * len(given) + [key in updated for key in one.captures]
    try:
        with _user_errors(one.flat.name, "run node by node"):
            return values_of(
                one.concrete,
                [*given, *one.concrete.captured_inputs],
                varying,
                one.nodes,
                one.flat.name,
            )
    finally:
        for key, value in before.items():
            captures.assign(key, value)


def _run(flat: Flat, data: Sequence[np.ndarray], *, once: bool) -> TracedCall:
    """A golden call; `once` where a call beside it would move the state."""
    import tensorflow as tf

    def answers(given: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(r) for r in flat.call([tf.constant(array) for array in given])]

    with _user_errors(flat.name, "run on the example inputs"):
        found = answers(data)
        others = [] if once else answers_beside(answers, data, found)
    return conditioned(data, found, others, name=flat.name)


def _traced(
    one: _Compiled,
    calls: tuple[TracedCall, ...],
    captures: Captures,
    updated: set[int],
    before: Mapping[int, np.ndarray],
) -> TracedFunction:
    def role(key: int) -> Role:
        name = captures.name(key)
        return State(name=name) if key in updated else Parameter(name=name)

    results: list[Role] = [Output(index=i) for i in range(len(one.outputs))]
    results += [role(one.captures[i - len(one.inputs)]) for i in one.lowered.updates]
    return TracedFunction(
        module=one.lowered.bytecode,
        dialect=Dialect.STABLEHLO,
        signature=one.flat.signature(one.inputs, one.outputs),
        arguments=(
            *(Input(index=i) for i in range(len(one.inputs))),
            *(role(key) for key in one.captures),
        ),
        results=tuple(results),
        parameters={captures.name(k): before[k] for k in one.captures if k not in updated},
        states={captures.name(k): before[k] for k in one.captures if k in updated},
        calls=calls,
    )


def _user_errors(name: str, doing: str) -> AbstractContextManager[None]:
    """TensorFlow says the cause last."""
    return user_errors(
        name,
        doing,
        hint="call the model on the example inputs yourself; it must run under tf.function",
        place=_place,
        line=-1,
    )


def _place(error: BaseException) -> str | None:
    """The user's line; `tf.function` runs a rewritten copy of the code, and knows the original."""
    metadata = getattr(error, "ag_error_metadata", None)
    frames = [
        (frame.filename, frame.lineno, frame.function_name)
        for frame in getattr(metadata, "translated_stack", ())
    ]
    return first_users(frames) or place_of_error(error)
