"""How long edgec takes to compile a model, beside the compiler alone with the same flags.

Seconds of a core are counted as well as those of a clock: other work on the machine does not change
them.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Spent", "beside_plain", "spent"]

Spent = dict[str, float]
"""`seconds` of a clock, and those of a core in `core`."""

_Result = TypeVar("_Result")


def beside_plain(source: Path, target: str, folder: Path) -> dict[str, Any]:
    """What compiling a program takes with edgec (`edgec`, its passes in `passes`), and without.

    The compiler alone refuses programs that edgec's passes make fit for it: then `plain` says why.
    """
    from edgec import targets, toolchain
    from edgec.toolchain.compiling.command_lines import flags_for
    from edgec.toolchain.compiling.progress import Step
    from edgec.toolchain.flags import command_line
    from edgec.toolchain.process import compiler_path, run_compiler

    found, device = toolchain.load_program(source), targets.find(target)
    output = folder / "timed.vmfb"
    options = toolchain.CompileOptions(output=output, check=False, cache=False, validate=False)
    flags = flags_for(device, options.settings.level, found.info)
    bare = folder / "timed.mlirbc"
    bare.write_bytes(found.bytecode)
    line = command_line(compiler_path(), bare, output, flags)
    made, ours = spent(lambda: toolchain.compile_with_report(found, device, options).report)
    finished, theirs = spent(lambda: run_compiler(line))
    for path in (bare, output):
        path.unlink(missing_ok=True)
    refused = {"error": f"the compiler alone ends with {finished.code}"}
    return {
        "edgec": ours,
        "passes": round(made.seconds[Step.PASSES], 2),
        "plain": refused if finished.code else theirs,
    }


def spent(work: Callable[[], _Result]) -> tuple[_Result, Spent]:
    """What a piece of work gives, and what it took here and in the processes that it started."""
    start, before = time.monotonic(), _core()
    result = work()
    return result, {
        "seconds": round(time.monotonic() - start, 2),
        "core": round(_core() - before, 2),
    }


def _core() -> float:
    """Seconds of a core that this process and all that it started have used, ended or not."""
    import psutil

    family = psutil.Process().children(recursive=True)
    times = [os.times(), *(child.cpu_times() for child in family)]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)
