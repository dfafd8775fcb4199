"""An exported graph to a lifted one: a role for each argument and result, nothing left over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgec.exporters.from_torch.lines import user_line
from edgec.exporters.from_torch.numbers import numbers_to_tensors
from edgec.runtime.errors import ExportError, UnsupportedOp
from edgec.toolchain.program import Input, Output, Parameter, Role, State

__all__ = ["Lifted", "Storage", "lift", "mutated", "names_of", "storage_of"]

_ASSERTIONS = ("_assert_scalar", "_assert_async", "_assert_tensor_metadata", "sym_constrain_range")

Storage = tuple[Any, ...]
"""What makes two tensors the same memory: their storage, offset, shape and strides."""


@dataclass(frozen=True, kw_only=True)
class Lifted:
    """A graph whose placeholders and results follow the roles one to one.

    Attributes:
        graph: the `torch.fx.Graph`.
        arguments: the role of each placeholder.
        results: the role of each result.
        inputs: the placeholder's value (a fake tensor with its shape) of each input.
        outputs: likewise, of each output.
        tensors: the tensor of each parameter, by name.
        states: the tensor of each state that is a buffer, by name.
    """

    graph: Any
    arguments: tuple[Role, ...]
    results: tuple[Role, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    tensors: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)


def names_of(owner: Any) -> dict[Storage, str]:
    """What a module calls its tensors; the first name of those it has several for."""
    names: dict[Storage, str] = {}
    for name, tensor in owner.state_dict(keep_vars=True).items():
        if hasattr(tensor, "untyped_storage"):
            names.setdefault(storage_of(tensor), name)
    return names


def mutated(program: Any) -> dict[Storage, str]:
    """The names of the buffers (and parameters) that a call changes, by their memory."""
    from torch.export.graph_signature import OutputKind

    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
    return {
        storage_of(_tensor(program, spec.target)): spec.target
        for spec in program.graph_signature.output_specs
        if spec.kind in kinds
    }


def lift(
    program: Any,
    leaves: Sequence[Input | State | None],
    changed: Mapping[Storage, str],
    new_states: Sequence[str],
    names: Mapping[Storage, str],
) -> Lifted:
    """Give each placeholder and result of the program's graph its role, and drop the others.

    Args:
        program: an `ExportedProgram`; its graph is changed in place.
        leaves: what each user input is (None: configuration, fixed in the graph).
        changed: the buffers that are state, by memory: what any function of the bundle changes.
        new_states: the states that the first user outputs are the new values of.
        names: what the module itself calls its tensors, by memory.

    Raises:
        ExportError: the model changes an input in place, or returns something else than tensors.
    """
    graph = program.graph_module.graph
    arguments, inputs, tensors, states = _placeholders(program, graph, leaves, changed, names)
    results, outputs = _results(program, graph, arguments, list(new_states))
    _drop_assertions(graph)
    graph.eliminate_dead_code()
    numbers_to_tensors(graph)
    graph.lint()
    return Lifted(
        graph=graph,
        arguments=tuple(role for _, role in arguments),
        results=results,
        inputs=inputs,
        outputs=outputs,
        tensors=tensors,
        states=states,
    )


def _drop_assertions(graph: Any) -> None:
    """Take out what only checks sizes: the caller's are checked against the signature."""
    for node in reversed(list(graph.nodes)):
        name = str(node.target)
        if node.op == "call_function" and any(word in name for word in _ASSERTIONS):
            graph.erase_node(node)


def _tensor(program: Any, target: str) -> Any:
    found = program.state_dict.get(target)
    return program.constants[target] if found is None else found


def _placeholders(
    program: Any,
    graph: Any,
    leaves: Sequence[Input | State | None],
    changed: Mapping[Storage, str],
    names: Mapping[Storage, str],
) -> tuple[list[tuple[Any, Role]], tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    from torch.export.graph_signature import InputKind

    held = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    kept: list[tuple[Any, Role]] = []
    first: dict[Storage, Any] = {}
    inputs: list[Any] = []
    tensors: dict[str, Any] = {}
    states: dict[str, Any] = {}
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    specs = program.graph_signature.input_specs
    if len(given := list(leaves)) > sum(s.kind is InputKind.USER_INPUT for s in specs):
        given = [role for role in given if role is not None]
    rest = iter(given)
    for node, spec in zip(nodes, specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            role = next(rest)
            if role is None:
                graph.erase_node(node)
                continue
            kept.append((node, role))
            if isinstance(role, Input):
                inputs.append(node.meta["val"])
            continue
        if spec.kind not in held:
            raise _no_tensor(graph, spec)
        tensor = _tensor(program, spec.target)
        key = storage_of(tensor)
        if key in first:
            node.replace_all_uses_with(first[key])
            graph.erase_node(node)
            continue
        if not node.users:
            graph.erase_node(node)
            continue
        first[key] = node
        name = changed.get(key)
        if name is not None:
            states[name] = tensor
            kept.append((node, State(name=name)))
        else:
            name = names.get(key, spec.target)
            tensors[name] = tensor
            kept.append((node, Parameter(name=name)))
    return kept, tuple(inputs), tensors, states


def _no_tensor(graph: Any, spec: Any) -> UnsupportedOp:
    """A refusal of what is neither tensor nor configuration: objects, tokens of side effects."""
    effect = next((n for n in graph.nodes if "with_effects" in str(n.target)), None)
    if effect is None:
        return UnsupportedOp(
            f"the model holds {spec.target}, which is no tensor ({spec.kind.name})",
            hint="keep only tensors in the model that is exported",
        )
    return UnsupportedOp(
        f"{effect.args[1]} does something besides computing a tensor",
        where=user_line(effect.meta.get("stack_trace")),
        hint="leave it out of what is exported",
    )


def _results(
    program: Any, graph: Any, arguments: Sequence[tuple[Any, Role]], new_states: list[str]
) -> tuple[tuple[Role, ...], tuple[Any, ...]]:
    from torch.export.graph_signature import OutputKind

    by_name = {node.name: role for node, role in arguments}
    by_target = {
        spec.target: spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }
    end = graph.output_node()
    nodes: list[Any] = []
    roles: list[Role] = []
    outputs: list[Any] = []
    for node, spec in zip(end.args[0], program.graph_signature.output_specs, strict=True):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            role = by_name.get(by_target[spec.target], State(name=spec.target))
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            role = by_name.get(spec.target, Input(index=0))
            if isinstance(role, Input):
                raise ExportError(
                    f"the model changes its input {spec.target} in place",
                    where=user_line(node.meta.get("stack_trace")),
                    hint="work on a copy (x.clone()) and return it",
                )
        elif spec.kind is not OutputKind.USER_OUTPUT:
            raise UnsupportedOp(
                f"the model's result {spec.arg} is a {spec.kind.name}", hint="return tensors"
            )
        elif node is None:
            continue
        elif not hasattr(node, "meta"):
            raise ExportError(
                f"the model returns {node!r}, which is no tensor",
                hint="return tensors; leave out what does not depend on the inputs",
            )
        elif new_states:
            role = State(name=new_states.pop(0))
        else:
            role = Output(index=len(outputs))
            outputs.append(node.meta["val"])
        nodes.append(node)
        roles.append(role)
    end.args = (tuple(nodes),)
    return tuple(roles), tuple(outputs)


def storage_of(tensor: Any) -> Storage:
    """What is the same for tensors that are the same memory."""
    return (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )
