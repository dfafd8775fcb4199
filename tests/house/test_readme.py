"""What the README names exists: targets of make, extras (`test_pages.py` runs its blocks)."""

import re
import shlex
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(root: Path, language: str) -> list[str]:
    text = (root / "README.md").read_text()
    return [body for name, body in BLOCK.findall(text) if name == language]


def _commands(root: Path) -> list[list[str]]:
    """The commands after each `$`, without comments."""
    lines = (line for body in _blocks(root, "console") for line in body.splitlines())
    return [shlex.split(line[1:], comments=True) for line in lines if line.startswith("$")]


def test_the_example_is_ten_lines(root: Path) -> None:
    (code,) = _blocks(root, "python")
    assert len([line for line in code.splitlines() if line and "import" not in line]) <= 10


def test_targets_of_make_and_extras_exist(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    pyproject = (root / "pyproject.toml").read_text()
    commands = _commands(root)
    for target in [words[1] for words in commands if words[0] == "make"]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    text = (root / "README.md").read_text()
    for extra in re.findall(r"\.\[(\w+)\]", text):
        assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE), extra
