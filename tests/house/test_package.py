"""Two wheels hold all of edgec: its runtime, which needs NumPy alone, and what stands on it."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import packaging.tags
import pytest

from edgec.toolchain import CompileOptions, compile

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


# With NumPy and nothing else to import, and no compiler to be found.
ALONE = """
import sys
sys.path[:] = [sys.argv[1], *(p for p in sys.path if "site-packages" not in p)]
import numpy as np
from edgec import runtime
x = np.arange(6, dtype=np.float32).reshape(2, 3)
with runtime.load("dot.vmfb") as loaded:
    print(loaded.device.uri, loaded.device.runtime)
    np.testing.assert_allclose(loaded.main(x, x.T.copy()), x @ x.T)
    print("the product is right")
absent = ("iree", "ml_dtypes", "flatbuffers", "platformdirs", "edgec.toolchain")
print(not set(absent) & set(sys.modules))
"""


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Edgec's wheel, and that of edgec-runtime for this machine."""
    folder = tmp_path_factory.mktemp("wheel")
    for source in (root, root / "runtime"):
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps"),
                *("--no-build-isolation", "--wheel-dir", str(folder), str(source)),
            ],
            check=True,
        )
    (edgec,) = folder.glob("edgec-[0-9]*.whl")
    (runtime,) = folder.glob("edgec_runtime-*.whl")
    return edgec, runtime


@pytest.fixture(scope="module")
def packed(wheels: tuple[Path, Path]) -> tuple[set[str], set[str]]:
    """The names of the files in each."""
    edgec, runtime = (set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels)
    return edgec, runtime


def test_the_wheels_hold_every_module_and_data_file_once(
    root: Path, packed: tuple[set[str], set[str]]
) -> None:
    edgec, runtime = packed
    for source, wheel in (
        *(("exporters", edgec), ("toolchain", edgec), ("targets", edgec)),
        ("runtime", runtime),
    ):
        files = [
            str(file.relative_to(root / source))
            for kind in ("*.py", "*.toml", "py.typed")
            for file in (root / source / "edgec").rglob(kind)
        ]
        assert files
        assert not set(files) - wheel
    assert any(name.endswith(".toml") for name in edgec)
    assert not edgec & runtime
    assert not any(name.startswith("edgec/runtime/") for name in edgec)
    assert "edgec/__init__.py" not in edgec | runtime


def test_the_wheel_holds_what_packages_are_made_from(
    root: Path, packed: tuple[set[str], set[str]]
) -> None:
    sources = "edgec/toolchain/sources"
    for language, kinds in {
        "c": ("*.c", "*.h", "amalgamate.py"),
        "java": ("*.java", "*.c"),
    }.items():
        folder = root / "runtime" / language
        files = [file for kind in kinds for file in folder.rglob(kind)]
        assert files
        assert {f"{sources}/{language}/{f.relative_to(folder)}" for f in files} <= packed[0]
    templates = list((root / "toolchain/edgec/packaging/templates").rglob("*.in"))
    assert templates
    assert {str(file.relative_to(root / "toolchain")) for file in templates} <= packed[0]


def test_the_wheels_hold_nothing_but_edgec(packed: tuple[set[str], set[str]]) -> None:
    for names in packed:
        folders = {name.split("/")[0] for name in names}
        own = r"edgec(_runtime)?-[\d.]+\.dist-info"
        assert {f for f in folders if not re.fullmatch(own, f)} == {"edgec"}


def test_both_say_the_same_version(root: Path) -> None:
    edgec, runtime = (
        tomllib.loads((root / folder / "pyproject.toml").read_text())["project"]
        for folder in (".", "runtime")
    )
    assert edgec["version"] == runtime["version"]
    assert f"edgec-runtime=={runtime['version']}" in edgec["dependencies"]


def test_the_runtimes_wheel_runs_a_module_with_numpy_alone(
    wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    runtime = wheels[1]
    assert runtime.stat().st_size < 1_000_000
    assert "-py3-none-" in runtime.name
    assert not runtime.name.endswith("-any.whl")
    source = tmp_path / "dot.mlir"
    source.write_text(PROGRAM)
    module = tmp_path / "dot.vmfb"
    compile(source, "cpu", CompileOptions(output=module))
    zipfile.ZipFile(runtime).extractall(tmp_path / "installed")
    numpy = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (numpy / name).is_dir():
            (tmp_path / "installed" / name).symlink_to(numpy / name)
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-W", "error", "-c", ALONE, str(tmp_path / "installed")],
        env={"PATH": "/nowhere"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["edgert://cpu edgert", "the product is right", "True"]


def test_wheels_are_tagged_for_what_their_library_needs(root: Path) -> None:
    build = _wheel_builder(root)
    tags = {name: chosen.tag for name, chosen in build.PLATFORMS.items()}
    assert tags == {
        "manylinux-x86_64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
        "manylinux-aarch64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
        "musllinux-x86_64": "musllinux_1_2_x86_64",
        "musllinux-aarch64": "musllinux_1_2_aarch64",
        "macos-x86_64": "macosx_11_0_x86_64",
        "macos-arm64": "macosx_11_0_arm64",
        "windows-x86_64": "win_amd64",
    }
    known = {str(tag) for tag in packaging.tags.sys_tags()}
    here = build.PLATFORMS[build.this_machine()].tag.split(".")
    assert any(f"py3-none-{tag}" in known for tag in here)
    old = b"\0libc.so.6\0GLIBC_2.17\0"
    build.check_needs(old, build.PLATFORMS["manylinux-x86_64"])
    for needs, words in ((b"\0GLIBC_2.28\0", "GLIBC_2.28"), (b"\0libz.so.1\0", "libz.so.1")):
        with pytest.raises(RuntimeError, match=words):
            build.check_needs(old + needs, build.PLATFORMS["manylinux-x86_64"])
        with pytest.raises(RuntimeError, match=words):
            build.check_needs(needs, build.PLATFORMS["musllinux-x86_64"])


@pytest.mark.slow
def test_every_platforms_library_is_of_its_kind(root: Path, tmp_path: Path) -> None:
    build = _wheel_builder(root)
    starts = {
        "manylinux-x86_64": b"\x7fELF\x02",
        "manylinux-aarch64": b"\x7fELF\x02",
        "musllinux-x86_64": b"\x7fELF\x02",
        "musllinux-aarch64": b"\x7fELF\x02",
        "macos-x86_64": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
        "macos-arm64": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
        "windows-x86_64": b"MZ",
    }
    for name, chosen in build.PLATFORMS.items():
        library = build.build(root / "runtime" / "c", chosen, tmp_path / name)
        plugin = build.build_plugin(root / "runtime", chosen, library)
        data = library.read_bytes()
        assert data.startswith(starts[name])
        assert b"edgert_session_call" in data
        assert len(data) < 400_000
        assert (plugin is None) == name.startswith("windows")
        if plugin is not None:
            assert plugin.read_bytes().startswith(starts[name])
            assert plugin.stat().st_size < 200_000


def _wheel_builder(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheel_of_runtime", root / "runtime" / "wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_plain_install_compiles_stablehlo_and_runs_it(
    wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-qq", *map(str, wheels)], check=True)
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
