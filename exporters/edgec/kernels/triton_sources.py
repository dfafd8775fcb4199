"""A Triton kernel and the arrays it is called with to PTX, by Triton's compiler, without a GPU."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.exporters.extras import need
from edgec.kernels.sources import Arrays, Count, Source, three
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UnsupportedOp, UsageError
from edgec.toolchain.kernels.cuda.triton_compiler import compile_function
from edgec.toolchain.own_kernels import Code, Language

__all__ = ["PTX_VERSIONS", "Constants", "TritonSource"]

Constants = Mapping[str, Any] | Callable[..., Mapping[str, Any]]

PTX_VERSIONS = {80: 76, 90: 80}
"""The version of PTX for a compute capability: old, so that old drivers take it."""
_LATEST = 87
_ENTRY = "kernel"
_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


@dataclass(frozen=True, kw_only=True)
class TritonSource(Source):
    """A function of `@triton.jit`, and what a call of it takes beside arrays."""

    function: Any
    grid: Count
    constants: Constants
    numbers: Constants
    warps: int
    stages: int
    capabilities: tuple[int, ...]

    def codes(self, name: str, arrays: Arrays, results: Arrays) -> tuple[Code, ...]:
        """PTX for each of the capabilities."""
        need("triton", extra="cuda", why=f"compiling the Triton kernel {name}")
        constants = dict(self.constants(*arrays) if callable(self.constants) else self.constants)
        numbers = dict(self.numbers(*arrays) if callable(self.numbers) else self.numbers)
        names = [n for n in self.function.arg_names if n not in constants and n not in numbers]
        values = (*arrays, *results)
        if len(names) != len(values):
            raise UsageError(
                f"the Triton kernel {name} has {len(names)} parameters that are neither numbers "
                f"nor constants ({', '.join(names)}), and {len(arrays)} arrays are read and "
                f"{len(results)} written",
                hint="name the others in numbers={…} or constants={…}",
            )
        types = {n: f"*{_element(value)}" for n, value in zip(names, values, strict=True)}
        types |= dict.fromkeys(numbers, "i32")
        grid = three(self.grid, arrays, f"the grid of {name}")
        return tuple(
            _compiled(self, name, types, constants, numbers, grid, capability)
            for capability in self.capabilities
        )


def _compiled(
    source: TritonSource,
    name: str,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    numbers: Mapping[str, int],
    grid: tuple[int, int, int],
    capability: int,
) -> Code:
    from triton.errors import TritonError

    try:
        ptx, facts = compile_function(
            source.function,
            types=types,
            multiples={key: 16 for key, value in numbers.items() if value % 16 == 0},
            constants=constants,
            capability=capability,
            ptx_version=PTX_VERSIONS.get(capability, _LATEST),
            warps=source.warps,
            stages=source.stages,
            entry=_ENTRY,
        )
    except (TritonError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UnsupportedOp(
            f"Triton refuses the kernel {name} for compute capability {capability}: {lines[-1]}",
            hint="mend it, or name the capabilities that it is for with capabilities=(…,)",
        ) from error
    if facts["scratch"]:
        raise UnsupportedOp(
            f"the Triton kernel {name} needs memory of its own on the device",
            hint="write it without descriptors that it makes itself",
        )
    return Code(
        language=Language.PTX,
        text=ptx.decode(),
        entry=_ENTRY,
        grid=grid,
        group=(facts["threads"], 1, 1),
        shared=facts["shared"],
        numbers=tuple(numbers.values()),
        capability=capability,
    )


def _element(value: Any) -> str:
    """The type of an array's elements, as Triton's signatures have it here."""
    name = str(value.dtype).removeprefix("torch.")
    return _FLOATS.get(name) or DType.of(name).mlir
