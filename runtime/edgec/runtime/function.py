"""One function of a loaded module: a call's arguments to the device, its results to the host."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.runtime.arguments import check_input
from edgec.runtime.array import DeviceArray, copy_in, dtype_of_hal, share_in
from edgec.runtime.device import Device
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import MissingExtra, ModuleError
from edgec.runtime.signature import Signature, TensorSpec

if TYPE_CHECKING:
    from edgec.runtime.loaded import LoadedModule

__all__ = ["Function"]


class Function:
    """One function of a loaded module."""

    def __init__(self, *, owner: "LoadedModule", signature: Signature) -> None:
        self._owner = owner
        self.signature = signature
        self._takes = [(spec, *_exact(spec)) for spec in signature.inputs]
        self._dtypes = [spec.dtype for spec in signature.outputs]

    @property
    def name(self) -> str:
        """Its name in the module."""
        return self.signature.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; arguments by position or name, results nested as the model returned them.

        Results are NumPy arrays that belong to the caller.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: the device failed, or the module is closed.
        """
        arrays = self._check(self.signature.bind(args, kwargs))
        return self.signature.unflatten(self.on_host(arrays))

    def on_device(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, and leave the results on the device as `DeviceArray`s.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: the device failed, or the module is closed.
        """
        return self.signature.call(self.call_flat, args, kwargs)

    def call_flat(self, leaves: Sequence[Any]) -> tuple[DeviceArray, ...]:
        """Call it with flat inputs in the signature's order; flat outputs, on the device.

        Raises:
            InputError: wrong count, or an argument has the wrong shape or type.
            DeviceError: the device failed, or the module is closed.
        """
        device, specs = self._owner.device, self.signature.outputs
        dtypes = self._dtypes if device.maps_memory else None
        results = self._run(self._check(leaves), share=False, dtypes=dtypes)
        return tuple([_result(device, *each) for each in zip(specs, results, strict=True)])

    def on_host(self, arrays: Sequence[np.ndarray | DeviceArray]) -> list[np.ndarray]:
        """Call it with flat inputs that are known to be right; flat outputs, the caller's own.

        Raises:
            DeviceError: the device failed, or the module is closed.
        """
        # A call without results does not wait for the device, which may still be reading.
        results = self._run(arrays, share=bool(self._dtypes), dtypes=self._dtypes)
        for result in results:
            if type(result) is not np.ndarray:
                return self._read(results, arrays)
        return results

    def _check(self, leaves: Sequence[Any]) -> list[np.ndarray | DeviceArray]:
        if len(leaves) != len(self._takes):
            self.signature.refuse_other_count(len(leaves))
        sizes: dict[str, int] = {}
        device = self._owner.device
        return [
            leaf
            if type(leaf) is np.ndarray and leaf.shape == shape and leaf.dtype == dtype
            else check_input(spec, leaf, device, sizes)
            for (spec, shape, dtype), leaf in zip(self._takes, leaves, strict=True)
        ]

    def _run(
        self,
        arrays: Sequence[np.ndarray | DeviceArray],
        *,
        share: bool,
        dtypes: Sequence[DType] | None = None,
    ) -> list[Any]:
        """The runtime's own results; of these types where they come as arrays."""
        owner = self._owner
        most, left = owner.copied_bytes
        values: list[Any] = []
        for array in arrays:
            if type(array) is DeviceArray and array.host is not None:
                array = array.host
            size = array.nbytes if type(array) is np.ndarray else 0
            if 0 < size <= most and size <= left:
                left -= size
                values.append(array)
            else:
                values.append(_placed(owner.device, array, share=share).view)
        results = owner.call(self.name, values, dtypes)
        if len(results) != len(self._dtypes):
            raise ModuleError(
                f"{self.name}() gave {len(results)} results for {self.signature}",
                hint="compile the program again",
            )
        return results

    def _read(
        self, results: Sequence[Any], arrays: Sequence[np.ndarray | DeviceArray]
    ) -> list[np.ndarray]:
        """Results that are not all on the host yet."""
        device, specs = self._owner.device, self.signature.outputs
        return _owned(
            [
                result if type(result) is np.ndarray else _result(device, spec, result).numpy()
                for spec, result in zip(specs, results, strict=True)
            ],
            arrays,
        )

    def __repr__(self) -> str:
        return f"<Function {self.signature}>"


def _exact(spec: TensorSpec) -> tuple[Any, Any]:
    """The shape and type of arrays that need no further look; nothing's where there are none."""
    try:
        return spec.shape, spec.dtype.numpy
    except MissingExtra:
        return None, None


def _placed(device: Device, array: np.ndarray | DeviceArray, *, share: bool) -> DeviceArray:
    if isinstance(array, DeviceArray):
        return array
    dtype = DType.of(array.dtype)
    shared = share_in(device, array, dtype) if share else None
    return copy_in(device, array, dtype) if shared is None else shared


def _result(device: Device, spec: TensorSpec, view: Any) -> DeviceArray:
    """An output in the signature's type, which the module's own must fit bit for bit."""
    if type(view) is np.ndarray:
        return DeviceArray.of_copy(device, view, spec.dtype)
    given = dtype_of_hal(int(view.element_type))
    dtype = spec.dtype
    if given is not dtype:
        same_kind = given.is_float == dtype.is_float and given not in (DType.C64, DType.C128)
        if given.bits != dtype.bits or not same_kind:
            raise ModuleError(
                f"{spec.name} is {dtype.value} by the signature and came as {given.value}",
                hint="compile the program again",
            )
    return DeviceArray(device=device, view=view, dtype=dtype)


def _owned(
    results: Sequence[np.ndarray], inputs: Sequence[np.ndarray | DeviceArray]
) -> list[np.ndarray]:
    """Results that share no memory with an input or with each other, and can be written to.

    A function that returns an argument, or one value twice, returns the same buffer.
    """
    taken = [_first_byte(i.numpy() if isinstance(i, DeviceArray) else i) for i in inputs]
    owned = []
    for result in results:
        first = _first_byte(result)
        if result.size and first in taken:
            result = result.copy()
        elif not result.flags.writeable:
            result.setflags(write=True)
        taken.append(first)
        owned.append(result)
    return owned


def _first_byte(array: np.ndarray) -> int:
    return int(array.ctypes.data)
