"""A product of matrices to a dispatch of the product kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import element_type
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.cuda.choice import Choice, choose
from edgec.toolchain.kernels.cuda.inner_last import with_inner_last
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.cuda.variants import Constant
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import Finish, find_finish
from edgec.toolchain.kernels.gpu.tiles import ProductKey
from edgec.toolchain.kernels.spec import Declined, Kernel, Work
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.matrix_product import MatrixProduct, Side, read_product

__all__ = ["LEAST_WORK", "NOT_SPLIT", "rewrite_product"]

ELEMENTS = ("f16", "bf16", "f32")
LEAST_WORK = 1 << 14
"""Multiplications below which a kernel does not pay: few steps take the time of a launch."""
_GROUP = 8
_UNIT = 16
"""Rows, columns and steps of a matrix unit's tile."""
NOT_SPLIT: dict[str, Constant] = {"work": None, "counters": None, "slot": 0}
"""Constants of a kernel that sums in one part."""


def rewrite_product(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if it is a product that one takes."""
    found = read_product(op)
    if isinstance(found, str):
        library.answers.record(op, "product", Work(), Declined(reason=found))
        return
    reason = _unfit(found)
    if reason:
        library.answers.record(op, str(found), found.work, Declined(reason=reason))
        return
    validate(found, "product")
    found = with_inner_last(found, op, library)
    tail = find_finish(found.value, _element(found.element), found.n, library.answers)
    key = ProductKey(
        batch=found.count,
        m=found.m,
        k=found.k,
        n=found.n,
        layout=_layout(found),
        element=found.element,
    )
    choice = choose(
        library.gpu,
        (found.m, found.n, found.k),
        batch=found.count,
        f32=found.element == "f32",
        along=found.right.inner == 1,
        large=library.has_descriptors and _is_large(found, tail),
        wanted=library.tiles.get(str(key)),
    )
    with ir.InsertionPoint(tail.last.owner.operation):
        kind = element_type(tail.last)
        flat = ir.RankedTensorType.get([found.count, found.m, found.n], kind)
        reads = {"a": found.left.value, "b": found.right.value}
        reads |= tail.reads(found.left.value)
        launch = _large if choice.form == "large" else _tiled
        results = library.call(launch(found, choice, reads, flat, tail.folded, library))
        if isinstance(results, Declined):
            library.answers.record(op, str(found), found.work, results)
            return
        library.answers.record(
            op, str(found), found.work, Kernel(name=f"product {choice.form}", key=str(key))
        )
        replace(tail.last, results[0])


def _unfit(found: MatrixProduct) -> str:
    """Why no kernel takes a product; empty if one does."""
    result = str(element_type(found.value))
    if found.element not in ELEMENTS or found.right.element != found.element:
        return f"elements of {found.left.element} and {found.right.element}"
    if result not in (found.element, "f32"):
        return f"sums of {found.element} rounded to {result}"
    if found.count * found.m * found.n * found.k < LEAST_WORK and not _is_ragged(found):
        return "too little to do"
    if len(found.batch) > 2:
        return "a batch of three indices that lie apart"
    if min(found.left.own, found.left.inner) != 1 and min(found.right.own, found.right.inner) != 1:
        return "no side has neighbouring elements"
    sizes = [found.count * found.m * found.n]
    sizes += [math.prod(shape(side.value)) for side in (found.left, found.right)]
    return "2^31 elements or more" if max(sizes) >= 2**31 else ""


def _is_ragged(found: MatrixProduct) -> bool:
    """Whether the compiler's matrix units would read beyond the end of a side.

    iree-compile 3.13 fills tiles of 16 up with what lies behind a matrix: of 3 products of 4 x 8
    by 8 x 5 in bf16 the last one was no number on an H200.
    """
    sizes = (found.m, found.n, found.k)
    return found.element != "f32" and any(size % _UNIT for size in sizes)


def _element(name: str) -> Any:
    return ir.Type.parse(name)


def _is_large(found: MatrixProduct, tail: Finish) -> bool:
    """Whether tiles can be copied by descriptor: rows that lie one after the other, of 16 bytes."""
    left, right = found.left, found.right
    dense = (left.inner, left.own) == (1, found.k) and (right.inner, right.own) in (
        (1, found.k),
        (found.n, 1),
    )
    whole = not (found.n % 8 or found.k % 8 or left.start or right.start)
    return not found.batch and dense and whole and not tail.what & 4


def _tiled(
    found: MatrixProduct,
    choice: Choice,
    reads: dict[str, Any],
    result: Any,
    after: dict[str, int],
    library: Library,
) -> Launch:
    split = choice.parts > 1
    room = choice.tiles * choice.parts * choice.rows * choice.columns
    work = {"work": ir.RankedTensorType.get([room], ir.F32Type.get())}
    numbers = {"m": found.m, "n": found.n, "k": found.k, "k_part": choice.steps * choice.inner}
    heads = found.batch[-1] if found.batch else 1
    steps = {
        "heads": heads,
        **_steps("a", "row", found.left),
        **_steps("b", "column", found.right),
    }
    constants: dict[str, Constant] = {}
    for name, step in steps.items():
        # What is 0 or 1 decides how a kernel reads; other steps are numbers like any.
        if step in (0, 1):
            constants[name] = step
        else:
            numbers[name] = step
    grouped = {
        "ROWS": _GROUP if found.left.own == 1 and found.m % _GROUP == 0 else 1,
        "COLUMNS": _GROUP if found.right.own == 1 and found.n % _GROUP == 0 else 1,
    }
    return Launch(
        name=f"product_{_layout(found)}_{choice.form}_{found.element}",
        source="product",
        grid=(choice.tiles, choice.parts, found.count),
        warps=choice.warps,
        stages=choice.stages,
        reads=reads,
        writes={"c": result, **(work if split else {})},
        numbers=numbers,
        folded=after,
        constants={
            **choice.constants,
            **constants,
            **grouped,
            "SPLIT": split,
            "PRECISION": library.precision,
            **({} if split else NOT_SPLIT),
        },
        multiples={
            name: _GROUP
            for name, value in numbers.items()
            if name not in ("m", "heads") and value % _GROUP == 0
        },
        counters=choice.tiles if split else 0,
    )


def _layout(found: MatrixProduct) -> str:
    """How both sides lie: `n` as [m, k] and [k, n], `t` turned."""
    left = "t" if found.left.inner != 1 else "n"
    return left + ("t" if found.right.inner == 1 else "n")


def _steps(letter: str, own: str, side: Side) -> dict[str, int]:
    """A side's place as the kernel's parameters."""
    outer, inner = ((0, 0, *side.batch)[-2:]) if side.batch else (0, 0)
    return {
        f"{letter}_at": side.start,
        f"{letter}_batch": outer,
        f"{letter}_head": inner,
        f"{letter}_{own}": side.own,
        f"{letter}_inner": side.inner,
    }


def _large(
    found: MatrixProduct,
    choice: Choice,
    reads: dict[str, Any],
    result: Any,
    after: dict[str, int],
    library: Library,
) -> Launch:
    turned = found.right.inner == 1
    return Launch(
        name=f"product_{'nt' if turned else 'nn'}_large_{found.element}",
        source="large_product",
        grid=(min(choice.tiles, library.gpu.multiprocessors), 1, 1),
        warps=choice.warps,
        stages=choice.stages,
        reads=reads,
        writes={"c": result},
        numbers={"m": found.m, "n": found.n, "k": found.k},
        folded=after,
        constants={**choice.constants, "TRANSPOSED": turned},
        multiples={"n": _GROUP, "k": _GROUP},
    )
