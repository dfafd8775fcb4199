"""Signatures to what typed bindings in any language are written from: safe names, sizes, types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgec.packaging.names import identifier, unique
from edgec.runtime import Dim, DType, Signature, TensorSpec

__all__ = ["BoundFunction", "BoundTensor", "bind"]


@dataclass(frozen=True, kw_only=True)
class BoundTensor:
    """One input or output.

    Attributes:
        spec: its name, shape and type as the module has them.
        name: an identifier in snake case, its own among the function's.
        shape: a number, or the identifier of a size that is chosen at each call, each dimension.
        known: whether every size is a number or known from the inputs.
    """

    spec: TensorSpec
    name: str
    shape: tuple[int | str, ...]
    known: bool

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self.spec.dtype

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        return self.spec.is_static

    @property
    def elements(self) -> int:
        """How many elements it has; sizes that are chosen at each call count as their least."""
        count = 1
        for size in self.spec.shape:
            count *= max(1, size.minimum) if isinstance(size, Dim) else size
        return count

    def product(self, times: str = " * ", cast: str = "{}") -> str:
        """How many elements, as an expression: `1 * 28 * 28`, `batch * 28`; 1 for a number."""
        words = [cast.format(s) if isinstance(s, str) else str(s) for s in self.shape]
        return times.join(words) or "1"


@dataclass(frozen=True, kw_only=True)
class BoundFunction:
    """One function of a model.

    Attributes:
        signature: as the module has it.
        name: an identifier in snake case, its own among the model's.
        inputs: in the module's order.
        outputs: in the module's order.
        sizes: the named dimensions of the inputs, each once: identifier → the dimension.
    """

    signature: Signature
    name: str
    inputs: tuple[BoundTensor, ...]
    outputs: tuple[BoundTensor, ...]
    sizes: Mapping[str, Dim]


def bind(signatures: Iterable[Signature], taken: Iterable[str] = ()) -> tuple[BoundFunction, ...]:
    """Every function with safe names; `taken` are names that the bindings themselves use."""
    signatures = tuple(signatures)
    reserved = list(taken)
    names = unique([*reserved, *(identifier(s.name, "call") for s in signatures)])
    return tuple(
        _function(signature, name)
        for signature, name in zip(signatures, names[len(reserved) :], strict=True)
    )


def _function(signature: Signature, name: str) -> BoundFunction:
    inputs, outputs = signature.inputs, signature.outputs
    dims: dict[str, Dim] = {}
    for spec in inputs:
        for size in spec.shape:
            if isinstance(size, Dim):
                dims.setdefault(size.name, size)
    wanted = [
        *(identifier(dim, "size") for dim in dims),
        *(identifier(s.name, "input") for s in inputs),
        *(identifier(s.name, "output") for s in outputs),
    ]
    chosen = unique(wanted)
    sizes = dict(zip(dims, chosen, strict=False))
    names = chosen[len(dims) :]
    bound = [
        BoundTensor(
            spec=spec,
            name=given,
            shape=tuple(
                sizes.get(s.name, identifier(s.name, "size")) if isinstance(s, Dim) else s
                for s in spec.shape
            ),
            known=all(not isinstance(s, Dim) or s.name in sizes for s in spec.shape),
        )
        for spec, given in zip((*inputs, *outputs), names, strict=True)
    ]
    return BoundFunction(
        signature=signature,
        name=name,
        inputs=tuple(bound[: len(inputs)]),
        outputs=tuple(bound[len(inputs) :]),
        sizes={sizes[dim]: dims[dim] for dim in dims},
    )
