"""What the command line takes is on its pages, and comes from the things themselves."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from edgec.cli import app
from edgec.cli.doctor_checks import CHECKS
from edgec.cli.main import execute
from edgec.exporters.frameworks import FRAMEWORKS

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


def test_every_kind_of_file_is_in_the_help_and_on_the_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert execute(["export", "--help"]) == 0
    text, page = capsys.readouterr().out, (DOCS / "export.md").read_text()
    for framework in FRAMEWORKS.values():
        for suffix in framework.suffixes:
            assert suffix in text, suffix
            assert f"model{suffix}`" in page, suffix


def test_the_doctor_looks_at_every_extra() -> None:
    installed = set(metadata.metadata("edgec").get_all("Provides-Extra") or ())
    looked_at = {finding.name for finding in CHECKS["frameworks"]()}
    assert looked_at == {f"edgec[{extra}]" for extra in installed}
