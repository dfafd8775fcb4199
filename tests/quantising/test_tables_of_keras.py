"""Embeddings of Keras and TensorFlow, kept in bytes: rows are what the framework gives."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["KERAS_BACKEND"] = "jax"
import keras

from edgec.exporters import export
from edgec.quantising import Scheme, quantise
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile

pytestmark = [
    pytest.mark.tensorflow,
    # Keras' variables do not know NumPy 2's copy keyword.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

ROWS, INNER = 1500, 64
TABLE = np.random.default_rng(0).standard_normal((ROWS, INNER)).astype(np.float32)
IDS = np.array([[3, 1499, 0], [700, 700, 21]], np.int32)


def by_keras() -> Any:
    layer = keras.layers.Embedding(ROWS, INNER)
    model = keras.Sequential([keras.Input((3,), dtype="int32"), layer])
    layer.set_weights([TABLE])
    return model


def by_tensorflow() -> Any:
    import tensorflow as tf

    class Looked(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(TABLE)

        @tf.function
        def __call__(self, ids: Any) -> Any:
            return tf.nn.embedding_lookup(self.table, ids)

    return Looked()


@pytest.mark.parametrize("made", [by_keras, by_tensorflow])
def test_an_embedding_is_looked_up_in_bytes(made: Any, tmp_path: Path) -> None:
    found = quantise(export(made(), (IDS,)), Scheme(bits=8))
    assert [line.what for line in found.lines] == [f"{ROWS} rows of {INNER}"]
    path = tmp_path / "table.vmfb"
    compile(found.program, "cpu", CompileOptions(output=path))
    assert path.stat().st_size < TABLE.nbytes * 0.28 + 40_000
    with load(path) as module:
        name = found.program.info.functions[0].signature.name
        answer = np.asarray(getattr(module, name)(IDS[::-1].copy()))
    off = np.sqrt(np.square(answer - TABLE[IDS[::-1]]).mean())
    assert 0.0005 < off < 0.01
