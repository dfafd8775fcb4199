"""Which way a function with an open dimension goes: in chunks, in buckets, or as it is."""

import logging

from edgec.exporters.batches.buckets import in_buckets
from edgec.exporters.batches.chunks import chunked, leads
from edgec.exporters.batches.fixed import open_dims
from edgec.exporters.bundle import Bundle
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedFunction
from edgec.toolchain.batches.marks import NotByExample, NotInFixedSizes
from edgec.toolchain.program import Dialect

__all__ = ["in_fixed_sizes", "ways"]

_LOG = logging.getLogger("edgec.exporters")


def in_fixed_sizes(
    traced: TracedFunction,
    bundle: Bundle,
    framework: Framework,
    chunk: int | None,
    buckets: tuple[int, ...] | None,
) -> TracedFunction:
    """The function made of programs for fixed sizes, if it can be; else as it is.

    A batch goes in chunks. Another dimension, as the length of a text, goes in buckets. What
    becomes of it is said, but for functions without a dynamic dimension and without products.

    Args:
        traced: one function of the bundle, with dynamic dimensions or without.
        bundle: what was traced.
        framework: whose it is.
        chunk: how many examples at once, at most the dimension's maximum; 0 for no loop, None for
            `CHUNK` where the dimension is the first of its inputs.
        buckets: the sizes that inputs are filled up to; none of them for no such programs, None
            for the usual ones where the dimension is not the first of its inputs.
    """
    dims = open_dims(traced)
    if not dims or (chunk == 0 and not buckets):
        return traced
    refused: NotInFixedSizes | None = None
    for way in ways(traced, chunk, buckets):
        # A length that buckets would take, were it not too large, is not worth 8 at a time.
        open_form = traced.dialect is Dialect.STABLEHLO
        if way == "chunks" and open_form and isinstance(refused, NotByExample):
            break
        try:
            if way == "chunks":
                made = chunked(traced, bundle, framework, chunk)
            else:
                made = in_buckets(traced, bundle, framework, buckets)
            return made or traced
        except NotInFixedSizes as found:
            refused = refused or found
    if refused is not None:
        _LOG.warning(
            "%s keeps %s open in all it computes, which kernels of edgec's own do not take: %s%s",
            traced.signature.name,
            ", ".join(dims),
            refused.why,
            f", at {refused.where}" if refused.where else "",
        )
    return traced


def ways(
    traced: TracedFunction, chunk: int | None, buckets: tuple[int, ...] | None
) -> tuple[str, ...]:
    """What is tried, in order: `chunks`, `buckets`; arguments as for `in_fixed_sizes`."""
    if buckets:
        return ("buckets",)
    if len(open_dims(traced)) > 1:
        return ("buckets",) if buckets is None and chunk is None else ("chunks",)
    if chunk is not None or buckets is not None:
        return ("chunks",) if chunk != 0 and (chunk or leads(traced)) else ()
    if leads(traced):
        return ("chunks", "buckets")
    return ("buckets", "chunks")
