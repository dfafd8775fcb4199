"""What the compiler printed when it failed, to one error."""

from pathlib import Path

from edgec.runtime.errors import CompileError, CompilerCrash
from edgec.targets import Target
from edgec.toolchain.process import Finished

__all__ = ["explain"]


def explain(finished: Finished, target: Target, log: Path | None) -> CompileError:
    """The error for a failed compile."""
    lines = [line for line in finished.stderr.splitlines() if "error:" in line]
    what = lines[0].partition("error:")[2].strip() if lines else "the compiler failed"
    kind = CompilerCrash if finished.code < 0 else CompileError
    return kind(what, log=str(log) if log else None)
