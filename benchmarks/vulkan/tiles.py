"""Products of transformers in many tiles to modules (`compile`), and on a GPU to times (`run`).

`python benchmarks/vulkan/tiles.py compile FOLDER` needs no GPU; where one is,
`python benchmarks/vulkan/tiles.py run FOLDER` times each kernel alone, by edgert's time stamps, and
compares what it gives with NumPy. Between two calls 64 MB are summed, so that weights are read from
the GPU's memory, as in a network.
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIZES = [
    (m, n, k) for m in (197, 128) for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072))
]
PARTS = {768: (1, 2, 3), 3072: (1, 3, 6)}
MATRIX = [
    # rows, columns, inner, high, wide, ahead
    *((32, 32, 64, 16, 32, 1), (32, 32, 64, 16, 32, 2), (64, 64, 64, 32, 32, 1)),
    *((64, 64, 64, 32, 32, 2), (64, 64, 64, 16, 32, 2), (32, 64, 64, 16, 32, 2)),
    *((64, 64, 32, 32, 32, 3), (32, 32, 128, 16, 16, 2), (64, 128, 32, 32, 32, 2)),
    (128, 128, 32, 64, 32, 2),
]
SUMS = [
    *((32, 32, 32, 4, 4, 1), (64, 64, 16, 8, 4, 1), (32, 64, 16, 4, 8, 1), (32, 64, 32, 4, 4, 1)),
    *((64, 64, 16, 4, 4, 1), (64, 64, 16, 8, 8, 1)),
]
"""Those of f32 ask one step ahead."""
FLUSHED = (1 << 16, 256)
CALLS = 12


def compile_all(folder: Path, element: str) -> None:
    """One module with a function for each size, tile and number of parts."""
    from iree.compiler import ir, tools

    from edgec.targets import find
    from edgec.toolchain.kernels.vulkan import products
    from edgec.toolchain.kernels.vulkan.choice import Choice
    from edgec.toolchain.kernels.vulkan.columns import rewrite_total
    from edgec.toolchain.kernels.vulkan.library import Library
    from edgec.toolchain.match.product import top_operations

    gpu = find("vulkan:nvidia-ada").gpu
    if gpu is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    tiles = list(_tiles(element, gpu.shared_memory))
    text = "\n".join(_function(f"f{i}", sizes, element) for i, (sizes, _, _) in enumerate(tiles))
    with ir.Context(), ir.Location.unknown():
        module: Any = ir.Module.parse(text)
        library = Library(module, gpu)
        found = top_operations(module, "stablehlo.dot_general")
        for (sizes, form, parts), op in zip(tiles, found, strict=True):
            m, n, k = sizes
            each = math.ceil(math.ceil(k / form.inner) / parts)
            choice = Choice(
                word="".join(f"{size}x" for size in _spelled(form)),
                form=form,
                tiles=math.ceil(m / form.rows) * math.ceil(n / form.columns),
                parts=parts,
                inside=each * form.inner,
                time=0.0,
            )
            products.choose = lambda *_, choice=choice, **__: choice  # type: ignore[attr-defined]
            products.rewrite_product(op, library)
        for op in top_operations(module, "stablehlo.reduce"):
            rewrite_total(op, library)
        for answer in library.answers:
            if not hasattr(answer.outcome, "name"):
                print(answer)
        placed = str(module)
    tools.compile_str(
        placed,
        output_file=str(folder / f"tiles-{element}.vmfb"),
        input_type="stablehlo",
        extra_args=["--iree-hal-target-device=vulkan", "--iree-vulkan-target=ada"],
    )
    listed = [
        {"sizes": sizes, "tile": _spelled(form), "parts": parts} for sizes, form, parts in tiles
    ]
    (folder / f"tiles-{element}.json").write_text(json.dumps(listed) + "\n")
    print(f"{len(tiles)} tiles")


def _tiles(element: str, shared: int) -> Iterator[tuple[tuple[int, int, int], Any, int]]:
    """Sizes, form and parts of each function."""
    from edgec.toolchain.kernels.vulkan.forms import ProductForm

    source = "matrix_product" if element == "f16" else "product"
    for sizes in SIZES:
        for rows, columns, inner, high, wide, ahead in MATRIX if element == "f16" else SUMS:
            form = ProductForm(
                **{"rows": rows, "columns": columns, "inner": inner, "high": high, "wide": wide},
                **{"source": source, "ahead": ahead, "start": 0.0, "step": 0.0, "load": 0.0},
            )
            if form.shared > shared:
                continue
            for parts in PARTS[sizes[2]]:
                yield sizes, form, parts


def _spelled(form: Any) -> list[int]:
    return [form.rows, form.columns, form.inner, form.high, form.wide, form.ahead]


def _function(name: str, sizes: tuple[int, int, int], element: str) -> str:
    """A product, and a sum that drives its weights out of the cache."""
    m, n, k = sizes
    wide = "x".join(map(str, FLUSHED))
    return f"""
func.func @{name}(%x: tensor<{m}x{k}x{element}>, %w: tensor<{k}x{n}x{element}>,
                  %f: tensor<{wide}xf32>)
    -> (tensor<{m}x{n}x{element}>, tensor<{FLUSHED[1]}xf32>) {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<{m}x{k}x{element}>, tensor<{k}x{n}x{element}>) -> tensor<{m}x{n}x{element}>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%f init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<{wide}xf32>, tensor<f32>) -> tensor<{FLUSHED[1]}xf32>
  return %0, %1 : tensor<{m}x{n}x{element}>, tensor<{FLUSHED[1]}xf32>
}}"""


def run_all(folder: Path, element: str) -> list[dict[str, Any]]:
    """Microseconds of each tile, the median of so many calls, and its error."""
    from edgec.runtime.dtypes import DType
    from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertTensor, Ran

    ran: list[Ran] = []
    device = EdgertDevice("vulkan", timed=ran.append)
    session = EdgertSession(EdgertModule(folder / f"tiles-{element}.vmfb"), device)
    kind = {"f16": np.float16, "f32": np.float32}[element]
    rng = np.random.default_rng(0)
    flush = EdgertTensor.copy(device, np.ones(FLUSHED, np.float32), DType.F32)
    rows: list[dict[str, Any]] = []
    given: dict[tuple[int, ...], Any] = {}
    for i, row in enumerate(json.loads((folder / f"tiles-{element}.json").read_text())):
        m, n, k = sizes = tuple(row["sizes"])
        if sizes not in given:
            x, w = (rng.standard_normal(size).astype(kind) for size in ((m, k), (k, n)))
            there = [EdgertTensor.copy(device, each, DType.of(each.dtype)) for each in (x, w)]
            given[sizes] = there, x.astype(np.float32) @ w.astype(np.float32)
        there, wanted = given[sizes]
        times = []
        for _ in range(CALLS):
            ran.clear()
            made, _ = session.run(f"f{i}", [*there, flush])
            times.append([r.seconds for r in ran if "columns" not in r.kernel])
        got = made.read(DType.of(np.dtype(kind))).astype(np.float32)
        row["us"] = [round(1e6 * float(t), 2) for t in np.median(np.array(times), 0)]
        row["error"] = float(f"{np.linalg.norm(got - wanted) / np.linalg.norm(wanted):.2g}")
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["compile", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--type", default="f16", choices=["f16", "f32"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.verb == "compile":
        compile_all(options.folder, options.type)
        return
    rows = run_all(options.folder, options.type)
    for row in sorted(rows, key=lambda row: (row["sizes"], sum(row["us"]))):
        print(row["sizes"], row["tile"], row["parts"], row["us"], row["error"])
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
