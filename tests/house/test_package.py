"""The wheel holds all of edgec, and a plain install can compile StableHLO and run it."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROGRAM = """
func.func public @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
"""

USE = """
from pathlib import Path
import numpy as np
from edgec import runtime, toolchain
options = toolchain.CompileOptions(output=Path("dot.vmfb"))
module = toolchain.compile(Path("dot.mlir"), target="cpu", options=options)
x = np.arange(6, dtype=np.float32).reshape(2, 3)
y = np.arange(6, dtype=np.float32).reshape(3, 2)
with runtime.load(module) as loaded:
    np.testing.assert_allclose(loaded.main(x, y), x @ y)
print("the product is right")
"""


EDGERT = """
import numpy as np
from edgec import runtime
device = runtime.Device.open("edgert://cpu")
np.testing.assert_array_equal(device.put(np.arange(6)).numpy(), np.arange(6))
print(runtime.__file__)
"""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"),
            *("--wheel-dir", str(folder), str(root)),
        ],
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_and_data_file(root: Path, wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    for source in ("exporters", "toolchain", "targets", "runtime"):
        files = [
            str(file.relative_to(root / source))
            for kind in ("*.py", "*.toml", "py.typed")
            for file in (root / source / "edgec").rglob(kind)
        ]
        assert files
        assert not set(files) - packed
    assert any(name.endswith(".toml") for name in packed)
    assert "edgec/__init__.py" not in packed


def test_the_wheel_holds_what_packages_are_made_from(root: Path, wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    sources = "edgec/runtime/sources"
    for language, kinds in {
        "c": ("*.c", "*.h", "amalgamate.py"),
        "java": ("*.java", "*.c"),
    }.items():
        folder = root / "runtime" / language
        files = [file for kind in kinds for file in folder.rglob(kind)]
        assert files
        assert {f"{sources}/{language}/{f.relative_to(folder)}" for f in files} <= packed
    templates = list((root / "toolchain/edgec/packaging/templates").rglob("*.in"))
    assert templates
    assert {str(file.relative_to(root / "toolchain")) for file in templates} <= packed


def test_the_wheel_holds_nothing_but_edgec(wheel: Path) -> None:
    folders = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {f for f in folders if not re.fullmatch(r"edgec-[\d.]+\.dist-info", f)} == {"edgec"}


def test_the_wheel_builds_edgert_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {name: v for name, v in os.environ.items() if name != "EDGERT_LIBRARY"} | {
        "PYTHONPATH": str(tmp_path / "installed"),
        "EDGEC_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", EDGERT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "installed") in done.stdout
    assert list((tmp_path / "cache").glob("edgert-*/libedgert.*"))


@pytest.mark.slow
def test_a_plain_install_compiles_stablehlo_and_runs_it(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-qq", str(wheel)], check=True)
    listing = subprocess.run(
        [python, "-m", "pip", "list"], capture_output=True, text=True, check=True
    ).stdout
    assert not re.search(r"^(jax|torch|tensorflow|keras|onnx)\b", listing, re.MULTILINE)
    (tmp_path / "dot.mlir").write_text(PROGRAM)
    done = subprocess.run(
        [python, "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the product is right" in done.stdout
    run = subprocess.run(
        [
            *(python.with_name("edgec"), "run", "dot.vmfb"),
            *("--input=2x3xf32=1", "--input=3x2xf32=2", "--json"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "6" in run.stdout
