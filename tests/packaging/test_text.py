"""A language model in a package for C: built by its own CMake, it answers what Python answers."""

from pathlib import Path

import pytest

from edgec.exporters.from_transformers.export import export_opened
from edgec.packaging import PackageOptions, make_package
from edgec.runtime.text import TextModel
from edgec.toolchain import CompileOptions, Program, compile
from tests.exporters import language_models as tiny
from tests.packaging.conftest import need, run

pytestmark = pytest.mark.slow  # a package of a language model is two compiles and their proofs
QUESTION = "Zoë → 🙂?"


@pytest.fixture(scope="module")
def program() -> Program:
    return export_opened(tiny.model("llama"), tiny.tokenizer(), context=120, prefill=(8,))


def test_a_package_for_c_answers_as_python_does(program: Program, tmp_path: Path) -> None:
    need("cmake", "ninja")
    place = tmp_path / "tiny-c"
    make_package(program, "c", place, PackageOptions(name="tiny", targets=("cpu:x86-64",)))
    assert (place / "edgert" / "edgert_text.h").is_file()
    run("cmake", "-G", "Ninja", "-S", place, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    compile(program, "cpu", CompileOptions(output=tmp_path / "cpu.vmfb", level=1, check=False))
    with TextModel(tmp_path / "cpu.vmfb") as model:
        expected = model.chat(QUESTION, limit=20).whole()
    assert run(tmp_path / "build" / "tiny_main", QUESTION, "20") == f"{expected}\n"
