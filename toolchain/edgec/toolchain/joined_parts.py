"""A program of parts to one that also has each device's whole way as a function.

Where the compiler carries collectives out on the device (CUDA, by NCCL), nothing has to come back
to the host between two parts: that function takes the device's shards of the inputs, calls the
parts in turn with the collectives between them, and gives its shards of the outputs.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import CompileError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.mesh.joined import NUMBER, joined_name, kept_apart, unspoken
from edgec.runtime.mesh.plan import Call, Collective, Route
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.ir.functions import functions
from edgec.toolchain.isolate import call
from edgec.toolchain.program import (
    Function,
    Input,
    Output,
    Parameter,
    Program,
    ProgramInfo,
    Role,
)
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["join_file", "join_parts"]

_TIMEOUT = 600.0


def join_parts(program: Program) -> tuple[Program, str]:
    """The program with a further function for each of its routes that has collectives.

    Args:
        program: for a mesh, in StableHLO.

    Returns:
        The program, and why it is the same as before; empty where it is not.

    Raises:
        ProgramError: the program is damaged.
    """
    plan = program.info.mesh
    reason = "the program is for one device" if plan is None else kept_apart(plan)
    if reason:
        return program, reason
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source, output = Path(folder, "parts.mlirbc"), Path(folder, "joined.mlirbc")
        source.write_bytes(program.bytecode)
        found = call(
            "join_parts",
            {"source": str(source), "output": str(output), "info": program.info.to_json()},
            subject=str(program.path or "the program"),
            timeout=_TIMEOUT,
        )
        if found["reason"]:
            return program, str(found["reason"])
        info = ProgramInfo.from_json(found["info"])
        return replace(program, bytecode=read_bytes(output), info=info), ""


def join_file(source: Path, output: Path, info: ProgramInfo) -> tuple[ProgramInfo, str]:
    """The same for files: what the program in `output` is, or why there is none."""
    from iree.compiler import ir

    plan = info.mesh
    if plan is None:
        return info, "the program is for one device"
    known = {each.signature.name: each for each in info.functions}
    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(read_bytes(source), context)
        ways = [_Way(module, route, known) for route in plan.routes.values() if route.collectives]
        reason = unspoken(DType.from_mlir(kind) for way in ways for kind in way.said)
        if reason:
            return info, reason
        for way in ways:
            way.write()
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return replace(info, functions=(*info.functions, *(way.function() for way in ways))), ""


class _Way:
    """One device's way through a route, as text of MLIR."""

    def __init__(self, module: Any, route: Route, known: Mapping[str, Function]) -> None:
        self._module = module
        self._route = route
        self._known = known
        self._types: dict[int, str] = {}
        self._weights: dict[str, str] = {}
        self._declared: list[str] = []
        self._lines: list[str] = []
        self._numbered = False
        self.said: list[str] = []
        """The element types of what is said."""
        for step in route.steps:
            self._call(step) if isinstance(step, Call) else self._collective(step)

    @property
    def _inputs(self) -> list[int]:
        """The route's inputs that a part takes or that are said, by their numbers."""
        return [n for n in range(len(self._route.inputs)) if n in self._types]

    def function(self) -> Function:
        """Its description."""
        inputs = [
            _spec(self._route.signature.inputs[number].name, self._types[number])
            for number in self._inputs
        ]
        roles: list[Role] = [Input(index=index) for index in range(len(inputs))]
        if self._numbered:
            roles.append(Input(index=len(inputs)))
            inputs.append(TensorSpec(name=NUMBER, shape=(), dtype=DType.U32))
        outputs = [
            _spec(spec.name, self._types[value])
            for spec, (value, _) in zip(
                self._route.signature.outputs, self._route.outputs, strict=True
            )
        ]
        return Function(
            signature=Signature.flat(joined_name(self._route.signature.name), inputs, outputs),
            arguments=(*roles, *(Parameter(name=name) for name in self._weights)),
            results=tuple(Output(index=index) for index in range(len(outputs))),
        )

    def write(self) -> None:
        """Into the module."""
        from iree.compiler import ir

        arguments = [f"%v{number}: {self._types[number]}" for number in self._inputs]
        arguments += ["%number: tensor<ui32>"] if self._numbered else []
        arguments += [f"%w{index}: {kind}" for index, kind in enumerate(self._weights.values())]
        results = [self._types[value] for value, _ in self._route.outputs]
        given = ", ".join(f"%v{value}" for value, _ in self._route.outputs)
        text = "\n".join(
            (
                *dict.fromkeys(self._declared),
                f"func.func @{joined_name(self._route.signature.name)}({', '.join(arguments)}) "
                f"-> ({', '.join(results)}) {{",
                *self._lines,
                f"return {given} : {', '.join(results)}",
                "}",
            )
        )
        parsed = ir.Module.parse(text)  # named: its operations die with it
        list(parsed.body.operations)[-1].operation.clone(ip=ir.InsertionPoint(self._module.body))

    def _call(self, step: Call) -> None:
        """A part, called with what it takes: values, the device's number, weights."""
        from iree.compiler import ir

        part = functions(self._module)[step.function]
        kind = ir.FunctionType(ir.TypeAttr(part.attributes["function_type"]).value)
        taken, given = [str(each) for each in kind.inputs], [str(each) for each in kind.results]
        names: list[str] = []
        for role, each in zip(self._known[step.function].arguments, taken, strict=True):
            match role:
                case Parameter(name=name):
                    self._weights.setdefault(name, each)
                    names.append(f"%w{list(self._weights).index(name)}")
                case Input(index=index) if index < len(step.inputs):
                    self._types.setdefault(step.inputs[index], each)
                    names.append(f"%v{step.inputs[index]}")
                case Input():
                    self._numbered = True
                    names.append("%number")
                case _:
                    raise CompileError(f"{step.function} keeps state between calls")
        self._types.update(zip(step.outputs, given, strict=True))
        kinds = f"({', '.join(taken)}) -> ({', '.join(given)})"
        self._declared.append(f"func.func private @{step.function}{kinds}")
        made = ", ".join(f"%v{value}" for value in step.outputs)
        call = f"func.call @{step.function}({', '.join(names)}) : {kinds}"
        self._lines.append(f"{made} = {call}" if made else call)

    def _collective(self, step: Collective) -> None:
        """One, among devices numbered from 0 on: whom a device finds is said by its channel."""
        given = self._types[step.input]
        sizes, _, element = given.removeprefix("tensor<").removesuffix(">").rpartition("x")
        first, _, rest = sizes.partition("x")
        together = len(step.groups[0])
        sizes_after, attributes = sizes, ""
        if step.kind == "all_gather":
            sizes_after = _sizes(int(first) * together, rest)
            attributes = "all_gather_dim = 0 : i64, "
        elif step.kind == "reduce_scatter":
            sizes_after = _sizes(int(first) // together, rest)
            attributes = "scatter_dimension = 0 : i64, "
        made = f"tensor<{sizes_after}x{element}>" if sizes_after else given
        ranks = ", ".join(map(str, range(together)))
        attributes += f"replica_groups = dense<[[{ranks}]]> : tensor<1x{together}xi64>"
        region = ""
        if step.operation:
            scalar = f"tensor<{element}>"
            region = (
                f"({{\n^bb0(%a: {scalar}, %b: {scalar}):\n"
                f"%r = stablehlo.{step.operation} %a, %b : {scalar}\n"
                f"stablehlo.return %r : {scalar}\n}}) "
            )
        self._types[step.output] = made
        self.said.append(element)
        self._lines.append(
            f'%v{step.output} = "stablehlo.{step.kind}"(%v{step.input}) {region}'
            f"{{{attributes}}} : ({given}) -> {made}"
        )


def _sizes(first: int, rest: str) -> str:
    return f"{first}x{rest}" if rest else str(first)


def _spec(name: str, kind: str) -> TensorSpec:
    *sizes, element = kind.removeprefix("tensor<").removesuffix(">").split("x")
    return TensorSpec(name=name, shape=tuple(map(int, sizes)), dtype=DType.from_mlir(element))
