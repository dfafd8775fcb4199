"""edgert as two files: without a word from either compiler, whatever is left out of it."""

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.c.conftest import SOURCE, run

OPTIONS = ("MESSAGES", "THREADS", "WITH_ELF", "WITH_NULL", "WITH_VULKAN")
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
PROGRAM = """
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = stablehlo.tanh %x : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `edgert.c` and `edgert.h`."""
    made = tmp_path_factory.mktemp("amalgamation") / "edgert"
    run(sys.executable, SOURCE / "amalgamate.py", made)
    return made


def _zig(*words: str | Path) -> None:
    pytest.importorskip("ziglang")
    run(sys.executable, "-m", "ziglang", *words)


def _gcc(folder: Path, options: Sequence[str]) -> None:
    run("cc", *STRICT, "-fsyntax-only", *options, folder / "edgert.c")


def _clang(folder: Path, options: Sequence[str]) -> None:
    headers = Path(pytest.importorskip("ziglang").__file__).parent / "lib" / "include"
    words = (*STRICT, "-fsyntax-only", "-isystem", headers, *options)
    _zig("clang", *words, folder / "edgert.c")


@pytest.mark.parametrize("check", [pytest.param(_gcc, marks=pytest.mark.slow), _clang])
def test_no_choice_of_options_is_warned_of(
    check: Callable[[Path, Sequence[str]], None], folder: Path
) -> None:
    """Half of all choices: among them each three options have every value beside each other."""
    for some in itertools.product((0, 1), repeat=len(OPTIONS) - 1):
        values = (*some, sum(some) % 2)
        chosen = [f"-DEDGERT_{o}={v}" for o, v in zip(OPTIONS, values, strict=True)]
        check(folder, [*chosen, f"-DEDGERT_WITH_CUDA={sum(some[:3]) % 2}"])


@pytest.mark.parametrize("check", [pytest.param(_gcc, marks=pytest.mark.slow), _clang])
def test_signatures_are_not_warned_of(
    check: Callable[[Path, Sequence[str]], None], folder: Path
) -> None:
    """Monocypher's two files and edgert's are one there."""
    for messages in (0, 1):
        check(folder, ["-DEDGERT_WITH_SIGNATURES=1", f"-DEDGERT_MESSAGES={messages}"])


@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos", "x86_64-windows-gnu"])
def test_other_systems_compile_it(target: str, folder: Path, tmp_path: Path) -> None:
    """Compiled alone: nothing here could run it."""
    words = ("-target", target, *STRICT, "-c", folder / "edgert.c", "-o", tmp_path / "edgert.o")
    _zig("cc", *words)
    assert (tmp_path / "edgert.o").stat().st_size > 50_000


def test_an_example_links_with_it(
    folder: Path, tmp_path: Path, compile_text: Callable[..., Path]
) -> None:
    run(
        *("cc", "-O1", *STRICT, f"-I{folder.parent}", folder / "edgert.c"),
        *(SOURCE / "examples" / "first.c", "-lm", "-lpthread", "-o", tmp_path / "first"),
    )
    printed = run(tmp_path / "first", compile_text(PROGRAM))
    assert float(printed) == pytest.approx(np.tanh(1.0), rel=1e-4)
