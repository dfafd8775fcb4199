"""Language models in Java: the text that Python writes, on a tiny model."""

from pathlib import Path

import pytest

from edgec.packaging.edgert_sources import write_edgert
from tests.exporters import one_language_model
from tests.packaging.asked import QUESTION, answers, said, save_another
from tests.packaging.conftest import need, run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "runtime" / "java" / "src" / "main"


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
    save_another(tmp_path / "other.saved")
    printed = run(*java, module, QUESTION, tmp_path / "other.saved")
    told = said("\n".join(line for line in printed.splitlines() if "WARNING" not in line))
    expected, begun = answers(module)
    finish, broken = told.pop()
    assert told == expected
    assert finish == "BROKEN_OFF"
    assert broken and begun.startswith(broken)
