"""A `dot_general` to a dispatch of the product kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.choice import Choice, choose
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import RELU_ALONE, find_finish
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.product import LEAST_WORK, product_sizes

__all__ = ["rewrite_product"]

ELEMENTS = ("f16", "bf16", "f32")


def rewrite_product(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if it is a product that one takes."""
    if op.name != "stablehlo.dot_general":
        return
    left, right = op.operands
    (value,) = op.results
    element = left.type.element_type
    static = all(v.type.has_static_shape for v in (left, right, value))
    if not static or str(element) not in ELEMENTS or right.type.element_type != element:
        return
    if str(value.type.element_type) not in (str(element), "f32"):
        return
    sizes = product_sizes(op)
    if sizes is None:
        return
    batch, m, n, k, turned = sizes
    if n % 8 or k % 8 or m * n * k * batch < LEAST_WORK:
        return
    if max(m * k, k * n, m * n) * batch >= 2**31:
        return
    tail, _ = find_finish(value, element, n, RELU_ALONE)
    wide = tail.what & 4
    choice = choose(
        library.gpu,
        (m, n, k),
        batch=batch,
        f32=str(element) == "f32",
        large=library.has_descriptors and not wide,
    )
    with ir.InsertionPoint(tail.last.owner.operation):
        flat = ir.RankedTensorType.get([batch, m, n], tail.last.type.element_type)
        reads = {"a": left, "b": right, "bias": tail.bias or left, "other": tail.other or left}
        name = f"product_{'nt' if turned else 'nn'}_{choice.form}_{element}"
        launch = _large if choice.form == "large" else _tiled
        results = library.call(
            launch(name, choice, sizes, reads, flat, tail.what, library.gpu.multiprocessors)
        )
        if not isinstance(results, Declined):
            replace(tail.last, results[0])


def _tiled(
    name: str,
    choice: Choice,
    sizes: tuple[int, int, int, int, bool],
    reads: dict[str, Any],
    result: Any,
    what: int,
    _: int,
) -> Launch:
    batch, m, n, k, turned = sizes
    split = choice.parts > 1
    part = choice.steps * choice.inner
    room = choice.tiles * choice.parts * choice.rows * choice.columns
    work = {"work": ir.RankedTensorType.get([room], ir.F32Type.get())}
    numbers = {"m": m, "n": n, "k": k, "k_part": part, "a_step": m * k, "b_step": k * n}
    return Launch(
        name=name,
        source="product",
        grid=(choice.tiles, choice.parts, batch),
        warps=choice.warps,
        stages=choice.stages,
        reads=reads,
        writes={"c": result, **(work if split else {})},
        numbers=numbers,
        folded={"what": what},
        constants={
            **choice.tile,
            "TRANSPOSED": turned,
            "SPLIT": split,
            "PRECISION": "tf32x3",
            **({} if split else NOT_SPLIT),
        },
        multiples=dict.fromkeys(("n", "k", "k_part", "a_step", "b_step"), 8),
        counters=choice.tiles if split else 0,
    )


NOT_SPLIT = {"work": None, "counters": None, "slot": 0}
"""Constants of a kernel that sums in one part."""


def _large(
    name: str,
    choice: Choice,
    sizes: tuple[int, int, int, int, bool],
    reads: dict[str, Any],
    result: Any,
    what: int,
    multiprocessors: int,
) -> Launch:
    _, m, n, k, turned = sizes
    return Launch(
        name=name,
        source="large_product",
        grid=(min(choice.tiles, multiprocessors), 1, 1),
        warps=choice.warps,
        stages=choice.stages,
        reads=reads,
        writes={"c": result},
        numbers={"m": m, "n": n, "k": k},
        folded={"what": what},
        constants={**choice.tile, "TRANSPOSED": turned},
        multiples={"n": 8, "k": 8},
    )
