"""A module on a GPU with its weights and inputs there, too, ready to be called and timed.

Runs on the machine with the GPU, where edgec is not: needs `iree-base-runtime` and NumPy.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from staging import bytes_of

__all__ = ["Loaded", "numbered"]


class Loaded:
    """A module that was called once.

    Attributes:
        first: seconds from the file to the first answer.
    """

    def __init__(
        self,
        path: Path,
        driver: str,
        weights: Mapping[str, np.ndarray],
        inputs: Sequence[np.ndarray],
    ) -> None:
        import iree.runtime as rt

        config = rt.Config(driver)
        index = rt.ParameterIndex()
        for name, data in weights.items():
            flat = np.atleast_1d(np.ascontiguousarray(data)).reshape(-1)
            index.add_buffer(name, flat.view(np.uint8))
        provider = index.create_provider("model")
        parameters = rt.create_io_parameters_module(config.vm_instance, provider)
        start = time.perf_counter()
        self._rt = rt
        self._module = rt.VmModule.mmap(config.vm_instance, str(path))
        self._context = rt.SystemContext(vm_modules=[parameters, self._module], config=config)
        self._function = self._module.lookup_function("main")
        self._device = config.device
        self._inputs = [rt.asdevicearray(config.device, value) for value in inputs]
        self._list = rt.VmVariantList(len(inputs))
        for value in self._inputs:
            self._list.push_ref(value._buffer_view)
        bytes_of(self._device, self())
        self.first = time.perf_counter() - start

    def __call__(self) -> Any:
        """One call, waited for; its result stays on the GPU."""
        results = self._rt.VmVariantList(1)
        self._context.vm_context.invoke(self._function, self._list, results)
        return results

    def answer(self, dtype: Any) -> np.ndarray:
        """The result, of that type, as f32."""
        return bytes_of(self._device, self()).view(dtype).astype(np.float32)


def numbered(weights: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Weights by the names that `modules.py` gives them."""
    return {f"w{number}": weight for number, weight in enumerate(weights)}
