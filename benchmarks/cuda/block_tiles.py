"""Products by blocks to PTX (`compile FOLDER`), and on a GPU to times (`run`).

Sizes are those of SmolLM2-135M (Q4_1) and Llama-3.2-1B (Q4_0), for chunks of 64 and 256 tokens;
beside each the kernel for f32, whose weights take eight times the memory. For a token alone those
of Llama-3.2-3B are among them. Times are taken as by `tiles.py`.
"""

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.cuda.tiles import launched, main

SIZES = [
    (m, n, k, least)
    for m in (64, 256)
    for n, k, least in (
        *((576, 576, True), (1536, 576, True), (576, 1536, True)),
        *((2048, 2048, False), (512, 2048, False), (8192, 2048, False), (2048, 8192, False)),
    )
]
FORMS = [
    # rows, columns, warps, stages
    *((32, 32, 4, 3), (64, 32, 4, 3), (64, 32, 4, 4), (64, 64, 4, 3), (64, 64, 4, 4)),
    *((64, 128, 4, 2), (64, 128, 4, 3), (64, 128, 4, 4), (64, 256, 8, 3), (128, 128, 8, 3)),
]
ROWS = [
    # outputs and weights of each, and whether blocks have a least value
    *((960, 576, True), (576, 576, True), (3072, 576, True), (576, 1536, True)),
    *((3072, 2048, False), (2048, 2048, False), (16384, 2048, False), (2048, 8192, False)),
    *((5120, 3072, False), (3072, 3072, False), (3072, 8192, False), (128256, 2048, False)),
]
"""Products of a token alone."""
ROW_FORMS = [
    # outputs of a program, words that it reads of each at once, warps
    *((8, 32, 1), (2, 32, 1), (8, 64, 1), (4, 64, 1), (4, 64, 2), (2, 128, 4), (4, 128, 2)),
    *((4, 128, 4), (8, 128, 4), (2, 256, 4), (4, 256, 4), (2, 256, 8), (4, 256, 8), (8, 256, 8)),
]
PARTS = (1, 2, 4, 8)
GROUP = 32
MOST_PROGRAMS = 800
FLOAT = "f32"


def program(m: int, n: int, k: int, least: bool) -> str:
    """A product as GGUF's Q4_1 (`least`) and Q4_0 are written out."""
    groups = k // GROUP
    weights = f"tensor<{n}x{groups}x32xf32>"
    added = f"""
  %l = stablehlo.convert %least : (tensor<{n}x{groups}xf16>) -> tensor<{n}x{groups}xf32>
  %lb = stablehlo.broadcast_in_dim %l, dims = [0, 1] : (tensor<{n}x{groups}xf32>) -> {weights}
  %all = stablehlo.add %scaled, %lb : {weights}"""
    taken = f"""
  %eight = stablehlo.constant dense<8.0> : {weights}
  %less = stablehlo.subtract %whole, %eight : {weights}"""
    bytes_ = f"tensor<{n}x{groups}x16xi8>"
    return f"""
func.func @main(%x: tensor<{m}x{k}xf32>, %codes: {bytes_}, %scale: tensor<{n}x{groups}xf16>,
    %least: tensor<{n}x{groups}xf16>) -> tensor<{m}x{n}xf32> {{
  %mask = stablehlo.constant dense<15> : {bytes_}
  %four = stablehlo.constant dense<4> : {bytes_}
  %low = stablehlo.and %codes, %mask : {bytes_}
  %high = stablehlo.shift_right_logical %codes, %four : {bytes_}
  %both = stablehlo.concatenate %low, %high, dim = 2
    : ({bytes_}, {bytes_}) -> tensor<{n}x{groups}x32xi8>
  %whole = stablehlo.convert %both : (tensor<{n}x{groups}x32xi8>) -> {weights}
  {"" if least else taken}
  %s = stablehlo.convert %scale : (tensor<{n}x{groups}xf16>) -> tensor<{n}x{groups}xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<{n}x{groups}xf32>) -> {weights}
  %scaled = stablehlo.multiply %{"whole" if least else "less"}, %sb : {weights}
  {added if least else ""}
  %w = stablehlo.reshape %{"all" if least else "scaled"} : ({weights}) -> tensor<{n}x{k}xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
    : (tensor<{m}x{k}xf32>, tensor<{n}x{k}xf32>) -> tensor<{m}x{n}xf32>
  return %y : tensor<{m}x{n}xf32>
}}"""


def compile_all(folder: Path) -> None:
    """The PTX of every tile for every size, and how to launch it."""
    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.kernels.cuda import block_products
    from edgec.toolchain.kernels.cuda.block_choice import BlockChoice, choose
    from edgec.toolchain.kernels.cuda.library import Library, variant_of
    from edgec.toolchain.kernels.cuda.placing import place_kernels
    from edgec.toolchain.kernels.cuda.triton_compiler import TritonCompiler
    from edgec.toolchain.kernels.gpu.dispatches import Binary
    from edgec.toolchain.kernels.gpu.tiles import ProductKey

    gpu = find("cuda:sm_90").gpu
    if gpu is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    found, compiler, made = [], TritonCompiler(), {}

    def add(text: str, sizes: tuple[int, ...], form: str, parts: int) -> None:
        with ir.Context(), ir.Location.unknown():
            module: Any = ir.Module.parse(text)
            library = Library(module, gpu, compiler)
            place_kernels(module, library)
            if not library.launches:
                print(f"{form}: {[str(a.outcome) for a in library.answers]}")
                return
            (launch,) = library.launches
            variant = variant_of(launch, gpu.kernels, folds=True)
        if variant.key not in made:
            made[variant.key] = compiler.find(variant)
        binary = made[variant.key]
        if not isinstance(binary, Binary):
            print(form, binary)
            return
        (folder / f"{variant.symbol}.ptx").write_bytes(binary.data)
        m, n, k = sizes[:3]
        weights = n * k // 2 if form != FLOAT else n * k * 4
        work = next(
            (kind.shape[0] * 4 for name, kind in launch.writes.items() if name == "work"), 4
        )
        found.append(
            {
                "size": f"{m} x {n} x {k}",
                "form": form,
                "parts": parts,
                **launched(launch, variant, binary),
                "weights": "b" if form == FLOAT else "codes0" if m == 1 else "codes",
                "copied": weights,
                "sizes": {
                    **{"a": m * k * 4, "x": m * k * 4, "c": m * n * 4, "work": work},
                    **dict.fromkeys(("scale", "least", "scale0", "least0"), n * k // 16),
                    "c0": n * 4,
                    "counters": max(launch.counters, 1) * 4,
                },
            }
        )

    for m, n, k, least in SIZES:
        key = ProductKey(batch=1, m=m, k=k, n=n, layout="nt", element="f32")
        add(key.program, (m, n, k), FLOAT, 0)
        text = program(m, n, k, least)
        block_products.choose = choose
        add(text, (m, n, k), "chosen", 0)
        for rows, columns, warps, stages in FORMS:
            tiles = math.ceil(m / rows) * math.ceil(n / columns)
            steps = k // GROUP
            for parts in PARTS:
                if tiles * parts > MOST_PROGRAMS and parts > 1:
                    continue
                choice = BlockChoice(
                    rows=rows,
                    columns=columns,
                    warps=warps,
                    stages=stages,
                    tiles=tiles,
                    parts=parts,
                    inside=math.ceil(steps / parts) * GROUP,
                )
                block_products.choose = lambda *_, choice=choice: choice  # type: ignore[assignment,misc]
                add(text, (m, n, k), f"{rows}x{columns}w{warps}s{stages}", parts)
        print(f"{m} x {n} x {k}: {len(found)} kernels", flush=True)
        (folder / "tiles.json").write_text(json.dumps(found))
    chosen = block_products._tile
    for n, k, least in ROWS:
        for tile in (None, *ROW_FORMS):
            block_products._tile = chosen if tile is None else lambda *_, tile=tile: tile
            form = "chosen" if tile is None else "{}x{}w{}".format(*tile)
            add(program(1, n, k, least), (1, n, k), form, 0)
    (folder / "tiles.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(compile_all, __doc__)
