"""`.tflite` files to traced functions, through JAX; LiteRT gives the golden answers.

Every operator has a function of its own in `operators`; quantised models keep their
integers. Names of inputs and outputs are the signature's, spelt as Python can; the tensors' own
names and their quantisation stay with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.extras import need
from edgec.exporters.failures import user_errors
from edgec.exporters.from_jax.arguments import Leaf
from edgec.exporters.from_jax.lower import Lowered, lower
from edgec.exporters.from_jax.shapes import InputShapes, choose_shapes
from edgec.exporters.from_onnx.inputs import plain_name
from edgec.exporters.from_tflite.check import check_operators
from edgec.exporters.from_tflite.example_inputs import example_inputs, in_all_sizes
from edgec.exporters.from_tflite.graph import compute, first_values, weights_of
from edgec.exporters.from_tflite.model import (
    TfliteModel,
    TfliteSignature,
    TfliteSubgraph,
    TfliteTensor,
    read_model,
)
from edgec.exporters.from_tflite.on_the_way import values_of
from edgec.exporters.from_tflite.run import LiteRt
from edgec.exporters.open_sizes import say_fixed
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, SourceError
from edgec.runtime.files import read_bytes
from edgec.runtime.signature import Argument, Signature, TensorSpec
from edgec.toolchain.program import Dialect, Input, Output, Parameter, State

__all__ = ["TfliteFunction", "load", "trace"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TfliteFunction:
    """One signature of a file, or its first subgraph where it has none.

    Attributes:
        data: the file's bytes.
        model: the same, read.
        signature: which; None for the first subgraph.
        subject: the file's name, for messages.
    """

    data: bytes
    model: TfliteModel
    signature: TfliteSignature | None
    subject: str

    @property
    def graph(self) -> TfliteSubgraph:
        """Its tensors and operators."""
        return self.model.subgraphs[self.signature.subgraph if self.signature else 0]

    @property
    def inputs(self) -> list[TfliteTensor]:
        """What it takes."""
        return [self.graph.tensors[i] for i in self.graph.inputs]

    def names(self, indices: Sequence[int], *, results: bool = False) -> list[str]:
        """Names for tensors, spelt as Python can, that differ."""
        said = {} if self.signature is None else self.signature.inputs
        if results and self.signature is not None:
            said = self.signature.outputs
        found: list[str] = []
        for index in indices:
            name = plain_name(said.get(index, self.graph.tensors[index].name))
            number, unique = 1, name
            while unique in found:
                number += 1
                unique = f"{name}_{number}"
            found.append(unique)
        return found


def load(path: Path, *, signatures: tuple[str, ...]) -> Bundle:
    """Open a `.tflite` file: an entry a signature, with made-up example inputs.

    A file without signatures has one, `main`.

    Raises:
        FileError: it cannot be read.
        MissingExtra: LiteRT or JAX is not installed.
        SourceError: it is no such file, or has no such signature.
    """
    data = read_bytes(path)
    model = read_model(data, str(path))
    functions = {
        plain_name(s.key): TfliteFunction(data=data, model=model, signature=s, subject=str(path))
        for s in model.signatures
    } or {"main": TfliteFunction(data=data, model=model, signature=None, subject=str(path))}
    unknown = [name for name in signatures if name not in functions]
    if unknown:
        raise SourceError(
            f"{path} has no signature {unknown[0]}", hint=f"it has {', '.join(functions)}"
        )
    kept = signatures or tuple(functions)
    return Bundle(tuple(Entry(functions[name], name=name) for name in kept))


def trace(bundle: Bundle, *, dynamic: Dynamic, values: bool = False) -> tuple[TracedFunction, ...]:
    """Write each function of a bundle as StableHLO, and run it in LiteRT for golden answers.

    With `values`, what each operator gives on the way to the first of them is kept, too.

    Raises:
        ExportError: LiteRT cannot run it, or JAX cannot trace it; UnsupportedOp where an operator
            is the reason, by name.
        MissingExtra: LiteRT or JAX is not installed.
        UsageError: example inputs or dynamic dimensions that do not fit.
    """
    for package in ("jax", "ai_edge_litert"):
        need(package, extra="tflite", why="exporting a .tflite file")
    import jax

    with jax.enable_x64(True):  # 64-bit integers stay what they are
        return tuple(_trace(entry, dynamic, values=values) for entry in bundle.entries)


def _trace(entry: Entry, dynamic: Dynamic, *, values: bool) -> TracedFunction:
    function = entry.function
    if not isinstance(function, TfliteFunction):
        raise SourceError(
            f"{entry.name} is a {type(function).__name__}, which is no .tflite file",
            hint="export it by its path: export_source('model.tflite')",
        )
    graph = function.graph
    check_operators(graph, function.subject, function.model.subgraphs)
    names = function.names(graph.inputs)
    graphs = function.model.subgraphs
    examples = example_inputs(entry, graph, graphs, names, dynamic)
    leaves = [Leaf(name=n, value=a) for n, a in zip(names, examples, strict=True)]
    shapes = choose_shapes(leaves, dynamic)
    if not entry.inputs and not entry.kwargs:
        opened = {
            name: tuple(None if a in tensor.unknown else d for a, d in enumerate(tensor.shape))
            for name, tensor in zip(names, function.inputs, strict=True)
        }
        say_fixed(entry.name, opened, {spec.name: spec.shape for spec in shapes.inputs})
    weights = weights_of(graph)
    states = first_values(graph, graphs)
    lowered = _lowered(function, weights, states, shapes, entry.name, values=values)
    subgraph = function.signature.subgraph if function.signature else 0
    runner = LiteRt(
        function.data,
        function.model,
        subgraph,
        function.signature.key if function.signature else "",
        entry.name,
    )
    data = in_all_sizes(shapes, examples)
    # What a call leaves in the state shows in the next one.
    calls = runner.calls(data * 2 if states else data, stateful=bool(states))
    return TracedFunction(
        module=lowered.bytecode,
        dialect=Dialect.STABLEHLO,
        signature=_signature(entry.name, function, shapes, lowered),
        arguments=(
            *(Parameter(name=name) for name in weights),
            *(State(name=name) for name in states),
            *(Input(index=i) for i in range(len(names))),
        ),
        results=(
            *(State(name=name) for name in states),
            *(Output(index=i) for i in range(len(graph.outputs))),
        ),
        parameters={name: _data(tensor) for name, tensor in weights.items()},
        states=states,
        calls=_checked(calls, lowered, entry.name),
        values=values_of(runner, function.model, subgraph, entry.name, calls[0].inputs)
        if values
        else (),
        computed_by="ai-edge-litert",
    )


def _lowered(
    function: TfliteFunction,
    weights: dict[str, TfliteTensor],
    first_states: dict[str, np.ndarray],
    shapes: InputShapes,
    name: str,
    *,
    values: bool,
) -> Lowered:
    indices = [tensor.index for tensor in weights.values()]

    def call(given: Sequence[Any], states: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        own = dict(zip(indices, given, strict=True))
        first = 0 if values else None
        variables = dict(zip(first_states, states, strict=True))
        outputs = compute(function.graph, inputs, own, function.model.subgraphs, first, variables)
        return [*(variables[name] for name in first_states), *outputs]

    call.__name__ = name  # JAX writes it into the names of operations
    hint = "this is an error in the exporter: please report it with the file"
    if shapes.dims:
        hint = "name fewer dimensions as dynamic: the file was converted for others"
    with user_errors(name, "traced by JAX", hint=hint):
        lowered = lower(
            call,
            [_data(tensor) for tensor in weights.values()],
            list(first_states.values()),
            shapes.specs,
            name=name,
        )
    return replace(lowered, results=lowered.results[len(first_states) :])


def _signature(
    name: str, function: TfliteFunction, shapes: InputShapes, lowered: Lowered
) -> Signature:
    graph = function.graph
    inputs = tuple(
        TensorSpec(
            name=spec.name,
            shape=spec.shape,
            dtype=spec.dtype,
            quantization=tensor.quantization,
            original=tensor.name,
        )
        for spec, tensor in zip(shapes.inputs, function.inputs, strict=True)
    )
    outputs = tuple(
        TensorSpec(
            name=output,
            shape=shapes.named(shape),
            dtype=DType.of(dtype),
            quantization=graph.tensors[index].quantization,
            original=graph.tensors[index].name,
        )
        for output, index, (shape, dtype) in zip(
            function.names(graph.outputs, results=True),
            graph.outputs,
            lowered.results,
            strict=True,
        )
    )
    several = len(outputs) > 1
    return Signature(
        name=name,
        inputs=inputs,
        outputs=outputs,
        arguments=tuple(Argument(name=s.name, tree=i) for i, s in enumerate(inputs)),
        result={s.name: i for i, s in enumerate(outputs)} if several else 0,
    )


def _data(tensor: TfliteTensor) -> np.ndarray:
    return np.zeros(0) if tensor.data is None else tensor.data


def _checked(calls: tuple[TracedCall, ...], lowered: Lowered, name: str) -> tuple[TracedCall, ...]:
    """The calls, if LiteRT's answers have the shapes and types that were traced."""
    for answer, (shape, dtype) in zip(calls[0].outputs, lowered.results, strict=True):
        fixed = [
            d if isinstance(d, int) else size for d, size in zip(shape, answer.shape, strict=False)
        ]
        if answer.dtype != dtype or len(shape) != answer.ndim or fixed != list(answer.shape):
            raise ExportError(
                f"{name} gives {answer.dtype}{list(answer.shape)} in LiteRT and was traced as "
                f"{dtype}{list(shape)}",
                hint="this is an error in the exporter: please report it with the file",
            )
    return calls
