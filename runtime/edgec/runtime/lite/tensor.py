"""One input or output of a function as TensorFlow Lite shows it: details, a shape, a buffer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.runtime.host_memory import aligned_empty
from edgec.runtime.lite.errors import CannotResize, InvalidArgument
from edgec.runtime.signature import Dim, TensorSpec

__all__ = ["Tensor"]


class Tensor:
    """An input or output with its current shape; its buffer is there between allocate and resize.

    Attributes:
        spec: what the module says of it.
        index: its number, which scripts know it by.
        shape: its current shape; a dynamic dimension is as small as it may be at first.
        array: its values, or None where it is not allocated.
    """

    def __init__(self, spec: TensorSpec, index: int) -> None:
        self.spec = spec
        self.index = index
        self.shape = tuple(d if isinstance(d, int) else max(1, d.minimum) for d in spec.shape)
        self.array: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The name in the file that the model came from, else the module's."""
        return self.spec.original or self.spec.name

    def details(self) -> dict[str, Any]:
        """What `get_input_details()` says of a tensor, keys and types as TensorFlow Lite's."""
        given = self.spec.quantization
        scales = () if given is None else given.scales
        zero_points = () if given is None else given.zero_points
        whole = len(scales) == 1
        return {
            "name": self.name,
            "index": self.index,
            "shape": np.array(self.shape, np.int32),
            "shape_signature": np.array(
                [d if isinstance(d, int) else -1 for d in self.spec.shape], np.int32
            ),
            "dtype": self.spec.dtype.numpy.type,
            "quantization": (scales[0], zero_points[0]) if whole else (0.0, 0),
            "quantization_parameters": {
                "scales": np.array(scales, np.float32),
                "zero_points": np.array(zero_points, np.int32),
                "quantized_dimension": 0 if given is None else given.axis,
                "block_size": 0,
            },
            "sparsity_parameters": {},
        }

    def check_resize(self, shape: Sequence[int], *, strict: bool) -> None:
        """Check that the tensor may have this shape.

        Raises:
            CannotResize: the module was compiled for another size or rank, or for a range that
                the size is out of.
        """
        if len(shape) != len(self.spec.shape):
            raise CannotResize(
                f"cannot resize {self.name} to {list(shape)}: its rank is {len(self.spec.shape)}"
            )
        for axis, (want, size) in enumerate(zip(self.spec.shape, shape, strict=True)):
            if isinstance(want, int) and want != size:
                raise CannotResize(
                    f"cannot resize dimension {axis} of {self.name} from {want} to {size}"
                    + (": only unknown dimensions, -1, can change" if strict else ""),
                    hint="the module is compiled for this size; export the model again with "
                    "this dimension dynamic",
                )
            if isinstance(want, Dim) and not _within(want, size):
                raise CannotResize(
                    f"cannot resize dimension {axis} of {self.name} to {size}: it is {want}"
                )

    def settle(self, sizes: Mapping[str, int]) -> None:
        """Take over the sizes of the named dimensions that are known."""
        self.shape = tuple(
            d if isinstance(d, int) else sizes.get(d.name, size)
            for d, size in zip(self.spec.shape, self.shape, strict=True)
        )

    def allocate(self) -> None:
        """Have a buffer of the current shape, of zeros if it is a new one."""
        if self.array is None or self.array.shape != self.shape:
            self.array = aligned_empty(self.shape, self.spec.dtype)
            self.array[...] = np.zeros((), self.spec.dtype.numpy)

    def free(self) -> None:
        """Have no buffer: views of the old one stay valid and are no longer the tensor."""
        self.array = None

    def read(self) -> np.ndarray:
        """The buffer itself.

        Raises:
            InvalidArgument: there is none.
        """
        if self.array is None:
            raise InvalidArgument(
                f"{self.name} has no values yet", hint="call allocate_tensors() first"
            )
        return self.array

    def write(self, value: Any) -> None:
        """Copy values into the buffer; nothing is converted or broadcast.

        Raises:
            InvalidArgument: another element type or shape, or no buffer.
        """
        array = np.asarray(value)
        if array.dtype != self.spec.dtype.numpy:
            raise InvalidArgument(
                f"cannot set {self.name}: got values of type {array.dtype} and it takes "
                f"{self.spec.dtype.numpy}",
                hint=f"convert them yourself: value.astype(np.{self.spec.dtype.numpy.name})",
            )
        if array.shape != self.shape:
            raise InvalidArgument(
                f"cannot set {self.name}: got shape {list(array.shape)} and it has "
                f"{list(self.shape)}",
                hint="reshape the values, or call resize_tensor_input() and allocate_tensors()",
            )
        np.copyto(self.read(), array)


def _within(dim: Dim, size: int) -> bool:
    return dim.minimum <= size and (dim.maximum is None or size <= dim.maximum)
