"""What a kernel does to its sums before it stores them, element by element."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.error_function import error_function
from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.match.expression import Source

__all__ = ["BINARY", "COMPARISONS", "UNARY", "Epilogue", "Step"]

UNARY: dict[str, str] = {
    "stablehlo.negate": "arith.negf",
    "stablehlo.abs": "math.absf",
    "stablehlo.exponential": "math.exp",
    "stablehlo.exponential_minus_one": "math.expm1",
    "stablehlo.log": "math.log",
    "stablehlo.log_plus_one": "math.log1p",
    "stablehlo.tanh": "math.tanh",
    "stablehlo.sqrt": "math.sqrt",
    "stablehlo.rsqrt": "math.rsqrt",
    "stablehlo.round_nearest_even": "math.roundeven",
    "chlo.erf": "math.erf",
}
"""Operations of one operand, in StableHLO and in a kernel."""

BINARY: dict[str, str] = {
    "stablehlo.add": "arith.addf",
    "stablehlo.subtract": "arith.subf",
    "stablehlo.multiply": "arith.mulf",
    "stablehlo.divide": "arith.divf",
    "stablehlo.maximum": "arith.maximumf",
    "stablehlo.minimum": "arith.minimumf",
}
"""Operations of two operands."""

COMPARISONS: dict[str, str] = {
    "LT": "olt",
    "LE": "ole",
    "GT": "ogt",
    "GE": "oge",
    "EQ": "oeq",
    "NE": "une",
}
"""What a `stablehlo.compare` of floats asks, as `arith.cmpf` does."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One element-wise operation: its name in MLIR, and its operands with their number or value."""

    name: str
    operands: tuple[tuple[Source, float], ...]


@dataclass(frozen=True, kw_only=True)
class Epilogue:
    """Steps in order; the last one is what is stored. Without steps the sum itself is.

    Attributes:
        steps: the operations.
        channels: how many tensors of one value a channel it reads.
        tensors: how many tensors of the result's shape it reads.
    """

    steps: tuple[Step, ...] = ()
    channels: int = 0
    tensors: int = 0

    def emit(
        self,
        total: str,
        kind: str,
        fresh: Callable[[], str],
        channel: Sequence[str],
        tensor: Sequence[str],
    ) -> tuple[list[str], str]:
        """The lines that compute the stored value from one vector of sums, and its name.

        Args:
            total: the SSA name of the sums.
            kind: their type, a vector of f32.
            fresh: makes a new SSA name.
            channel: the loaded values of the channel tensors, by number.
            tensor: the loaded values of the other tensors, by number.
        """
        lines: list[str] = []
        done: list[str] = []

        def name(operand: tuple[Source, float]) -> str:
            source, number = operand
            match source:
                case Source.SUM:
                    return total
                case Source.STEP:
                    return done[int(number)]
                case Source.ROW:
                    return channel[int(number)]
                case Source.TENSOR:
                    return tensor[int(number)]
                case Source.SCALAR:
                    constant = fresh()
                    lines.append(f"{constant} = arith.constant dense<{literal(number)}> : {kind}")
                    return constant

        for step in self.steps:
            operands = ", ".join(name(operand) for operand in step.operands)
            result = fresh()
            if step.name == "math.roundeven":
                lines += _round(result, operands, kind, fresh)
            elif step.name == "math.erf":
                lines += error_function(result, operands, kind, fresh)
            elif step.name == "arith.select":
                truth = kind.replace("f32", "i1")
                lines.append(f"{result} = arith.select {operands} : {truth}, {kind}")
            elif step.name.startswith("arith.cmpf"):
                lines.append(f"{result} = {step.name}, {operands} : {kind}")
            else:
                lines.append(f"{result} = {step.name} {operands} : {kind}")
            done.append(result)
        return lines, done[-1] if done else total


def _round(result: str, value: str, kind: str, fresh: Callable[[], str]) -> list[str]:
    """`result`: the nearest whole numbers, halves to even.

    The compiler takes `math.roundeven` apart into some 25 operations on bits. Below 2^23, adding
    that number rounds a magnitude and taking it away leaves the rest; above are no fractions.
    """
    large, size, added, whole, signed, small = (fresh() for _ in range(6))
    truth = kind.replace("f32", "i1")
    return [
        f"{large} = arith.constant dense<{literal(2.0**23)}> : {kind}",
        f"{size} = math.absf {value} : {kind}",
        f"{added} = arith.addf {size}, {large} : {kind}",
        f"{whole} = arith.subf {added}, {large} : {kind}",
        f"{signed} = math.copysign {whole}, {value} : {kind}",
        f"{small} = arith.cmpf olt, {size}, {large} : {kind}",
        f"{result} = arith.select {small}, {signed}, {value} : {truth}, {kind}",
    ]
