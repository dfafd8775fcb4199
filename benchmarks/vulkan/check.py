"""Cases for NVIDIA's kernels through Vulkan to modules, and on a GPU to a verdict on each.

`python benchmarks/vulkan/check.py compile FOLDER` needs no GPU; `… run FOLDER` does. The cases are
CUDA's in f16 and f32, and attention with masks, biases and heads of odd widths, which has kernels
of its own for matrix units here. What runs twice must give the same bits.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))

from cases import Case, cases
from check import TOLERANCE

REPEATS = 3
_ELEMENTS = ("float16", "float32")


def compile_all(chosen: Sequence[Case], folder: Path, target: str) -> None:
    """A module for each case, by the pass that calls the kernels; what is refused is printed."""
    import jax
    import jax.numpy as jnp
    from iree.compiler import ir, tools

    from edgec.targets import find
    from edgec.toolchain.kernels.spec import Answers
    from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
    from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

    folder.mkdir(parents=True, exist_ok=True)
    gpu = find(target).gpu
    if gpu is None:
        raise SystemExit(f"{target} is no GPU")
    for case in chosen:
        specs = [jax.ShapeDtypeStruct(s, jnp.dtype(case.dtype)) for s in case.shapes]
        lowered = jax.jit(case.function, keep_unused=True).lower(*specs)
        said = Answers()
        with ir.Context():
            module = ir.Module.parse(str(lowered.compiler_ir("stablehlo")))
            InlineCalls().run(module)
            Canonicalise().run(module)
            VulkanKernels(gpu=gpu, answers=said).run(module)
            text = str(module)
        print(f"{case.name}: {'; '.join(str(each.outcome) for each in said)}", flush=True)
        try:
            tools.compile_str(
                text,
                output_file=str(folder / f"{case.name}.vmfb"),
                input_type="stablehlo",
                extra_args=[
                    "--iree-hal-target-device=vulkan",
                    f"--iree-vulkan-target={gpu.target}",
                ],
            )
        except tools.CompilerToolError as error:
            print(f"{case.name}: {str(error)[:300]}", flush=True)


def run_all(chosen: Sequence[Case], folder: Path, device: str) -> int:
    """How many cases with a module are wrong or differ from call to call."""
    there = [case for case in chosen if (folder / f"{case.name}.vmfb").exists()]
    wrong = 0
    for number, case in enumerate(there):
        verdict = _run(folder / f"{case.name}.vmfb", case, number, device)
        wrong += not verdict.startswith("right")
        print(f"{case.name}: {verdict}", flush=True)
    print(f"{wrong} of {len(there)} wrong, {len(chosen) - len(there)} without a module")
    return wrong


def _run(path: Path, case: Case, seed: int, device: str) -> str:
    import jax
    import jax.numpy as jnp

    from edgec import runtime
    from edgec.runtime.errors import EdgecError

    rng = np.random.default_rng(seed)
    drawn = [rng.standard_normal(s, np.float32).astype(jnp.dtype(case.dtype)) for s in case.shapes]
    with jax.default_matmul_precision("highest"):
        truth = np.asarray(case.function(*(jnp.asarray(a, jnp.float32) for a in drawn)))
    try:
        with runtime.load(path, device=device) as loaded:
            answers = [np.asarray(loaded.main(*drawn)) for _ in range(REPEATS)]
    except EdgecError as problem:
        return f"failed: {str(problem)[:200]}"
    if any(answer.tobytes() != answers[0].tobytes() for answer in answers):
        return "differs from call to call"
    given = answers[0].astype(np.float32)
    error = float(np.linalg.norm(given - truth) / np.linalg.norm(truth))
    return f"right: {error:.1e}" if error < TOLERANCE[case.dtype] else f"wrong: {error:.1e}"


def _attentions() -> Iterator[Case]:
    """What follows the scores, and heads and lengths that fill no tile."""
    import jax
    import jax.numpy as jnp

    def shares(scores: Any, v: Any) -> Any:
        return jax.nn.softmax(scores.astype(jnp.float32)).astype(v.dtype)

    def padded(q: Any, k: Any, v: Any) -> Any:
        keys = k.shape[1]
        kept = jnp.arange(keys)[None] >= jnp.array([[keys // 2 + 5], [keys - 1]])
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / q.shape[-1] ** 0.5
        scores = jnp.where(kept[:, None, None], scores, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", shares(scores, v), v)

    def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
        rows, keys = q.shape[1], k.shape[1]
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q.reshape(2, rows, 2, 3, -1), k)
        scores = 5 * jnp.tanh(scores.astype(jnp.float32) / 40) + 0.5 * bias
        scores = jnp.where(jnp.tril(jnp.ones((rows, keys), bool)), scores, -1e30)
        found = jnp.einsum("bhgqk,bkhd->bqhgd", shares(scores, v), v)
        return found.reshape(2, rows, 6, -1)

    def causal(q: Any, k: Any, v: Any) -> Any:
        k, v = (jnp.repeat(each, 2, 2) for each in (k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / q.shape[-1] ** 0.5
        seen = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
        return jnp.einsum("bhqk,bkhd->bqhd", shares(jnp.where(seen, scores, -jnp.inf), v), v)

    def turned(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hqd,hdk->hqk", q, k).astype(jnp.float32) / 8
        return jnp.einsum("hqk,hdk->hqd", shares(scores, v), v)

    def every(dtype: str) -> Iterator[tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]]:
        for rows, keys, wide in ((33, 70, 20), (64, 300, 64), (129, 257, 40), (20, 40, 128)):
            yield f"padded_{keys}_{wide}", padded, ((2, rows, 2, wide), *[(2, keys, 2, wide)] * 2)
        for rows, wide in ((19, 100), (150, 64), (70, 30)):
            shapes = ((2, rows, 6, wide), (2, rows, 2, wide), (2, rows, 2, wide), (rows, rows))
            yield f"biased_{rows}_{wide}", biased, shapes
        for rows, wide in ((23, 200), (250, 64), (600, 128), (1024, 32)):
            shapes = ((1, rows, 4, wide), (1, rows, 2, wide), (1, rows, 2, wide))
            yield f"causal_{rows}_{wide}", causal, shapes
        for rows, keys, wide in ((40, 77, 64), (197, 197, 64), (49, 49, 32)):
            yield f"turned_{keys}_{wide}", turned, ((3, rows, wide), *[(3, wide, keys)] * 2)

    for dtype in _ELEMENTS:
        for name, function, shapes in every(dtype):
            yield Case(name=f"{name}_{dtype}", function=function, shapes=shapes, dtype=dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="vulkan:nvidia-ada")
    parser.add_argument("--device", default="edgert://vulkan")
    parser.add_argument("--only", default="", help="cases whose names hold this expression")
    options = parser.parse_args()
    every = [*cases(), *_attentions()]
    chosen = [
        case
        for case in every
        if case.dtype in _ELEMENTS and case.f32 == "full" and re.search(options.only, case.name)
    ]
    if options.what == "compile":
        compile_all(chosen, options.folder, options.target)
    else:
        sys.exit(min(run_all(chosen, options.folder, options.device), 99))


if __name__ == "__main__":
    main()
