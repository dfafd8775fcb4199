"""Attention in f16 in every tile to a module (`compile`), and on a GPU to times (`run`).

`python benchmarks/vulkan/attention_tiles.py compile FOLDER` needs no GPU; `… run FOLDER` times each
kernel alone by edgert's time stamps, with what it reads in the GPU's cache, and compares its answer
with NumPy's in f32.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

SIZES = [
    # heads, queries, keys, width
    *((12, 128, 128, 64), (12, 197, 197, 64), (12, 512, 512, 64), (40, 512, 512, 64)),
    *((16, 2048, 2048, 64), (192, 49, 49, 32), (12, 64, 64, 32), (8, 1024, 1024, 32)),
    *((12, 128, 128, 128), (16, 1024, 1024, 128), (12, 1, 512, 64)),
]
CALLS = 15
WARM = 1.0
"""Seconds of calls before those that are timed."""


def compile_all(folder: Path) -> None:
    """One module with a function for each size and tile that takes it."""
    from iree.compiler import ir, tools

    from edgec.targets import find
    from edgec.toolchain.kernels.vulkan import attentions
    from edgec.toolchain.kernels.vulkan.forms import ATTENTION_FORMS, MATRIX_ATTENTION_FORMS
    from edgec.toolchain.kernels.vulkan.library import Library
    from edgec.toolchain.match.product import operations_named

    gpu = find("vulkan:nvidia-ada").gpu
    if gpu is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    tiles = [
        (sizes, form)
        for sizes in SIZES
        for form in (*MATRIX_ATTENTION_FORMS, *ATTENTION_FORMS)
        if form.width == sizes[3]
    ]
    text = "\n".join(_function(f"f{i}", sizes) for i, (sizes, _) in enumerate(tiles))
    with ir.Context(), ir.Location.unknown():
        module: Any = ir.Module.parse(text)
        library = Library(module, gpu)
        products = operations_named(module, "stablehlo.dot_general")
        for (_, form), op in zip(tiles, products[1::2], strict=True):
            attentions._form = lambda *_, form=form: form  # type: ignore[assignment]
            attentions.place_attention(op, library)
        placed = str(module)
    tools.compile_str(
        placed,
        output_file=str(folder / "attention.vmfb"),
        input_type="stablehlo",
        extra_args=["--iree-hal-target-device=vulkan", "--iree-vulkan-target=ada"],
    )
    listed = [{"sizes": sizes, "tile": [form.word, form.keys]} for sizes, form in tiles]
    (folder / "attention.json").write_text(json.dumps(listed) + "\n")
    print(f"{library.calls} of {len(tiles)} tiles")


def _function(name: str, sizes: tuple[int, int, int, int]) -> str:
    heads, queries, keys, width = sizes
    q, kv, s = (f"{heads}x{a}x{b}" for a, b in ((queries, width), (keys, width), (queries, keys)))
    row = f"{heads}x{queries}"
    return f"""
func.func @{name}(%q: tensor<{q}xf16>, %k: tensor<{kv}xf16>, %v: tensor<{kv}xf16>)
    -> tensor<{q}xf16> {{
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2]
      : (tensor<{q}xf16>, tensor<{kv}xf16>) -> tensor<{s}xf32>
  %c = stablehlo.constant dense<{width**-0.5}> : tensor<{s}xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.multiply %0, %c : tensor<{s}xf32>
  %2 = stablehlo.reduce(%1 init: %low) applies stablehlo.maximum across dimensions = [2]
      : (tensor<{s}xf32>, tensor<f32>) -> tensor<{row}xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<{row}xf32>) -> tensor<{s}xf32>
  %4 = stablehlo.subtract %1, %3 : tensor<{s}xf32>
  %5 = stablehlo.exponential %4 : tensor<{s}xf32>
  %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [2]
      : (tensor<{s}xf32>, tensor<f32>) -> tensor<{row}xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<{row}xf32>) -> tensor<{s}xf32>
  %8 = stablehlo.divide %5, %7 : tensor<{s}xf32>
  %9 = stablehlo.convert %8 : (tensor<{s}xf32>) -> tensor<{s}xf16>
  %10 = stablehlo.dot_general %9, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
      : (tensor<{s}xf16>, tensor<{kv}xf16>) -> tensor<{q}xf16>
  return %10 : tensor<{q}xf16>
}}"""


def run_all(folder: Path) -> list[dict[str, Any]]:
    """Microseconds of each tile, the median of so many calls, and its error."""
    from edgec.runtime.dtypes import DType
    from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertTensor, Ran

    ran: list[Ran] = []
    device = EdgertDevice("vulkan", timed=ran.append)
    session = EdgertSession(EdgertModule(folder / "attention.vmfb"), device)
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    listed = json.loads((folder / "attention.json").read_text())
    given = {tuple(row["sizes"]): _case(rng, row["sizes"]) for row in listed}
    there = {
        sizes: [EdgertTensor.copy(device, each, DType.F16) for each in case[:3]]
        for sizes, case in given.items()
    }
    end = time.perf_counter() + WARM
    while time.perf_counter() < end:
        session.run("f0", there[tuple(listed[0]["sizes"])])
    for i, row in enumerate(listed):
        times = []
        for _ in range(CALLS):
            ran.clear()
            session.run(f"f{i}", there[tuple(row["sizes"])])
            times.append(sum(each.seconds for each in ran))
        row["us"] = round(1e6 * float(np.median(times)), 2)
    for i, row in enumerate(listed):
        (made,) = session.run(f"f{i}", there[tuple(row["sizes"])])
        wanted = given[tuple(row["sizes"])][3]
        got = made.read(DType.F16).astype(np.float32).reshape(wanted.shape)
        row["error"] = float(f"{np.linalg.norm(got - wanted) / np.linalg.norm(wanted):.2g}")
        rows.append(row)
    return rows


def _case(rng: Any, sizes: Sequence[int]) -> tuple[Any, Any, Any, Any]:
    """Queries, keys, values, and what they give in f32."""
    heads, queries, keys, width = sizes
    q, k, v = (
        rng.standard_normal((heads, many, width)).astype(np.float16)
        for many in (queries, keys, keys)
    )
    wide_q, wide_k, wide_v = (each.astype(np.float32) for each in (q, k, v))
    scores = wide_q @ wide_k.transpose(0, 2, 1) * width**-0.5
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return q, k, v, powers / powers.sum(-1, keepdims=True) @ wide_v


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["compile", "run"])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.verb == "compile":
        compile_all(options.folder)
        return
    for row in run_all(options.folder):
        print(row["sizes"], row["tile"], row["us"], row["error"], flush=True)


if __name__ == "__main__":
    main()
