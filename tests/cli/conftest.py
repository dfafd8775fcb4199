"""The command line in this process, and one small module with several functions to call."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgec.cli.main import execute
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.cache import CACHE_VARIABLE

FUNCTIONS = """
func.func public @main(%x: tensor<1x4xf32>, %n: tensor<i32>) -> (tensor<1x4xf32>, tensor<i32>) {
  %c = stablehlo.constant dense<2.0> : tensor<1x4xf32>
  %0 = stablehlo.multiply %x, %c : tensor<1x4xf32>
  return %0, %n : tensor<1x4xf32>, tensor<i32>
}
func.func public @scores(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.negate %x : tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func public @picture(%x: tensor<1x2x3x3xui8>) -> tensor<1x2x3x3xui8> {
  %0 = stablehlo.not %x : tensor<1x2x3x3xui8>
  return %0 : tensor<1x2x3x3xui8>
}
"""
"""main doubles, scores negates, picture inverts: what they give is easy to say."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """One command line that was run."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON object on stdout."""
        return json.loads(self.out)


Edgec = Callable[..., Done]


@pytest.fixture(scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_folders(_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(_cache))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def edgec(capsys: pytest.CaptureFixture[str]) -> Edgec:
    """Run `edgec ARGUMENTS` in this process."""

    def run(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = execute([str(a) for a in arguments])
        said = capsys.readouterr()
        return Done(code=code, out=said.out, err=said.err)

    return run


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions above, as text."""
    path = tmp_path_factory.mktemp("program") / "functions.mlir"
    path.write_text(FUNCTIONS)
    return path


@pytest.fixture(scope="session")
def module(program: Path, _cache: Path) -> Iterator[Path]:
    """The functions above, compiled for this CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(_cache))
        path = program.with_suffix(".vmfb")
        compile(program, "cpu", CompileOptions(output=path))
        yield path
