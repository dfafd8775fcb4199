"""One function of a module as a subgraph: numbered tensors that are set, computed and read."""

from collections.abc import Sequence

import numpy as np

from edgec.runtime import tree
from edgec.runtime.errors import EdgecError, InputError
from edgec.runtime.lite.errors import CannotResize, InvalidArgument, NotReady
from edgec.runtime.lite.tensor import Tensor
from edgec.runtime.loaded import Function

__all__ = ["Subgraph"]


class Subgraph:
    """The tensors of one function: its inputs are numbered from 0, its outputs follow."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._ready = False
        signature = function.signature
        count = len(signature.inputs)
        self.inputs = [Tensor(spec, i) for i, spec in enumerate(signature.inputs)]
        self.outputs = [Tensor(spec, count + i) for i, spec in enumerate(signature.outputs)]

    def tensor(self, index: int) -> Tensor:
        """The tensor of this number.

        Raises:
            InvalidArgument: there is none.
        """
        tensors = self.inputs + self.outputs
        if not 0 <= int(index) < len(tensors):
            raise InvalidArgument(
                f"invalid tensor index {index}: {self._function.name} has {len(tensors)} tensors",
                hint="take 'index' from get_input_details() or get_output_details()",
            )
        return tensors[int(index)]

    def resize(self, index: int, shape: Sequence[int], *, strict: bool) -> None:
        """Give an input another shape; its buffers are gone until `allocate`.

        Raises:
            CannotResize: no such input, or a shape that the module cannot take.
        """
        if not 0 <= int(index) < len(self.inputs):
            raise CannotResize(
                f"there is no input {index} to resize: {self._function.name} has "
                f"{len(self.inputs)} inputs",
                hint="take 'index' from get_input_details()",
            )
        tensor = self.inputs[int(index)]
        shape = tuple(int(size) for size in shape)
        tensor.check_resize(shape, strict=strict)
        if shape == tensor.shape:
            return
        tensor.shape = shape
        self._ready = False
        for each in self.inputs + self.outputs:
            each.free()

    def allocate(self) -> None:
        """Have buffers for all tensors.

        Raises:
            NotReady: one dimension has two sizes in the inputs.
        """
        sizes = self._sizes()
        for output in self.outputs:
            output.settle(sizes)
        for tensor in self.inputs + self.outputs:
            tensor.allocate()
        self._ready = True

    def invoke(self) -> None:
        """Compute the outputs of what the inputs hold.

        Raises:
            NotReady: the tensors are not allocated, or the device failed.
        """
        if not self._ready:
            raise NotReady(
                f"{self._function.name} was invoked before its tensors were allocated",
                hint="call allocate_tensors() first, and again after resize_tensor_input()",
            )
        try:
            results = self._call([tensor.read() for tensor in self.inputs])
        except EdgecError as error:
            raise NotReady.of(error) from error
        for tensor, result in zip(self.outputs, results, strict=True):
            if result is not None:
                tensor.array, tensor.shape = result, result.shape

    def _call(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        """Flat inputs to flat outputs; None for what the function's result leaves out."""
        signature = self._function.signature
        args = {a.name: tree.unflatten(a.tree, arrays) for a in signature.arguments}
        named = {a.name for a in signature.arguments if a.keyword_only}
        result = self._function(
            *(value for name, value in args.items() if name not in named),
            **{name: value for name, value in args.items() if name in named},
        )
        found = tree.match(signature.result, result, self._function.name)
        return [found.get(index) for index in range(len(self.outputs))]

    def _sizes(self) -> dict[str, int]:
        """What the named dimensions of the inputs stand for; formulas of them stay unknown."""
        sizes: dict[str, int] = {}
        for tensor in self.inputs:
            try:
                tensor.spec.check(tensor.shape, sizes)
            except InputError as error:
                raise NotReady.of(error) from error
        return sizes
