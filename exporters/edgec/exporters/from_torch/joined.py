"""Tensors that an exported PyTorch program holds several times, held once.

A cache that lives in an object beside the module (Hugging Face's static one) is a constant to
torch.export wherever the object's methods reach it, and a buffer where the module has registered
it. What writes to the one must be seen by the other; torch.export itself fails on the pair.
"""

from typing import Any

from edgec.exporters.from_torch.graph import Storage, storage_of

__all__ = ["join_twins"]


def join_twins(program: Any) -> None:
    """Let a constant of the program that is the memory of a buffer be that buffer, in place.

    A constant that is written to, and no buffer, becomes one.
    """
    from torch.export.graph_signature import InputKind

    signature = program.graph_signature
    graph = program.graph_module.graph
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    pairs = list(zip(nodes, signature.input_specs, strict=True))
    buffers: dict[Storage, Any] = {}
    for node, spec in pairs:
        if spec.kind is InputKind.BUFFER:
            held = program.state_dict.get(spec.target)
            tensor = program.constants.get(spec.target) if held is None else held
            buffers.setdefault(storage_of(tensor), node)
    for node, spec in pairs:
        if spec.kind is not InputKind.CONSTANT_TENSOR:
            continue
        key = storage_of(program.constants[spec.target])
        if key in buffers:
            node.replace_all_uses_with(buffers[key])
            graph.erase_node(node)
            signature.input_specs.remove(spec)
        elif any(_writes(user, node) for user in node.users):
            spec.kind, spec.persistent = InputKind.BUFFER, False
            buffers[key] = node
    program.graph_module.recompile()


def _writes(user: Any, node: Any) -> bool:
    schema = getattr(user.target, "_schema", None)
    return schema is not None and schema.is_mutable and bool(user.args) and user.args[0] is node
