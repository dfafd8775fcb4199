"""Products by blocks in many tiles to a module (`compile`), and on a GPU to times (`run`).

Sizes are those of SmolLM2-135M (Q4_1) and Llama-3.2-1B (Q4_0), for chunks of 64 and 256 tokens;
beside each the kernel for f32, whose weights take eight times the memory. For a token alone those
of Llama-3.2-3B are among them. Times are taken as by `tiles.py`.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cuda.block_tiles import FLOAT, GROUP, ROWS, SIZES, program
from benchmarks.vulkan.tiles import FLUSHED, WARM, flushed, timed, write

TILES = [
    # rows and outputs of a thread, threads that read the same rows
    *((8, 4, 16), (4, 4, 16), (8, 2, 16), (4, 2, 16), (2, 2, 16), (4, 1, 32)),
]
ROW_FORMS = [(lanes, each) for each in (1, 2, 4) for lanes in (64, 32, 16, 8)]
"""Threads that do an output of a token's together, and outputs that they do side by side."""
PARTS = (1, 2, 4, 8, 16)
MOST_THREADS, FEWEST_THREADS = 1 << 19, 1 << 12


def compile_all(folder: Path) -> None:
    """One module with a function for each size, tile and number of parts."""
    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.kernels.vulkan import block_products
    from edgec.toolchain.kernels.vulkan.block_choice import choose
    from edgec.toolchain.kernels.vulkan.block_products import place_block_products
    from edgec.toolchain.kernels.vulkan.forms import BlockForm, BlockTileForm
    from edgec.toolchain.kernels.vulkan.library import Library
    from edgec.toolchain.kernels.vulkan.products import rewrite_product
    from edgec.toolchain.match.product import operations_named

    gpu = find("vulkan:nvidia-hopper").gpu
    if gpu is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    listed: list[dict[str, Any]] = []
    chosen: list[Any] = []
    texts = []

    def add(sizes: tuple[int, ...], tile: Any, parts: int, text: str) -> None:
        texts.append(text.replace("@main", f"@f{len(texts)}"))
        listed.append({"sizes": sizes, "tile": tile, "parts": parts})

    for m, n, k, least in SIZES:
        add((m, n, k), FLOAT, 0, _flushing(_plain(m, n, k)))
        add((m, n, k), "chosen", 0, _flushing(program(m, n, k, least)))
        chosen.append(None)
        for high, wide, across in TILES:
            form = BlockTileForm(high=high, wide=wide, across=across, pace=0.0, load=0.0)
            pieces = k // GROUP
            for parts in PARTS:
                each = math.ceil(pieces / parts)
                tiles = math.ceil(m / form.rows) * math.ceil(n / form.columns)
                threads = tiles * parts * form.threads
                if math.ceil(pieces / each) != parts:
                    continue
                if not FEWEST_THREADS <= threads <= MOST_THREADS:
                    continue
                chosen.append((form, parts))
                add((m, n, k), [high, wide, across], parts, _flushing(program(m, n, k, least)))
    rows: list[Any] = []
    for n, k, least in ROWS:
        for form in (None, *(BlockForm(lanes=lanes, each=each) for lanes, each in ROW_FORMS)):
            if form is None or form.lanes <= k // GROUP:
                rows.append(form)
                tile = "chosen" if form is None else [form.lanes, form.each]
                add((1, n, k), tile, 0, _flushing(program(1, n, k, least)))
    order, row_order, form_of = iter(chosen), iter(rows), block_products._form

    def form_for(*given: Any) -> Any:
        return next(row_order) or form_of(*given)

    block_products._form = form_for  # type: ignore[attr-defined]

    def chosen_for(*given: Any) -> Any:
        return next(order) or choose(*given)

    block_products.choose = chosen_for  # type: ignore[attr-defined]
    with ir.Context(), ir.Location.unknown():
        module: Any = ir.Module.parse("\n".join(texts))
        library = Library(module, gpu)
        place_block_products(module, library)
        for op in operations_named(module, "stablehlo.dot_general"):
            rewrite_product(op, library)
        placed = flushed(module, library)
    write(placed, folder / "tiles.vmfb", listed)


def _plain(m: int, n: int, k: int) -> str:
    """The same by f32; weights of that have the arguments' places."""
    x, w, y = (f"tensor<{a}x{b}xf32>" for a, b in ((m, k), (k, n), (m, n)))
    return f"""
func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
  return %y : {y}
}}"""


def _flushing(text: str) -> str:
    """A program with a sum that drives its weights out of the cache."""
    wide, narrow = "x".join(map(str, FLUSHED)), FLUSHED[1]
    head, _, rest = text.partition(") -> ")
    kind, _, body = rest.partition(" {")
    body, _, _ = body.rpartition("  return")
    return f"""{head}, %f: tensor<{wide}xf32>) -> ({kind}, tensor<{narrow}xf32>) {{{body}
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %total = stablehlo.reduce(%f init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<{wide}xf32>, tensor<f32>) -> tensor<{narrow}xf32>
  return %y, %total : {kind}, tensor<{narrow}xf32>
}}"""


def run_all(folder: Path) -> list[dict[str, Any]]:
    """Microseconds of each tile, the median of so many calls."""
    from edgec.runtime.dtypes import DType
    from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertTensor, Ran

    ran: list[Ran] = []
    device = EdgertDevice("vulkan", timed=ran.append)
    session = EdgertSession(EdgertModule(folder / "tiles.vmfb"), device)
    rng = np.random.default_rng(0)
    flush = EdgertTensor.copy(device, np.ones(FLUSHED, np.float32), DType.F32)
    listed = json.loads((folder / "tiles.json").read_text())

    def given(m: int, n: int, k: int, *, plain: bool) -> list[Any]:
        groups = k // GROUP
        numbers = [rng.standard_normal((n, groups)).astype(np.float16) for _ in range(2)]
        x = rng.standard_normal((m, k)).astype(np.float32)
        weights = [rng.integers(-128, 128, (n, groups, 16)).astype(np.int8), *numbers]
        if plain:
            weights = [rng.standard_normal((k, n)).astype(np.float32)]
        return [EdgertTensor.copy(device, each, DType.of(each.dtype)) for each in (x, *weights)]

    warmed = False
    held: dict[tuple[Any, ...], list[Any]] = {}
    for i, row in enumerate(listed):
        key = (*row["sizes"], row["tile"] == FLOAT)
        if key not in held:
            held = {key: given(*row["sizes"], plain=row["tile"] == FLOAT)}
        end = time.perf_counter() + (0 if warmed else WARM)
        while time.perf_counter() < end:
            session.run(f"f{i}", [*held[key], flush])
        warmed = True
        row["us"] = timed(session, f"f{i}", [*held[key], flush], ran)
    return listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["compile", "run"])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.verb == "compile":
        compile_all(options.folder)
        return
    for row in sorted(run_all(options.folder), key=lambda row: (row["sizes"], sum(row["us"]))):
        print(row["sizes"], row["tile"], row["parts"], row["us"])


if __name__ == "__main__":
    main()
