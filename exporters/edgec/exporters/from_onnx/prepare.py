"""An ONNX model as it comes to one that importers take: known shapes, opset 17, plain operations.

Each step takes a model and gives a model; `prepare` runs them in order. Real files need all of
them: they hold `If`s over constants, stale shapes, reflecting pads and strided convolutions whose
padding nobody reads.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.classical import is_classical, without_classical
from edgec.exporters.from_onnx.decompose import decomposed
from edgec.exporters.from_onnx.facts import Facts
from edgec.exporters.from_onnx.fold import folded
from edgec.exporters.from_onnx.functions import inlined
from edgec.exporters.from_onnx.gathers import gather_backward, gather_nearest, gather_reflections
from edgec.exporters.from_onnx.quantised import plain_quantised
from edgec.exporters.from_onnx.recurrent_steps import QUANTISED, quantised_scanned
from edgec.exporters.from_onnx.sequences import without_sequences
from edgec.runtime.errors import ExportError, UnsupportedOp

__all__ = ["OPSET", "inferred", "nothing_empty", "prepare", "settled"]

OPSET = 17
"""The version of ONNX' operations that the importer knows best."""

_CONSTANTS_ALONE = 4
"""The version of ONNX' format since which a constant need not be an input."""

_PLAIN_BROADCASTS = 7
"""The version of ONNX' operations since which shapes are broadcast as NumPy does."""

_PLAIN_SCANS = 9
"""The version since which a `Scan` has no axis of batches."""

_WRITTEN = frozenset({
    "AveragePool", "BitCast", "DFT", "DeformConv", "Det", "GridSample", "LpNormalization",
    "LpPool", "MaxPool", "MaxUnpool", "MeanVarianceNormalization", "Mod", "ReduceMax", "ReduceMin",
    "ReverseSequence", "RoiAlign", "STFT", "SpaceToDepth",
})  # fmt: skip
"""Operations that are written in others, for what the importer makes of them is wrong or refused.

Its Fourier transforms are complex ones, which the compiler often refuses, its remainders have the
wrong sign, places between two pixels are rounded up, norms of zero divide; bools have no bits
there (`mistaken.py` has more).
"""

_OWN_DOMAINS = ("", "ai.onnx")
_FUSED = "export the model again without quantisation or fusion for one runtime"
_ELSEWHERE: Mapping[str, str] = {
    "ai.onnx.ml": "trees, encoders and the like of classical machine learning, which skl2onnx and "
    "its kind write, have no code here: run them with onnxruntime, and export the network alone",
    "com.microsoft": _FUSED,
    "com.microsoft.nchwc": _FUSED,
    "org.pytorch.aten": "export again with torch.onnx.export's default operators, without ATen's",
}
"""A domain of operators to what to do about it."""


def prepare(model: Any, shapes: Mapping[str, Sequence[int | str]]) -> Any:
    """The prepared copy of a model.

    Args:
        model: an `onnx.ModelProto`; it is not changed.
        shapes: the shape of each input; a string names a dimension that stays unknown.

    Raises:
        ExportError: ONNX or onnxruntime refuses the model.
        UnsupportedOp: an operation of another domain than ONNX' own.
    """
    copy = type(model)()
    copy.CopyFrom(model)
    _free_constants(copy)
    copy = _with_shapes(inlined(copy), shapes)
    copy = _without_classical(_at_opset(copy))
    if any(node.op_type == "If" for node in copy.graph.node):
        copy = settled(copy)  # onnxruntime 1.31 dies of some branches whose choice is constant
    copy = _optimised(copy)
    _only_onnx(copy, besides={QUANTISED})
    copy = settled(copy)
    if without_sequences(copy):
        copy = settled(copy)
    while quantised_scanned(copy):  # one layer's result says the sizes of the next one's input
        copy = settled(copy)
    _only_onnx(copy)
    _refuse_dropping(copy)
    copy = inferred(plain_quantised(inferred(copy)))
    decomposed(copy, _WRITTEN)
    for rewrite in (
        gather_reflections,
        gather_nearest,
        gather_backward,
        _trim_unread,
        _select_for_bool,
    ):
        copy = _rewritten(copy, rewrite)
    copy = inferred(copy)
    given = [*shapes, *(t.name for t in copy.graph.initializer)]
    found = Facts(copy)
    empty = [name for name, shape in found.shapes.items() if 0 in shape]
    # What is empty from the start is meant so.
    if empty and not any(0 in shapes.get(name, ()) for name in given) and not _means_empty(model):
        raise ExportError(
            f"at these input sizes {empty[0]} inside the model is empty",
            hint="give larger example inputs",
        )
    return copy


def nothing_empty(model: Any, given: Sequence[Any], shapes: Sequence[Sequence[int]]) -> bool:
    """Whether all values in a model have elements, for inputs (`OnnxInput`s) of these shapes."""
    copy = type(model)()
    copy.CopyFrom(model)
    named = {i.own: shape for i, shape in zip(given, shapes, strict=True)}
    try:
        found = Facts(inferred(_with_shapes(copy, named))).shapes
    except ExportError:
        return False
    return _means_empty(model) or not any(0 in shape for shape in found.values())


def _means_empty(model: Any) -> bool:
    """Whether what is empty is the file's own will: a result is, or no size of an input is open."""
    own = {each.name for each in model.graph.initializer}
    given = [v.type.tensor_type for v in model.graph.input if v.name not in own]
    fixed = all(
        kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)
        for kind in given
    )
    made = (dim for v in model.graph.output for dim in v.type.tensor_type.shape.dim)
    return fixed or any(dim.HasField("dim_value") and not dim.dim_value for dim in made)


def _without_classical(model: Any) -> Any:
    """The model without classical operations, as far as there are rules.

    A rule may need shapes, and ONNX infers none behind a classical operation, so each round
    replaces those whose shapes the round before made known.
    """
    left = sum(map(is_classical, model.graph.node))
    while left:
        model = without_classical(inferred(model))
        found = sum(map(is_classical, model.graph.node))
        if found == left:
            break
        left = found
    return model


def _with_shapes(model: Any, shapes: Mapping[str, Sequence[int | str]]) -> Any:
    for value in model.graph.input:
        if value.name not in shapes:
            continue
        dims = value.type.tensor_type.shape
        del dims.dim[:]
        for size in shapes[value.name]:
            dim = dims.dim.add()
            if isinstance(size, str):
                dim.dim_param = size
            else:
                dim.dim_value = size
    _forget_shapes(model)
    return model


def _free_constants(model: Any) -> None:
    """Constants of old files must be inputs, too, and those of any file may be: they are not here.

    A caller may give another value for such an input (ONNX' docs/IR.md); a program has the file's.
    """
    model.ir_version = max(model.ir_version, _CONSTANTS_ALONE)
    constant = {tensor.name for tensor in model.graph.initializer}
    for value in [v for v in model.graph.input if v.name in constant]:
        model.graph.input.remove(value)


def _forget_shapes(model: Any) -> None:
    """Drop what the file says of inner and output sizes: it spoke of the old input shapes."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()


def _at_opset(model: Any) -> Any:
    from onnx import version_converter

    own = [o.version for o in model.opset_import if o.domain in _OWN_DOMAINS]
    version = max(own, default=OPSET)  # without any, nothing in the model is ONNX' own
    if version >= OPSET:
        return model
    if version < _PLAIN_SCANS and any(node.op_type == "Scan" for node in model.graph.node):
        raise UnsupportedOp(
            f"the model has a Scan of opset {version}, over a batch of sequences, which nothing "
            "brings to today's, over one",
            hint="export the model again with opset_version=9 or newer",
        )
    if version < _PLAIN_BROADCASTS:
        _spread_slopes(model)
    try:
        return version_converter.convert_version(model, OPSET)
    except Exception as error:
        raise ExportError(
            f"ONNX cannot bring the model from opset {version} to {OPSET}: {_first_line(error)}",
            hint=f"export it again from its framework with opset_version={OPSET}",
        ) from error


def _spread_slopes(model: Any) -> None:
    """Slopes of old `PRelu`s, one a channel, in a shape that broadcasts; the converter leaves them.

    Those that are not constants stay.
    """
    ranks = {name: len(shape) for name, shape in Facts(inferred(model)).shapes.items()}
    slopes = {
        node.input[1]: ranks.get(node.input[0], 0)
        for node in model.graph.node
        if node.op_type == "PRelu"
    }
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 1:
            tensor.dims.extend([1] * (slopes.get(tensor.name, 2) - 2))


def _optimised(model: Any) -> Any:
    """Constants folded and `If`s over them resolved, by onnxruntime's basic optimisations.

    A model that this onnxruntime does not know comes back as it was.
    """
    import onnx
    import onnxruntime as ort

    with tempfile.TemporaryDirectory(prefix="edgec-onnx-") as name:
        source, target = Path(name) / "in.onnx", Path(name) / "out.onnx"
        onnx.save(model, source)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(target)
        options.log_severity_level = 4
        try:
            ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001 - onnxruntime's errors have no common class
            return model
        optimised = onnx.load(target)
    used = {*_OWN_DOMAINS, *(node.domain for node in _nodes(optimised.graph))}
    for opset in [o for o in optimised.opset_import if o.domain not in used]:
        optimised.opset_import.remove(opset)
    return optimised


def _only_onnx(model: Any, besides: Collection[str] = ()) -> None:
    for node in _nodes(model.graph):
        if node.domain not in _OWN_DOMAINS and node.op_type not in besides:
            raise UnsupportedOp(
                f"the model uses {node.domain}.{node.op_type}, which is not ONNX' own",
                where=f"node {node.name}" if node.name else None,
                hint=_ELSEWHERE.get(
                    node.domain,
                    f"leave out what writes operations of {node.domain} when the model is exported",
                ),
            )


def _refuse_dropping(model: Any) -> None:
    """Refuse `Dropout` in training: ONNX says of no generator what it draws, nor does a seed.

    Raises:
        UnsupportedOp: there is one that drops anything.
    """
    constants = Facts(model).constants
    for node in model.graph.node:
        if node.op_type != "Dropout" or len(node.input) < 3:
            continue
        ratio, training = (constants.get(name) for name in node.input[1:])
        if training is not None and training.any() and (ratio is None or ratio.any()):
            raise UnsupportedOp(
                "the model has a Dropout in training mode, and ONNX leaves open what is dropped",
                where=f"node {node.name or node.output[0]}",
                hint="export the model for evaluation: with training_mode False, or without it",
            )


def _nodes(graph: Any) -> Iterable[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def inferred(model: Any) -> Any:
    """A copy of the model that says the shapes of its values, as far as they follow.

    Raises:
        ExportError: ONNX finds a contradiction in them.
    """
    import onnx

    _forget_shapes(model)
    _shape_constant_outputs(model)
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ExportError(
            f"ONNX cannot work out the shapes in the model: {_first_line(error)}",
            hint="give example inputs of shapes that the model takes",
        ) from error


def settled(model: Any) -> Any:
    """A copy in which what is constant is computed, and shapes are said.

    A branch that is chosen then may be what tells the next one's condition: an `If` over the shape
    of what an `If` gave.
    """
    left = -1
    while True:
        model = folded(inferred(model))
        choices = sum(node.op_type == "If" for node in model.graph.node)
        if choices in (0, left):
            return model
        left = choices


def _shape_constant_outputs(model: Any) -> None:
    """Say the shapes of outputs that are constants: where no operation is, none is inferred."""
    sizes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for value in model.graph.output:
        for dim, size in zip(
            value.type.tensor_type.shape.dim, sizes.get(value.name, ()), strict=False
        ):
            dim.dim_value = size


_Rewrite = Callable[[Any, Any, Facts], list[Any] | None]


def _rewritten(model: Any, rewrite: _Rewrite) -> Any:
    """Each node of the main graph, or what `rewrite` has in its place."""
    facts = Facts(model)
    nodes: list[Any] = []
    for node in model.graph.node:
        nodes.extend(rewrite(model.graph, node, facts) or [node])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _trim_unread(graph: Any, node: Any, facts: Facts) -> list[Any] | None:
    """A strided convolution reads nothing past its last window, and the compiler refuses that.

    What is not read is taken off the padding at the end, then off the input.
    """
    from onnx import helper

    if node.op_type != "Conv":
        return None
    attributes = facts.attributes(node)
    weight = facts.shapes.get(node.input[1]) or [None]
    if node.input[1] in facts.constants:
        weight = list(facts.constants[node.input[1]].shape)
    kernel, rank = weight[2:], len(weight) - 2
    sizes = (facts.shapes.get(node.input[0]) or [])[2:]
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or len(sizes) != rank:
        return None
    strides = list(attributes.get("strides", [1] * rank))
    dilations = list(attributes.get("dilations", [1] * rank))
    pads = list(attributes.get("pads", [0] * 2 * rank))
    ends: dict[int, int] = {}
    changed = False
    for axis, (size, width) in enumerate(zip(sizes, kernel, strict=True)):
        if size is None or width is None:
            return None
        window = (width - 1) * dilations[axis] + 1
        unread = (size + pads[axis] + pads[axis + rank] - window) % strides[axis]
        padded = min(unread, pads[axis + rank])
        pads[axis + rank] -= padded
        if unread > padded:
            ends[axis + 2] = size - (unread - padded)
        changed |= unread > 0
    if not changed:
        return None
    new = type(node)()
    new.CopyFrom(node)
    for attribute in [a for a in new.attribute if a.name == "pads"]:
        new.attribute.remove(attribute)
    new.attribute.append(helper.make_attribute("pads", pads))
    if not ends:
        return [new]
    new.input[0] = f"{node.output[0]}_read"
    return [_slice(graph, node.input[0], new.input[0], ends), new]


def _slice(graph: Any, value: str, output: str, ends: Mapping[int, int]) -> Any:
    """The beginning of a value along some axes."""
    from onnx import helper, numpy_helper

    operands = {"starts": [0] * len(ends), "ends": list(ends.values()), "axes": list(ends)}
    names = []
    for what, numbers in operands.items():
        names.append(f"{output}_{what}")
        graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), names[-1]))
    return helper.make_node("Slice", [value, *names], [output])


def _select_for_bool(graph: Any, node: Any, facts: Facts) -> list[Any] | None:
    """A cast from bool to float is a choice of 1 or 0, which the compiler fuses without fault.

    A one-hot matrix product through the cast is refused: "failed to legalize unresolved source
    materialization" on CPU, "failed to legalize operation 'arith.sitofp'" on Vulkan.
    """
    from onnx import TensorProto, helper

    if node.op_type != "Cast" or node.input[0] not in facts.bools:
        return None
    kind = facts.attributes(node)["to"]
    if kind not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return None
    names = [f"{node.output[0]}_{value}" for value in ("one", "zero")]
    for name, value in zip(names, (1.0, 0.0), strict=True):
        graph.initializer.append(helper.make_tensor(name, kind, [], [value]))
    return [helper.make_node("Where", [node.input[0], *names], [node.output[0]], name=node.name)]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
