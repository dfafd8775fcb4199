"""What it takes devices to speak to each other: measured with sums of few bytes and of many."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.exporters.mesh.uncut import Uncut
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.planning.costs import Said
from edgec.planning.timing import seconds_of
from edgec.runtime.dtypes import DType
from edgec.runtime.mesh.plan import Mesh
from edgec.runtime.signature import Signature, TensorSpec
from edgec.targets import Target
from edgec.toolchain import CompileOptions
from edgec.toolchain.program import Dialect, Input, Output, Provenance

__all__ = ["Link", "Links", "measure_links"]

_FEW, _MANY = 256, 1 << 20
"""Elements of f32 that are summed."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """An all_reduce along one axis of a mesh: seconds of one of no size, and of each byte."""

    start: float
    each_byte: float

    @property
    def text(self) -> str:
        """`16.2 µs + 3.1 GB/s`."""
        rate = 1 / self.each_byte / 1e9 if self.each_byte else math.inf
        return f"{self.start * 1e6:.1f} µs + {rate:.1f} GB/s"


@dataclass(frozen=True, kw_only=True)
class Links:
    """The links of a mesh by its axes."""

    mesh: Mesh
    along: Mapping[str, Link]

    def seconds(self, said: Said) -> float:
        """What a collective takes, whatever its kind; along several axes, as the slowest of them.

        A sum moves every byte twice (scattered, then gathered), the other kinds once or less.
        """
        links = [self.along[axis] for axis in self._axes(said)] or list(self.along.values())
        moved = said.bytes if said.kind == "all_reduce" else said.bytes / 2
        return max((link.start + moved * link.each_byte for link in links), default=0.0)

    def _axes(self, said: Said) -> list[str]:
        places = [[self.mesh.place(device) for device in group] for group in said.groups]
        return [
            axis
            for axis in self.along
            if any(len({place[axis] for place in group}) > 1 for group in places)
        ]


def measure_links(
    mesh: Mesh, target: Target, devices: Sequence[str], folder: Path, options: CompileOptions
) -> Links:
    """Time sums along each axis of a mesh that has several devices.

    Args:
        mesh: the devices' grid.
        target: what is compiled for them.
        devices: their URIs; none for what the target names.
        folder: for what is compiled.
        options: how to compile.

    Raises:
        As `edgec.meshing.compile_mesh` and a call.
    """
    found = {}
    for axis, size in mesh.axes.items():
        if size < 2:
            continue
        few, many = (
            seconds_of(
                _sum(mesh, axis, count).program({"x": ((axis,), ())}, folder / "none.safetensors"),
                target,
                devices,
                folder / f"link.{axis}.{count}",
                options,
            )
            for count in (_FEW, _MANY)
        )
        each = max(0.0, many - few) / ((_MANY - _FEW) * 4)
        found[axis] = Link(start=max(0.0, few - _FEW * 4 * each), each_byte=each)
    return Links(mesh=mesh, along=found)


def _sum(mesh: Mesh, axis: str, count: int) -> Uncut:
    """Rows, one on each device along the axis, to their sum on all."""
    rows = mesh.axes[axis]
    text = f"""func.func public @main(%x: tensor<{rows}x{count}xf32>) -> tensor<{count}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<{rows}x{count}xf32>, tensor<f32>) -> tensor<{count}xf32>
  return %sum : tensor<{count}xf32>
}}"""
    x = np.arange(rows * count, dtype=np.float32).reshape(rows, count) % 7
    function = TracedFunction(
        module=text,
        dialect=Dialect.STABLEHLO,
        signature=Signature.flat(
            "main",
            [TensorSpec(name="x", shape=x.shape, dtype=DType.F32)],
            [TensorSpec(name="sum", shape=(count,), dtype=DType.F32)],
        ),
        arguments=(Input(index=0),),
        results=(Output(index=0),),
        calls=(TracedCall(inputs=(x,), outputs=(x.sum(0),)),),
    )
    return Uncut(
        function=function,
        mesh=mesh,
        provenance=Provenance(framework="", versions={}, source="link"),
    )
