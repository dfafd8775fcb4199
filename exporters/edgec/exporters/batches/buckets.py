"""A function with an open length as programs of fixed lengths, to which inputs are filled up.

Kernels of edgec's own are for fixed sizes, and code for any size is several times slower: on one
core a BERT of six layers and a width of 384 takes twice the time of ONNX Runtime with an open
length, and less than it with a fixed one. So an open dimension that is no batch, as the length of a
text, becomes a few sizes (buckets). A call is filled up with zeros to the next of them, and the
program for that size is made so that the filling changes nothing (`edgec.toolchain.buckets`): it
gives what the framework gives without it, to rounding. The framework's program is asked for twice,
for the largest size and another one; each bucket is proved by a golden call of its own.
"""

import io
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from edgec.exporters.batches.fixed import Fixed, multiplies, open_dims
from edgec.exporters.bundle import Bundle
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim
from edgec.toolchain.batches.marks import NotByExample
from edgec.toolchain.buckets.sizes import NotFilled, Size, Two
from edgec.toolchain.program import Dialect, Input, Parameter, Role

__all__ = ["in_buckets", "usual_buckets"]

_LOG = logging.getLogger("edgec.exporters")
_SMALLEST, _MOST = 8, 8
_LARGEST = 2048
"""The framework computes its answers for this size, too."""


def usual_buckets(dim: Dim) -> list[int]:
    """Eight sizes at most: the maximum and powers of two, and between the largest half steps.

    Args:
        dim: a dimension with a maximum.
    """
    most, least = dim.maximum or dim.minimum, max(dim.minimum, _SMALLEST)
    powers = [1 << k for k in range(31) if least <= 1 << k < most]
    sizes = [*powers[-_MOST + 1 :], most]
    halves = [3 * size // 2 for size in powers if 3 * size // 2 < most]
    return sorted([*sizes, *halves[len(halves) - (_MOST - len(sizes)) :]] if halves else sizes)


def in_buckets(
    traced: TracedFunction, bundle: Bundle, framework: Framework, buckets: tuple[int, ...] | None
) -> TracedFunction | None:
    """The function as programs of fixed sizes, which is said; None for what multiplies nothing.

    Args:
        traced: a function with one dynamic dimension.
        bundle: what was traced.
        framework: whose it is.
        buckets: the sizes; None for the usual ones.

    Raises:
        NotByExample: it cannot be one.
        UsageError: the sizes do not fit the dimension.
    """
    (dim,) = open_dims(traced).values()
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
    sizes = usual_buckets(dim) if buckets is None else sorted({*buckets, dim.maximum})
    try:
        made = _Buckets(traced, bundle, framework).made(dim, sizes)
    except NotFilled as found:
        raise NotByExample(found.why, found.where) from found
    if made is None:
        return None
    _LOG.warning(
        "%s is compiled for %s of %s, and fills inputs up to the next of them: "
        "--buckets=N,N takes others, --buckets=0 keeps it open",
        traced.signature.name,
        ", ".join(map(str, sizes)),
        dim.name,
    )
    return made


class _Buckets(Fixed):
    def made(self, dim: Dim, sizes: list[int]) -> TracedFunction | None:
        """The programs for these sizes in one; None for what multiplies nothing.

        Raises:
            NotFilled: an operation does not go.
        """
        from iree.compiler import ir

        from edgec.toolchain.stablehlo import parse_stablehlo

        traces = [self.program(sizes[-1])]
        with ir.Context() as context:
            if not multiplies(parse_stablehlo(traces[0].module, context)):
                return None
        traces.append(self.program(self._another(dim, sizes)))
        two = Two(one=sizes[-1], other=self._another(dim, sizes))
        try:
            module, roles = self._merged(two, traces, dim, sizes)
        except NotFilled:
            if two.other >= two.one - 1:
                raise
            # Of the largest size a program may be simpler: all of a table is no part of it.
            traces[0], two = self.program(two.one - 1), replace(two, one=two.one - 1)
            module, roles = self._merged(two, traces, dim, sizes)
        return replace(
            self.traced,
            calls=(*self.traced.calls, *self.calls(self._unproved(dim, sizes))),
            module=module,
            dialect=Dialect.STABLEHLO,
            kept="",
            arguments=tuple(roles),
            results=traces[0].results,
            parameters={
                role.name: traces[0].parameters[role.name]
                for role in roles
                if isinstance(role, Parameter)
            },
            constants=traces[0].constants,
        )

    def _merged(
        self, two: Two, traces: list[TracedFunction], dim: Dim, sizes: list[int]
    ) -> tuple[bytes, list[Role]]:
        """The module that two programs become, and its arguments."""
        from iree.compiler import ir

        from edgec.toolchain.buckets.write import Model, main_of, write_main
        from edgec.toolchain.stablehlo import parse_stablehlo

        if traces[0].results != traces[1].results:
            raise NotFilled("its outputs change with it")
        with ir.Context() as context, ir.Location.unknown():
            modules = [parse_stablehlo(trace.module, context) for trace in traces]
            function, twin = (main_of(module) for module in modules)
            roles = _without_tables((function, twin), traces)
            model = Model(function=function, twin=twin, two=two, least=max(1, dim.minimum))
            self._check(model.arguments, roles)
            merged = ir.Module.create()
            write_main(merged, model, sizes)
            try:
                merged.operation.verify()
            except ir.MLIRError as error:
                raise NotFilled(f"the program for one size is refused: {error}") from error
            buffer = io.BytesIO()
            merged.operation.write_bytecode(buffer)
            return buffer.getvalue(), roles

    def _another(self, dim: Dim, sizes: list[int]) -> int:
        """A second size for the framework: it tells what grows from what happens to be as large."""
        least = max(1, dim.minimum, min(3, sizes[-1] - 1))
        middle = sizes[-1] - 1 - sizes[-1] // 8
        return max(least, middle) if max(least, middle) < sizes[-1] else sizes[-1] - 1

    def _check(self, grown: list[tuple[Size, ...]], roles: Sequence[Role]) -> None:
        """That the inputs grow as they are asked to.

        Raises:
            NotFilled: an input does not, or one does along two axes.
        """
        for role, sizes in zip(roles, grown, strict=True):
            axes = [axis for axis, size in enumerate(sizes) if size.is_open]
            if not isinstance(role, Input):
                continue
            shape = self.traced.signature.inputs[role.index].shape
            if axes != [axis for axis, size in enumerate(shape) if isinstance(size, Dim)]:
                raise NotFilled("an input does not grow as it is asked to")
            if len(axes) > 1:
                raise NotFilled("an input has it on several axes")

    def _unproved(self, dim: Dim, sizes: list[int]) -> list[int]:
        """A size for each bucket that no golden call goes through with filling behind it."""
        known = self.known()
        missing = []
        for before, size in pairwise([max(1, dim.minimum) - 1, *sizes]):
            if any(before < n < size for n in known) or (size == before + 1 and size in known):
                continue
            missing.append(max(before + 1, size - max(1, (size - before) // 3)))
        return missing


def _without_tables(functions: tuple[Any, Any], traces: Sequence[TracedFunction]) -> list[Role]:
    """Weights that differ between two programs become constants of each; the arguments left.

    An importer that works out a table of positions, as ONNX' does, hands it over as a weight.

    Raises:
        NotFilled: the programs have other arguments.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import entry_block, set_types
    from edgec.toolchain.ir.write import constant

    if len(traces[0].arguments) != len(traces[1].arguments):
        raise NotFilled("its weights change with it")
    kept: list[Role] = []
    places: list[int] = []
    for place, roles in enumerate(zip(traces[0].arguments, traces[1].arguments, strict=True)):
        names = [role.name for role in roles if isinstance(role, Parameter)]
        if len(names) == 2:
            arrays = [t.parameters[name] for t, name in zip(traces, names, strict=True)]
            if not _equal(*arrays):
                for function, array in zip(functions, arrays, strict=True):
                    block = entry_block(function)
                    argument = block.arguments[place]
                    with ir.InsertionPoint.at_block_begin(block):
                        value = constant(array, argument.type.element_type)
                    argument.replace_all_uses_with(value)
                continue
        elif roles[0] != roles[1]:
            raise NotFilled("its inputs change with it")
        kept.append(roles[0])
        places.append(place)
    for function in functions:
        block = entry_block(function)
        for place in reversed(range(len(block.arguments))):
            if place not in places:
                block.erase_argument(place)
        results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        set_types(function, places, range(len(results)))
    return kept


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are the same, bit by bit."""
    if one is other:
        return True
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    here, there = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other))
    return bool(np.array_equal(here, there))
