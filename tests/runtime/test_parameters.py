"""Weights beside the module: found, shared, checked."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import load
from edgec.runtime.errors import FileError, ModuleError, ModuleMismatch, UsageError
from edgec.runtime.parameters import WeightsFile

Make = Callable[..., Path]
WEIGHTS = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.array([1, 2, 3, 4], np.float32),
}
X = np.array([[1.0, 2.0, 3.0]], np.float32)
ANSWER = X @ WEIGHTS["w"] + WEIGHTS["b"]


def write_safetensors(path: Path, weights: dict[str, np.ndarray]) -> None:
    header: dict[str, object] = {}
    data = b""
    for name, value in weights.items():
        offsets = [len(data), len(data) + value.nbytes]
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": offsets}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_irpa(path: Path, weights: dict[str, np.ndarray]) -> None:
    from iree.runtime import save_archive_file

    save_archive_file(weights, path)  # type: ignore[arg-type]


both_runtimes = pytest.mark.parametrize("device", ["local-task", "edgert://cpu"])
WRITERS = {".safetensors": write_safetensors, ".irpa": write_irpa}


def text(reflection: str) -> str:
    return f"""
module @outside {{
  util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<3x4xf32>
  util.global private @b = #flow.parameter.named<"model"::"b"> : tensor<4xf32>
  func.func @main(%x: tensor<1x3xf32>) -> tensor<1x4xf32> {reflection} {{
    %w = util.global.load @w : tensor<3x4xf32>
    %b = util.global.load @b : tensor<4xf32>
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<1x3xf32>, tensor<3x4xf32>) -> tensor<1x4xf32>
    %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %r = stablehlo.add %p, %c : tensor<1x4xf32>
    return %r : tensor<1x4xf32>
  }}
}}
"""


@pytest.fixture
def outside(
    compile_mlir: Make, reflection: Callable[..., str], tmp_path: Path
) -> Callable[..., Path]:
    """`outside(driver, file)` → an edgec module in a folder of its own that names its weights."""

    def make(driver: str = "local-task", file: str = "weights.safetensors") -> Path:
        facts = {
            "target": "cpu",
            "driver": driver,
            "edgec": "0.1.0",
            "compiler": "3.13.0",
            "cpu_features": [],
            "weights": {"scope": "model", "file": file, "names": ["w", "b"]},
        }
        made = compile_mlir(text(reflection({"edgec.module": facts})), driver)
        path = tmp_path / "module.vmfb"
        path.write_bytes(made.read_bytes())
        return path

    return make


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("driver", ["local-task", "vulkan", "edgert"])
def test_weights_are_found_beside_the_module(
    driver: str, suffix: str, outside: Make, tmp_path: Path
) -> None:
    path = outside(driver, f"weights{suffix}")
    WRITERS[suffix](tmp_path / f"weights{suffix}", WEIGHTS)
    with load(path) as module:
        np.testing.assert_allclose(module.main(X), ANSWER)


@both_runtimes
def test_weights_can_be_named(device: str, outside: Make, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    write_safetensors(other / "w.safetensors", WEIGHTS | {"b": -WEIGHTS["b"]})
    with load(outside(), device=device, weights=other / "w.safetensors") as module:
        np.testing.assert_allclose(module.main(X), X @ WEIGHTS["w"] - WEIGHTS["b"])


@both_runtimes
def test_a_foreign_module_takes_weights_that_are_named(
    device: str, compile_mlir: Make, tmp_path: Path
) -> None:
    path = compile_mlir(text(""))
    with pytest.raises(UsageError, match="does not say where"):
        load(path, device=device)
    write_safetensors(tmp_path / "w.safetensors", WEIGHTS)
    with load(path, device=device, weights=tmp_path / "w.safetensors") as module:
        np.testing.assert_allclose(module.main(X), ANSWER)


def test_modules_share_one_mapping(outside: Make, tmp_path: Path) -> None:
    path = outside()
    file = tmp_path / "weights.safetensors"
    write_safetensors(file, WEIGHTS)
    link = tmp_path / "link.safetensors"
    link.symlink_to(file)
    one, other = WeightsFile.open(file), WeightsFile.open(link)
    assert one is other
    with load(path) as first, load(path, weights=link) as second:
        assert first._weights is second._weights is one
        np.testing.assert_array_equal(first.main(X), second.main(X))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    write_safetensors(file, WEIGHTS)
    before = WeightsFile.open(file)
    file.unlink()
    write_safetensors(file, {"other": WEIGHTS["b"]})
    assert WeightsFile.open(file) is not before
    assert WeightsFile.open(file).names == {"other"}


@both_runtimes
def test_missing_weights_say_what_and_where(device: str, outside: Make, tmp_path: Path) -> None:
    path = outside()
    with pytest.raises(FileError, match=r"weights\.safetensors[\s\S]*put it there"):
        load(path, device=device)
    write_safetensors(tmp_path / "weights.safetensors", {"b": WEIGHTS["b"]})
    with pytest.raises(ModuleMismatch, match="lacks w, which"):
        load(path, device=device)


@both_runtimes
def test_weights_of_another_size_are_refused(device: str, outside: Make, tmp_path: Path) -> None:
    path = outside()
    write_safetensors(tmp_path / "weights.safetensors", WEIGHTS | {"w": WEIGHTS["w"][:2]})
    with pytest.raises(ModuleError, match=r"cannot load .*module\.vmfb"):
        load(path, device=device)


def test_weights_for_a_module_without_are_refused(mixed_module: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes no weights file"):
        load(mixed_module(), weights=tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("suffix", "keep"),
    [(".safetensors", keep) for keep in (0, 4, 8, 40, -1)]
    + [(".irpa", keep) for keep in (0, 4, 8, 40, 200, 330)],
)
def test_a_truncated_file_is_refused(suffix: str, keep: int, tmp_path: Path) -> None:
    file = tmp_path / f"w{suffix}"
    WRITERS[suffix](file, WEIGHTS)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ModuleError, match="weights file"):
        WeightsFile.open(file)


@pytest.mark.parametrize(
    "header", [b"[]", b"{", b'{"w": 1}', b'{"w": {"data_offsets": [0, 1e9]}}', b"\xff" * 8]
)
def test_a_header_that_lies_is_refused(header: bytes, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 64)
    with pytest.raises(ModuleError, match="weights file"):
        WeightsFile.open(file)


def test_other_files_are_no_weights(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no weights file"):
        WeightsFile.open(tmp_path / "w.bin")
