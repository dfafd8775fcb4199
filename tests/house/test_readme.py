"""What the README shows is true: its Python runs, its commands run, its targets of make exist."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(root: Path, language: str) -> list[str]:
    text = (root / "README.md").read_text()
    return [body for name, body in BLOCK.findall(text) if name == language]


def _commands(root: Path) -> list[list[str]]:
    """The commands after each `$`, without comments."""
    lines = (line for body in _blocks(root, "console") for line in body.splitlines())
    return [shlex.split(line[1:], comments=True) for line in lines if line.startswith("$")]


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A folder that looks like the checkout, for commands that write where they stand."""
    for name in ("samples", "README.md", "pyproject.toml"):
        (tmp_path / name).symlink_to(root / name)
    return tmp_path


def test_the_ten_lines_run(root: Path, tmp_path: Path) -> None:
    (code,) = _blocks(root, "python")
    assert len([line for line in code.splitlines() if line and "import" not in line]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\.\d", done.stdout)


@pytest.mark.vulkan
def test_the_commands_on_a_model_run_as_they_stand(root: Path, checkout: Path) -> None:
    tools = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    commands = [words for words in _commands(root) if words[0] in ("edgec", "python")]
    assert {words[1] for words in commands} >= {"export", "compile", "run"}
    for words in commands:
        done = subprocess.run(
            [str(tools / words[0]), *words[1:]],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"


def test_targets_of_make_and_extras_exist(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    pyproject = (root / "pyproject.toml").read_text()
    commands = _commands(root)
    for target in [words[1] for words in commands if words[0] == "make"]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    text = (root / "README.md").read_text()
    for extra in re.findall(r"\.\[(\w+)\]", text):
        assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE), extra
