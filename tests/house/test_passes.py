"""Every pass is documented, measured and tested."""

import importlib.util
from pathlib import Path

import pytest

from edgec.toolchain.passes import CATALOGUE

ROOT = Path(__file__).parents[2]


def written_pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("passes_page", ROOT / "scripts/passes_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_the_pages_say_what_the_passes_say():
    for name, text in written_pages().items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert page == text, f"docs/{name}: run scripts/passes_page.py"


@pytest.mark.parametrize("kind", CATALOGUE, ids=[kind.name for kind in CATALOGUE])
def test_every_pass_says_what_earned_it_its_place(kind):
    assert "Measured" in kind.__doc__


@pytest.mark.parametrize("kind", CATALOGUE, ids=[kind.name for kind in CATALOGUE])
def test_every_pass_has_a_test_of_the_program_before_and_after(kind):
    folder = ROOT / "tests/toolchain/passes"
    texts = [file.read_text() for file in folder.glob("test_*.py")]
    assert any(f"{kind.__name__}(" in text and "def test_" in text for text in texts)
