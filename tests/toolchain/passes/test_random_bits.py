"""The compiler's Philox bits are those of the definition, with 64-bit integers or without."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.free_bitcasts import FreeBitcasts
from edgec.toolchain.stablehlo import parse_stablehlo

KINDS = {"ui8": np.uint8, "ui32": np.uint32, "ui64": np.uint64}
STATE = np.array([0x123456789ABCDEF0, 0x0FEDCBA9FFFFFFFF], np.uint64)


def generator(kind: str, count: int = 10) -> str:
    return f"""
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<{count}x{kind}>) {{
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX
    : (tensor<2xui64>) -> (tensor<2xui64>, tensor<{count}x{kind}>)
  return %0, %1 : tensor<2xui64>, tensor<{count}x{kind}>
}}"""


WORDS = """
func.func @main(%x: tensor<3xi64>) -> tensor<3x2xi32> {
  %0 = stablehlo.bitcast_convert %x : (tensor<3xi64>) -> tensor<3x2xi32>
  return %0 : tensor<3x2xi32>
}"""


def philox(state: np.ndarray, count: int) -> np.ndarray:
    """Words of Philox4x32-10 by its definition, in NumPy's 64 bits."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    turns = -(-count // 4)
    with np.errstate(over="ignore"):
        low = state[1] + np.arange(turns, dtype=np.uint64)
    key = [state[0] & mask, state[0] >> half]
    c = [low & mask, low >> half, np.full(turns, key[0]), np.full(turns, key[1])]
    for _ in range(10):
        left, right = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (right >> half) ^ c[1] ^ key[0],
            right & mask,
            (left >> half) ^ c[3] ^ key[1],
            left & mask,
        ]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return np.stack(c, 1).ravel()[:count].astype(np.uint32)


def run(text: str, target: str, folder: Path, *inputs: np.ndarray) -> list[np.ndarray]:
    (folder / "case.mlir").write_text(text)
    module = toolchain.compile(folder / "case.mlir", target)
    with runtime.load(module) as loaded:
        results = loaded.main(*inputs)
    return list(results) if isinstance(results, tuple | list) else [results]


def test_taking_words_apart_is_a_view() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(WORDS, context)
        assert FreeBitcasts().run(module) == 1
        assert module.operation.verify()
        assert "iree_tensor_ext.bitcast" in str(module)


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_are_philox_s_on_vulkan(kind: str, tmp_path: Path) -> None:
    state, bits = run(generator(kind), "vulkan", tmp_path, STATE)
    words = philox(STATE, 20 if kind == "ui64" else 10)
    expected = words.view(np.uint64) if kind == "ui64" else words.astype(KINDS[kind])
    np.testing.assert_array_equal(bits, expected)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            state, STATE + np.array([0, 5 if kind == "ui64" else 3], np.uint64)
        )


def test_the_compiler_s_own_on_the_cpu_agrees(tmp_path: Path) -> None:
    _, bits = run(generator("ui32"), "cpu", tmp_path, STATE)
    np.testing.assert_array_equal(bits, philox(STATE, 10))


@pytest.mark.vulkan
def test_words_are_where_they_lie_on_vulkan(tmp_path: Path) -> None:
    x = np.array([1, -2, 0x1234567890], np.int64)
    (words,) = run(WORDS, "vulkan", tmp_path, x)
    np.testing.assert_array_equal(words, x.view(np.int32).reshape(3, 2))
