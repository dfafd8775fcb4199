"""`Scan`, `Loop` and `If` cut out of an ONNX graph, each with its body as a model of its own.

The importer has no StableHLO for them. What is left of the graph gives what they read as results,
and takes what they give as inputs; `loop_code` writes them between the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.loop_forms import Branches, Part, Scanned, Turns
from edgec.exporters.from_onnx.prepare import inferred, settled
from edgec.exporters.from_onnx.rewriting import Rewriting
from edgec.exporters.from_onnx.scopes import inner_graphs, read_outside, rename_outside

__all__ = ["Cut", "cut"]


_Type = tuple[Any, Sequence[int]]
"""A NumPy type, or None where NumPy has none, and a shape."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What is left of a model, whose last results and inputs are those of the parts, in order."""

    model: Any
    parts: Sequence[Part]


def cut(model: Any) -> Cut:
    """A model without loops and branches whose values have known shapes.

    Args:
        model: a prepared `onnx.ModelProto`, its shapes inferred; it is not changed.
    """
    parts: list[Part] = []
    if not any(True for node in model.graph.node for _ in inner_graphs(node)):
        return Cut(model=model, parts=parts)
    copy = type(model)()
    copy.CopyFrom(model)
    while True:
        work = Rewriting(copy)
        part = next((p for node in copy.graph.node if (p := _part(work, copy, node))), None)
        if part is None:
            return Cut(model=copy, parts=parts)
        _take_out(copy, part)
        parts.append(part)
        copy = inferred(copy)


def _part(work: Rewriting, model: Any, node: Any) -> Part | None:
    rule = {"Scan": _scan, "Loop": _loop, "If": _branches}.get(node.op_type)
    return None if rule is None else rule(work, model, node)


def _scan(work: Rewriting, model: Any, node: Any) -> Part | None:
    given = work.attributes(node)
    body, scanned = given["body"], given["num_scan_inputs"]
    states = len(node.input) - scanned
    results = len(node.output) - states
    axes = given.get("scan_input_axes", [0] * scanned)
    if any(name not in work.shapes for name in node.input):
        return None
    shapes = [list(work.shapes[name]) for name in node.input]
    axes = [axis % len(shape) for axis, shape in zip(axes, shapes[states:], strict=True)]
    count = shapes[states][axes[0]]
    for axis, shape in zip(axes, shapes[states:], strict=True):
        del shape[axis]
    form = Scanned(
        count=count,
        states=states,
        axes=axes,
        backward=[bool(n) for n in given.get("scan_input_directions", [0] * scanned)],
        out_axes=given.get("scan_output_axes", [0] * results),
        out_backward=[bool(n) for n in given.get("scan_output_directions", [0] * results)],
    )
    types = [(work.kinds.get(n), s) for n, s in zip(node.input, shapes, strict=True)]
    return _made(work, model, node, form, list(node.input), [(body, types)]) if count else None


def _loop(work: Rewriting, model: Any, node: Any) -> Part | None:
    body = work.attributes(node)["body"]
    most, test = ([*node.input, ""])[:2]
    states = [name for name in node.input[2:] if name]
    going = not test or _is_true(work.constants.get(test))
    every = going and _goes_on(body)
    count = work.constants.get(most)
    collects = len(node.output) > len(states)
    if any(name not in work.shapes for name in states):
        return None
    trips = int(count.item()) if every and count is not None else None
    if trips == 0 or (trips is None and collects):
        return None
    form = Turns(count=trips, states=len(states), bounded=bool(most), guarded=bool(test))
    if trips is not None:
        form = Turns(count=trips, states=len(states), bounded=False, guarded=False)
    types: list[_Type] = [(np.dtype(np.int64), []), (np.dtype(np.bool_), [])]
    types += [(work.kinds.get(name), list(work.shapes[name])) for name in states]
    takes = [most] * form.bounded + [test] * form.guarded + states
    return _made(work, model, node, form, takes, [(body, types)])


def _branches(work: Rewriting, model: Any, node: Any) -> Part | None:
    given = work.attributes(node)
    bodies: list[tuple[Any, list[_Type]]] = [
        (given[name], []) for name in ("then_branch", "else_branch")
    ]
    return _made(work, model, node, Branches(), list(node.input), bodies)


def _is_true(value: np.ndarray | None) -> bool:
    return value is not None and bool(value.all())


def _goes_on(body: Any) -> bool:
    """Whether a loop's body never ends it: its condition is the one it got, or always true."""
    from onnx import numpy_helper

    makers = {name: node for node in body.node for name in node.output}
    ends = body.output[0].name
    while ends in makers and makers[ends].op_type in ("Identity", "Cast"):
        ends = makers[ends].input[0]
    if ends == body.input[1].name:
        return True
    tensor = {t.name: t for t in body.initializer}.get(ends)
    maker = makers.get(ends)
    if tensor is None and maker is not None and maker.op_type == "Constant":
        tensor = maker.attribute[0].t
    return tensor is not None and bool(numpy_helper.to_array(tensor).all())


def _made(
    work: Rewriting,
    model: Any,
    node: Any,
    form: Scanned | Turns | Branches,
    takes: list[str],
    bodies: Sequence[tuple[Any, Sequence[_Type]]],
) -> Part | None:
    """The part, if all that its bodies read from outside is known; constants go into them."""
    outside: dict[str, int] = {}
    reads: list[list[int]] = []
    models = []
    for graph, types in bodies:
        names = [name for name in read_outside(graph) if name not in work.constants]
        if any(name not in work.shapes or work.kinds.get(name) is None for name in names):
            return None
        reads.append([outside.setdefault(name, len(outside)) for name in names])
        more = [(work.kinds[name], work.shapes[name]) for name in names]
        made = _body(work, model, graph, [*types, *more], names)
        if made is None:
            return None
        models.append(made)
    gives = {place: name for place, name in enumerate(node.output) if name}
    found = _types(models[0], form)
    if found is None or max(gives, default=0) >= len(found):
        return None
    return Part(
        node=node,
        form=form,
        takes=[*takes, *outside],
        gives=gives,
        types=[found[place] for place in gives],
        bodies=models,
        reads=reads,
    )


def _types(body: Any, form: Scanned | Turns | Branches) -> list[tuple[int, Sequence[int]]] | None:
    """The type of each result of a form, by its first body; None if a size is not known."""
    found: list[tuple[int, Sequence[int]]] = []
    for value in inferred(settled(body)).graph.output:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return None
        if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            return None
        found.append((tensor.elem_type, [dim.dim_value for dim in tensor.shape.dim]))
    if isinstance(form, Branches):
        return found
    if isinstance(form, Turns):
        found = found[1:]  # whether to go on
    rows = found[form.states :]
    axes = form.out_axes if isinstance(form, Scanned) else [0] * len(rows)
    stacked = [
        (kind, _with(shape, axis, form.count or 0))
        for (kind, shape), axis in zip(rows, axes, strict=True)
    ]
    return [*found[: form.states], *stacked]


def _body(
    work: Rewriting,
    model: Any,
    graph: Any,
    types: Sequence[_Type],
    outside: Sequence[str],
) -> Any:
    """A body as a model: its own inputs, then what it reads from outside under plain names."""
    from onnx import helper, numpy_helper

    if any(kind is None for kind, _ in types):
        return None
    copy = type(graph)()
    copy.CopyFrom(graph)
    names = [f"edgec_outer_{number}" for number in range(len(outside))]
    known = [name for name in read_outside(graph) if name in work.constants]
    rename_outside(copy, dict(zip(outside, names, strict=True)))
    for name in known:
        copy.initializer.append(numpy_helper.from_array(work.constants[name], name))
    inputs = [*(value.name for value in graph.input), *names]
    del copy.input[:]
    for name, (kind, shape) in zip(inputs, types, strict=True):
        number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        copy.input.append(helper.make_tensor_value_info(name, number, list(shape)))
    for number, value in enumerate(copy.output):  # what a body gives may be what it is given
        copy.node.append(helper.make_node("Identity", [value.name], [f"edgec_given_{number}"]))
        value.name = f"edgec_given_{number}"
    copy.name = "body"
    made = helper.make_model(copy, opset_imports=list(model.opset_import))
    made.ir_version = model.ir_version
    return made


def _take_out(model: Any, part: Part) -> None:
    """Leave a part out of a graph: what it reads is a result, what it gives an input."""
    from onnx import helper

    graph = model.graph
    graph.node.remove(part.node)
    place = len(graph.output)
    for number, name in enumerate(part.takes):
        own = f"edgec_taken_{place + number}"
        graph.node.append(helper.make_node("Identity", [name], [own]))
        graph.output.append(helper.make_empty_tensor_value_info(own))
    results = {value.name for value in graph.output}
    for name, (kind, shape) in zip(part.gives.values(), part.types, strict=True):
        own = name
        if name in results:  # the shape of a result is inferred from the node that gives it
            own = f"edgec_back_{name}"
            graph.node.insert(0, helper.make_node("Identity", [own], [name]))
        graph.input.append(helper.make_tensor_value_info(own, kind, shape))


def _with(shape: Sequence[int], axis: int, size: int) -> Sequence[int]:
    """A shape with one more axis."""
    axis %= len(shape) + 1
    return [*shape[:axis], size, *shape[axis:]]
