"""The core of packages: variants in order, a folder whole or not at all, the manifest."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.exporters import export
from edgec.packaging import KINDS, Kind, PackageOptions, Plan, making
from edgec.packaging.making import make_package, targets_of
from edgec.runtime.errors import CompileError, FileError, ModuleError, ModuleMismatch, TargetError
from edgec.runtime.manifest import MANIFEST, Manifest
from edgec.toolchain import load_program
from edgec.toolchain.program import Weights

PROGRAM = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
KIND = Kind(
    name="bare",
    summary="modules and a manifest",
    targets=("cpu:arm64", "cpu:x86-64", "cpu:x86-64-v4"),
    drivers=("local-task",),
    modules="modules",
    builder="tests.packaging.test_making:nothing",
)


def nothing(plan: Plan) -> None:
    plan.write("deep/README.md", f"{plan.title}\n")


def failing(plan: Plan) -> None:
    plan.write("README.md", "half of it")
    raise CompileError("no")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "KINDS", {"bare": KIND})
    monkeypatch.setattr(Kind, "build", lambda kind, plan: globals()[kind.builder[-7:]](plan))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "My model-2.mlir"
    path.write_text(PROGRAM)
    return path


def test_the_first_variant_that_fits_is_loaded(program: Path, tmp_path: Path) -> None:
    made = make_package(program, "bare", tmp_path / "out")
    assert made.manifest.name == "my_model_2"
    assert [v.target for v in made.manifest.variants] == [
        "cpu:arm64",
        "cpu:x86-64-v4",
        "cpu:x86-64",
    ]
    x = np.array([1, 2, 3], np.float32)
    with runtime.load(tmp_path / "out") as model:
        np.testing.assert_array_equal(model.main(x), x + x)
        fits = runtime.Module.read(model.module.path).facts.target
    assert fits in ("cpu:x86-64-v4", "cpu:x86-64")
    assert Manifest.read(tmp_path / "out" / MANIFEST) == made.manifest
    assert made.files["deep/README.md"] == len("My model-2\n")


def test_a_variant_that_cannot_be_made_is_left_out_unless_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = replace(KIND, targets=("cpu:armv7", "cpu:x86-64"))
    monkeypatch.setattr(making, "KINDS", {"bare": kind})
    doubles = tmp_path / "doubles.mlir"
    doubles.write_text(
        PROGRAM.replace("stablehlo.add %x, %x", "stablehlo.exponential %x").replace("f32", "f64")
    )
    made = make_package(doubles, "bare", tmp_path / "out")
    assert [v.target for v in made.manifest.variants] == ["cpu:x86-64"]
    (note,) = (note for note in made.notes if "cpu:armv7" in note)
    assert "there is no variant for cpu:armv7" in note
    assert "stablehlo.exponential of f64" in note
    assert not list((tmp_path / "out").glob("**/*armv7*"))
    for named in (("cpu:armv7", "cpu:x86-64"), ("cpu:armv7",)):
        with pytest.raises(CompileError, match="exponential of f64"):
            make_package(doubles, "bare", tmp_path / "no", PackageOptions(targets=named))


def test_where_none_fits_each_says_why(program: Path, tmp_path: Path) -> None:
    options = PackageOptions(targets=("cpu:arm64",))
    made = make_package(program, "bare", tmp_path / "out", options)
    with pytest.raises(ModuleMismatch) as caught:
        runtime.load(tmp_path / "out")
    assert "cpu:arm64: it needs arm_64 and this machine is x86_64" in caught.value.what
    assert str(made.manifest.variants[0].needs) == "cpu arm_64"


def test_nothing_is_left_of_a_package_that_fails(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Kind(**{**KIND.__dict__, "builder": "x:failing"})
    monkeypatch.setattr(making, "KINDS", {"bare": bad})
    options = PackageOptions(targets=("cpu:x86-64",))
    with pytest.raises(CompileError):
        make_package(program, "bare", tmp_path / "out", options)
    assert [p.name for p in tmp_path.iterdir()] == [program.name]


def test_only_a_package_is_replaced_and_only_by_force(program: Path, tmp_path: Path) -> None:
    options = PackageOptions(targets=("cpu:x86-64",), replace=True)
    place = tmp_path / "out"
    place.mkdir()
    make_package(program, "bare", place, options)
    with pytest.raises(FileError, match="a package in"):
        make_package(program, "bare", place, PackageOptions(targets=("cpu:x86-64",)))
    (place / "stray").write_text("of the package before")
    make_package(program, "bare", place, options)
    assert not (place / "stray").exists()
    (place / MANIFEST).unlink()
    with pytest.raises(FileError, match="other things"):
        make_package(program, "bare", place, options)
    assert sorted(p.name for p in tmp_path.iterdir()) == [program.name, "out"]


def test_a_target_that_the_runtime_has_no_driver_for_is_refused() -> None:
    with pytest.raises(TargetError, match="no driver vulkan"):
        targets_of(KIND, ["vulkan"])


@pytest.mark.parametrize("suffix", [".safetensors", ".irpa"])
def test_weights_of_a_file_are_put_inside(tmp_path: Path, suffix: str) -> None:
    random = np.random.default_rng(0)
    weights = random.standard_normal((16, 40)).astype(np.float32)
    table = random.integers(0, 9, (40, 32), np.int32)
    x = random.standard_normal((2, 16)).astype(np.float32)
    program = export(
        lambda x: {"y": x @ weights, "z": (x @ weights) @ table.astype(np.float32)},
        (x,),
        external_weights=tmp_path / f"w{suffix}",
    ).save(tmp_path / "net.mlirbc")
    assert program.info.weights is not None
    options = PackageOptions(targets=("cpu:x86-64",))
    make_package(tmp_path / "net.mlirbc", "bare", tmp_path / "out", options)
    with runtime.load(tmp_path / "out") as model:
        found = model.main(x)
    np.testing.assert_allclose(found["y"], x @ weights, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["z"], x @ weights @ table, rtol=1e-4, atol=1e-3)


def test_weights_that_are_not_there_are_named_before_anything_is_compiled(
    program: Path, tmp_path: Path
) -> None:
    plain = load_program(program)
    weights = Weights(scope="model", file="w.safetensors", names=("a",))
    outside = replace(plain, info=replace(plain.info, weights=weights))
    with pytest.raises(FileError, match=r"cannot read the weights file .*w\.safetensors"):
        make_package(outside, "bare", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_was_changed_is_refused(program: Path, tmp_path: Path) -> None:
    options = PackageOptions(targets=("cpu:x86-64",))
    make_package(program, "bare", tmp_path / "out", options)
    file = tmp_path / "out" / MANIFEST
    value = json.loads(file.read_text())
    value["variants"][0]["sha256"] = "0" * 64
    file.write_text(json.dumps(value))
    with pytest.raises(ModuleError, match="not the file that the manifest lists"):
        runtime.load(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "has format 2"),
        ({"variants": [{"file": "../x", "sha256": "0", "size": 1}]}, "outside the package"),
        ({"variants": 3}, "no manifest of a package"),
    ],
)
def test_a_manifest_is_not_trusted(change: dict, message: str, tmp_path: Path) -> None:
    value = {"schema": 1, "name": "x", "kind": "c", "edgec": "0", "signatures": [], "variants": []}
    (tmp_path / MANIFEST).write_text(json.dumps(value | change))
    with pytest.raises(ModuleError, match=message):
        runtime.load(tmp_path)


def test_a_folder_without_a_manifest_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="without a manifest"):
        runtime.load(tmp_path)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_has_targets_that_its_runtime_runs(kind: Kind) -> None:
    assert targets_of(kind, ())
