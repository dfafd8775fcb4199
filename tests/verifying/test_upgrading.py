"""Artefacts of other days: those in `old` were written by edgec at the commits that their folders
are called after, of `old/net.py`, by `edgec export net.py:net -o net.mlirbc` and `edgec compile
net.mlirbc --target=cpu:x86-64 -o net.vmfb`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden, GoldenCall, Module, load
from edgec.runtime.cpu import architecture
from edgec.runtime.errors import CompileError, ProgramError, WrongAnswer
from edgec.toolchain import CompileOptions, load_program
from edgec.verifying import upgrade
from edgec.verifying.upgrading import find_program

OLD = Path(__file__).with_name("old")
FOREIGN = Path(__file__).parents[1] / "c" / "foreign"
COMMITS = sorted(folder.name for folder in OLD.iterdir() if folder.is_dir())
OPTIONS = CompileOptions()
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
W = np.sin(np.arange(8 * 16, dtype=np.float32)).reshape(8, 16)
V = np.cos(np.arange(16 * 4, dtype=np.float32)).reshape(16, 4)
ANSWER = np.tanh(X @ W) @ V

only_x86 = pytest.mark.skipif(architecture() != "x86_64", reason="they hold code of x86-64")


def test_the_corpus_is_small() -> None:
    assert len(COMMITS) >= 3
    assert sum(file.stat().st_size for file in OLD.rglob("*") if file.is_file()) < 100_000


@only_x86
@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("device", ["edgert://cpu", "local-task"])
def test_an_old_module_runs_today(commit: str, device: str) -> None:
    with load(OLD / commit / "net.vmfb", device=device) as module:
        np.testing.assert_allclose(module.main(X)["scores"], ANSWER, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("commit", COMMITS)
def test_an_old_program_is_read_today(commit: str) -> None:
    program = load_program(OLD / commit / "net.mlirbc", cache=False)
    assert program.golden is not None
    np.testing.assert_allclose(program.golden.calls[0].outputs[0], ANSWER, rtol=1e-4, atol=1e-5)
    assert program.info.provenance.framework == "jax"


@only_x86
def test_an_old_module_is_compiled_again_and_proved(tmp_path: Path) -> None:
    found = upgrade(
        OLD / COMMITS[0] / "net.vmfb",
        output=tmp_path / "new.vmfb",
        program=None,
        target=None,
        options=OPTIONS,
    )
    assert found.old is not None
    assert found.program.path == OLD / COMMITS[0] / "net.mlirbc"
    for state in (found.old, found.new):
        assert state.verdict is not None
        assert state.verdict.ok
        assert state.milliseconds is not None
        json.dumps(state.to_json())
    assert found.new.module.facts.target == found.old.module.facts.target
    digest = found.new.module.facts.program
    assert find_program_digest(found.program.path) == digest
    with load(tmp_path / "new.vmfb") as module:
        np.testing.assert_allclose(module.main(X)["scores"], ANSWER, rtol=1e-4, atol=1e-5)


@only_x86
@pytest.mark.parametrize(("version", "runs"), [("3.10", False), ("3.11", False), ("3.12", True)])
def test_a_module_of_an_older_compiler_is_compiled_again_and_proved(
    version: str, runs: bool, tmp_path: Path
) -> None:
    for name in ("net.mlir", f"iree-{version}.vmfb"):
        shutil.copy(FOREIGN / name, tmp_path / name)
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    wanted = np.tanh(x.sum(1, keepdims=True) / 4 + np.zeros(16)).astype(np.float32)
    known = (("main", x, wanted), ("dynamic", x.ravel(), x.ravel() ** 2))
    calls = tuple(GoldenCall(signature=f, inputs=(i,), outputs=(o,)) for f, i, o in known)
    Golden(calls=calls).save(tmp_path / "net.golden.npz")
    found = upgrade(
        tmp_path / f"iree-{version}.vmfb",
        output=tmp_path / "new.vmfb",
        program=tmp_path / "net.mlir",
        target=None,
        options=OPTIONS,
    )
    assert found.old is not None
    assert (found.old.verdict is not None) == runs
    assert runs or "byte code" in found.old.refused or "dispatch" in found.old.refused
    assert found.new.verdict is not None
    assert found.new.verdict.ok
    with load(tmp_path / "new.vmfb") as module:
        np.testing.assert_allclose(module["main"](x), wanted, atol=1e-5)


@only_x86
def test_another_programs_functions_are_refused(tmp_path: Path) -> None:
    text = (FOREIGN / "net.mlir").read_text()
    (tmp_path / "net.mlir").write_text(text.replace("4x8", "5x8").replace("4x16", "5x16"))
    x = np.ones((5, 8), np.float32)
    call = GoldenCall(
        signature="main", inputs=(x,), outputs=(np.full((5, 16), np.tanh(np.float32(2))),)
    )
    Golden(calls=(call,)).save(tmp_path / "net.golden.npz")
    with pytest.raises(CompileError, match=r"no function main\(input0: f32\[4, 8\]\)"):
        upgrade(
            FOREIGN / "iree-3.12.vmfb",
            output=tmp_path / "new.vmfb",
            program=tmp_path / "net.mlir",
            target=None,
            options=OPTIONS,
        )
    assert not (tmp_path / "new.vmfb").exists()


def find_program_digest(path: Path | None) -> str:
    import hashlib

    assert path is not None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _copied(tmp_path: Path) -> Path:
    for file in (OLD / COMMITS[-1]).iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "net.vmfb"


def test_a_module_without_its_program_is_refused_by_name(tmp_path: Path) -> None:
    module = _copied(tmp_path)
    (tmp_path / "net.mlirbc").unlink()
    with pytest.raises(ProgramError, match=r"net\.vmfb holds no program") as refused:
        upgrade(module, output=tmp_path / "new.vmfb", program=None, target=None, options=OPTIONS)
    assert "--program" in (refused.value.hint or "")
    assert not (tmp_path / "new.vmfb").exists()


@only_x86
def test_answers_that_are_not_the_old_ones_leave_no_module(tmp_path: Path) -> None:
    module = _copied(tmp_path)
    file = Golden.path_for(module)
    golden = Golden.load(file)
    (call,) = golden.calls
    wrong = tuple(value + 1 for value in call.outputs)
    Golden(calls=(type(call)(signature=call.signature, inputs=call.inputs, outputs=wrong),)).save(
        file
    )
    with pytest.raises(WrongAnswer):
        upgrade(module, output=tmp_path / "new.vmfb", program=None, target=None, options=OPTIONS)
    assert not (tmp_path / "new.vmfb").exists()
    (tmp_path / "new.vmfb").write_bytes(b"one of another day")
    with pytest.raises(WrongAnswer):
        upgrade(module, output=tmp_path / "new.vmfb", program=None, target=None, options=OPTIONS)
    assert (tmp_path / "new.vmfb").read_bytes() == b"one of another day"


def test_a_program_is_found_by_its_digest(tmp_path: Path) -> None:
    module = _copied(tmp_path)
    read = Module.read(module)
    shutil.copy(tmp_path / "net.mlirbc", tmp_path / "copy.mlirbc")
    assert find_program(read).name == "net.mlirbc"
    (tmp_path / "copy.mlirbc").unlink()
    (tmp_path / "net.mlirbc").rename(tmp_path / "renamed.mlirbc")
    with pytest.raises(ProgramError):
        find_program(read)
    from dataclasses import replace

    digest = find_program_digest(tmp_path / "renamed.mlirbc")
    read = replace(read, facts=replace(read.facts, program=digest))
    assert find_program(read) == tmp_path / "renamed.mlirbc"
