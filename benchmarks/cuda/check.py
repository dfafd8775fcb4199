"""The cases to modules (`compile FOLDER`), and on a GPU to a verdict on each (`run FOLDER`)."""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case, cases

TOLERANCE = {"float16": 2e-3, "bfloat16": 1.5e-2, "float32": 5e-6}
"""|difference| / |answer| allowed: results rounded once or twice to 11, 8 or 24 bits."""
TF32 = 1e-3

REPEATS = 5


def compile_all(chosen: Sequence[Case], folder: Path, target: str) -> None:
    """A module for each case, by the pass that calls the kernels; what is refused is printed."""
    import jax
    import jax.numpy as jnp
    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.flags import command_line, compile_flags
    from edgec.toolchain.passes.place.cuda_kernels import CudaKernels
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.precision import F32
    from edgec.toolchain.process import compiler_path

    folder.mkdir(parents=True, exist_ok=True)
    gpu = find(target)
    if gpu.gpu is None:
        raise SystemExit(f"{gpu.name} is no GPU")
    flags = compile_flags(gpu)
    for case in chosen:
        specs = [jax.ShapeDtypeStruct(s, jnp.dtype(case.dtype)) for s in case.shapes]
        lowered = jax.jit(case.function, keep_unused=True).lower(*specs)
        source = folder / f"{case.name}.mlirbc"
        with ir.Context():
            module = ir.Module.parse(str(lowered.compiler_ir("stablehlo")))
            InlineCalls().run(module)
            calls = CudaKernels(gpu=gpu.gpu, f32=F32(case.f32)).run(module)
            with source.open("wb") as stream:
                module.operation.write_bytecode(stream)
        if not calls:
            print(f"{case.name}: no kernel")
        line = command_line(compiler_path(), source, folder / f"{case.name}.vmfb", flags)
        finished = subprocess.run(line, capture_output=True, text=True, check=False)
        if finished.returncode:
            print(f"{case.name}: {finished.stderr[:300]}")
        source.unlink()


def run_all(chosen: Sequence[Case], folder: Path) -> int:
    """How many cases with a module are wrong or differ from call to call."""
    import iree.runtime as rt

    config = rt.Config("cuda")
    there = [case for case in chosen if (folder / f"{case.name}.vmfb").exists()]
    wrong = 0
    for number, case in enumerate(there):
        verdict = _run(rt, config, folder / f"{case.name}.vmfb", case, number)
        wrong += not verdict.startswith("right")
        print(f"{case.name}: {verdict}", flush=True)
    print(f"{wrong} of {len(there)} wrong, {len(chosen) - len(there)} without a module")
    return wrong


def _run(rt: Any, config: Any, path: Path, case: Case, seed: int) -> str:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    drawn = [rng.standard_normal(s, np.float32).astype(jnp.dtype(case.dtype)) for s in case.shapes]
    with jax.default_matmul_precision("highest"):
        truth = np.asarray(case.function(*(jnp.asarray(a, jnp.float32) for a in drawn)))
    try:
        module = rt.VmModule.mmap(config.vm_instance, str(path))
        context = rt.SystemContext(vm_modules=[module], config=config)
        function = context.modules[module.name]["main"]
        answers = [np.asarray(function(*drawn).to_host()) for _ in range(REPEATS)]
    except (RuntimeError, ValueError) as problem:
        return f"failed: {str(problem)[:200]}"
    if any(answer.tobytes() != answers[0].tobytes() for answer in answers):
        return "differs from call to call"
    given = answers[0].astype(np.float32)
    error = float(np.linalg.norm(given - truth) / np.linalg.norm(truth))
    allowed = TF32 if case.f32 == "tf32" else TOLERANCE[case.dtype]
    return f"right: {error:.1e}" if error < allowed else f"wrong: {error:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--only", default="", help="cases whose names hold this expression")
    options = parser.parse_args()
    chosen = [case for case in cases() if re.search(options.only, case.name)]
    if options.what == "compile":
        compile_all(chosen, options.folder, options.target)
    else:
        sys.exit(min(run_all(chosen, options.folder), 99))


if __name__ == "__main__":
    main()
