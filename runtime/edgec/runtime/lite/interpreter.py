"""`tf.lite.Interpreter` over a compiled module: the same methods, a `.vmfb` and a device."""

import enum
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from edgec.runtime.device import Device
from edgec.runtime.errors import EdgecError
from edgec.runtime.fitness import default_device
from edgec.runtime.lite.errors import InvalidArgument, NotLoaded
from edgec.runtime.lite.signature_runner import SignatureRunner
from edgec.runtime.lite.subgraph import Subgraph
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.module import Module

__all__ = ["Interpreter", "OpResolverType", "load_delegate"]

_TFLITE_MAGIC = b"TFL3"  # at the fifth byte of a .tflite file


class OpResolverType(enum.Enum):
    """Which kernels TensorFlow Lite would take; a compiled module brings its own code."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


def load_delegate(library: str, options: Any = None) -> NoReturn:
    """Refuse: modules are compiled for their device.

    Raises:
        ValueError: always, as TensorFlow Lite documents for delegates that do not load.
    """
    raise InvalidArgument(
        f"there are no delegates to load, such as {library}",
        hint="compile for the device and name it: Interpreter(path, device='vulkan')",
    )


class Interpreter:
    """A compiled model behind TensorFlow Lite's methods.

    What differs from `tf.lite.Interpreter`: tensors are the inputs, from index 0, and the outputs,
    which follow; there are none in between. `get_input_details` and the like speak of the module's
    first function, the others have runners. Only dimensions that were exported as dynamic can be
    resized. New buffers hold zeros. Views that `tensor()` gave stay valid through `invoke`, but
    outputs are new arrays after it.

    Args:
        model_path: a `.vmfb` file.
        model_content: the bytes of one, instead.
        experimental_delegates: None or empty; anything else is refused.
        num_threads: threads that compute on the CPU; None: as many as there are processors.
        experimental_op_resolver_type: looked at only to refuse what is none.
        experimental_preserve_all_tensors: refused, since there are no tensors in between.
        experimental_disable_delegate_clustering: of no effect, as the others that follow.
        experimental_default_delegate_latest_features: of no effect.
        experimental_compress_quantization_zero_points: of no effect.
        experimental_disable_delegate_node_fusion: of no effect.
        experimental_force_delegate_node_profiling: of no effect.
        device: edgec's URI of a device (`cpu`, `vulkan://0`), or a device; None: what the
            module was compiled for.
        weights: the weights file, for modules that keep theirs outside.

    Raises:
        ValueError: no model, two models, one that cannot be loaded, or an option that is refused.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        device: str | Device | None = None,
        weights: Path | str | None = None,
    ) -> None:
        if experimental_delegates:
            load_delegate(str(experimental_delegates[0]))
        if getattr(experimental_op_resolver_type, "name", None) not in OpResolverType.__members__:
            raise InvalidArgument(
                f"{experimental_op_resolver_type!r} is no op resolver type",
                hint="leave it out: a module brings its own code",
            )
        if experimental_preserve_all_tensors:
            raise InvalidArgument(
                "a compiled module keeps no tensors between its inputs and outputs",
                hint="make what you want to see an output of the model",
            )
        if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
            raise InvalidArgument(f"num_threads should be an int of 1 or more, not {num_threads!r}")
        if bool(model_path) == bool(model_content):
            raise InvalidArgument(
                "give model_path or model_content, and not both",
                hint="Interpreter(model_path='model.vmfb')",
            )
        self.experimental_compress_quantization_zero_points = (
            experimental_compress_quantization_zero_points
        )
        try:
            self._module = _load(model_path, model_content, device, num_threads, weights)
        except EdgecError as error:
            raise NotLoaded.of(error) from error
        self._subgraphs = {name: Subgraph(self._module[name]) for name in self._module.signatures}
        if not self._subgraphs:
            raise NotLoaded(f"{self._module.module.path} has no function that can be called")
        self._primary = next(iter(self._subgraphs.values()))

    def allocate_tensors(self) -> None:
        """Have buffers for all tensors; before the first `invoke`, and after resizing.

        Raises:
            RuntimeError: the inputs' shapes do not fit together.
        """
        self._primary.allocate()

    def get_input_details(self) -> list[dict[str, Any]]:
        """Name, index, shape, type and quantisation of each input, in the model's order."""
        return [tensor.details() for tensor in self._primary.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """The same of each output."""
        return [tensor.details() for tensor in self._primary.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """The same of every input and output of a function, the first for 0.

        Raises:
            ValueError: there are fewer functions.
        """
        subgraph = self._subgraph(subgraph_index)
        return [tensor.details() for tensor in subgraph.inputs + subgraph.outputs]

    def num_subgraphs(self) -> int:
        """How many functions the module has."""
        return len(self._subgraphs)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy values into an input; type and shape must be the tensor's.

        Raises:
            ValueError: they are not, there is no such tensor, or it is not allocated.
        """
        self._primary.tensor(tensor_index).write(value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray:
        """A copy of a tensor's values.

        Raises:
            ValueError: there is no such tensor, or it is not allocated.
        """
        return self._subgraph(subgraph_index).tensor(tensor_index).read().copy()

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that gives the tensor's own array, to be filled or read without a copy.

        What it gives is the tensor until the next `invoke` (outputs) or resizing.
        """
        return lambda: self._primary.tensor(tensor_index).read()

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Give an input another shape; `allocate_tensors` must follow.

        Raises:
            ValueError: a dimension that was not exported as dynamic, or an unknown tensor.
        """
        self._primary.resize(input_index, tensor_size, strict=strict)

    def invoke(self) -> None:
        """Compute the outputs.

        Raises:
            RuntimeError: tensors are not allocated, or the device failed.
        """
        self._primary.invoke()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of inputs and outputs of each function, by its name."""
        return {
            name: {
                "inputs": [tensor.spec.name for tensor in subgraph.inputs],
                "outputs": [tensor.spec.name for tensor in subgraph.outputs],
            }
            for name, subgraph in self._subgraphs.items()
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A function of the module, to be called by keywords; no key is needed for an only one.

        `serving_default` also stands for `main`, as which edgec exports that of a SavedModel.

        Raises:
            ValueError: there is none of this name, or a key is needed.
        """
        if signature_key is None and len(self._subgraphs) == 1:
            return SignatureRunner(self._primary)
        if signature_key == "serving_default" and signature_key not in self._subgraphs:
            signature_key = "main"
        if signature_key is None or signature_key not in self._subgraphs:
            raise InvalidArgument(
                f"{signature_key} is no signature", hint=f"choose of {', '.join(self._subgraphs)}"
            )
        return SignatureRunner(self._subgraphs[signature_key])

    def reset_all_variables(self) -> None:
        """Set what the model keeps between calls to its initial values."""
        self._module.reset()

    def _subgraph(self, index: int) -> Subgraph:
        if not 0 <= index < len(self._subgraphs):
            raise InvalidArgument(
                f"subgraph_index {index} is out of range: there are {len(self._subgraphs)}"
            )
        return list(self._subgraphs.values())[index]


def _load(
    path: str | os.PathLike[str] | None,
    content: bytes | None,
    device: str | Device | None,
    threads: int | None,
    weights: Path | str | None,
) -> LoadedModule:
    if path:
        return _load_file(Path(path), device, threads, weights)
    # The runtime maps modules from files; where the mapping outlives the name, the name goes.
    with tempfile.TemporaryDirectory(prefix="edgec-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "model.vmfb")
        file.write_bytes(content or b"")
        return _load_file(file, device, threads, weights)


def _load_file(
    path: Path, device: str | Device | None, threads: int | None, weights: Path | str | None
) -> LoadedModule:
    _refuse_tflite(path)
    module = Module.read(path)
    chosen = default_device(module) if device is None else device
    if threads is not None and chosen in ("cpu", "edgert://cpu", "local-task"):
        chosen = f"{chosen}?threads={threads}"
    return load(module, device=chosen, weights=weights)


def _refuse_tflite(path: Path) -> None:
    try:
        with path.open("rb") as stream:
            start = stream.read(8)
    except OSError:
        return  # said better by whoever reads the file next
    if start[4:] == _TFLITE_MAGIC:
        raise NotLoaded(
            f"{path} is a .tflite file, not a compiled module",
            hint=f"edgec export {path} -o model.mlirbc && edgec compile model.mlirbc",
        )
