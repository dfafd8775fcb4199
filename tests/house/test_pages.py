"""Every code block of the README and of docs/ runs as it stands, or says why it does not."""

import shutil
from pathlib import Path

import pytest

from tests.house.blocks import Block, blocks
from tests.house.reader import Reader

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "docs/cli.md"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCKS = {page: tuple(blocks(page)) for page in PAGES}
LANGUAGES = ("console", "python", "diff")

NOT_RUN = {
    "a quiet machine": 12,
    "the checkout itself": 2,
    "the network": 8,
    "a GPU": 6,
    "a phone": 3,
    "an app around it": 7,
    "not code": 5,
    "the others": 4,
    "another module": 1,
    "an extra of its own": 1,
    "a model of the user's own": 2,
    "three devices": 1,
    "torchrun": 1,
}
"""How many blocks do not run, by what they would need; whoever adds one counts it here."""

SLOW = (
    *("coming-from", "compile", "kernels", "mesh", "package", "plan", "quantise", "recipes", "run"),
    *("split", "tflite", "torch-compile", "tune", "verify", "view"),
)
"""Pages that only `make test-all` reads: folders of tests do what they say, and those of the
exporters export what the recipes do."""


def _runs(page: Path) -> list[Block]:
    return [block for block in BLOCKS[page] if not block.not_run]


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.vulkan] if any("vulkan" in block.text for block in _runs(page)) else []
    return marks + [pytest.mark.slow] * (page.stem in SLOW)


READ = [
    pytest.param(page, id=page.name, marks=_marks(page))
    for page in PAGES
    if page != FIRST and _runs(page)
]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in the checkout's likeness, with what the first page makes."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("samples", "tests", "README.md", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    with Reader(folder) as reader:
        assert reader.follow(BLOCKS[FIRST]) >= 3
    return folder


@pytest.mark.parametrize("page", READ)
def test_a_page_does_what_it_says(page: Path, first: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    shutil.copytree(first, folder, symlinks=True)
    with Reader(folder) as reader:
        assert reader.follow(BLOCKS[page]) == len(_runs(page))


def test_a_block_that_does_not_run_says_why_and_is_counted() -> None:
    counts = dict.fromkeys(NOT_RUN, 0)
    for page in PAGES:
        for block in BLOCKS[page]:
            if block.not_run:
                needs, _, why = block.not_run.partition(": ")
                assert needs in NOT_RUN, f"{block.place}: {block.not_run}"
                assert why, f"{block.place} does not say what it would do with {needs}"
                counts[needs] += 1
            else:
                assert block.file or block.language in LANGUAGES, f"{block.place} says no language"
    assert counts == NOT_RUN


def test_every_fence_of_a_page_belongs_to_a_block() -> None:
    for page in PAGES:
        fences = sum(line.startswith("```") for line in page.read_text().splitlines())
        assert fences == 2 * len(BLOCKS[page]), page.name


def test_a_block_that_fails_or_prints_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for wrong in (
        "```console\n$ false\n```\n",
        "```console\n$ echo two\none\n```\n",
        "```python\n1 / 0\n```\n",
        "```java\nint one = 1;\n```\n",
        "<!-- before:\n```python\nassert False\n```\n-->\n",
    ):
        page.write_text(wrong)
        with Reader(tmp_path) as reader, pytest.raises(AssertionError, match=r"page\.md:\d"):
            reader.follow(list(blocks(page)))
    page.write_text(
        "<!-- file: one.py -->\n```python\nONE = 1\n```\n"
        "```python\nfrom one import ONE\n```\n```python\nassert ONE == 1\n```\n"
        "```console\n$ cat one.py | tr 1 2\nONE …2\n$ echo done\n```\n"
        "<!-- not run: a phone: it rings -->\n```console\n$ false\n```\n"
    )
    with Reader(tmp_path) as reader:
        assert reader.follow(list(blocks(page))) == 4
