"""Keras models to programs."""
