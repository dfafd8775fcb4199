"""Every flag of a verb is on the verb's page."""

import re
from pathlib import Path

import pytest

from edgec.cli import app
from edgec.cli.main import execute

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIRST = "cli.md"


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
