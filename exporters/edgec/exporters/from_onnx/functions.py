"""ONNX operations replaced by the functions that ONNX itself defines them as."""

from collections.abc import Collection, Iterable
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["expand", "functions_among", "inlined"]


def functions_among(model: Any, operations: Collection[str]) -> set[str]:
    """Those of some operations (of all in the model, if none) that ONNX defines by others."""
    import onnx

    versions = {o.domain: o.version for o in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 1))
    found = set()
    for kind in operations or _kinds(model.graph):
        try:
            schema = onnx.defs.get_schema(kind, max_inclusive_version=version)
        except onnx.defs.SchemaError:
            continue
        if schema.has_function or schema.has_context_dependent_function:
            found.add(kind)
    return found


def expand(model: Any, kinds: Collection[str]) -> Any | None:
    """A copy of the model without operations of these kinds; None where ONNX fails to write it.

    A function may depend on the types of its inputs, so they are inferred. Of an input that is
    left out ONNX' inliner knows no type, and fails: nodes with such have the function of their own
    written beside them first.
    """
    from onnx import inliner, shape_inference

    try:
        typed = shape_inference.infer_shapes(model, data_prop=True)
        return inliner.inline_selected_functions(
            _with_functions_beside(typed, kinds),
            [("", kind) for kind in sorted(kinds)],
            inline_schema_functions=True,
        )
    except (RuntimeError, shape_inference.InferenceError):
        return None


_BESIDE = "edgec.beside"


def _with_functions_beside(model: Any, kinds: Collection[str]) -> Any:
    """The model whose nodes of these kinds that leave inputs out are written as their functions."""
    import onnx
    from onnx import inliner

    graph = model.graph
    _fill_defaults(model, kinds)
    values = (*graph.value_info, *graph.input, *graph.output)
    types = {value.name: value.type for value in values}
    types |= {
        t.name: onnx.helper.make_tensor_type_proto(t.data_type, t.dims) for t in graph.initializer
    }
    version = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    for number, node in enumerate(graph.node):
        if node.op_type not in kinds or node.domain not in ("", "ai.onnx") or all(node.input):
            continue
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=version)
        if not schema.has_context_dependent_function:
            continue
        written = schema.get_context_dependent_function(
            node.SerializeToString(),
            [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input],
        )
        function = model.functions.add()
        function.ParseFromString(written)
        function.domain, function.name = _BESIDE, f"{node.op_type}_{number}"
        node.domain, node.op_type = function.domain, function.name
    if not model.functions:
        return model
    model.opset_import.add(domain=_BESIDE, version=1)
    return inliner.inline_local_functions(model)


def _fill_defaults(model: Any, kinds: Collection[str]) -> None:
    """Say the attributes of nodes of these kinds that are left out, where they have a default.

    A function that hands one on to another leaves a constant without a value in its place.
    """
    import onnx

    version = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    for node in model.graph.node:
        if node.op_type not in kinds or node.domain not in ("", "ai.onnx"):
            continue
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=version)
        said = {attribute.name for attribute in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in said and attribute.default_value.name:
                node.attribute.append(attribute.default_value)


def inlined(model: Any) -> Any:
    """The model without calls of functions of its own, or of ONNX' less usual domains.

    Raises:
        UnsupportedOp: a function of the model's own has operations of another version than the
            model, and ONNX cannot bring them to that.
    """
    import onnx
    from onnx import inliner

    model = _without_own(model) if model.functions else model
    versions = {o.domain: o.version for o in model.opset_import}
    foreign = {(n.domain, n.op_type) for n in model.graph.node if n.domain not in ("", "ai.onnx")}
    known = []
    for domain, kind in sorted(foreign):
        if onnx.defs.has(kind, domain):
            schema = onnx.defs.get_schema(kind, versions.get(domain, 1), domain)
            if schema.has_function or schema.has_context_dependent_function:
                known.append((domain, kind))
    if not known:
        return model
    typed = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return inliner.inline_selected_functions(typed, known, inline_schema_functions=True)


def _without_own(model: Any) -> Any:
    """The model without calls of functions of its own.

    ONNX brings operations of another version to the model's by a converter that knows no types
    inside functions that call each other, so those whose version changes nothing are brought there
    before.
    """
    from onnx import inliner

    copy = type(model)()
    copy.CopyFrom(model)
    versions = {o.domain: o.version for o in copy.opset_import}
    for function in copy.functions:
        for asked in function.opset_import:
            wanted = versions.get(asked.domain)
            if wanted is not None and _means_the_same(function, asked, wanted):
                asked.version = wanted
    try:
        return inliner.inline_local_functions(copy, True)
    except RuntimeError as error:
        name = copy.functions[0].name
        raise UnsupportedOp(
            f"the model's own functions ({name} …) are of another version of ONNX' operations than "
            f"the model, and ONNX cannot bring them to that: {str(error).splitlines()[0][:200]}",
            hint="export the model with functions of its own version, or without any",
        ) from error


def _means_the_same(function: Any, asked: Any, wanted: int) -> bool:
    """Whether all operations of a domain in a function are the same in another version of it."""
    import onnx

    for kind in {*_kinds(function, asked.domain)}:
        try:
            now, then = (
                onnx.defs.get_schema(kind, version, asked.domain).since_version
                for version in (asked.version, wanted)
            )
        except onnx.defs.SchemaError:  # another function of the model
            continue
        if now != then:
            return False
    return True


def _kinds(graph: Any, domain: str | None = None) -> Iterable[str]:
    """The operations of a graph or function and all inside; of one domain, if that is given."""
    for node in graph.node:
        if domain is None or node.domain == domain:
            yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _kinds(attribute.g, domain)
