"""How fast products by weights with zeros are, beside the same with dense weights, on a CPU.

python -m benchmarks.sparse --make      # compile only
python -m benchmarks.sparse             # measure, and write docs/benchmarks_sparse.md and .png
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.sparse.page import Row, write_page
from benchmarks.sparse.weights import FORMS, weights
from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.fingerprint import fingerprint

SIZE = 1024
ROWS = (1, 8, 64)
FOLDER = Path(__file__).resolve().parents[2] / "build" / "sparse"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make", action="store_true", help="compile, and measure nothing")
    parser.add_argument("--seconds", type=float, default=0.2, help="of calls, for each figure")
    parser.add_argument("--rounds", type=int, default=3, help="over all modules, one by one")
    chosen = parser.parse_args()
    modules = {
        (rows, form): (built(rows, form, True), built(rows, form, False))
        for rows in ROWS
        for form in FORMS
    }
    if chosen.make:
        return
    best: dict[tuple[int, str], list[float]] = {key: [1e9, 1e9] for key in modules}
    for _ in range(chosen.rounds):
        for (rows, form), both in modules.items():
            for number, module in enumerate(both):
                found = fastest(module, rows, chosen.seconds)
                best[rows, form][number] = min(best[rows, form][number], found)
    measured = [
        Row(
            rows=rows,
            form=form,
            density=float(np.count_nonzero(weights(form, SIZE)) / SIZE**2),
            seconds=found[0],
            dense=found[1],
        )
        for (rows, form), found in best.items()
    ]
    write_page(measured, SIZE)


def built(rows: int, form: str, is_sparse: bool) -> Path:
    """The module of a product; the dense one with the same weights, its zeros multiplied, too."""
    kind = "sparse" if is_sparse else "dense"
    module = FOLDER / fingerprint()[:12] / f"{form.replace(':', '-')}-{rows}-{kind}.vmfb"
    if not module.exists():
        matrix = weights(form, SIZE)
        module.parent.mkdir(parents=True, exist_ok=True)
        disabled = () if is_sparse else ("sparse-products",)
        program = export(lambda x: x @ matrix, (np.ones((rows, SIZE), np.float32),))
        compile(program, "cpu", CompileOptions(output=module, disabled=disabled, cache=False))
    return module


def fastest(module: Path, rows: int, seconds: float) -> float:
    """Seconds of the fastest call on one thread."""
    x = np.random.default_rng(0).standard_normal((rows, SIZE)).astype(np.float32)
    with load(module, device="cpu?threads=1") as loaded:
        best, end = 1e9, time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            loaded.main(x)
            best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
