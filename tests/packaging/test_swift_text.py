"""Language models in Swift: the text that Python writes, on a tiny model, where swiftc is there."""

import shutil
from pathlib import Path

import pytest

from edgec.toolchain import load_program
from tests.exporters import one_language_model
from tests.packaging.asked import QUESTION, answers, said, save_another
from tests.packaging.conftest import run
from tests.packaging.swift_app import swift_app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("swiftc") is None, reason="no swiftc: Debian 12 has none"),
]


def test_swift_writes_what_python_writes(tmp_path: Path) -> None:
    """`AskText.swift` says what else it looks at."""
    main = Path(__file__).parent / "swift" / "AskText.swift"
    program = load_program(one_language_model.program())
    app, module = swift_app(program, "tiny", main, tmp_path)
    save_another(tmp_path / "other.saved")
    printed = run(app, module.parents[1], QUESTION, tmp_path / "other.saved")
    lines, end = printed.rstrip("\n").rsplit("\n", 1)
    assert end == "all", printed
    expected, begun = answers(module)
    told = said(lines)
    finish, broken = told.pop()
    assert told == [(finish.lower(), text) for finish, text in expected]
    assert finish == "brokenOff"
    assert broken and begun.startswith(broken)
