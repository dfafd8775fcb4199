"""The work of one case, each step in a process of its own; the result is one JSON object.

python -m benchmarks.coverage.child list FRAMEWORK
python -m benchmarks.coverage.child export FRAMEWORK NAME DTYPE     in an empty folder
python -m benchmarks.coverage.child run TARGET                      in the same folder
"""

import json
import sys
from pathlib import Path
from typing import Any

from edgec.runtime.errors import EdgecError

PROGRAM = Path("case.mlirbc")
# Whose result is on Vulkan's side of the wall: no process may hold TensorFlow and Vulkan.
DEVICES = {"cpu": "local-task", "vulkan": "vulkan"}


def listed(framework: str) -> list[dict[str, str]]:
    """Names and element types of a framework's cases."""
    from benchmarks.coverage.catalogue import cases_of

    return [{"name": case.name, "dtype": case.dtype} for case in cases_of(framework)]


def exported(framework: str, name: str, dtype: str) -> dict[str, Any]:
    """Build the case and save its program with golden answers."""
    from benchmarks.coverage.case import Source
    from benchmarks.coverage.catalogue import cases_of
    from edgec.exporters import Bundle, export, export_source

    (case,) = (c for c in cases_of(framework) if (c.name, c.dtype) == (name, dtype))
    given = case.build()
    folder = Path.cwd()
    if isinstance(given, Source):
        program = export_source(
            given.text, signatures=given.signatures, dynamic=given.dynamic, folder=folder
        )
    elif isinstance(given, Bundle):
        program = export(given, folder=folder)
    else:
        program = export(
            given.model,
            given.inputs,
            example_kwargs=given.kwargs,
            dynamic=given.dynamic,
            external_weights=given.external_weights,
            folder=folder,
        )
    program.save(PROGRAM)
    return {"dialect": program.info.dialect.value, "calls": len(program.golden.calls)}


def ran(target: str) -> dict[str, Any]:
    """Compile the program, run its golden calls, and compare every answer."""
    from edgec import runtime, toolchain

    options = toolchain.CompileOptions(output=Path(f"case.{target}.vmfb"), check=False, cache=False)
    made = toolchain.compile_with_report(PROGRAM, target, options)
    golden = runtime.Golden.load(runtime.Golden.path_for(PROGRAM))
    tolerance = made.report.tolerance
    result = runtime.check_golden(made.module, golden, tolerance, device=DEVICES[target])
    problem = ""
    if not result.ok and result.worst is not None:
        function, output, comparison = result.worst
        problem = f"wrong answer in {output or function}: {comparison.problem}"
    return {"ok": result.ok, "max_abs": result.max_abs, "max_rel": result.max_rel} | {
        "problem": problem
    }


def main() -> int:
    step, *arguments = sys.argv[1:]
    steps = {"list": listed, "export": exported, "run": ran}
    try:
        found = steps[step](*arguments)
    except EdgecError as error:
        found = {"error": error.code, "what": error.what}
    Path("result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
