"""The cases to modules (`compile FOLDER`), and on a GPU to a verdict on each (`run FOLDER`)."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case, cases

TOLERANCE = {"float16": 2e-3, "bfloat16": 1.5e-2}
"""|difference| / |answer| allowed: results rounded once or twice to 11 or 8 bits."""

REPEATS = 5


def compile_all(folder: Path, target: str) -> None:
    """A module for each case; what is refused is printed."""
    import jax
    import jax.numpy as jnp

    from edgec import toolchain
    from edgec.runtime.errors import EdgecError

    folder.mkdir(parents=True, exist_ok=True)
    for case in cases():
        specs = [jax.ShapeDtypeStruct(s, jnp.dtype(case.dtype)) for s in case.shapes]
        lowered = jax.jit(case.function, keep_unused=True).lower(*specs)
        text = str(lowered.compiler_ir("stablehlo"))
        source = folder / f"{case.name}.mlir"
        source.write_text(text)
        output = folder / f"{case.name}.vmfb"
        options = toolchain.CompileOptions(output=output, cache=False, check=False)
        try:
            report = toolchain.compile_with_report(source, target, options).report
            print(f"{case.name}: {report.total:.1f} s")
        except EdgecError as error:
            print(f"{case.name}: {error}")
        source.unlink()


def run_all(folder: Path) -> int:
    """How many cases are wrong, missing or differ from call to call."""
    import iree.runtime as rt

    config = rt.Config("cuda")
    wrong = 0
    for number, case in enumerate(cases()):
        verdict = _run(rt, config, folder / f"{case.name}.vmfb", case, number)
        wrong += not verdict.startswith("right")
        if not verdict.startswith("right"):
            print(f"{case.name}: {verdict}", flush=True)
    print(f"{wrong} of {number + 1} wrong")
    return wrong


def _run(rt: Any, config: Any, path: Path, case: Case, seed: int) -> str:
    import jax
    import jax.numpy as jnp

    if not path.exists():
        return "no module"
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
    return f"right: {error:.1e}" if error < TOLERANCE[case.dtype] else f"wrong: {error:.1e}"


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "compile":
        compile_all(where, sys.argv[3] if len(sys.argv) > 3 else "cuda:sm_90")
    else:
        sys.exit(min(run_all(where), 99))
