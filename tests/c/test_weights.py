"""Weights beside the module: safetensors and IRPA, in place where they lie well."""

import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from iree.runtime import ParameterIndex
from safetensors.numpy import save_file

from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertWeights
from edgec.runtime.errors import ModuleError

TEXT = """
module @weighted {
  util.global private @a = #flow.parameter.named<"model"::"first.a"> : tensor<4x6xf32>
  util.global private @b = #flow.parameter.named<"model"::"second/b"> : tensor<6xf32>
  util.global private mutable @c = #flow.parameter.named<"model"::"third c"> : tensor<6xi32>
  func.func @main(%x: tensor<3x4xf32>) -> (tensor<3x6xf32>, tensor<6xi32>) {
    %a = util.global.load @a : tensor<4x6xf32>
    %b = util.global.load @b : tensor<6xf32>
    %c = util.global.load @c : tensor<6xi32>
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0]
      : (tensor<3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<6xf32>) -> tensor<3x6xf32>
    %2 = stablehlo.add %0, %1 : tensor<3x6xf32>
    %3 = stablehlo.add %c, %c : tensor<6xi32>
    util.global.store %3, @c : tensor<6xi32>
    return %2, %3 : tensor<3x6xf32>, tensor<6xi32>
  }
}
"""
A = np.arange(24, dtype=np.float32).reshape(4, 6) / 7
B = np.linspace(-1, 1, 6, dtype=np.float32)
C = np.array([1, 2, 3, 4, 5, -6], np.int32)
WEIGHTS = {"first.a": A, "second/b": B, "third c": C}
X = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)


def _safetensors(path: Path) -> Path:
    save_file(WEIGHTS | {"not asked for": np.ones(3)}, path, metadata={"made": 'by "tests" \\'})
    return path


def _irpa(path: Path) -> Path:
    index = ParameterIndex()
    for name, array in WEIGHTS.items():
        if name == "second/b":
            continue
        index.add_buffer(name, array.tobytes())
    index.add_splat("second/b", np.float32(0.25).tobytes(), 24)
    index.create_archive_file(str(path))
    return path


@pytest.fixture
def module(library: object, compile_text: Callable[..., Path]) -> EdgertModule:
    return EdgertModule(compile_text(TEXT), library=library)


@pytest.fixture
def device(library: object) -> EdgertDevice:
    return EdgertDevice(threads=1, library=library)


def _check(session: EdgertSession, b: np.ndarray) -> None:
    for factor in (2, 4, 8):
        product, counted = session.call("main", [X])
        np.testing.assert_allclose(product, X @ A + b, rtol=1e-6)
        np.testing.assert_array_equal(counted, C * factor)


def test_safetensors(module, device, library, tmp_path: Path) -> None:
    weights = EdgertWeights(_safetensors(tmp_path / "w.safetensors"), library=library)
    # Two sessions on one file: what one changes, the other does not see.
    for _ in range(2):
        _check(EdgertSession(module, device, weights=weights), B)


def test_irpa(module, device, library, tmp_path: Path) -> None:
    weights = EdgertWeights(_irpa(tmp_path / "w.irpa"), library=library)
    _check(EdgertSession(module, device, weights=weights), np.full(6, 0.25, np.float32))


@pytest.mark.parametrize("shift", [0, 4])
def test_a_files_bytes_in_memory_are_used_in_place_and_copied_where_they_lie_badly(
    shift: int, module, device, library, tmp_path: Path
) -> None:
    data = np.fromfile(_safetensors(tmp_path / "w.safetensors"), np.uint8)
    room = np.zeros(data.size + 128, np.uint8)
    start = -room.ctypes.data % 64 + shift
    room[start : start + data.size] = data
    weights = EdgertWeights(room[start : start + data.size], library=library)
    session = EdgertSession(module, device, weights=weights)
    weights.close()
    _check(session, B)
    gone = weakref.ref(room)
    del room, data, weights
    assert gone() is not None
    session.close()
    assert gone() is None


def test_a_damaged_files_bytes_are_let_go(library) -> None:
    data = np.full(64, 0xFF, np.uint8)
    gone = weakref.ref(data)
    with pytest.raises(ModuleError, match="cut short"):
        EdgertWeights(data, library=library)
    del data
    assert gone() is None


def test_weights_may_be_closed_before_the_session(module, device, library, tmp_path) -> None:
    weights = EdgertWeights(_safetensors(tmp_path / "w.safetensors"), library=library)
    session = EdgertSession(module, device, weights=weights)
    weights.close()
    _check(session, B)


def test_missing_weights_are_named(module, device, library, tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match=r"keeps '.*' in a weights file"):
        EdgertSession(module, device)
    save_file({"first.a": A}, tmp_path / "few.safetensors")
    weights = EdgertWeights(tmp_path / "few.safetensors", library=library)
    with pytest.raises(ModuleError, match="lacks '"):
        EdgertSession(module, device, weights=weights)


def test_weights_of_another_size_are_refused(module, device, library, tmp_path: Path) -> None:
    save_file(WEIGHTS | {"second/b": B[:3]}, tmp_path / "short.safetensors")
    weights = EdgertWeights(tmp_path / "short.safetensors", library=library)
    with pytest.raises(ModuleError, match="has 12 bytes"):
        EdgertSession(module, device, weights=weights)


@pytest.mark.parametrize("make", [_safetensors, _irpa])
def test_a_weights_file_may_end_anywhere(make, library, tmp_path: Path) -> None:
    data = make(tmp_path / "whole").read_bytes().rstrip(b"\0")  # zeros at the end are padding
    for length in range(0, len(data) - 1, 7):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(ModuleError):
            EdgertWeights(tmp_path / "cut", library=library)
