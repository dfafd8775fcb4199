"""A short run of the fuzzer, from its corpus and good modules; `fuzzing.py` is for long ones."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.c import fuzzing
from tests.c.conftest import run
from tests.c.programs import PROGRAMS


def test_a_guided_fuzzer_finds_nothing(
    build: Callable[[str], Path], compile_text: Callable[..., Path], tmp_path: Path
) -> None:
    build("sanitize")  # for what it says of missing tools
    corpus = fuzzing.unpack(tmp_path / "corpus")
    for program in PROGRAMS:
        if program.name in ("control", "state"):
            shutil.copy(compile_text(program.text), corpus / program.name)
    printed = run(fuzzing.build(tmp_path), "10000", "7", corpus, cwd=tmp_path)
    executions, ways, kept = (int(word) for word in printed.split() if word.isdigit())
    assert executions == 10000
    assert ways > 3000
    assert kept > 200
