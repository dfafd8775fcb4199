"""A function with an open length as programs of fixed lengths, to which inputs are filled up.

Kernels of edgec's own are for fixed sizes, and code for any size is several times slower: on one
core a BERT of six layers and a width of 384 takes twice the time of ONNX Runtime with an open
length, and less than it with a fixed one. So an open dimension that is no batch, as the length of a
text, becomes a few sizes (buckets). A call is filled up with zeros to the next of them, and the
program for that size is made so that the filling changes nothing (`edgec.toolchain.buckets`): it
gives what the framework gives without it, to rounding. The framework's program is asked for twice,
for the largest size and another one; each bucket is proved by a golden call of its own.
"""

import logging

from edgec.exporters.batches.bucketed import Bucketed
from edgec.exporters.batches.chunks import leads
from edgec.exporters.batches.fixed import open_dims
from edgec.exporters.bundle import Bundle
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim
from edgec.toolchain.batches.marks import NotByExample

__all__ = ["in_buckets", "usual_buckets"]

_LOG = logging.getLogger("edgec.exporters")
_MOST = 8
_SMALLEST = 8
"""Of lengths; examples are counted from one."""
_LARGEST = 2048
"""The framework computes its answers for this size, too."""


def usual_buckets(dim: Dim, smallest: int = _SMALLEST) -> list[int]:
    """Eight sizes at most: the maximum and powers of two, and between the largest half steps.

    Args:
        dim: a dimension with a maximum.
        smallest: the least of them.
    """
    most, least = dim.maximum or dim.minimum, max(dim.minimum, smallest)
    powers = [1 << k for k in range(31) if least <= 1 << k < most]
    sizes = [*powers[-_MOST + 1 :], most]
    halves = [3 * size // 2 for size in powers if 3 * size // 2 < most]
    return sorted([*sizes, *halves[len(halves) - (_MOST - len(sizes)) :]] if halves else sizes)


def in_buckets(
    traced: TracedFunction,
    bundle: Bundle,
    framework: Framework,
    buckets: tuple[int, ...] | None,
    *,
    alone: bool = False,
) -> TracedFunction | None:
    """The function as programs of fixed sizes, which is said; None for what multiplies nothing.

    Args:
        traced: a function with one dynamic dimension, or a batch and another one; each example
            of a batch is computed by itself then.
        bundle: what was traced.
        framework: whose it is.
        buckets: the sizes; None for the usual ones.
        alone: there is no other form of it, so it becomes one whatever it multiplies.

    Raises:
        NotInFixedSizes: it cannot be one.
        UsageError: the sizes do not fit the dimension.
    """
    dim, batch = _length_and_batch(traced)
    if dim.maximum is None:
        raise NotByExample(f"{dim.name} has no largest size; {dim.name}=1..512 gives one")
    if dim.maximum < 2:
        raise NotByExample(f"{dim.name} is never larger than 1")
    if buckets is None and dim.maximum > _LARGEST:
        raise NotByExample(
            f"{dim.name} is up to {dim.maximum}, for which nobody may want to wait: "
            f"--buckets=256,1024 takes these and {dim.maximum}"
        )
    if buckets is not None and (max(buckets) > dim.maximum or min(buckets) < 1):
        raise UsageError(
            f"--buckets={','.join(map(str, buckets))} goes beyond {dim}",
            hint=f"the largest may be {dim.maximum}",
        )
    smallest = 1 if batch is None and leads(traced) else _SMALLEST
    sizes = usual_buckets(dim, smallest) if buckets is None else sorted({*buckets, dim.maximum})
    made = Bucketed(traced, bundle, framework, dim, batch, alone=alone).made(sizes)
    if made is None:
        return None
    _LOG.warning(
        "%s is compiled for %s of %s, and fills inputs up to the next of them%s: "
        "--buckets=N,N takes others%s",
        traced.signature.name,
        ", ".join(map(str, sizes)),
        dim.name,
        f", one of {batch.name} at a time" if batch is not None else "",
        "" if alone else ", --buckets=0 keeps it open",
    )
    return made


def _length_and_batch(traced: TracedFunction) -> tuple[Dim, Dim | None]:
    """The dimension that goes in buckets, and the one that counts examples if there is one.

    Raises:
        NotByExample: there are others.
    """
    dims = open_dims(traced)
    if len(dims) == 1:
        return next(iter(dims.values())), None
    places: dict[str, set[int]] = {name: set() for name in dims}
    for spec in traced.signature.inputs:
        for axis, size in enumerate(spec.shape):
            if isinstance(size, Dim):
                places[size.name].add(axis)
    leading = [name for name, axes in places.items() if axes == {0}]
    if len(dims) != 2 or len(leading) != 1:
        raise NotByExample(f"{' and '.join(dims)} are open at once")
    (other,) = dims.keys() - set(leading)
    return dims[other], dims[leading[0]]
