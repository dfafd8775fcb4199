"""Run the coverage cases and write docs/coverage.md: `python -m benchmarks.coverage`.

Results are kept in build/coverage.json as they come, so that a run can be stopped and gone on
with; a case is run again when the code it depends on has changed.
"""

import argparse
import sys
from importlib import metadata

from benchmarks.coverage.catalogue import FRAMEWORKS
from benchmarks.coverage.sweep import ROOT, TARGETS, Row, Sweep
from benchmarks.coverage.table import page, state
from benchmarks.vulkan_device import vulkan_device

PACKAGES = (
    *("iree-base-compiler", "jax", "flax", "equinox", "torch", "torch-mlir"),
    *("tensorflow-cpu", "keras", "onnx", "onnxruntime"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS, help="default: all")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--kept", action="store_true", help="measure nothing; write what is known")
    chosen = parser.parse_args()
    sweep = Sweep(store=ROOT / "build" / "coverage.json", jobs=chosen.jobs, tell=_tell)
    frameworks = chosen.framework or list(FRAMEWORKS)
    if chosen.kept:
        rows = sweep.kept(frameworks)
    else:
        rows = sweep.run(frameworks, chosen.case, again=chosen.again)
    for target in TARGETS:
        right = sum(state(row, target) == "right" for row in rows)
        print(f"{target}: {right} of {len(rows)} right")
    if chosen.framework or chosen.case:
        print("a part only: docs/coverage.md is left as it is")
        return 0
    versions = {package: metadata.version(package) for package in PACKAGES}
    text = page(rows, versions=versions, vulkan=vulkan_device("no device here"))
    (ROOT / "docs" / "coverage.md").write_text(text)
    print("wrote docs/coverage.md")
    return 0


def _tell(row: Row, there: bool) -> None:
    states = "  ".join(f"{target} {state(row, target)}" for target in TARGETS)
    when = "kept" if there else f"{row.seconds:.0f} s"
    print(f"{row.framework:10} {row.name:46} {row.dtype:9} {states}  ({when})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
