"""Shell scripts for a device, written so that their end and exit code come back for certain.

The tools between here and there do not always hand on the exit code of what they ran, and a
connection that breaks may look like a program that ended. So a script says its exit code itself, in
its last line; where that line is missing, the script did not come to its end.
"""

import re
import secrets
import shlex

from edgec.ondevice.transport import Answer

__all__ = ["close_script", "folder_script", "in_folder", "read_end", "to_its_end"]

_END = "edgec-exit:"
_PROCESS = "pid"


def to_its_end(script: str) -> str:
    """The script, and behind it the line that says its exit code."""
    return f'({script}); echo "{_END}$?"'


def folder_script(parent: str) -> str:
    """Make a new folder that nobody else can enter; its path is the answer.

    Args:
        parent: the folder above it, in the shell's words (`${TMPDIR:-/tmp}`).
    """
    name = f"edgec-on-{secrets.token_hex(6)}"
    return to_its_end(f'umask 077; mkdir "{parent}/{name}" && cd "{parent}/{name}" && pwd')


def in_folder(folder: str, script: str) -> str:
    """The script, run in a folder.

    While `run.sh` there runs (see `edgec.ondevice.deployment`), `pid` holds its process.
    """
    return to_its_end(f"cd {shlex.quote(folder)} && {script}")


def close_script(folder: str) -> str:
    """End what `run.sh` started, if it still runs, and remove the folder."""
    quoted = shlex.quote(folder)
    return to_its_end(
        f'if [ -f {quoted}/{_PROCESS} ]; then kill "$(cat {quoted}/{_PROCESS})" 2>/dev/null; fi; '
        f"rm -rf {quoted}"
    )


def read_end(answer: Answer) -> Answer | None:
    """The answer of a script without its last line; None where it did not come to its end."""
    text, mark, rest = answer.out.rpartition(_END)
    found = re.match(r"\d+", rest)
    if not mark or found is None:
        return None
    return Answer(code=int(found.group()), out=text, err=answer.err)
