"""A module with its weights beside it, compiled once, and two pairs of keys."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.signing import PrivateKey, new_key, sign_module
from edgec.toolchain.process import compiler_path

W = np.random.default_rng(1).normal(size=(200, 200)).astype(np.float32)
V = np.random.default_rng(2).normal(size=(50_000,)).astype(np.float32)
X = np.linspace(0, 1, 200, dtype=np.float32).reshape(1, 200)
FACTS = {
    "target": "cpu",
    "driver": "local-task",
    "edgec": "0.1.0",
    "compiler": "3.13.0",
    "cpu_features": [],
    "weights": {"scope": "model", "file": "net.safetensors", "names": ["w", "v"]},
}
TEXT = """
module @net {
  util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<200x200xf32>
  util.global private @v = #flow.parameter.named<"model"::"v"> : tensor<50000xf32>
  func.func @main(%x: tensor<1x200xf32>) -> tensor<1x200xf32>
      attributes {iree.reflection = {"edgec.module" = FACTS}} {
    %w = util.global.load @w : tensor<200x200xf32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<1x200xf32>, tensor<200x200xf32>) -> tensor<1x200xf32>
    return %0 : tensor<1x200xf32>
  }
  func.func @other(%x: tensor<50000xf32>) -> tensor<50000xf32> {
    %v = util.global.load @v : tensor<50000xf32>
    %0 = stablehlo.add %x, %v : tensor<50000xf32>
    return %0 : tensor<50000xf32>
  }
  func.func @itself() -> tensor<50000xf32> {
    %v = util.global.load @v : tensor<50000xf32>
    return %v : tensor<50000xf32>
  }
}
""".replace("FACTS", json.dumps(json.dumps(FACTS)))


def weights_bytes() -> bytes:
    header = {}
    at = 0
    for name, value in (("w", W), ("v", V)):
        header[name] = {
            "dtype": "F32",
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    return len(text).to_bytes(8, "little") + text + W.tobytes() + V.tobytes()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module as the compiler wrote it, `net.vmfb`, and `net.safetensors` beside it."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "net.mlir").write_text(TEXT)
    (folder / "net.safetensors").write_bytes(weights_bytes())
    command = (
        *(compiler_path(), folder / "net.mlir", "--iree-hal-target-device=local"),
        *("--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"),
        *("-o", folder / "net.vmfb"),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return folder / "net.vmfb"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[PrivateKey, PrivateKey]:
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("keys")
    return new_key(folder / "one.key"), new_key(folder / "other.key")


@pytest.fixture
def copied(compiled: Path, tmp_path: Path) -> Path:
    """The module and its weights in a folder of the test's own."""
    for file in (compiled, compiled.with_suffix(".safetensors")):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / compiled.name


@pytest.fixture
def signed(copied: Path, keys: tuple[PrivateKey, PrivateKey]) -> Path:
    sign_module(copied, keys[0], copied)
    return copied


Flip = Callable[[bytes, int], bytes]


def flipped(data: bytes, bit: int) -> bytes:
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)
