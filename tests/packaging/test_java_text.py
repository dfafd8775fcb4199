"""Language models in Java: the text that Python writes, on a tiny model."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from edgec.packaging.edgert_sources import write_edgert
from edgec.runtime.text import Answer, Constraint, Sampling, TextModel, WhenFull
from edgec.runtime.text.facts import TextFacts
from tests.exporters import one_language_model
from tests.packaging.conftest import need, run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "runtime" / "java" / "src" / "main"
QUESTION = "Zoë → 🙂? What is the capital of France?"


@pytest.fixture(scope="module")
def module() -> Path:
    return one_language_model.module("cpu")


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command that asks: Java's classes, and the library with text in it."""
    need("javac", "java", "cmake", "ninja")
    folder = tmp_path_factory.mktemp("java")
    files = [*SOURCES.glob("java/**/*.java"), Path(__file__).parent / "java" / "AskText.java"]
    run("javac", "-Xlint:all", "-Werror", "--release", "9", "-d", folder / "classes", *files)
    write_edgert(folder / "edgert", text=True)
    words = ("-G", "Ninja", "-S", SOURCES / "cpp", "-B", folder / "native")
    run("cmake", *words, f"-DEDGERT_FOLDER={folder / 'edgert'}", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "--build", folder / "native")
    library = f"-Ddev.edgec.library={folder / 'native' / 'libedgec_jni.so'}"
    return ("java", "-Xmx128m", "-Xcheck:jni", library, "-cp", str(folder / "classes"), "AskText")


def test_java_writes_what_python_writes(
    java: tuple[str, ...], module: Path, tmp_path: Path
) -> None:
    """`AskText.java` says what else it looks at."""
    with TextModel(one_language_model.another()) as stranger:
        stranger.generate("Once upon a time", limit=6).whole()
        stranger.save(tmp_path / "other.saved")
    printed = run(*java, module, QUESTION, tmp_path / "other.saved")
    lines = [line for line in printed.splitlines() if "WARNING" not in line]
    said = [(line.split(" ")[0], bytes.fromhex(line.split(" ")[1]).decode()) for line in lines]
    drawn = Sampling(temperature=1.5, top_k=40, top_p=0.9, seed=3)
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What?"}]
    with TextModel(module) as model:
        expected = [
            _told(model.chat(QUESTION, limit=30)),
            _told(model.generate("Once", sampling=drawn, limit=12)),
            _told(model.chat(asked, limit=90, when_full=WhenFull.SLIDE)),
            _told(model.generate("Once", constraint=cast("Constraint", Even()))),
        ]
        _, begun = _told(model.generate("Once"))
    finish, broken = said.pop()
    assert said == expected
    assert finish == "BROKEN_OFF"
    assert broken and begun.startswith(broken)


class Even:
    """Every second token, six times; a constraint and its follower."""

    def __init__(self) -> None:
        self.taken = 0

    def follower(self, facts: TextFacts) -> "Even":
        self.words = np.full(-(-facts.vocabulary // 32), 0x55555555, np.int32)
        return self

    def allowed(self) -> np.ndarray | None:
        return self.words if self.taken < 6 else None

    def add(self, _: int) -> None:
        self.taken += 1


def _told(answer: Answer) -> tuple[str, str]:
    text = answer.whole()
    assert answer.finish is not None
    return answer.finish.name, text
