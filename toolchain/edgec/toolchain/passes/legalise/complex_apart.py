"""Complex numbers kept out of transposes and sums on GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ComplexApart"]

_TRANSPOSE, _REDUCE = "stablehlo.transpose", "stablehlo.reduce"
_KERNELS = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("case", "convolution", "custom_call", "dot_general", "fft", "if", "reduce"),
        *("reduce_window", "scatter", "sort", "while"),
    )
)
"""What is never in one kernel with a sum behind it."""


@dataclass(frozen=True, kw_only=True)
class ComplexApart:
    """Complex matrices are turned part by part, and sums do not read complex numbers' parts.

    iree-compile 3.13 dies (SIGSEGV) of a vector of complex numbers in the kernels for NVIDIA's and
    AMD's GPUs that turn a matrix by shared memory, and in those of sums of what is computed from
    complex numbers, such as a norm, or of complex numbers where the sum is repeated. Small ones
    have no vectors: cases of a few numbers pass. The parts are written first, by a kernel of their
    own, and turned or summed as real numbers, and what reads a complex sum is another kernel.

    Measured: of 21 functions of complex64 at 128 x 128, 5 are refused for `cuda:sm_90` without it
    (`x.T`, norms, sums of squares) and none is with it; four of 80 cases of JAX's own `lax_scipy`
    tests failed so on an H200.
    """

    name = "complex-apart"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "ComplexApart | None":
        """For programs in StableHLO with complex numbers, on NVIDIA's and AMD's GPUs."""
        if not (situation.is_stablehlo and situation.target.is_llvm_gpu):
            return None
        return cls() if situation.has({_TRANSPOSE, _REDUCE}, _is_meant) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many operations."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph

        count = rewrite_each(module, (_TRANSPOSE,), _turned)
        with module.context:
            for op in list(graph.inside(module.operation)):
                if op.name != _REDUCE or not _is_meant(op):
                    continue
                with op.location, ir.InsertionPoint(op):
                    for place, value in enumerate(op.operands):
                        if _reads_complex(value):
                            op.operands[place] = graph.fence(value)
                _end(op)
                count += 1
        return count


def _end(op: Any) -> None:
    """Put a barrier behind complex sums that are read."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    for result in [result for result in op.results if _is_read(result)]:
        with op.location, ir.InsertionPoint.after(op):
            fenced = graph.fence(result)
        result.replace_all_uses_except(fenced, fenced.owner.operation)


def _is_read(result: Any) -> bool:
    """Whether complex numbers are more than returned."""
    users = (use.owner.name for use in result.uses)
    return _is_complex(result) and not all(name.endswith(".return") for name in users)


def _is_complex(value: Any) -> bool:
    from iree.compiler import ir

    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and isinstance(kind.element_type, ir.ComplexType)


def _is_meant(op: Any) -> bool:
    if op.name == _TRANSPOSE:
        return _is_complex(op.operands[0])
    return any(map(_reads_complex, op.operands)) or any(map(_is_read, op.results))


def _reads_complex(value: Any) -> bool:
    """Whether a value of another type is computed from complex ones, in what may be one kernel."""
    from iree.compiler import ir

    if _is_complex(value):
        return False  # Sums of complex numbers themselves pass, if nothing repeats them there.
    waiting, seen = [value], set()
    while waiting:
        last = waiting.pop()
        if _is_complex(last):
            return True
        owner = last.owner
        is_open = not isinstance(owner, ir.Block) and owner.name.startswith("stablehlo.")
        if is_open and owner.name not in _KERNELS and owner not in seen:
            seen.add(owner)
            waiting += owner.operands
    return False


def _turned(op: Any) -> Sequence[Any] | None:
    from edgec.toolchain.ir import write as graph

    if not _is_meant(op):
        return None
    (result,) = op.results
    kind = graph.tensor(graph.shape(result), graph.element(result).element_type)
    parts = (graph.fence(graph.part(name, op.operands[0])) for name in ("real", "imag"))
    return [
        graph.complex_(
            *(
                graph.fence(graph.create(op.name, kind, [p], dict(op.attributes.items())))
                for p in parts
            )
        )
    ]
