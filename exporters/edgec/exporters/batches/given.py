"""An entry with example inputs of other sizes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.exporters.bundle import Entry
from edgec.exporters.dynamic import resize
from edgec.exporters.frameworks import Framework
from edgec.exporters.given_inputs import array_of
from edgec.exporters.traced import TracedFunction
from edgec.runtime.signature import Dim
from edgec.runtime.tree import unflatten
from edgec.toolchain.batches.marks import NotByExample

__all__ = ["with_examples"]


def with_examples(
    entry: Entry, framework: Framework, traced: TracedFunction, sizes: Mapping[str, int]
) -> Entry:
    """The entry with inputs of these sizes along each dynamic dimension, by its name.

    Raises:
        NotByExample: its inputs are nested otherwise than in tuples, lists and mappings.
    """
    arrays = [
        resize(array, [sizes[size.name] if isinstance(size, Dim) else size for size in spec.shape])
        for spec, array in zip(traced.signature.inputs, traced.calls[0].inputs, strict=True)
    ]
    if not entry.inputs and not entry.kwargs:
        given = [array_of(framework, array) for array in arrays]
        arguments = traced.signature.arguments
        return replace(
            entry,
            inputs=tuple(unflatten(a.tree, given) for a in arguments if not a.keyword_only),
            kwargs={a.name: unflatten(a.tree, given) for a in arguments if a.keyword_only},
            dynamic=None,
        )
    leaves = _Leaves(framework, arrays, traced.calls[0].inputs)
    inputs, kwargs = leaves.filled(entry.inputs), leaves.filled(entry.kwargs)
    if leaves.left:
        raise NotByExample("its inputs are nested in types of its own")
    return replace(entry, inputs=inputs, kwargs=kwargs, dynamic=None)


class _Leaves:
    """Puts arrays into the places of others, which it knows by their numbers."""

    def __init__(self, framework: Framework, arrays: Any, old: Any) -> None:
        self.framework = framework
        self.left = list(zip(arrays, old, strict=True))

    def filled(self, value: Any) -> Any:
        if isinstance(value, Mapping) and type(value) is dict:
            return {key: self.filled(child) for key, child in value.items()}
        if type(value) in (tuple, list):
            return type(value)(self.filled(child) for child in value)
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return value
        here = np.asarray(value.detach() if hasattr(value, "detach") else value)
        for number, (array, old) in enumerate(self.left):
            if here.shape == old.shape and here.dtype == old.dtype and np.array_equal(here, old):
                del self.left[number]
                return array_of(self.framework, array)
        raise NotByExample("its inputs are not those it was traced with")
