"""Keras models, as objects and as .keras files, on the JAX backend."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers

from benchmarks.coverage.case import Case, Given, Source, integers, normal


def seeded() -> None:
    keras.utils.set_random_seed(0)


def cnn_model() -> keras.Model:
    seeded()
    return keras.Sequential(
        [
            keras.Input((24, 24, 3)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(32, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def cnn() -> Given:
    return Given(model=cnn_model(), inputs=(normal(2, 24, 24, 3),))


def cnn_dynamic() -> Given:
    return Given(model=cnn_model(), inputs=(normal(2, 24, 24, 3),), dynamic="batch=1..8")


def cnn_file() -> Source:
    cnn_model().save("cnn.keras")
    return Source(text="cnn.keras")


def cnn_external() -> Given:
    return Given(
        model=cnn_model(), inputs=(normal(2, 24, 24, 3),), external_weights="cnn.safetensors"
    )


def mobilenet() -> Given:
    seeded()
    model = keras.applications.MobileNetV2((96, 96, 3), alpha=0.35, weights=None, classes=10)
    return Given(model=model, inputs=(normal(1, 96, 96, 3),))


def recurrent() -> Given:
    seeded()
    model = keras.Sequential(
        [
            keras.Input((10, 8)),
            layers.Bidirectional(layers.LSTM(16, return_sequences=True)),
            layers.GRU(16),
            layers.Dense(4),
        ]
    )
    return Given(model=model, inputs=(normal(2, 10, 8),))


def transformer() -> Given:
    seeded()
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    x = layers.Embedding(100, 32)(tokens)
    y = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(4, 8)(y, y, use_causal_mask=True)
    x = x + layers.Dense(32)(layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x)))
    return Given(model=keras.Model(tokens, layers.Dense(100)(x)), inputs=(integers(100, 2, 12),))


def several_inputs() -> Given:
    seeded()
    image = keras.Input((8, 8, 1), name="image")
    facts = keras.Input((4,), name="facts")
    x = layers.Concatenate()([layers.Flatten()(layers.Conv2D(4, 3)(image)), facts])
    model = keras.Model(
        {"image": image, "facts": facts},
        {"score": layers.Dense(1)(x), "class": layers.Dense(3, activation="softmax")(x)},
    )
    return Given(model=model, inputs=({"image": normal(2, 8, 8, 1), "facts": normal(2, 4)},))


def mixed_precision() -> Given:
    seeded()
    model = keras.Sequential(
        [
            keras.Input((32,)),
            layers.Dense(64, activation="relu", dtype="mixed_float16"),
            layers.Dense(10, dtype="float32"),
        ]
    )
    return Given(model=model, inputs=(normal(4, 32),))


CASES = (
    Case("CNN, batch norm, separable convolution", "f32", cnn),
    Case("CNN, dynamic batch", "f32", cnn_dynamic),
    Case("CNN as a .keras file", "f32", cnn_file),
    Case("CNN, external weights", "f32", cnn_external),
    Case("MobileNetV2, width 0.35", "f32", mobilenet),
    Case("bidirectional LSTM, GRU", "f32", recurrent),
    Case("causal language model", "f32, i32", transformer),
    Case("two inputs, two outputs by name", "f32", several_inputs),
    Case("MLP, mixed precision", "f16, f32", mixed_precision),
)
