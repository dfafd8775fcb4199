"""`edgec upgrade` of a package: each variant proved by what the old one brings."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export
from edgec.packaging import PackageOptions, make_package
from edgec.runtime import Module, load
from edgec.runtime.cpu import architecture
from edgec.runtime.manifest import MANIFEST, Manifest
from edgec.toolchain import CompileOptions

pytestmark = pytest.mark.skipif(architecture() != "x86_64", reason="they hold code of x86-64")
OLD = Path(__file__).parents[1] / "verifying" / "old" / "c660aa3" / "net.mlirbc"
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
W = np.sin(np.arange(8 * 16, dtype=np.float32)).reshape(8, 16)
V = np.cos(np.arange(16 * 4, dtype=np.float32)).reshape(16, 4)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package as of an older edgec, its program under another name beside it."""
    folder = tmp_path_factory.mktemp("old")
    shutil.copy(OLD, folder / "kept.mlirbc")
    shutil.copy(OLD.with_name("net.golden.npz"), folder / "kept.golden.npz")
    options = PackageOptions(
        targets=("cpu:x86-64",), link=False, compiling=CompileOptions(check=False)
    )
    made = make_package(folder / "kept.mlirbc", "c", folder / "net-c", options)
    manifest = folder / "net-c" / MANIFEST
    manifest.write_text(replace(made.manifest, edgec="0.0.1").text())
    return folder / "net-c"


def test_a_package_is_made_again_and_proved_by_the_old_one(
    edgec, package: Path, tmp_path: Path
) -> None:
    done = edgec("upgrade", package, "-o", tmp_path / "new", "--json")
    assert done.code == 0, done.err
    value = done.json
    assert value["program"] == str(package.parent / "kept.mlirbc")
    assert value["edgec"][0] == "0.0.1"
    assert value["left_out"] == []
    here = value["variants"]["cpu:x86-64"]
    for state in (here["before"], here["now"]):
        assert (state["runs"], state["ok"]) == (True, True)
        assert state["milliseconds"] > 0
    (file,) = (v.file for v in Manifest.read(tmp_path / "new").variants if "x86" in v.target)
    with load(tmp_path / "new" / file) as module:
        np.testing.assert_allclose(module.main(X)["scores"], np.tanh(X @ W) @ V, atol=1e-4)


@pytest.mark.slow
def test_another_programs_answers_leave_no_package(edgec, package: Path, tmp_path: Path) -> None:
    def net(x):  # type: ignore[no-untyped-def]
        return {"scores": x[:, :4] + x[:, 4:]}

    export(net, (X,)).save(tmp_path / "other.mlirbc")
    assert Module.read(next(package.glob("modules/*x86*.vmfb"))).golden
    done = edgec("upgrade", package, "--program=other.mlirbc", "-o", tmp_path / "new")
    assert (done.code, "gives a wrong scores of main" in done.err) == (23, True)
    assert not (tmp_path / "new").exists()


def test_a_package_without_its_program_is_refused_by_name(
    edgec, package: Path, tmp_path: Path
) -> None:
    shutil.copytree(package, tmp_path / "net-c")
    done = edgec("upgrade", tmp_path / "net-c", "-o", tmp_path / "new")
    assert (done.code, "--program" in done.err) == (15, True)


def test_that_a_signed_one_is_not_signed_any_more_is_said(edgec, tmp_path: Path) -> None:
    for file in OLD.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    assert edgec("keygen", "-o", "one.key").code == 0
    assert edgec("sign", "net.vmfb", "--key=one.key").code == 0
    done = edgec("upgrade", "net.vmfb", "-o", "new.vmfb")
    assert (done.code, "note: net.vmfb is signed, and new.vmfb is not" in done.err) == (0, True)


def test_what_is_there_is_left_alone(edgec, package: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    done = edgec("upgrade", package, "-o", tmp_path / "new")
    assert (done.code, "there is a" in done.err) == (4, True)
    assert "--force" not in done.err  # which this verb has not
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("verb", ["view", "inspect"])
def test_a_package_where_a_file_is_wanted_is_said(edgec, package: Path, verb: str) -> None:
    done = edgec(verb, package)
    assert (done.code, "name a file in it" in done.err) == (4, True)
