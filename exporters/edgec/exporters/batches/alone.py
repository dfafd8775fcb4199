"""What a framework cannot write down with an open batch, as a loop over what it can.

A view by strides, a reshape to a size that was a number when the model ran, an operation without a
form for open sizes: many of these are refused only because the number of examples is open, and for
each fixed number there is a program.
"""

import logging
from dataclasses import replace

from edgec.exporters.batches.chunks import chunked
from edgec.exporters.bundle import Bundle
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import EdgecError, ExportError
from edgec.runtime.signature import Dim, TensorSpec
from edgec.toolchain.batches.marks import Batch, NotByExample

__all__ = ["by_parts_alone"]

_LOG = logging.getLogger("edgec.exporters")


def by_parts_alone(
    bundle: Bundle,
    framework: Framework,
    dynamic: Dynamic,
    chunk: int | None,
    refused: ExportError,
) -> TracedFunction:
    """The function as a loop over fixed numbers of examples; no form of it has an open batch.

    Args:
        bundle: what was asked for.
        framework: whose it is.
        dynamic: the dimension that is to be open.
        chunk: as for `in_fixed_sizes`.
        refused: what the framework said to it with the dimension open.

    Raises:
        ExportError: `refused`, with the reason why it is no such loop either.
    """
    entry, *others = bundle.entries
    if not dynamic or chunk == 0 or others or entry.has_state or entry.dynamic is not None:
        raise refused
    try:
        (static,) = framework.tracer().trace(bundle, dynamic=Dynamic())
        made = chunked(_opened(static, dynamic), bundle, framework, chunk, alone=True)
        if made is None or len(made.calls) < 2:
            raise refused
        made = _with_open_outputs(made)
    except NotByExample as found:
        where = f", at {found.where}" if found.where else ""
        why = f"in parts of a fixed size it cannot go either: {found.why}{where}"
        refused.hint = f"{refused.hint}; {why}" if refused.hint else why
        raise refused from None
    except EdgecError:
        raise refused from None  # Without an open dimension it is no better.
    _LOG.warning(
        "%s has no form with all of it open: %s%s",
        entry.name,
        refused.what,
        f", at {refused.where}" if refused.where else "",
    )
    return made


def _opened(static: TracedFunction, dynamic: Dynamic) -> TracedFunction:
    """A function of fixed sizes whose inputs are said to be open."""
    shapes = dynamic.shapes({s.name: _sizes(s) for s in static.signature.inputs})
    inputs = tuple(replace(spec, shape=shapes[spec.name]) for spec in static.signature.inputs)
    return replace(static, signature=replace(static.signature, inputs=inputs))


def _sizes(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(size for size in spec.shape if isinstance(size, int))


def _with_open_outputs(made: TracedFunction) -> TracedFunction:
    """The outputs' open axes, by which the answers of two golden calls differ."""
    (number, axis, dim), *_ = (
        (number, axis, size)
        for number, spec in enumerate(made.signature.inputs)
        for axis, size in enumerate(spec.shape)
        if isinstance(size, Dim)
    )
    calls = sorted(made.calls, key=lambda call: call.inputs[number].shape[axis])
    few, many = calls[0], calls[-1]
    batch = Batch(one=few.inputs[number].shape[axis], other=many.inputs[number].shape[axis])
    outputs = []
    for spec, here, there in zip(made.signature.outputs, few.outputs, many.outputs, strict=True):
        mark = batch.mark(here.shape, there.shape)
        if mark is None:
            raise NotByExample(f"the output {spec.name} has no batch")
        shape = list(spec.shape)
        shape[mark.axis] = dim if mark.each == 1 else _times(dim, mark.each)
        outputs.append(replace(spec, shape=tuple(shape)))
    return replace(made, signature=replace(made.signature, outputs=tuple(outputs)))


def _times(dim: Dim, each: int) -> Dim:
    most = None if dim.maximum is None else dim.maximum * each
    return Dim(name=f"{dim.name}_times_{each}", minimum=dim.minimum * each, maximum=most)
