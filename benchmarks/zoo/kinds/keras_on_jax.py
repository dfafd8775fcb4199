"""Importing this lets Keras, which is imported after it, compute with JAX."""

from benchmarks.zoo.kinds.keras_models import chosen

chosen("jax")
