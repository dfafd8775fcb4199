"""A program or module to a graph: what is computed, of what, where it comes from and what does it.

A program's nodes are its operations, calls inlined; constants stand with what reads them. A module
holds byte code and no graph: its nodes are the pieces of its file.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgec.runtime.kernel_share import Left
from edgec.runtime.module import Module
from edgec.toolchain.program import Program
from edgec.verifying.reference import numbered

__all__ = ["Graph", "Node", "graph_of_module", "graph_of_program"]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operation, argument or piece.

    Attributes:
        number: its place in the graph.
        name: what it is (`convolution`).
        shape: what it gives (`f32[1, 8, 8, 16]`); empty where that says nothing.
        line: `file:line` of the user's own source; empty where it is not known.
        reads: the nodes that it reads.
        constants: what it reads besides, as shapes.
        bytes: of what it gives and of its constants; of a piece, in the file.
        kernel: what computes it; empty where that is not known.
        why: why no kernel of edgec's own does; empty where one does, or that is not known.
        seconds: in one call, by a profile; None where that is not known.
        error: by `edgec verify --layers`; None where that is not known.
        state: how it fared there; or how it differs from another graph.
        framework: which of the framework's own values it gives; empty where that is not known.
    """

    number: int
    name: str
    shape: str
    line: str
    reads: tuple[int, ...] = ()
    constants: tuple[str, ...] = ()
    bytes: int = 0
    kernel: str = ""
    why: str = ""
    seconds: float | None = None
    error: float | None = None
    state: str = ""
    framework: str = ""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes in the order of the program, so that each reads only earlier ones."""

    title: str
    nodes: tuple[Node, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def with_kernels(self, left: Sequence[Left]) -> "Graph":
        """With the reasons why edgec's own kernels leave operations to the compiler.

        Args:
            left: what a compile leaves (`KernelShare.left`), by line and kind.
        """
        reasons: dict[tuple[str, str], str] = {}
        for each in left:
            reasons.setdefault((each.where, each.what.partition(" ")[0]), each.reason)
        kinds = {"dot_general": "product"}
        nodes = [
            replace(node, why=reasons.get((node.line, kinds.get(node.name, node.name)), ""))
            for node in self.nodes
        ]
        return replace(self, nodes=tuple(nodes))

    def with_layers(self, layers: Sequence[Mapping[str, Any]]) -> "Graph":
        """With the kernels and errors that `edgec verify --layers --json` found.

        An operation may be between what several dispatches read and write, such as a copy of the
        answer and the kernel that computes it: it is that of the least of them, and of two alike
        that of a kernel of edgec's own.
        """
        by_operation = {node.number: node for node in self.nodes}
        for layer in sorted(layers, key=lambda e: (-len(e["operations"]), bool(e["kernel"]))):
            kernel = layer["kernel"] or "made by the compiler"
            for number in layer["operations"]:
                if number in by_operation:
                    node = by_operation[number]
                    why = "" if layer["kernel"] else node.why
                    by_operation[number] = replace(node, kernel=kernel, why=why)
            number = layer["operation"]
            if number in by_operation:
                by_operation[number] = replace(
                    by_operation[number], error=_number(layer["error"]), state=layer["state"]
                )
        return replace(self, nodes=tuple(by_operation.values()))

    def with_framework(self, values: Sequence[Mapping[str, Any]]) -> "Graph":
        """With the framework's values that `edgec verify --layers --json` found in the program."""
        names: dict[int, list[str]] = {}
        for value in values:
            if value["number"] is not None:
                name = f"{value['name']} ({value['operation']})"
                names.setdefault(value["number"], []).append(name)
        nodes = [
            replace(node, framework=", ".join(names.get(node.number, ()))) for node in self.nodes
        ]
        return replace(self, nodes=tuple(nodes))

    def with_profile(self, profile: Mapping[str, Any]) -> "Graph":
        """With the times that `edgec bench --profile --json` measured: a line's at its last node.

        Of a module's pieces the times are by name.
        """
        calls = max(1, int(profile["calls"]))
        seconds: dict[str, float] = {}
        for each in profile["dispatches"]:
            for key in filter(None, {each["where"], each["name"]}):
                seconds[key] = seconds.get(key, 0.0) + float(each["total"]) / calls
        last = {node.line: node.number for node in self.nodes if node.line}
        nodes = [
            replace(node, seconds=seconds[node.line])
            if node.line in seconds and last[node.line] == node.number
            else replace(node, seconds=seconds[node.name])
            if node.name in seconds
            else node
            for node in self.nodes
        ]
        return replace(self, nodes=tuple(nodes))


_PROGRAMS = ("stablehlo.while", "stablehlo.case", "stablehlo.if")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def graph_of_program(program: Program) -> Graph:
    """The graph of a program's functions, one after the other.

    Raises:
        ProgramError: it is not StableHLO, or damaged.
    """
    from edgec.toolchain.ir.functions import entry_block, functions, inside
    from edgec.toolchain.ir.numbering import numbers_at

    numbers = numbered(program)
    nodes: list[Node] = []
    places: dict[Any, int] = {}
    constants: dict[Any, Any] = {}
    count = len(numbers.operations)
    for name, function in functions(numbers.module).items():
        for argument in entry_block(function).arguments:
            places[argument] = count
            nodes.append(
                Node(
                    number=count,
                    name=f"{name}: argument {argument.arg_number}",
                    shape=_shape(argument),
                    line="",
                    bytes=_bytes(argument),
                )
            )
            count += 1
        for op in _parts(function):
            if op.name == "stablehlo.constant":
                constants[op.results[0]] = op
                continue
            (number,) = numbers_at(op.location)[:1]
            read = (*op.operands, *(v for each in inside(op) for v in each.operands))
            fixed = [value for value in op.operands if value in constants]
            nodes.append(
                Node(
                    number=number,
                    name=op.name.partition(".")[2] or op.name,
                    shape=", ".join(map(_shape, op.results)),
                    line=_own(numbers.operations[number].line),
                    reads=tuple(dict.fromkeys(places[v] for v in read if v in places)),
                    constants=tuple(map(_shape, fixed)),
                    bytes=sum(map(_bytes, (*op.results, *fixed))),
                )
            )
            places |= dict.fromkeys(op.results, number)
    info = program.info
    return Graph(
        title=str(program.path or program.name),
        nodes=tuple(nodes),
        facts={
            "framework": info.provenance.framework,
            "source": info.provenance.source,
            "functions": ", ".join(str(each.signature) for each in info.functions),
        },
    )


def graph_of_module(module: Module) -> Graph:
    """The pieces of a module's file, which read nothing."""
    facts = module.facts
    return Graph(
        title=str(module.path),
        nodes=tuple(
            Node(
                number=number,
                name=entry.name,
                shape=entry.format,
                line="",
                bytes=entry.size,
                kernel=entry.part.value,
            )
            for number, entry in enumerate(module.sizes.entries)
        ),
        facts={
            "target": facts.target,
            "check": facts.check,
            "kernels": "" if facts.kernels is None else str(facts.kernels),
            "compiler": facts.compiler,
            "functions": ", ".join(map(str, module.signatures.values())),
        },
    )


def _parts(operation: Any) -> Iterator[Any]:
    """The operations of a function, and those of its loops and branches behind each.

    What other regions hold is done with each element, and is a part of the operation around it.
    """
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                if each.operation.name in _PROGRAMS:
                    yield from _parts(each.operation)


def _own(line: str) -> str:
    """A line of the user's own source; one of an installed package says nothing of the model."""
    from edgec.toolchain.ir.places import is_packages

    return "" if is_packages(line) else line


def _shape(value: Any) -> str:
    """`f32[1, 8]` of a tensor; any other type as MLIR writes it."""
    from iree.compiler import ir

    if not isinstance(value.type, ir.RankedTensorType):
        return str(value.type)
    kind = ir.RankedTensorType(value.type)
    sizes = ("?" if kind.is_dynamic_dim(i) else str(kind.get_dim_size(i)) for i in range(kind.rank))
    return f"{kind.element_type}[{', '.join(sizes)}]"


def _bytes(value: Any) -> int:
    """Of a tensor of known sizes; 0 of anything else."""
    from iree.compiler import ir

    from edgec.toolchain.ir.read import element_type, shape_of

    if not isinstance(value.type, ir.RankedTensorType) or None in shape_of(value):
        return 0
    kind = element_type(value)
    if isinstance(kind, ir.ComplexType):
        width = 2 * int(ir.ComplexType(kind).element_type.width)
    else:
        width = int(getattr(kind, "width", 0))
    return math.prod(size or 0 for size in shape_of(value)) * max(width // 8, 1)
