"""Example inputs that the user gives as arrays, in the place of those that a source brings."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.exporters.bundle import Bundle
from edgec.exporters.frameworks import Framework
from edgec.runtime.errors import UsageError

__all__ = ["array_of", "with_inputs"]

_BY_PLACE = re.compile(r"arr_(\d+)")
"""How `numpy.savez` calls arrays that were given without names."""


def with_inputs(bundle: Bundle, framework: Framework, arrays: Mapping[str, np.ndarray]) -> Bundle:
    """The bundle with these inputs: by the names of its parameters, or by place (`arr_0`, …).

    Raises:
        UsageError: the bundle has several functions, or the names say neither.
    """
    if len(bundle.entries) != 1:
        raise UsageError(
            f"--inputs gives inputs to one function, and this source has {len(bundle.entries)}",
            hint="name one with --signature, or give the inputs in Python",
        )
    placed = {int(found[1]): name for name in arrays if (found := _BY_PLACE.fullmatch(name))}
    if placed and (len(placed) != len(arrays) or sorted(placed) != list(range(len(arrays)))):
        raise UsageError(
            f"the arrays {', '.join(arrays)} are named neither by place nor by parameter",
            hint="write them with numpy.savez(file, first, second) or numpy.savez(file, name=…)",
        )
    values = {name: array_of(framework, array) for name, array in arrays.items()}
    (entry,) = bundle.entries
    if placed:
        ordered = tuple(values[placed[place]] for place in sorted(placed))
        entry = replace(entry, inputs=ordered, kwargs=None)
    else:
        entry = replace(entry, inputs=(), kwargs=values)
    return replace(bundle, entries=(entry,))


def array_of(framework: Framework, array: np.ndarray) -> Any:
    """An array as the framework takes it."""
    if framework.name == "torch":
        import torch

        return torch.from_numpy(np.ascontiguousarray(array))
    if framework.name == "tensorflow":
        import tensorflow

        return tensorflow.constant(array)
    return array
