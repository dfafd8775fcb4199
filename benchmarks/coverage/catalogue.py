"""All cases, by framework; a framework is imported only when its cases are asked for."""

import importlib

from benchmarks.coverage.case import Case

__all__ = ["FRAMEWORKS", "cases_of"]

# Name in the table → module and the tuple in it.
FRAMEWORKS = {
    "JAX": ("cases_jax", "CASES"),
    "Flax": ("cases_flax", "LINEN"),
    "Equinox": ("cases_flax", "EQUINOX"),
    "PyTorch": ("cases_torch", "CASES"),
    "TensorFlow": ("cases_tensorflow", "CASES"),
    "Keras": ("cases_keras", "CASES"),
    "ONNX": ("cases_onnx", "CASES"),
}


def cases_of(framework: str) -> tuple[Case, ...]:
    """The cases of one framework, in the order of the table."""
    module, name = FRAMEWORKS[framework]
    found: tuple[Case, ...] = getattr(
        importlib.import_module(f"benchmarks.coverage.{module}"), name
    )
    return found
