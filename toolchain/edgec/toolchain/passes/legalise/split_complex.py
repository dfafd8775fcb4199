"""Choices, updates and paddings of complex numbers, part by part."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitComplex"]

_MOVES = (
    "stablehlo.select",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
    "stablehlo.pad",
)
_REGIONS = ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.sort")
_CONSTANT = "stablehlo.constant"
_HELD = (
    "func.return",
    "stablehlo.return",
    "stablehlo.while",
    "stablehlo.concatenate",
    "stablehlo.optimization_barrier",
)
"""What has its operands in memory."""
_WIDE, _NARROW = "complex<f64>", "complex<f32>"
_MAKING = ("stablehlo.convert", "stablehlo.complex")
_FUNCTIONS = ("stablehlo.power", "stablehlo.sign")


@dataclass(frozen=True, kw_only=True)
class SplitComplex:
    """Complex numbers are chosen, updated, looked up and padded as real and imaginary parts.

    iree-compile 3.13 has no code for a choice between complex numbers in SPIR-V ("failed to
    legalize operation 'arith.select'"), and computes updates of complex constants to something
    that is no constant ("'value' failed to satisfy constraint: TypedAttr instance"). It dies of
    padded ones with a signal, as in JAX's polar decomposition (`qdwh`). For SPIR-V sums, windows
    and sorts take the parts as two operands, too (the compiler dies in a running sum), and powers
    and signs are written with what there is. It dies of constants of complex128 that are not one
    number all over ("getStorageSize"), which are two constants here, and fills no memory with one
    ("'stream.async.splat' op operand #0 must be 8-bit …"), so that a kernel writes it; a pair of
    f64 has 128 bits. SPIR-V has no code for small constants of complex numbers that a kernel reads
    ("failed to legalize operation 'arith.constant'"), which are two as well.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 30 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 6 without.

    Attributes:
        spirv: the target's code is SPIR-V.
    """

    spirv: bool = False

    name = "split-complex"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SplitComplex | None":
        """For programs in StableHLO with such an operation, or one that becomes one."""
        spirv = situation.target.is_spirv
        names = {*_MOVES, "stablehlo.scatter", *((*_REGIONS, *_FUNCTIONS) if spirv else ())}
        needed = situation.operations & names or _has_hindrance(situation.module, spirv=spirv)
        return cls(spirv=spirv) if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many operations."""
        split = partial(_split_constant, spirv=self.spirv)
        count = rewrite_each(module, (_CONSTANT,), split)
        count += rewrite_each(module, ("stablehlo.convert",), _made_complex)
        count += _fill_all(module)
        if self.spirv:
            count += rewrite_each(module, _FUNCTIONS, _computed)
            count += rewrite_each(module, _REGIONS, _split_region)
        return count + rewrite_each(module, _MOVES, _split)


def _has_hindrance(module: Any, *, spirv: bool) -> bool:
    """Whether constants, or real numbers, become complex128, or constants complex for SPIR-V."""
    from edgec.toolchain.ir import write as graph

    kinds = (_WIDE, _NARROW) if spirv else (_WIDE,)
    with module.context:
        return any(
            (op.name == _CONSTANT and str(graph.element(op.results[0])) in kinds)
            or (op.name in _MAKING and str(graph.element(op.results[0])) == _WIDE)
            for op in graph.inside(module.operation)
        )


def _split_constant(op: Any, *, spirv: bool) -> Sequence[Any] | None:
    """A constant of complex128, or for SPIR-V, as its parts; one number all over is fine."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.literal import literal

    kind = graph.element(op.results[0])
    values = literal(op) if str(kind) in ((_WIDE, _NARROW) if spirv else (_WIDE,)) else None
    if values is None or not any(values.strides):
        return None
    parts = (graph.constant(part, kind.element_type) for part in (values.real, values.imag))
    return [graph.complex_(*parts)]


def _made_complex(op: Any) -> Sequence[Any] | None:
    """Floats or integers that become complex128, as their two parts."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,), (result,) = op.operands, op.results
    kind = graph.element(result)
    if str(kind) != _WIDE or isinstance(graph.element(value), ir.ComplexType):
        return None
    real = graph.convert(value, kind.element_type)
    return [graph.complex_(real, graph.fill_like(real, 0, kind.element_type))]


def _fill_all(module: Any) -> int:
    """Have kernels make what is one number of complex128 all over; how many values they make."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    count = 0
    with module.context:
        for op in [op for op in graph.inside(module.operation) if op.name in _HELD]:
            for number, value in enumerate(op.operands):
                if not graph.is_static(value) or not _is_one_number(value):
                    continue
                with op.location, ir.InsertionPoint(op):
                    real, imaginary = (graph.part(name, value) for name in ("real", "imag"))
                    op.operands[number] = graph.complex_(graph.fence(real), imaginary)
                count += 1
    return count


def _is_one_number(value: Any) -> bool:
    """Whether a value of complex128 is one number all over, as a constant says it or two do."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import repeated
    from edgec.toolchain.ir.literal import literal

    if not isinstance(value.type, ir.RankedTensorType) or str(graph.element(value)) != _WIDE:
        return False
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "stablehlo.complex":
            return all(repeated(part) is not None for part in op.operands)
        if op.name == _CONSTANT:
            values = literal(op)
            return values is not None and not any(values.strides)
        if op.name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return False
        value = op.operands[0]
    return False


def _split(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (result,) = op.results
    kind = graph.element(result)
    if not isinstance(kind, ir.ComplexType):
        return None
    plain = graph.tensor(graph.shape(result), kind.element_type)
    attributes = dict(op.attributes.items())
    parts = [
        graph.create(
            op.name,
            plain,
            [
                graph.part(name, value) if graph.element(value) == kind else value
                for value in op.operands
            ],
            attributes,
        )
        for name in ("real", "imag")
    ]
    return [graph.complex_(*parts)]


def _computed(op: Any) -> Sequence[Any] | None:
    """A power by logarithm, a sign by absolute value."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    value = op.operands[0]
    if not isinstance(graph.element(value), ir.ComplexType):
        return None
    if op.name == "stablehlo.power":
        grown = graph.binary("multiply", graph.unary("log", value), op.operands[1])
        return [graph.unary("exponential", grown)]
    real, imaginary = (graph.part(name, value) for name in ("real", "imag"))
    kind = graph.element(real)
    size = graph.create("stablehlo.abs", real.type, [value])
    is_zero = graph.compare("EQ", size, graph.fill(0, graph.shape(size), kind))
    size = graph.select(is_zero, graph.fill(1, graph.shape(size), kind), size)
    return [graph.complex_(*(graph.binary("divide", part, size) for part in (real, imaginary)))]


def _split_region(op: Any) -> Sequence[Any] | None:
    """A reduction, windows or a sort of complex numbers as one of pairs."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    split = [isinstance(graph.element(value), ir.ComplexType) for value in op.operands]
    if not any(split):
        return None
    operands = [part for value in op.operands for part in _parts(value)]
    kinds = [
        graph.tensor(graph.shape(result), kind)
        for result in op.results
        for kind in _part_kinds(graph.element(result))
    ]
    made = ir.Operation.create(
        op.name,
        results=kinds,
        operands=operands,
        attributes=dict(op.attributes.items()),
        regions=1,
    )
    sort = op.name == "stablehlo.sort"
    scalars = [graph.tensor((), graph.element(value)) for value in operands]
    given = list(op.regions[0].blocks[0].arguments)
    block = made.regions[0].blocks.append(
        *(scalar for scalar in scalars for _ in range(2 if sort else 1))
    )
    with ir.InsertionPoint(block):
        waiting = iter(block.arguments)
        joined: list[Any] = []
        for argument in given[:: 2 if sort else 1]:
            sides = 2 if sort else 1
            parts = [
                [next(waiting) for _ in range(sides)] for _ in _part_kinds(graph.element(argument))
            ]
            joined += [
                graph.complex_(*side) if len(side) == 2 else side[0]
                for side in zip(*parts, strict=True)
            ]
        results = graph.apply(op.regions[0], joined)
        ir.Operation.create(
            "stablehlo.return", operands=[part for value in results for part in _parts(value)]
        )
    results = iter(made.results)
    return [
        graph.complex_(next(results), next(results))
        if isinstance(graph.element(old), ir.ComplexType)
        else next(results)
        for old in op.results
    ]


def _part_kinds(kind: Any) -> list[Any]:
    from iree.compiler import ir

    return [kind.element_type] * 2 if isinstance(kind, ir.ComplexType) else [kind]


def _parts(value: Any) -> list[Any]:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if not isinstance(graph.element(value), ir.ComplexType):
        return [value]
    return [graph.part(name, value) for name in ("real", "imag")]
