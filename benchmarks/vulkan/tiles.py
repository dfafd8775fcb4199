"""Products and convolutions in many tiles to modules (`compile`), and on a GPU to times (`run`).

`python benchmarks/vulkan/tiles.py compile FOLDER` needs no GPU; where one is,
`python benchmarks/vulkan/tiles.py run FOLDER` times each kernel alone, by edgert's time stamps, and
compares what it gives with PyTorch. Between two calls 64 MB are summed, so that weights are read
from the GPU's memory, as in a network. Products are those of transformers, convolutions
(`--windows`) those of a U-Net and of ResNet-50.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIZES = [
    (m, n, k) for m in (197, 128) for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072))
]
WINDOWS = [
    # pixels a side, inputs, outputs, taps a side
    *((256, 64, 64, 3), (256, 128, 64, 3), (128, 64, 128, 3), (128, 128, 128, 3)),
    *((128, 256, 128, 3), (64, 128, 256, 3), (64, 512, 256, 3), (64, 256, 256, 3)),
    *((32, 512, 512, 3), (32, 1024, 512, 3), (16, 512, 1024, 3), (16, 1024, 1024, 3)),
    *((56, 64, 64, 3), (28, 128, 128, 3), (14, 256, 256, 3), (7, 512, 512, 3)),
    *((56, 64, 256, 1), (56, 256, 64, 1), (28, 512, 128, 1), (14, 256, 1024, 1)),
    *((14, 1024, 256, 1), (7, 512, 2048, 1), (7, 2048, 512, 1)),
]
PARTS = {768: (1, 2, 3), 3072: (1, 3, 6)}
MATRIX = [
    # rows, columns, inner, high, wide, ahead
    *((32, 32, 64, 16, 32, 1), (32, 32, 64, 16, 32, 2), (64, 64, 64, 32, 32, 1)),
    *((64, 64, 64, 32, 32, 2), (64, 64, 64, 16, 32, 2), (32, 64, 64, 16, 32, 2)),
    *((64, 64, 32, 32, 32, 3), (32, 32, 128, 16, 16, 2), (64, 128, 32, 32, 32, 2)),
    (128, 128, 32, 64, 32, 2),
]
WINDOW = [
    *((32, 32, 64, 16, 32, 2), (32, 32, 128, 16, 16, 2), (64, 64, 64, 16, 32, 2)),
    *((64, 64, 32, 32, 32, 2), (128, 64, 32, 32, 32, 2), (64, 128, 32, 32, 32, 2)),
    *((128, 128, 32, 64, 32, 2), (128, 128, 32, 64, 64, 2), (128, 64, 32, 64, 32, 2)),
]
SUMS = [
    *((32, 32, 32, 4, 4, 1), (64, 64, 16, 8, 4, 1), (32, 64, 16, 4, 8, 1), (32, 64, 32, 4, 4, 1)),
    *((64, 64, 16, 4, 4, 1), (64, 64, 16, 8, 8, 1)),
]
"""Those of f32 ask one step ahead."""
FLUSHED = (1 << 16, 256)
CALLS = 12
WARM = 1.0
"""Seconds of calls before those that are timed: a GPU that was idle begins at a slow clock."""


def compile_all(folder: Path, element: str, *, windows: bool) -> None:
    """One module with a function for each size, tile and number of parts."""
    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.kernels.vulkan import convolutions, products
    from edgec.toolchain.kernels.vulkan.choice import Choice
    from edgec.toolchain.kernels.vulkan.library import Library
    from edgec.toolchain.match.product import operations_named

    gpu = find("vulkan:nvidia-ada").gpu
    if gpu is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    tiles = list(_tiles(element, gpu.shared_memory, windows=windows))
    written = _window if windows else _function
    text = "\n".join(written(f"f{i}", sizes, element) for i, (sizes, _, _) in enumerate(tiles))
    name = "stablehlo.convolution" if windows else "stablehlo.dot_general"
    with ir.Context(), ir.Location.unknown():
        module: Any = ir.Module.parse(text)
        library = Library(module, gpu)
        found = operations_named(module, name)
        for (sizes, form, parts), op in zip(tiles, found, strict=True):
            m, n, k = _product(sizes)
            each = math.ceil(math.ceil(k / form.inner) / parts)
            choice = Choice(
                word="x".join(str(size) for size in _spelled(form)),
                form=form,
                tiles=math.ceil(m / form.rows) * math.ceil(n / form.columns),
                parts=parts,
                inside=each * form.inner,
                time=0.0,
            )
            by, place = (
                (convolutions, convolutions.place_convolution)
                if windows
                else (products, products.rewrite_product)
            )
            by.choose = lambda *_, choice=choice, **__: choice  # type: ignore[attr-defined]
            place(op, library)
        placed = flushed(module, library)
    listed = [
        {"sizes": sizes, "tile": _spelled(form), "parts": parts} for sizes, form, parts in tiles
    ]
    write(placed, _path(folder, element, windows=windows), listed)


def flushed(module: Any, library: Any) -> str:
    """The text of a program whose other kernels are placed; prints what became none."""
    from edgec.toolchain.kernels.vulkan.columns import rewrite_total
    from edgec.toolchain.match.product import operations_named

    for op in operations_named(module, "stablehlo.reduce"):
        rewrite_total(op, library)
    for answer in library.answers:
        if not hasattr(answer.outcome, "name"):
            print(answer)
    return str(module)


def write(placed: str, path: Path, listed: list[dict[str, Any]]) -> None:
    """Compile a program, and write beside it what each of its functions is."""
    from iree.compiler import tools

    tools.compile_str(
        placed,
        output_file=str(path),
        input_type="stablehlo",
        extra_args=["--iree-hal-target-device=vulkan", "--iree-vulkan-target=ada"],
    )
    path.with_suffix(".json").write_text(json.dumps(listed) + "\n")
    print(f"{len(listed)} tiles")


def _path(folder: Path, element: str, *, windows: bool) -> Path:
    return folder / f"tiles-{'windows-' if windows else ''}{element}.vmfb"


def _product(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    """Rows, columns and inside of a product, or of the one that a convolution is."""
    if len(sizes) == 3:
        return sizes[0], sizes[1], sizes[2]
    side, inputs, outputs, taps = sizes
    return side * side, outputs, taps * taps * inputs


def _tiles(
    element: str, shared: int, *, windows: bool
) -> Iterator[tuple[tuple[int, ...], Any, int]]:
    """Sizes, form and parts of each function."""
    from edgec.toolchain.kernels.vulkan.forms import ProductForm

    source = "product" if element == "f32" else "matrix_product"
    source = "matrix_convolution" if windows and element == "f16" else source
    found = WINDOW if windows and element == "f16" else MATRIX if element == "f16" else SUMS
    for sizes in WINDOWS if windows else SIZES:
        for rows, columns, inner, high, wide, ahead, *split in found:
            form = ProductForm(
                **{"rows": rows, "columns": columns, "inner": inner, "high": high, "wide": wide},
                **{"source": source, "ahead": ahead, "split": split[0] if split else 1},
                **{"start": 0.0, "step": 0.0, "load": 0.0},
            )
            if form.shared > shared:
                continue
            for parts in _parts(_product(sizes), form) if windows else PARTS[sizes[2]]:
                yield sizes, form, parts


def _parts(sizes: tuple[int, int, int], form: Any) -> list[int]:
    """One, and what gives an H200's multiprocessors one workgroup each, and two."""
    m, n, k = sizes
    tiles = math.ceil(m / form.rows) * math.ceil(n / form.columns)
    steps = math.ceil(k / form.inner)
    found = {1, *(min(many // tiles, steps // 2, 32) for many in (132, 264, 528))}
    kept = {math.ceil(steps / math.ceil(steps / parts)) for parts in found if parts}
    return sorted(kept)[:1] + sorted(kept)[-2:] if len(kept) > 2 else sorted(kept)


def _spelled(form: Any) -> list[int]:
    return [form.rows, form.columns, form.inner, form.high, form.wide, form.ahead, form.split]


def _function(name: str, sizes: tuple[int, ...], element: str) -> str:
    """A product, and a sum that drives its weights out of the cache."""
    m, n, k = sizes
    left, right, made = f"{m}x{k}", f"{k}x{n}", f"{m}x{n}"
    what = "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]"
    return _flushing(name, what, left, right, made, element)


def _window(name: str, sizes: tuple[int, ...], element: str) -> str:
    """A convolution, and the same sum."""
    side, inputs, outputs, taps = sizes
    pad = taps // 2
    what = (
        "stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{pad = [[{pad}, {pad}], [{pad}, {pad}]]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    )
    left, made = f"1x{side}x{side}x{inputs}", f"1x{side}x{side}x{outputs}"
    return _flushing(name, what, left, f"{taps}x{taps}x{inputs}x{outputs}", made, element)


def _flushing(name: str, what: str, left: str, right: str, made: str, element: str) -> str:
    wide = "x".join(map(str, FLUSHED))
    return f"""
func.func @{name}(%x: tensor<{left}x{element}>, %w: tensor<{right}x{element}>,
                  %f: tensor<{wide}xf32>)
    -> (tensor<{made}x{element}>, tensor<{FLUSHED[1]}xf32>) {{
  %0 = {what}
      : (tensor<{left}x{element}>, tensor<{right}x{element}>) -> tensor<{made}x{element}>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%f init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<{wide}xf32>, tensor<f32>) -> tensor<{FLUSHED[1]}xf32>
  return %0, %1 : tensor<{made}x{element}>, tensor<{FLUSHED[1]}xf32>
}}"""


def run_all(folder: Path, element: str, *, windows: bool) -> list[dict[str, Any]]:
    """Microseconds of each tile, the median of so many calls, and its error."""
    from edgec.runtime.dtypes import DType
    from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertTensor, Ran

    ran: list[Ran] = []
    device = EdgertDevice("vulkan", timed=ran.append)
    path = _path(folder, element, windows=windows)
    session = EdgertSession(EdgertModule(path), device)
    kind = {"f16": np.float16, "f32": np.float32}[element]
    rng = np.random.default_rng(0)
    flush = EdgertTensor.copy(device, np.ones(FLUSHED, np.float32), DType.F32)
    rows: list[dict[str, Any]] = []
    given: dict[tuple[int, ...], Any] = {}
    listed = json.loads(path.with_suffix(".json").read_text())
    for sizes in dict.fromkeys(tuple(row["sizes"]) for row in listed):
        x, w, wanted = _case(rng, sizes, kind)
        there = [EdgertTensor.copy(device, each, DType.of(each.dtype)) for each in (x, w)]
        given[sizes] = there, wanted
    end = time.perf_counter() + WARM
    while time.perf_counter() < end:
        session.run("f0", [*given[tuple(listed[0]["sizes"])][0], flush])
    for i, row in enumerate(listed):
        there, _ = given[tuple(row["sizes"])]
        row["us"] = timed(session, f"f{i}", [*there, flush], ran)
    for i, row in enumerate(listed):
        there, wanted = given[tuple(row["sizes"])]
        made, _ = session.run(f"f{i}", [*there, flush])
        got = made.read(DType.of(np.dtype(kind))).astype(np.float32).reshape(wanted.shape)
        row["error"] = float(f"{np.linalg.norm(got - wanted) / np.linalg.norm(wanted):.2g}")
        rows.append(row)
    return rows


def timed(session: Any, function: str, given: list[Any], ran: list[Any]) -> list[float]:
    """Microseconds of each kernel of a function but what flushes, the median of so many calls.

    Args:
        session, function, given: what is called, with what.
        ran: where the device says what ran.
    """
    times = []
    for _ in range(CALLS):
        ran.clear()
        session.run(function, given)
        times.append([each.seconds for each in ran if "columns" not in each.kernel])
    return [round(1e6 * float(t), 2) for t in np.median(np.array(times), 0)]


def _case(rng: Any, sizes: tuple[int, ...], kind: Any) -> tuple[Any, Any, Any]:
    """Both operands, and what they give in f32."""
    import torch

    if len(sizes) == 3:
        m, n, k = sizes
        x, w = (rng.standard_normal(size).astype(kind) for size in ((m, k), (k, n)))
        return x, w, x.astype(np.float32) @ w.astype(np.float32)
    side, inputs, outputs, taps = sizes
    x = rng.standard_normal((1, side, side, inputs)).astype(kind)
    w = (rng.standard_normal((taps, taps, inputs, outputs)) / 16).astype(kind)
    wide = [torch.from_numpy(each.astype(np.float32)) for each in (x, w)]
    made = torch.nn.functional.conv2d(
        wide[0].permute(0, 3, 1, 2), wide[1].permute(3, 2, 0, 1), padding=taps // 2
    )
    return x, w, made.permute(0, 2, 3, 1).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["compile", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--type", default="f16", choices=["f16", "f32"])
    parser.add_argument("--windows", action="store_true", help="convolutions")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.verb == "compile":
        compile_all(options.folder, options.type, windows=options.windows)
        return
    rows = run_all(options.folder, options.type, windows=options.windows)
    for row in sorted(rows, key=lambda row: (row["sizes"], sum(row["us"]))):
        print(row["sizes"], row["tile"], row["parts"], row["us"], row["error"])
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
