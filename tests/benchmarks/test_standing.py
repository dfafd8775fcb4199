"""Pages of measurements say which code they are of, and hold what was measured and nothing else."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.cuda.page import ordered
from benchmarks.cuda.table import table as cuda_table
from benchmarks.cuda.torch_page import page as torch_page
from benchmarks.edgert.page import page as edgert_page
from benchmarks.edgert.results import read
from benchmarks.peers.page import page as peers_page
from benchmarks.peers.results import Results
from benchmarks.standing import PAGES, Page, commits, main, measured_at, sentence
from benchmarks.vulkan.run import table as vulkan_table
from benchmarks.zoo import kept

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_every_page_of_measurements_is_known_and_says_its_commit() -> None:
    saying = {path.name for path in DOCS.glob("*.md") if commits(path.read_text())}
    assert saying == {page.name for page in PAGES}
    written = re.compile(r"(?<!-)\bwritten by\s+(?:`python -m|```console\s+\$ make)", re.IGNORECASE)
    without_comments = {
        path.name: re.sub(r"<!--.*?-->", "", path.read_text()) for path in DOCS.glob("*.md")
    }
    assert {name for name, text in without_comments.items() if written.search(text)} <= saying


@each_page
def test_a_page_names_commits_of_this_history(page: Page) -> None:
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("this clone holds no history")
    for commit in commits(page.path.read_text()):
        assert _git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit


@each_page
def test_what_a_page_measures_exists(page: Page) -> None:
    assert page.measures
    for folder in page.measures:
        assert _git("ls-files", folder).stdout, folder


def test_pages_hold_the_figures_that_are_kept_and_no_others() -> None:
    rows = kept.read(DOCS / "zoo").values()
    peers = peers_page(Results(DOCS / "benchmarks.json"), "benchmarks.png", rows)
    assert (DOCS / "benchmarks.md").read_text() == peers
    about, results = read(DOCS / "benchmarks_edgert.json")
    edgert = edgert_page(about, results, "benchmarks_edgert.png")
    assert (DOCS / "benchmarks_edgert.md").read_text() == edgert
    cuda = json.loads((DOCS / "benchmarks_cuda.json").read_text())
    assert (
        f"\n\n{cuda_table(ordered(cuda)).strip()}\n\n" in (DOCS / "benchmarks_cuda.md").read_text()
    )
    torch = json.loads((DOCS / "benchmarks_torch.json").read_text())
    assert (DOCS / "benchmarks_torch.md").read_text() == torch_page(torch)
    vulkan = json.loads((DOCS / "benchmarks_vulkan.json").read_text())
    assert f"\n\n{vulkan_table(vulkan)}\n\n" in (DOCS / "benchmarks_vulkan.md").read_text()


def test_a_sentence_is_read_as_it_was_made() -> None:
    for measured in (["0123456789"], ["0123456789", "abcdef0123"], ["a" * 10, "b" * 10, "c" * 10]):
        assert commits(f"Before. {sentence(measured)} After.") == measured
    assert commits(sentence(["a" * 10, "a" * 10])) == ["a" * 10]
    assert commits("Measured on a quiet machine.") == []


def test_what_is_measured_now_is_of_this_history() -> None:
    assert _git("merge-base", "--is-ancestor", measured_at(), "HEAD").returncode == 0


def test_the_command_says_of_each_page_what_has_changed_since(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("this clone holds no history")
    monkeypatch.setattr("sys.argv", ["standing"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {page.name for page in PAGES}
    coverage = next(page for page in PAGES if page.name == "coverage.md")
    monkeypatch.setattr("sys.argv", ["standing", "coverage.md"])
    main()
    first, *changes = capsys.readouterr().out.splitlines()
    assert len(changes) == len(coverage.changes())
    assert (f"{len(changes)} changes since" if changes else "of this very code") in first
