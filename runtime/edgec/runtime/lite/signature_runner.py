"""A signature as a callable: named arrays in, a dict of named arrays out."""

from typing import Any

import numpy as np

from edgec.runtime.lite.errors import InvalidArgument
from edgec.runtime.lite.subgraph import Subgraph

__all__ = ["SignatureRunner"]


class SignatureRunner:
    """What `Interpreter.get_signature_runner` gives: call it by keywords.

    Inputs with dynamic dimensions take the shapes of what is given.
    """

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph

    def __call__(self, **kwargs: Any) -> dict[str, np.ndarray]:
        """Run it; the arrays of the result belong to the caller.

        Raises:
            ValueError: another number of inputs, an unknown name, a wrong type or shape.
            RuntimeError: it failed while it ran.
        """
        inputs = {tensor.spec.name: tensor for tensor in self._subgraph.inputs}
        if len(kwargs) != len(inputs):
            raise InvalidArgument(
                f"got {len(kwargs)} inputs and takes {len(inputs)}: {', '.join(inputs)}"
            )
        for name, value in kwargs.items():
            if name not in inputs:
                raise InvalidArgument(
                    f"there is no input {name}", hint=f"it takes {', '.join(inputs)}"
                )
            self._subgraph.resize(inputs[name].index, np.shape(value), strict=False)
        self._subgraph.allocate()
        for name, value in kwargs.items():
            inputs[name].write(value)
        self._subgraph.invoke()
        return {t.spec.name: t.read().copy() for t in self._subgraph.outputs}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """The details of each input, by its name in the signature."""
        return {tensor.spec.name: tensor.details() for tensor in self._subgraph.inputs}

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """The details of each output, by its name in the signature."""
        return {tensor.spec.name: tensor.details() for tensor in self._subgraph.outputs}
