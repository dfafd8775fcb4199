"""What readers of manifests make of anybody's text; `manifest_fuzzing.py` is for long runs."""

import json
from pathlib import Path

import pytest

from tests.packaging.conftest import need
from tests.packaging.manifest_fuzzing import GOOD, READERS, check, texts


def test_every_reader_lists_the_same_files_or_refuses(tmp_path: Path) -> None:
    need("node", "javac", "java")
    whole = json.dumps(GOOD).encode()
    taken, wrong = check([whole, *texts(3000, seed=11)], tmp_path)
    assert wrong == []
    assert set(taken) == set(READERS)
    assert all(100 < count < 2900 for count in taken.values()), taken


@pytest.mark.parametrize("file", ["../x", "/x", "a/../../x", "..\\x"])
def test_no_reader_takes_a_file_outside_of_the_package(file: str, tmp_path: Path) -> None:
    need("node", "javac", "java")
    first, *others = GOOD["variants"]
    given = [
        json.dumps(GOOD | {"variants": [first | {"file": file}, *others]}).encode(),
        json.dumps(GOOD | {"weights": GOOD["weights"] | {"file": file}}).encode(),
    ]
    taken, _ = check(given, tmp_path)
    assert taken == dict.fromkeys(READERS, 0)
