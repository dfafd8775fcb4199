"""What a framework cannot write down with an open dimension, made of what it can.

A view by strides, a reshape to a size that was a number when the model ran, a loop or a branch in
Python that asks for a size, an operation without a form for open sizes: many of these are refused
only because a size is open, and for each fixed one there is a program.
"""

import logging
from dataclasses import replace

from edgec.exporters.batches.buckets import in_buckets
from edgec.exporters.batches.chunks import chunked
from edgec.exporters.batches.fixed import following, open_dims
from edgec.exporters.batches.fixed_sizes import ways
from edgec.exporters.bundle import Bundle
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.errors import EdgecError, ExportError, UsageError
from edgec.runtime.signature import Dim, TensorSpec
from edgec.toolchain.batches.marks import NotByExample, NotInFixedSizes
from edgec.toolchain.buckets.sizes import Two

__all__ = ["fixed_sizes_alone"]

_LOG = logging.getLogger("edgec.exporters")


def fixed_sizes_alone(
    bundle: Bundle,
    framework: Framework,
    dynamic: Dynamic,
    chunk: int | None,
    buckets: tuple[int, ...] | None,
    refused: ExportError,
) -> TracedFunction:
    """The function in chunks or buckets, of which there is no form with open sizes.

    Args:
        bundle: what was asked for.
        framework: whose it is.
        dynamic: the dimensions that are to be open.
        chunk: as for `in_fixed_sizes`.
        buckets: as for `in_fixed_sizes`.
        refused: what the framework said to it with the dimensions open.

    Raises:
        ExportError: `refused`, with the reason why it goes in no fixed sizes either.
        UsageError: the buckets do not fit the dimension.
    """
    entry, *others = bundle.entries
    if not dynamic or others or entry.has_state or entry.dynamic is not None:
        raise refused
    try:
        (static,) = framework.tracer().trace(bundle, dynamic=Dynamic())
    except EdgecError:
        raise refused from None  # Without an open dimension it is no better.
    traced = _opened(static, dynamic)
    reason: NotInFixedSizes | None = None
    for way in ways(traced, chunk, buckets):
        try:
            if way == "chunks":
                made = chunked(traced, bundle, framework, chunk, alone=True)
                made = made and _with_open_outputs(made)
            else:
                made = in_buckets(traced, bundle, framework, buckets, alone=True)
            if made is None or len(made.calls) < 2:
                break
        except NotInFixedSizes as found:
            reason = reason or found
        except UsageError:
            raise
        except EdgecError:
            break
        else:
            _LOG.warning(
                "%s has no form with all of it open: %s%s",
                entry.name,
                refused.what,
                f", at {refused.where}" if refused.where else "",
            )
            return made
    if reason is not None:
        where = f", at {reason.where}" if reason.where else ""
        why = f"in parts of a fixed size it cannot go either: {reason.why}{where}"
        refused.hint = f"{refused.hint}; {why}" if refused.hint else why
    raise refused from None


def _opened(static: TracedFunction, dynamic: Dynamic) -> TracedFunction:
    """A function of fixed sizes whose inputs are said to be open."""
    shapes = dynamic.shapes({s.name: _sizes(s) for s in static.signature.inputs})
    inputs = tuple(replace(spec, shape=shapes[spec.name]) for spec in static.signature.inputs)
    return replace(static, signature=replace(static.signature, inputs=inputs))


def _sizes(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(size for size in spec.shape if isinstance(size, int))


def _with_open_outputs(made: TracedFunction) -> TracedFunction:
    """The outputs' open axes, by which the answers of golden calls differ.

    Raises:
        NotInFixedSizes: they grow otherwise than with one dimension.
    """
    shapes = [list(spec.shape) for spec in made.signature.outputs]
    for dim in open_dims(made).values():
        few, many = _least_and_most(made, dim)
        two = Two(one=_size_of(many, made, dim), other=_size_of(few, made, dim))
        for shape, here, there in zip(shapes, many.outputs, few.outputs, strict=True):
            for axis, size in enumerate(two.shape(here.shape, there.shape)):
                if size.is_open and isinstance(shape[axis], Dim):
                    raise NotByExample("an axis of an output grows with two dimensions")
                if size.is_open:
                    shape[axis] = following(dim, size)
    outputs = zip(made.signature.outputs, shapes, strict=True)
    specs = tuple(replace(spec, shape=tuple(shape)) for spec, shape in outputs)
    return replace(made, signature=replace(made.signature, outputs=specs))


def _size_of(call: TracedCall, made: TracedFunction, dim: Dim) -> int:
    """How large a dimension is in a call."""
    return next(
        int(array.shape[axis])
        for spec, array in zip(made.signature.inputs, call.inputs, strict=True)
        for axis, size in enumerate(spec.shape)
        if size == dim
    )


def _least_and_most(made: TracedFunction, dim: Dim) -> tuple[TracedCall, TracedCall]:
    """Two calls that differ by this dimension alone, as far apart as there are.

    Raises:
        NotInFixedSizes: there are none.
    """
    others = [each for each in open_dims(made).values() if each != dim]
    alike: dict[tuple[int, ...], list[TracedCall]] = {}
    for call in made.calls:
        key = tuple(_size_of(call, made, each) for each in others)
        alike.setdefault(key, []).append(call)
    ordered = (sorted(c, key=lambda call: _size_of(call, made, dim)) for c in alike.values())
    for calls in ordered:
        if _size_of(calls[0], made, dim) < _size_of(calls[-1], made, dim):
            return calls[0], calls[-1]
    raise NotByExample(f"nothing shows how outputs grow with {dim.name}")
