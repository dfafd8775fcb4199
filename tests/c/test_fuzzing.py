"""A short run of the fuzzer, from its corpus and good modules; `fuzzing.py` is for long ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.c import fuzzing
from tests.c.conftest import run


@pytest.mark.slow
def test_a_guided_fuzzer_finds_nothing(build: Callable[[str], Path], tmp_path: Path) -> None:
    build("vulkan")  # for what it says of missing tools
    corpus = fuzzing.unpack(tmp_path / "corpus")
    fuzzing.add_inputs(corpus)
    printed = run(fuzzing.build(tmp_path), "10000", "7", corpus, cwd=tmp_path)
    executions, ways, kept = (int(word) for word in printed.split() if word.isdigit())
    assert executions == 10000
    assert ways > 3000
    assert kept > 200
