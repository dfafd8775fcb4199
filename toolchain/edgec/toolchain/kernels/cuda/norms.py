"""A layer norm or RMS norm along the last axis to a dispatch of the norm kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import dataclasses
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.uses import only_use, only_user
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.norms import kind_of, place_norm
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import Norm

__all__ = ["rewrite_norm"]

_ELEMENTS = ("f16", "bf16", "f32")
_BLOCKS = (1024, 4096)


def rewrite_norm(op: Any, library: Library) -> None:
    """Replace what ends after `op`, a root, by a kernel, if it is a norm that one takes."""
    place_norm(op, library.answers, lambda norm: _placed(norm, library), _by_columns)


def _by_columns(norm: Norm) -> bool:
    """Whether it has one scale and one shift a column, if any."""
    return all(each is None or each.axes == norm.summed for each in (norm.scale, norm.shift))


def _placed(norm: Norm, library: Library) -> Kernel | Declined:
    """Its place taken by a kernel, or why there is none."""
    reason = _refused(norm)
    if reason is not None:
        return Declined(reason=reason)
    validate(norm, "norm")
    norm = _narrowed(norm)
    plus, last = _added(norm.value)
    results = _call(norm, plus, last, library)
    if isinstance(results, Declined):
        return results
    with ir.InsertionPoint(last.owner.operation):
        replace(last, results[0])
    return Kernel(name="norm")


def _added(value: Any) -> tuple[Any | None, Any]:
    """What alone is added to a norm, element by element (a residual), and the sum of both.

    None and the norm itself where nothing is.
    """
    use = only_use(value)
    if use is None or use.owner.operation.name != "stablehlo.add":
        return None, value
    sum_ = use.owner.operation
    other = sum_.operands[1 - use.operand_number]
    return (other, sum_.results[0]) if other.type == value.type else (None, value)


def _refused(norm: Norm) -> str | None:
    """Why the kernel does not take it."""
    if norm.rows is None:
        return "rows whose elements lie apart"
    width = norm.rows[1]
    if not _by_columns(norm):
        return "scales that are not one a column"
    if width % 8 or width > _BLOCKS[-1]:
        return f"rows of {width} elements"
    kind = kind_of(norm.source)
    if kind != kind_of(norm.value) or kind not in _ELEMENTS:
        return f"{kind} to {kind_of(norm.value)}"
    kinds = {kind_of(each.value) for each in (norm.scale, norm.shift) if each is not None}
    return None if kinds <= set(_ELEMENTS) else f"scales of {' and '.join(sorted(kinds))}"


def _narrowed(norm: Norm) -> Norm:
    """The same over what was widened to f32 and moved for it alone, if its result is rounded back.

    The kernel sums in f32 anyway, and a move takes half as long in halves.
    """
    user = only_user(norm.value)
    if user is None or user.name != "stablehlo.convert" or kind_of(norm.source) != "f32":
        return norm
    (result,) = user.results
    source = _before_widening(norm.source, result.type.element_type)
    return norm if source is None else dataclasses.replace(norm, source=source, value=result)


def _before_widening(value: Any, kind: Any) -> Any | None:
    """What a value was before it was widened, moved as it then was; None where it was not."""
    if isinstance(value.owner, ir.Block) or kind_of(value) == str(kind):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.convert":
        (source,) = op.operands
        return source if source.type.element_type == kind else None
    if op.name not in ("stablehlo.transpose", "stablehlo.reshape"):
        return None
    inner = _before_widening(op.operands[0], kind)
    if inner is None:
        return None
    with ir.InsertionPoint(op), op.location:
        if op.name == "stablehlo.transpose":
            return write.transpose(inner, integers(op, "permutation"))
        return write.reshape(inner, write.shape(value))


def _call(norm: Norm, plus: Any | None, last: Any, library: Library) -> Any:
    """The result of the kernel, which stands for `last`, or why there is none."""
    rows, width = norm.rows or (0, 0)
    source = norm.source
    element = source.type.element_type
    columns = [None if c is None else c.value for c in (norm.scale, norm.shift)]
    given = [v for v in columns if v is not None]
    block = next(n for n in _BLOCKS if n >= width)
    with ir.InsertionPoint(last.owner.operation):
        if any(v.type.element_type != element for v in given):  # a few numbers, of a type for all
            columns = [v if v is None else write.convert(v, ir.F32Type.get()) for v in columns]
        scale, shift = columns
        what = (scale is not None) | (shift is not None) << 1
        what |= any(v is not None and kind_of(v) == "f32" for v in columns) << 2
        what |= (not norm.mean) << 3
        what |= (plus is not None) << 4
        return library.call(
            Launch(
                name=f"norm_{block}_{element}",
                source="norm",
                grid=(rows, 1, 1),
                warps=4 if block == _BLOCKS[0] else 8,
                stages=1,
                reads={
                    **{"x": source, "scale": scale or source, "shift": shift or source},
                    "plus": plus or source,
                },
                writes={"y": ir.RankedTensorType.get([rows, width], element)},
                numbers={"eps_bits": bits(norm.epsilon)},
                folded={"width": width, "what": what},
                constants={"BN": block},
                multiples={"width": 8},
            )
        )
