"""What a `.tflite` file's functions are called with for their golden answers.

The file's own shapes have a 1 for an open size; of a sound, a window of 512 samples then has none,
so other sizes are tried until nothing inside is empty.
"""

from collections.abc import Sequence

import numpy as np

from edgec.exporters.bundle import Entry
from edgec.exporters.dynamic import Dynamic, other_sizes, resize
from edgec.exporters.examples import example_array
from edgec.exporters.from_jax.shapes import InputShapes
from edgec.exporters.from_tflite.graph import compute
from edgec.exporters.from_tflite.model import TfliteSubgraph, TfliteTensor
from edgec.exporters.open_sizes import INNER, example_shape
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim, TensorSpec

__all__ = ["example_inputs", "in_all_sizes"]

Shape = tuple[int, ...]


def example_inputs(
    entry: Entry,
    graph: TfliteSubgraph,
    graphs: Sequence[TfliteSubgraph],
    names: Sequence[str],
    dynamic: Dynamic,
) -> list[np.ndarray]:
    """The entry's example inputs in the file's order, or made-up ones.

    Args:
        entry: the function, and what the user gave for it.
        graph: its subgraph.
        graphs: all of the file.
        names: of its inputs.
        dynamic: the dimensions that are asked to be dynamic, and their ranges.

    Raises:
        UsageError: what the user gave does not fit.
    """
    if not entry.inputs and not entry.kwargs:
        shapes = _shapes(graph, graphs, names, dynamic)
        tensors = (graph.tensors[index] for index in graph.inputs)
        return [_example(*each) for each in zip(tensors, names, shapes, strict=True)]
    values = dict(zip(names, entry.inputs, strict=False)) | dict(entry.kwargs or {})
    if len(entry.inputs) > len(names) or set(values) != set(names):
        raise UsageError(
            f"the example inputs do not fit {entry.name}", hint=f"it takes {', '.join(names)}"
        )
    return [np.asarray(values[name]) for name in names]


def _example(tensor: TfliteTensor, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if tensor.quantization is None or tensor.dtype.itemsize > 2:
        spec = TensorSpec(name=name, shape=shape, dtype=DType.of(tensor.dtype))
        return example_array(spec)
    # Quantised inputs use their whole range.
    limits = np.iinfo(tensor.dtype)
    random = np.random.default_rng(len(name))
    return random.integers(limits.min, limits.max, shape, tensor.dtype, endpoint=True)


def in_all_sizes(shapes: InputShapes, examples: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """The examples, and the same in other sizes of what is dynamic."""
    sets = [list(examples)]
    for sizes in other_sizes(shapes.dims, shapes.sizes) if shapes.dims else ():
        sets.append(
            [
                resize(a, [sizes[d.name] if isinstance(d, Dim) else d for d in spec.shape])
                for a, spec in zip(examples, shapes.inputs, strict=True)
            ]
        )
    return sets


def _shapes(
    graph: TfliteSubgraph,
    graphs: Sequence[TfliteSubgraph],
    names: Sequence[str],
    dynamic: Dynamic,
) -> list[Shape]:
    """A shape for each input: the file's, or the first with which nothing inside is empty."""
    inputs = [graph.tensors[index] for index in graph.inputs]
    own = [tensor.shape for tensor in inputs]
    if all(axis == 0 for tensor in inputs for axis in tensor.unknown):
        return own
    opened = [
        [None if axis in tensor.unknown else size for axis, size in enumerate(tensor.shape)]
        for tensor in inputs
    ]
    for size in (1, *INNER):
        shapes = [
            example_shape(name, said, size, dynamic)
            for name, said in zip(names, opened, strict=True)
        ]
        if _nothing_is_empty(graph, graphs, shapes):
            return shapes
    return own


def _nothing_is_empty(
    graph: TfliteSubgraph, graphs: Sequence[TfliteSubgraph], shapes: Sequence[Shape]
) -> bool:
    import jax

    given = [
        jax.ShapeDtypeStruct(shape, graph.tensors[index].dtype)
        for index, shape in zip(graph.inputs, shapes, strict=True)
    ]
    try:
        made = jax.make_jaxpr(lambda *inputs: compute(graph, inputs, {}, graphs))(*given)
    except (TypeError, ValueError):  # JAX's own refusals of shapes
        return False
    return all(0 not in var.aval.shape for each in made.eqns for var in each.outvars)
