"""A model that was traced for a mesh and not cut yet: what can be cut, and its parts, cut so.

`edgec plan` asks for many ways to cut one model; it is traced and run in its framework once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edgec.exporters.mesh.asking import Shardy
from edgec.exporters.mesh.front import Meshed, assemble_for_mesh
from edgec.exporters.mesh.partition import Sharded, partition
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import EdgecError
from edgec.runtime.mesh.plan import Mesh, Sharding
from edgec.runtime.signature import TensorSpec
from edgec.toolchain.program import Program, Provenance

__all__ = ["Leaf", "Shardings", "Uncut"]

Shardings = Mapping[str, Sharding]
"""How inputs and weights are cut, by name; of those that are not named the partitioner decides."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """An input or a weight: its name, its shape, and its bytes."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    weight: bool


@dataclass(frozen=True, kw_only=True)
class Uncut:
    """One function of a model, and the devices that it is to be cut for."""

    function: TracedFunction
    mesh: Mesh
    provenance: Provenance

    @cached_property
    def _whole(self) -> Sharded:
        return partition(self.function, self.mesh, {})

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """What can be cut.

        Raises:
            ExportError: Shardy does not take the function even as the model itself cuts it.
        """
        inputs = [
            Leaf(name=spec.name, shape=_shape(spec), bytes=_bytes(spec), weight=False)
            for spec in self.function.signature.inputs
        ]
        taken = {leaf.name for leaf in inputs}
        weights = {n: v for part in self._whole.parts for n, v in part.parameters.items()}
        return (
            *inputs,
            *(
                Leaf(name=name, shape=value.shape, bytes=value.nbytes, weight=True)
                for name, value in weights.items()
                if name not in taken
            ),
        )

    def all_cut(self, ways: Sequence[Shardings]) -> list[Sharded | EdgecError]:
        """For each way to cut the parts of it, or why Shardy does not take it."""
        found: list[Sharded | EdgecError] = []
        with Shardy() as shardy:
            for way in ways:
                try:
                    found.append(self._cut(way, shardy))
                except EdgecError as error:
                    found.append(error)
        return found

    def program(self, shardings: Shardings, weights: Path) -> Program:
        """The program of its parts, cut so; its weights go into a file.

        Raises:
            As `edgec.exporters.export`.
        """
        return assemble_for_mesh(
            (self.function,),
            Meshed(mesh=self.mesh, shardings=shardings),
            provenance=self.provenance,
            external_weights=weights,
            folder=Path(),
            constants_as=self._whole.lifted,
        )

    def _cut(self, shardings: Shardings, shardy: Shardy) -> Sharded:
        if not shardings:
            return self._whole
        names = self._whole.lifted
        return partition(self.function, self.mesh, shardings, constants_as=names, shardy=shardy)


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(size for size in spec.shape if isinstance(size, int))


def _bytes(spec: TensorSpec) -> int:
    return math.prod(_shape(spec)) * spec.dtype.bits // 8
