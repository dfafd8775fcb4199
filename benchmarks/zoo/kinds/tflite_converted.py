"""`keras.applications` through TensorFlow's converter to .tflite: in f32, and in 8-bit integers."""

from pathlib import Path
from typing import Any

from benchmarks.zoo.kinds import keras_models
from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]

_WAYS = ("f32", "i8")


def names() -> list[str]:
    return [f"{name}-{way}" for name in keras_models.names() for way in _WAYS]


def build(name: str) -> Built:
    import numpy as np

    constructor, way = name.rsplit("-", 1)
    model: Any = keras_models.constructed(constructor, backend="tensorflow")
    import tensorflow as tf

    shape = (1, *model.input_shape[1:])
    function = tf.function(model).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], model)
    if way == "i8":
        random = np.random.default_rng(0)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (
            [random.standard_normal(shape, np.float32)] for _ in range(4)
        )
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    path = Path("model.tflite").absolute()
    path.write_bytes(converter.convert())
    return Built(model=str(path))
