"""ONNX operations replaced by the functions that ONNX itself defines them as."""

from collections.abc import Collection, Iterable
from typing import Any

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

    A function may depend on the types of its inputs, so they are inferred.
    """
    from onnx import inliner, shape_inference

    try:
        return inliner.inline_selected_functions(
            shape_inference.infer_shapes(model, data_prop=True),
            [("", kind) for kind in sorted(kinds)],
            inline_schema_functions=True,
        )
    except (RuntimeError, shape_inference.InferenceError):
        return None


def inlined(model: Any) -> Any:
    """The model without calls of functions of its own, or of ONNX' less usual domains."""
    import onnx
    from onnx import inliner

    model = inliner.inline_local_functions(model, True) if model.functions else model
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


def _kinds(graph: Any) -> Iterable[str]:
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _kinds(attribute.g)
