"""What makes modules is in the digest, whatever form it has, and a change makes a new module."""

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.targets import find
from edgec.toolchain import CompileOptions, compile_with_report, fingerprint
from edgec.toolchain.fingerprint import digest, sources

TOOLCHAIN = Path(fingerprint.__file__).parent


def _file_of(name: str) -> Path | None:
    """The file of a dotted name within `edgec.toolchain`, or of the module that defines it."""
    parts = name.split(".")[2:]
    for length in range(len(parts), 0, -1):
        path = TOOLCHAIN.joinpath(*parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return file
    return None


def _imports(file: Path) -> set[Path]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {_file_of(name) for name in names if name.startswith("edgec.toolchain.")}
    return {file for file in found if file is not None}


def test_all_that_preparing_a_program_imports_is_in_it():
    waiting, seen = [TOOLCHAIN / "prepare.py", TOOLCHAIN / "flags.py"], set()
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += _imports(file)
    assert len(seen) > 100
    assert seen <= set(sources())


def test_kernels_are_in_it_in_whatever_form_they_are_kept():
    kinds = {path.suffix for path in sources()}
    assert kinds >= {".py", ".comp", ".xz"}
    kept = {path for path in (TOOLCHAIN / "kernels").rglob("*") if path.is_file()}
    assert {path for path in kept if path.suffix != ".pyc"} <= set(sources())


@pytest.mark.parametrize("change", ["text", "name", "addition", "removal"])
def test_any_change_gives_another_digest_and_another_place_gives_none(tmp_path: Path, change: str):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    (one / "a.py").write_text("a")
    (one / "b.spv").write_bytes(b"b")
    shutil.copytree(one, two)
    before = digest(one.iterdir(), one)
    assert digest(two.iterdir(), two) == before
    if change == "text":
        (two / "b.spv").write_bytes(b"B")
    elif change == "name":
        (two / "a.py").rename(two / "c.py")
    elif change == "addition":
        (two / "c.py").write_text("")
    else:
        (two / "a.py").unlink()
    assert digest(two.iterdir(), two) != before


def test_a_changed_pass_makes_the_module_anew(matmul: Path, monkeypatch: pytest.MonkeyPatch):
    def cached() -> bool:
        return compile_with_report(matmul, "cpu", CompileOptions(check=False)).report.cached

    assert not cached()
    assert cached()
    monkeypatch.setattr("edgec.toolchain.compiling.task.fingerprint", lambda: "another")
    assert not cached()


def test_another_fact_of_a_target_makes_the_module_anew(matmul: Path):
    target = find("cpu:x86-64")
    options = CompileOptions(check=False)
    assert not compile_with_report(matmul, target, options).report.cached
    assert compile_with_report(matmul, target, options).report.cached
    smaller = replace(target, limits=replace(target.limits, stack=target.limits.stack // 2))
    assert not compile_with_report(matmul, smaller, options).report.cached
