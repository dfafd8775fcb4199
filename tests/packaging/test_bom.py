"""What a package says that it is made of, and that the same program makes the same package."""

import json
from pathlib import Path

import pytest

from edgec.packaging import PackageOptions
from edgec.packaging.bom import BOM
from edgec.packaging.making import make_package
from edgec.toolchain import CompileOptions

PROGRAM = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.tanh %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
OPTIONS = PackageOptions(
    targets=("cpu:x86-64",),
    prove=False,
    embed=False,
    compiling=CompileOptions(cache=False, check=False),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    (folder / "net.mlir").write_text(PROGRAM)
    make_package(folder / "net.mlir", "c", folder / "made", OPTIONS)
    return folder / "made"


def test_two_builds_are_the_same_bits(package: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    program = tmp_path / "elsewhere" / "net.mlir"
    program.write_text(PROGRAM)
    again = tmp_path / package.name  # which its README names
    make_package(program, "c", again, OPTIONS)
    files = {f.relative_to(package): f.read_bytes() for f in package.rglob("*") if f.is_file()}
    others = {f.relative_to(again): f.read_bytes() for f in again.rglob("*") if f.is_file()}
    assert files.keys() == others.keys()
    assert [str(name) for name in files if files[name] != others[name]] == []


def test_a_package_lists_what_it_is_made_of(package: Path) -> None:
    pytest.importorskip("cyclonedx")
    from cyclonedx.exception import MissingOptionalDependencyException
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = (package / BOM).read_text()
    value = json.loads(text)
    assert value["bomFormat"] == "CycloneDX"
    manifest = json.loads((package / "manifest.json").read_text())
    listed = {part["name"]: part for part in value["components"]}
    for variant in manifest["variants"]:
        (digest,) = listed[variant["file"]]["hashes"]
        assert digest == {"alg": "SHA-256", "content": variant["sha256"]}
    assert {"edgec", "iree-base-compiler", "LLVM", "musl", "Monocypher"} < listed.keys()
    try:
        problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    except MissingOptionalDependencyException:  # what reads schemas is an extra of the library's
        return
    assert problem is None
