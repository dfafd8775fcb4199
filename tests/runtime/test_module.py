"""What a module says of itself, and the field that the checker writes."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, ModuleError
from edgec.runtime.module import Module, mark_checked
from edgec.runtime.signature import Dim, Signature

Make = Callable[..., Path]


def test_an_edgec_module_tells_its_signatures_and_facts(stateful_module: Make) -> None:
    path = stateful_module(compiler="3.13.0", cpu_features=["avx2"])
    module = Module.read(path)
    assert module.path == path
    assert list(module.signatures) == ["step", "scale"]
    assert str(module.signatures["step"]) == "step(x: f32[4]) -> (memory: f32[4], counter: i32[])"
    assert module.facts.is_edgec
    assert module.facts.target == "local-task:test"
    assert module.facts.cpu_features == ("avx2",)
    assert module.facts.check == "unchecked"
    assert [state.name for state in module.facts.states] == ["counter", "memory"]
    assert json.loads(json.dumps(module.facts.to_json()))["driver"] == "local-task"


def test_a_foreign_module_has_a_signature_from_its_declaration(mixed_module: Make) -> None:
    module = Module.read(mixed_module())
    assert not module.facts.is_edgec
    assert module.facts.driver == "local-task"
    product = module.signatures["product"]
    assert product.inputs[0].shape == (Dim(name="input0_0", minimum=0), 8)
    assert product.inputs[1].shape == (8, 5)
    assert product.inputs[0].dtype is DType.F32
    assert "avx2" in module.code_features or module.code_features


def test_a_vulkan_module_names_its_driver(mixed_module: Make) -> None:
    module = Module.read(mixed_module("vulkan"))
    assert module.facts.driver == "vulkan"
    assert module.formats == ("vulkan-spirv-fb",)
    assert module.code_features == ()


def test_the_outcome_of_a_check_is_written_in_place(stateful_module: Make, tmp_path: Path) -> None:
    path = tmp_path / "copy.vmfb"
    path.write_bytes(stateful_module().read_bytes())
    before = path.read_bytes()
    mark_checked(path, "checked on local-task, max error 1e-7")
    assert Module.read(path).facts.check == "checked on local-task, max error 1e-7"
    assert len(path.read_bytes()) == len(before)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    mark_checked(path, "unchecked")
    assert path.read_bytes() == before


def test_a_marked_module_still_runs(stateful_module: Make, tmp_path: Path) -> None:
    from edgec.runtime import load

    path = tmp_path / "copy.vmfb"
    path.write_bytes(stateful_module().read_bytes())
    mark_checked(path, "checked")
    with load(path) as module:
        assert module.step([1.0, 2.0, 3.0, 4.0])["counter"] == 1


def test_a_plain_module_can_be_marked_too(compile_mlir: Make, stateful_module: Make) -> None:
    text = stateful_module().with_suffix(".mlir").read_text()
    path = compile_mlir(text, "local-task", "--iree-vm-emit-polyglot-zip=false")
    mark_checked(path, "checked")
    assert Module.read(path).facts.check == "checked"


def test_only_what_fits_is_written(stateful_module: Make, mixed_module: Make) -> None:
    with pytest.raises(ModuleError, match="longer than 64"):
        mark_checked(stateful_module(), "x" * 65)
    with pytest.raises(ModuleError, match="no field"):
        mark_checked(mixed_module(), "checked")


def test_damaged_facts_are_an_error(stateful_module: Make) -> None:
    with pytest.raises(ModuleError, match="damaged facts"):
        Module.read(stateful_module(weights={"scope": "model"}))


def test_a_damaged_signature_refuses_only_its_function(
    compile_mlir: Make, reflection: Callable[..., str]
) -> None:
    text = f"""
    func.func @good(%x: tensor<f32>) -> tensor<f32> {{ return %x : tensor<f32> }}
    func.func @bad(%x: tensor<f32>) -> tensor<f32> {reflection({"edgec.signature": "{}"})} {{
      return %x : tensor<f32> }}
    """
    module = Module.read(compile_mlir(text))
    assert list(module.signatures) == ["good"]
    assert "damaged signature" in module.refused["bad"]


def test_files_that_are_no_modules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read"):
        Module.read(tmp_path / "missing.vmfb")
    with pytest.raises(FileError, match="cannot read"):
        Module.read(tmp_path)
    empty = tmp_path / "empty.vmfb"
    empty.touch()
    with pytest.raises(ModuleError, match="is empty"):
        Module.read(empty)
    text = tmp_path / "text.vmfb"
    text.write_text("module {}" * 100)
    with pytest.raises(ModuleError, match="is no IREE module"):
        Module.read(text)
    archive = tmp_path / "archive.vmfb"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("hello.txt", "hello")
    with pytest.raises(ModuleError):
        Module.read(archive)


def test_facts_and_sizes_are_json(stateful_module: Make) -> None:
    module = Module.read(stateful_module())
    sizes = json.loads(json.dumps(module.sizes.to_json()))
    assert sizes["total"] == sum(entry["size"] for entry in sizes["entries"])
    assert Signature.from_json(json.loads(json.dumps(module.signatures["step"].to_json())))
