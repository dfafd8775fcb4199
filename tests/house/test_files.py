"""What tracked files may hold, and that what they point at exists."""

import re
from pathlib import Path

import pytest

# A path of somebody's machine, or a registry named by its host: neither is the project's business.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+|opt/(?:pypi|wheels))/")
REGISTRY = re.compile(r"\b(?:pypi\.org|pythonhosted\.org|deb\.debian\.org|registry\.npmjs\.org)\b")

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine paths", "registries"])
def test_tracked_files_name_no(pattern: re.Pattern[str], root: Path, tracked: tuple[Path]) -> None:
    found = [
        f"{file.relative_to(root)}: {match.group()}"
        for file in tracked
        if file != Path(__file__).resolve()
        for match in pattern.finditer(_text(file) or "")
    ]
    assert not found, "\n".join(found)


def test_links_in_documents_resolve(root: Path, tracked: tuple[Path, ...]) -> None:
    documents = [file for file in tracked if file.suffix == ".md"]
    assert documents
    broken = [
        f"{document.relative_to(root)}: {link}"
        for document in documents
        for link in _links(document)
        if not _resolves(document, link)
    ]
    assert not broken, "\n".join(broken)


def test_every_page_of_docs_is_in_the_index(root: Path, tracked: tuple[Path, ...]) -> None:
    docs = root / "docs"
    listed = {(docs / link.split("#")[0]).resolve() for link in _links(docs / "README.md")}
    pages = {f for f in tracked if f.suffix == ".md" and f.is_relative_to(docs)}
    missing = sorted(str(p.relative_to(root)) for p in pages - listed - {docs / "README.md"})
    assert not missing


def test_what_is_written_for_docs_stays_small(root: Path, tracked: tuple[Path, ...]) -> None:
    docs = [file for file in tracked if file.is_relative_to(root / "docs")]
    assert docs
    assert [file.name for file in docs if file.stat().st_size > 100_000] == []


def test_scripts_that_people_call_are_executable(root: Path) -> None:
    for name in ("scripts/setup", "scripts/pin", ".ci/run"):
        assert (root / name).stat().st_mode & 0o111, name


def _links(document: Path) -> list[str]:
    text = FENCE.sub("", document.read_text())
    return [one or other for one, other in LINK.findall(text)]


def _resolves(document: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    name, _, anchor = link.partition("#")
    target = (document.parent / name).resolve() if name else document
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in _anchors(target)


def _anchors(document: Path) -> set[str]:
    """Headings as GitHub makes anchors of them."""
    headings = HEADING.findall(FENCE.sub("", document.read_text()))
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}
