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
from typing import TYPE_CHECKING, Any

from edgec.exporters.batches.chunks import leads
from edgec.exporters.batches.fixed import Fixed, multiplies, open_dims
from edgec.exporters.batches.tables import without_tables
from edgec.exporters.bundle import Bundle
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim
from edgec.toolchain.batches.marks import Batch, NotByExample
from edgec.toolchain.buckets.sizes import NotFilled, Size, Two
from edgec.toolchain.program import Dialect, Input, Parameter, Role

if TYPE_CHECKING:
    from edgec.toolchain.buckets.model import Examples

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
    made = _Buckets(traced, bundle, framework, dim, batch, alone=alone).made(sizes)
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


class _Buckets(Fixed):
    def __init__(
        self,
        traced: TracedFunction,
        bundle: Bundle,
        framework: Framework,
        dim: Dim,
        batch: Dim | None,
        *,
        alone: bool,
    ) -> None:
        super().__init__(traced, bundle, framework)
        self.dim = dim
        self.batch = batch
        self.alone = alone
        self._programs: dict[tuple[int, int], TracedFunction] = {}

    def _of(self, size: int, examples: int = 1) -> TracedFunction:
        """The framework's program for a size, and for so many examples where there is a batch."""
        if (size, examples) not in self._programs:
            others = {} if self.batch is None else {self.batch.name: examples}
            self._programs[size, examples] = self.program(size, others)
        return self._programs[size, examples]

    def made(self, sizes: list[int]) -> TracedFunction | None:
        """The programs for these sizes in one; None for what multiplies nothing.

        Raises:
            NotFilled: an operation does not go.
        """
        from iree.compiler import ir

        from edgec.toolchain.batches.plain import plain

        traces = [self._of(sizes[-1])]
        with ir.Context() as context:
            if not self.alone and not multiplies(plain(traces[0].module, context)):
                return None
        two = Two(one=sizes[-1], other=self._another(sizes))
        traces.append(self._of(two.other))
        try:
            module, roles = self._merged(two, traces, sizes)
        except NotFilled:
            if two.other >= two.one - 1:
                raise
            # Of the largest size a program may be simpler: all of a table is no part of it.
            traces[0], two = self._of(two.one - 1), replace(two, one=two.one - 1)
            module, roles = self._merged(two, traces, sizes)
        return replace(
            self.traced,
            calls=(*self.traced.calls, *self._more_calls(sizes)),
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
        self, two: Two, traces: list[TracedFunction], sizes: list[int]
    ) -> tuple[bytes, list[Role]]:
        """The module that two programs become, and its arguments."""
        from iree.compiler import ir

        from edgec.toolchain.batches.plain import plain
        from edgec.toolchain.buckets.model import Model, main_of
        from edgec.toolchain.buckets.write import write_main

        if traces[0].results != traces[1].results:
            raise NotFilled("its outputs change with it")
        with ir.Context() as context, ir.Location.unknown():
            modules = [plain(trace.module, context) for trace in traces]
            function, twin = (main_of(module) for module in modules)
            examples = self._examples(two, traces[1], context)
            roles, places = without_tables((function, twin), traces)
            if examples is not None:
                marks = tuple(examples.arguments[place] for place in places)
                examples = replace(examples, arguments=marks)
            model = Model(
                function=function,
                twin=twin,
                two=two,
                least=max(1, self.dim.minimum),
                examples=examples,
            )
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

    def _examples(self, two: Two, trace: TracedFunction, context: Any) -> "Examples | None":
        """That the function computes each example of a batch by itself; None without a batch.

        Raises:
            NotByExample: it does not.
        """
        if self.batch is None:
            return None
        from edgec.toolchain.batches.compare import compared
        from edgec.toolchain.batches.plain import plain
        from edgec.toolchain.buckets.model import Examples

        def module(trace: TracedFunction) -> Any:
            return plain(trace.module, context)

        pair = self._of(two.other, 2)
        if pair.arguments != trace.arguments:
            raise NotByExample("its weights change with the batch")
        try:
            found = compared(module(trace), module(pair), Batch(one=1, other=2))
        except NotByExample:  # Of one example a program may be simpler.
            more = self._of(two.other, 3)
            found = compared(module(pair), module(more), Batch(one=2, other=3))
        for role, mark in zip(trace.arguments, found.arguments, strict=True):
            wanted = isinstance(role, Input) and self.batch in (
                self.traced.signature.inputs[role.index].shape
            )
            if wanted != (mark is not None and mark.axis == 0):
                raise NotByExample("an input changes with the batch otherwise than asked")
        results = tuple(mark for mark in found.results if mark is not None)
        if len(results) != len(found.results):
            raise NotByExample("an output is the same for all examples")
        return Examples(arguments=found.arguments, results=results)

    def _another(self, sizes: list[int]) -> int:
        """A second size for the framework: it tells what grows from what happens to be as large."""
        least = max(1, self.dim.minimum, min(3, sizes[-1] - 1))
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
            wanted = [axis for axis, size in enumerate(shape) if size == self.dim]
            if axes != wanted:
                raise NotFilled("an input does not grow as it is asked to")
            if len(axes) > 1:
                raise NotFilled("an input has it on several axes")

    def _more_calls(self, sizes: list[int]) -> tuple[TracedCall, ...]:
        """A golden call for each bucket, of two examples where there are."""
        if self.batch is None:
            return self.calls(self._unproved(sizes))
        most = 2 if self.batch.maximum is None else self.batch.maximum
        two = max(self.batch.minimum, min(2, most))
        made = self.calls(self._unproved(sizes), {self.batch.name: two})
        if self.alone:  # What outputs grow with is read from calls that differ by one size.
            known = self.known(self.batch.name)[0]
            other = two if known != two else max(1, self.batch.minimum)
            made += self.calls(self.known(self.dim.name)[:1], {self.batch.name: other})
        return made

    def _unproved(self, sizes: list[int]) -> list[int]:
        """A size for each bucket that no golden call goes through with filling behind it.

        Without another form of the function nobody has seen that it does the same for all sizes
        between those that it was traced for, so each bucket has its least size, too, and of the
        two one is odd.
        """
        known = self.known(self.dim.name)
        missing = []
        for before, size in pairwise([max(1, self.dim.minimum) - 1, *sizes]):
            least, most = before + 1, max(before + 1, size - max(1, (size - before) // 3))
            if self.alone:
                even = most > least and (most - least) % 2 == 0
                missing += [n for n in sorted({least, most - even}) if n not in known]
            elif not any(before < n < size for n in known) and not (size == least in known):
                missing.append(most)
        return missing
