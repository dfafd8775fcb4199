"""ONNX models to traced functions; onnxruntime or onnx.reference gives the golden answers.

Initialisers of some size are weights by their names; smaller ones, which operations read shapes
and scales from, stay constants. Names of inputs and outputs are kept, spelt as Python can.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.conditioning import answers_beside, conditioned
from edgec.exporters.dynamic import Dynamic, other_sizes, resize
from edgec.exporters.extras import need
from edgec.exporters.from_onnx.beside import inputs_beside, refuse_missing_weights
from edgec.exporters.from_onnx.classes import in_numbers
from edgec.exporters.from_onnx.inputs import OnnxInput, example_inputs, graph_inputs, plain_name
from edgec.exporters.from_onnx.lower import RefusedOperations, has_stablehlo
from edgec.exporters.from_onnx.lowering import lowered_model
from edgec.exporters.from_onnx.narrow import carried, widened
from edgec.exporters.from_onnx.on_the_way import numbers_of, values_of
from edgec.exporters.from_onnx.prepare import nothing_empty
from edgec.exporters.from_onnx.quantised import is_quantised
from edgec.exporters.from_onnx.sessions import Answers
from edgec.exporters.from_onnx.statics import choosing_inputs, deciding_inputs, with_constants
from edgec.exporters.open_sizes import say_fixed, with_guesses
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError, ExportError, SourceError, UsageError
from edgec.runtime.signature import Argument, Dim, Signature, TensorSpec
from edgec.toolchain.program import Dialect, Output

__all__ = ["load", "trace"]

_LOG = logging.getLogger("edgec.exporters")


def trace(bundle: Bundle, *, dynamic: Dynamic, values: bool = False) -> tuple[TracedFunction, ...]:
    """Import each `onnx.ModelProto` of a bundle, and run it for golden answers.

    With `values`, what each node gives on the way to the first of them is kept, too.

    Raises:
        ExportError: the model cannot be run or imported; UnsupportedOp where an operation is why.
        MissingExtra: onnx or onnxruntime is not installed.
        UsageError: example inputs or dynamic dimensions that do not fit.
    """
    for package in ("onnx", "onnxruntime"):
        need(package, extra="onnx", why="exporting an ONNX model")
    return tuple(_trace(entry, dynamic, values=values) for entry in bundle.entries)


def load(path: Path, *, signatures: tuple[str, ...]) -> Bundle:
    """Open an `.onnx` file; example inputs are made from its input shapes.

    Raises:
        SourceError: it is no ONNX model.
    """
    need("onnx", extra="onnx", why="opening an ONNX model")
    import onnx

    unknown = [name for name in signatures if name != "main"]
    if unknown:
        raise SourceError(
            f"{path} has no signature {unknown[0]}",
            hint="an .onnx file has one, main; give --signature NAME=main to rename it",
        )
    try:
        refuse_missing_weights(path)
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except EdgecError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        raise SourceError(
            f"{path} is no sound ONNX model: {lines[0] if lines else type(error).__name__}",
            hint="export it again from its framework",
        ) from error
    return Bundle((Entry(model, inputs_beside(path)),))


def _trace(entry: Entry, dynamic: Dynamic, *, values: bool) -> TracedFunction:
    model = entry.function
    if not hasattr(model, "graph") or not hasattr(model, "opset_import"):
        raise SourceError(
            f"{entry.name} is a {type(model).__name__}, which is no ONNX model",
            hint="give an onnx.ModelProto, as onnx.load reads it",
        )
    if entry.has_state:
        raise ExportError(
            f"{entry.name} takes the bundle's state, and ONNX models have none",
            hint="pass the state in as an input and out as an output",
        )
    model = in_numbers(model, entry.name)
    session = Answers(model, entry.name)
    model = widened(model)
    given = graph_inputs(model)
    bound = _bound(entry, given)
    examples = bound or example_inputs(
        given, session, dynamic, lambda shapes: nothing_empty(model, given, shapes)
    )
    shapes = dynamic.shapes({i.name: array.shape for i, array in zip(given, examples, strict=True)})
    opened = {} if bound else {i.name: i.shape for i in given}
    say_fixed(entry.name, opened, shapes)
    inputs = tuple(
        TensorSpec(name=i.name, shape=shapes[i.name], dtype=DType.of(array.dtype))
        for i, array in zip(given, examples, strict=True)
    )
    literal = Answers(model, entry.name, literal=True) if is_quantised(model) else None
    calls = tuple(
        _golden(entry.name, given, data, session, literal)
        for data in _example_data(inputs, examples)
    )
    static = all(spec.is_static for spec in inputs)
    found = partial(
        lowered_model,
        model,
        {i.own: [d.name if isinstance(d, Dim) else d for d in shapes[i.name]] for i in given},
        {i.own: number for number, i in enumerate(given)},
        numbers=numbers_of(model) if values else {},
        name=entry.name,
    )
    kept = "" if has_stablehlo() else "torch-mlir, which leads to StableHLO, is not installed"
    if not static:
        kept = "sizes are open in it, and ONNX' importer writes those in the torch dialect alone"
    try:
        lowered = found(Dialect.TORCH if kept else Dialect.STABLEHLO)
    except RefusedOperations as refused:
        deciding = deciding_inputs(model)
        if not deciding and "If" in refused.operations:
            deciding = choosing_inputs(model)
        if deciding:
            return _trace(_decided(entry, given, examples, deciding), dynamic, values=values)
        kept = f"{refused.error.what}{f', at {w}' if (w := refused.error.where) else ''}"
        try:
            lowered = found(Dialect.TORCH)
        except RefusedOperations:
            raise with_guesses(refused.error, opened, shapes) from None
    except ExportError as error:
        raise with_guesses(error, opened, shapes) from error
    prepared, code = lowered.model, lowered.code
    outputs = _outputs(prepared, inputs, calls)
    several = len(outputs) > 1
    return TracedFunction(
        module=code,
        dialect=lowered.dialect,
        signature=Signature(
            name=entry.name,
            inputs=inputs,
            outputs=outputs,
            arguments=tuple(Argument(name=s.name, tree=i) for i, s in enumerate(inputs)),
            result={s.name: i for i, s in enumerate(outputs)} if several else 0,
        ),
        arguments=lowered.roles,
        results=tuple(Output(index=i) for i in range(len(outputs))),
        parameters=lowered.weights,
        calls=calls,
        values=values_of(model, entry.name, given, calls[0].inputs) if values else (),
        computed_by="onnxruntime",
        kept=kept,
    )


def _decided(
    entry: Entry,
    given: Sequence[OnnxInput],
    examples: Sequence[np.ndarray],
    deciding: Sequence[str],
) -> Entry:
    """The entry without the inputs that decide shapes; they are what they are in the example."""
    values = {i.own: array for i, array in zip(given, examples, strict=True)}
    _LOG.warning(
        "%s of %s decide shapes or branches: they are part of the program as they are in the "
        "example inputs, and no inputs of it",
        ", ".join(deciding),
        entry.name,
    )
    return replace(
        entry,
        function=with_constants(entry.function, {name: values[name] for name in deciding}),
        inputs=tuple(values[i.own] for i in given if i.own not in deciding),
        kwargs=None,
    )


def _golden(
    name: str,
    given: Sequence[OnnxInput],
    data: Sequence[np.ndarray],
    session: Answers,
    literal: Answers | None,
) -> TracedCall:
    """The answers to some inputs, and how far they are settled."""
    answers = session.run(given, data)
    if literal is not None:
        within = _within(answers, literal.run(given, data))
        return TracedCall(inputs=tuple(data), outputs=answers, within=within)
    try:
        others = answers_beside(partial(session.run, given), data, answers)
    except ExportError:  # sizes, for one, that are floats
        others = []
    return conditioned(data, answers, others, name=name)


def _within(answers: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> tuple[float, ...]:
    """How far a quantised model's answers may be off.

    A sum that lies between two bytes goes either way with the order of summation, and what follows
    differs by a step. So answers may be four times as far off as onnxruntime's own two ways of
    computing them are apart, and by one part in fifty of the largest answer.
    """
    found = []
    for answer, other in zip(answers, others, strict=True):
        if answer.dtype.kind not in "fiu" or not answer.size:
            found.append(0.0)
            continue
        wide, apart = answer.astype(np.float64), other.astype(np.float64)
        if wide.shape != apart.shape:
            apart = wide
        finite = np.isfinite(wide) & np.isfinite(apart)  # what is not must be met
        most = np.abs(wide[finite] - apart[finite]).max(initial=0)
        found.append(float(max(4 * most, 0.02 * np.abs(wide[finite]).max(initial=0))))
    return tuple(found)


def _bound(entry: Entry, given: Sequence[OnnxInput]) -> list[np.ndarray]:
    """The entry's example inputs in the graph's order; empty if it has none."""
    if not entry.inputs and not entry.kwargs:
        return []
    values: dict[str, Any] = {i.name: v for i, v in zip(given, entry.inputs, strict=False)}
    for key, value in dict(entry.kwargs or {}).items():
        values[plain_name(key)] = value
    names = [i.name for i in given]
    if len(entry.inputs) > len(given) or set(values) != set(names):
        raise UsageError(
            f"the example inputs do not fit {entry.name}",
            hint=f"it takes {', '.join(names)}",
        )
    return [carried(np.asarray(values[name])) for name in names]


def _example_data(
    inputs: Sequence[TensorSpec], examples: Sequence[np.ndarray]
) -> list[list[np.ndarray]]:
    sets = [list(examples)]
    dims: dict[str, Dim] = {}
    sizes: dict[str, int] = {}
    for spec, array in zip(inputs, examples, strict=True):
        for dim, size in zip(spec.shape, array.shape, strict=True):
            if isinstance(dim, Dim):
                dims[dim.name], sizes[dim.name] = dim, size
    for chosen in other_sizes(dims, sizes) if dims else ():
        sets.append(
            [
                resize(a, [d if isinstance(d, int) else chosen[d.name] for d in spec.shape])
                for a, spec in zip(examples, inputs, strict=True)
            ]
        )
    return sets


def _outputs(
    model: Any, inputs: Sequence[TensorSpec], calls: Sequence[TracedCall]
) -> tuple[TensorSpec, ...]:
    dims = {d.name: d for spec in inputs for d in spec.shape if isinstance(d, Dim)}
    found: list[TensorSpec] = []
    for number, value in enumerate(model.graph.output):
        name = plain_name(value.name)
        sizes = {call.outputs[number].shape for call in calls}
        first = calls[0].outputs[number]
        shape: list[int | Dim] = list(first.shape)
        inferred = value.type.tensor_type.shape.dim
        for axis in range(len(shape)) if dims else ():
            known = inferred[axis] if axis < len(inferred) else None
            if known is not None and known.dim_param in dims:
                shape[axis] = dims[known.dim_param]
            elif len({size[axis] for size in sizes}) > 1:
                following = _following(
                    inputs, calls, [c.outputs[number].shape[axis] for c in calls]
                )
                shape[axis] = following or Dim(name=f"{name}_{axis}")
        found.append(TensorSpec(name=name, shape=tuple(shape), dtype=DType.of(first.dtype)))
    return tuple(found)


def _following(
    inputs: Sequence[TensorSpec], calls: Sequence[TracedCall], sizes: Sequence[int]
) -> Dim | None:
    """The one dimension of the inputs that had these sizes in the calls."""
    found = {
        dim.name: dim
        for number, spec in enumerate(inputs)
        for axis, dim in enumerate(spec.shape)
        if isinstance(dim, Dim) and [c.inputs[number].shape[axis] for c in calls] == list(sizes)
    }
    return next(iter(found.values())) if len(found) == 1 else None
