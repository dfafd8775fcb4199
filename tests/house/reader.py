"""What a reader of a page would do: save its files, type its commands, run its Python, in order."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.house.blocks import Block, commands

__all__ = ["Reader"]

# Runs the files that it is told of in one namespace, and answers a line for each.
_SESSION = """
import json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
names = {"__name__": "__page__"}
for request in sys.stdin:
    path = json.loads(request)
    try:
        exec(compile(open(path, encoding="utf-8").read(), path, "exec"), names)
        answers.write("null\\n")
    except BaseException:
        answers.write(json.dumps(traceback.format_exc()) + "\\n")
"""


class Reader:
    """A person with a page, a folder and an open Python.

    Args:
        folder: where everything happens; its `.cache` is edgec's cache.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | {"PATH": path, "EDGEC_CACHE_DIR": str(folder / ".cache")}
        self._last = 0
        self._python: subprocess.Popen[str] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._open.close()

    def follow(self, page: Sequence[Block]) -> int:
        """Do all that a page says; how many blocks ran.

        Raises:
            AssertionError: a block fails, or prints something else than the page shows.
        """
        ran = 0
        for block in page:
            if block.not_run:
                continue
            if block.file:
                (self._folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                self._type(block)
            elif block.language == "python":
                self._run(block, block.text)
            elif block.language == "diff":
                self._run(block, _changed(block.text))
            else:
                raise AssertionError(f"{block.place}: a block of {block.language!r} cannot run")
            ran += 1
        return ran

    def _type(self, block: Block) -> None:
        found = list(commands(block))
        assert found, f"{block.place}: no line begins with a $"
        for command in found:
            done = subprocess.run(
                ["bash", "-c", f"(exit {self._last}); {command.line}"],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                check=False,
            )
            self._last = done.returncode
            said = f"{block.place}: $ {command.line}\n{done.stdout}"
            assert done.returncode == 0 or command.may_fail, said
            printed = [line for line in done.stdout.splitlines() if not _LASTS.search(line)]
            assert not command.shows or command.shown_by(printed), (
                f"{said}\nand the page shows\n" + "\n".join(command.shows)
            )

    def _run(self, block: Block, code: str) -> None:
        if self._python is None:
            self._texts = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
            self._python = self._open.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _SESSION],
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
        file = self._texts / f"{block.place.replace(':', '-')}.py"
        # The lines of an error are the page's own.
        file.write_text("\n" * block.line + code, encoding="utf-8")
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(json.dumps(str(file)) + "\n")
        self._python.stdin.flush()
        answer = self._python.stdout.readline()
        assert answer, f"{block.place}: Python died"
        assert json.loads(answer) is None, f"{block.place}: {json.loads(answer)}"


_LASTS = re.compile(r" \((\d+ min )?\d[\d.]* s\)$")
"""A line that edgec prints every ten seconds of what still lasts, as it does on a slow machine."""


def _changed(text: str) -> str:
    """What a difference leads to."""
    kept = (line for line in text.splitlines() if not line.startswith("-"))
    return "".join(f"{line[1:]}\n" for line in kept)
