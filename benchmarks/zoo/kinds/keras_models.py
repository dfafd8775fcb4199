"""Every constructor of `keras.applications` that makes a small enough model, at a small picture."""

import os

from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "chosen", "constructed", "names"]

_SIZE = 128
_MOST = 30_000_000  # parameters


def names() -> list[str]:
    chosen("jax")
    from keras import applications

    return sorted(name for name in vars(applications) if name[0].isupper())


def build(name: str) -> Built:
    import numpy as np

    model = constructed(name, backend="jax")
    image = np.random.default_rng(0).standard_normal((1, *model.input_shape[1:]), np.float32)
    return Built(model=model, inputs=(image,))


def chosen(backend: str) -> None:
    """Let Keras, before it is imported, compute with this."""
    os.environ["KERAS_BACKEND"] = backend


def constructed(name: str, *, backend: str) -> object:
    """The model with seeded weights.

    Args:
        name: a constructor of `keras.applications`.
        backend: what Keras computes with; the first that a process asks for stays.
    """
    chosen(backend)
    import keras

    keras.utils.set_random_seed(0)
    model = getattr(keras.applications, name)(weights=None, input_shape=(_SIZE, _SIZE, 3))
    if model.count_params() > _MOST:
        raise Left(f"{model.count_params() // 1_000_000} million parameters")
    return model
