"""Programs that edgec refuses, run by XLA's CPU in the process that compiles, where that is asked.

Arrays go there and back through pipes: it is a way to get on, not a device.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.plugins.pjrt import FUNCTION
from edgec.plugins.pjrt.arrays import arrays_as_numbers
from edgec.plugins.pjrt.program import DONATED
from edgec.runtime.dtypes import DType

__all__ = ["Elsewhere", "Taken"]

_Shape = tuple[DType, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A program that XLA has compiled.

    Attributes:
        handle: its number.
        name: what JAX calls it.
        donated: for each argument whether its memory is given away (1) or not (0).
        outputs: each result's type as PJRT numbers it, rank and sizes, one after the other.
    """

    handle: int
    name: str
    donated: tuple[int, ...]
    outputs: tuple[int, ...]


class Elsewhere:
    """XLA's CPU, and what it has compiled."""

    def __init__(self) -> None:
        self._programs: list[tuple[Any, list[_Shape]]] = []

    def take(self, program: bytes) -> Taken:
        """Compile a portable artifact.

        Raises:
            RuntimeError: XLA refuses it, too.
            EdgecError: it has arrays of a type that edgec has not.
        """
        os.environ["JAX_PLATFORMS"] = "cpu"  # this process serves edgec's platform
        import jax
        from jax._src import compiler
        from jax._src.interpreters import mlir
        from jaxlib import xla_client
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        with mlir.make_ir_context() as context:
            module = stablehlo.deserialize_portable_artifact(context, program)
            operations = [each.operation for each in module.body.operations]
            main = next(
                each
                for each in operations
                if ir.StringAttr(each.attributes["sym_name"]).value == FUNCTION
            )
            kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
            inputs, outputs = list(map(_shape, kind.inputs)), list(map(_shape, kind.results))
            donated = [0] * len(inputs)
            if "arg_attrs" in main.attributes:
                for index, found in enumerate(ir.ArrayAttr(main.attributes["arg_attrs"])):
                    donated[index] = int(any(name in found for name in DONATED))
            name = ir.StringAttr(module.operation.attributes["sym_name"]).value
            device = jax.devices()[0]
            loaded = compiler.backend_compile_and_load(
                device.client,
                module,
                xla_client.DeviceList((device,)),
                compiler.get_compile_options(num_replicas=1, num_partitions=1),
                [],
            )
        self._programs.append((loaded, inputs))
        return Taken(
            handle=len(self._programs) - 1,
            name=name,
            donated=tuple(donated),
            outputs=arrays_as_numbers(outputs),
        )

    def call(self, handle: int, inputs: Sequence[bytes]) -> list[bytes]:
        """Call a program with the bytes of its arguments; those of its results.

        Raises:
            IndexError: there is no such program: the process is not the one that compiled it.
            RuntimeError: XLA fails.
        """
        import jax

        loaded, shapes = self._programs[handle]
        arrays = [
            jax.device_put(np.frombuffer(data, dtype.numpy).reshape(sizes))
            for data, (dtype, sizes) in zip(inputs, shapes, strict=True)
        ]
        results = loaded.execute_sharded(arrays).disassemble_into_single_device_arrays()
        return [np.ascontiguousarray(np.asarray(each[0])).tobytes() for each in results]


def _shape(kind: Any) -> _Shape:
    from jaxlib.mlir import ir

    array = ir.RankedTensorType(kind)
    return DType.from_mlir(str(array.element_type)), tuple(array.shape)
