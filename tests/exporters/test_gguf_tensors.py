"""Integers in groups against the floats that the package `gguf` makes of the same bytes."""

import tracemalloc

import numpy as np
import pytest

from edgec.exporters.from_transformers import gguf_tensors
from edgec.exporters.from_transformers.gguf_tensors import KINDS, integers_of

gguf = pytest.importorskip("gguf")

_HALVES = {"Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,), "Q6_K": (208,)}
"""Where a block has 16-bit floats; the others have two at its beginning."""


def blocks(kind: str, outputs: int = 6, each: int = 4, *, reach: float = 1.0) -> np.ndarray:
    """A matrix of random bytes, but for its floats, which are numbers."""
    size = KINDS[kind][0]
    rng = np.random.default_rng(len(kind))
    data = rng.integers(0, 256, (outputs * each, size)).astype(np.uint8)
    for at in _HALVES.get(kind, (0, 2)):
        halves = rng.uniform(-reach, reach, (len(data), 1)).astype(np.float16)
        data[:, at : at + 2] = halves.view(np.uint8)
    return data.reshape(outputs, each * size)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_stands_for_just_the_same_numbers(kind: str) -> None:
    data = blocks(kind)
    found = integers_of(kind, data)
    assert found is not None
    expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert len(np.unique(expected)) > 100
    assert np.array_equal(found.floats(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_matrix_is_read_some_rows_at_a_time(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = integers_of(kind, blocks(kind))
    monkeypatch.setattr(gguf_tensors, "_AT_ONCE", 8 * KINDS[kind][0])  # two of six rows
    found = integers_of(kind, blocks(kind))
    assert found is not None
    assert whole is not None
    assert np.array_equal(found.floats(), whole.floats())


def test_reading_takes_little_more_memory_than_what_is_read() -> None:
    data = blocks("Q6_K", 8192, 16)
    tracemalloc.start()
    found = integers_of("Q6_K", data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert most < 2.5 * found.size + 2**25


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_as_large_as_gguf_says(kind: str) -> None:
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1] == KINDS[kind][0]


def test_other_kinds_are_left_alone() -> None:
    assert integers_of("IQ4_XS", np.zeros((2, 136), np.uint8)) is None
