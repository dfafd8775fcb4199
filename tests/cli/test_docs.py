"""Every command on the pages of the verbs is run, and prints what the page says it prints.

In what a page shows, `…` stands for anything: within a line for a part of it, alone for lines.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgec.cli import app
from edgec.cli.main import execute

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIRST = "cli.md"
PAGES = (
    "tune.md",
    "run.md",
    "bench.md",
    "inspect.md",
    "devices.md",
    "doctor.md",
    "exit-codes.md",
    "json.md",
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A line after a `$`, and what the page shows of its output."""

    line: str
    shows: tuple[str, ...]

    @property
    def may_fail(self) -> bool:
        """Whether the page shows an error."""
        return any("error:" in text or '"error"' in text for text in self.shows)


def commands(page: str) -> Iterator[Command]:
    text = (DOCS / page).read_text()
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *shows = part.rstrip("\n").split("\n")
            yield Command(line=line, shows=tuple(shows))


def matches(shows: tuple[str, ...], output: list[str]) -> bool:
    """Whether the lines of an output are those shown; blanks in a line with `…` are any number."""
    places = {0}  # how many lines of the output the lines looked at so far can stand for
    for text in shows:
        if text == "…":
            places = set(range(min(places), len(output) + 1))
            continue
        line = re.compile(_line(text))
        places = {n + 1 for n in places if n < len(output) and line.fullmatch(output[n])}
        if not places:
            return False
    return len(output) in places


def _line(text: str) -> str:
    exact = re.escape(text).replace("…", ".*")
    return (exact.replace(r"\ ", r"\s*") if "…" in text else exact) + " *"


def run_page(page: str, folder: Path) -> int:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "EDGEC_CACHE_DIR": str(folder / ".cache")}
    last = count = 0
    for command in commands(page):
        done = subprocess.run(
            ["bash", "-c", f"(exit {last}); {command.line}"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        last = done.returncode
        count += 1
        assert last == 0 or command.may_fail, f"{command.line}\n{done.stdout}"
        if command.shows:
            assert matches(command.shows, done.stdout.splitlines()), (
                f"$ {command.line}\nprinted\n{done.stdout}\nand {page} shows\n"
                + "\n".join(command.shows)
            )
    return count


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the first page makes."""
    folder = tmp_path_factory.mktemp("docs")
    (model,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / FIRST).read_text(), re.M | re.S)
    (folder / "net.py").write_text(model)
    assert run_page(FIRST, folder) >= 5
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_every_command_prints_what_its_page_shows(page: str, first: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    shutil.copytree(first, folder)
    assert run_page(page, folder) >= 1


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_flag_of_a_verb_is_on_its_page(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert execute([verb, "--help"]) == 0
    shared = {"--json", "--verbose", "--quiet", "--help"}
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", capsys.readouterr().out)) - shared
    page = DOCS / f"{verb}.md"
    text = (page if page.exists() else DOCS / FIRST).read_text()
    for flag in flags - {"--output"}:
        assert flag in text or f"--no-{flag.removeprefix('--')}" in text, flag
    assert "--output" not in flags or "-o" in text
