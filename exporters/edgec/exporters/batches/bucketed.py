"""The programs for several sizes of a dimension, made of those that a framework gives for two."""

import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

from edgec.exporters.batches.fixed import Fixed, following, multiplies
from edgec.exporters.batches.tables import without_tables
from edgec.exporters.bundle import Bundle
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.signature import Dim, TensorSpec
from edgec.toolchain.batches.marks import Batch, Mark, NotByExample
from edgec.toolchain.buckets.sizes import NotFilled, Size, TooClose, Two
from edgec.toolchain.program import Dialect, Input, Parameter, Role

if TYPE_CHECKING:
    from edgec.toolchain.buckets.model import Examples

__all__ = ["Bucketed"]

_STEPS = 2 * 3 * 5 * 7
"""What programs mostly go in steps of is made of these primes."""
_TRIES = 4
"""Of programs for smaller sizes; each is asked of the framework."""


class _Merged(NamedTuple):
    """The module that programs of two sizes become, and what it takes and gives."""

    module: bytes
    roles: list[Role]
    grown: list[tuple[Size, ...]]
    marks: Sequence[Mark | None]


class Bucketed(Fixed):
    """One function in buckets.

    Args:
        traced, bundle, framework: as for `Fixed`.
        dim: what goes in buckets.
        batch: what counts examples, of which one is computed at a time; None where nothing does.
        alone: there is no other form of it.
    """

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

        first = self._of(sizes[-1])
        with ir.Context() as context:
            if not self.alone and not multiplies(plain(first.module, context)):
                return None
        two, merged = self._merged_at_all(sizes)
        first = self._of(two.one)
        return replace(
            self.traced,
            signature=self._signature(merged),
            calls=(*self.traced.calls, *self._more_calls(sizes, often=self.alone or two.steps)),
            module=merged.module,
            dialect=Dialect.STABLEHLO,
            kept="",
            arguments=tuple(merged.roles),
            results=first.results,
            parameters={
                role.name: first.parameters[role.name]
                for role in merged.roles
                if isinstance(role, Parameter)
            },
            constants=first.constants,
        )

    def _merged_at_all(self, sizes: list[int]) -> tuple[Two, _Merged]:
        """The programs in one, made of those for the largest size and a smaller one."""
        two = Two(one=sizes[-1], other=self._another(sizes[-1]))
        try:
            two, merged = self._told_apart(two, sizes)
        except TooClose:
            raise
        except NotFilled:
            if two.other >= two.one - 1:
                raise
            # Of the largest size a program may be simpler: all of a table is no part of it.
            two, merged = self._told_apart(Two(one=two.one - 1, other=two.other), sizes)
        if two.steps:  # Two numbers may follow other steps than those that were found: ask again.
            third = Two(one=two.one, other=self._smaller(two))
            if self._merged(third, sizes).module != merged.module:
                raise NotFilled("sizes follow it in steps that nothing tells")
        return two, merged

    def _told_apart(self, two: Two, sizes: list[int]) -> tuple[Two, _Merged]:
        """The programs in one, made of one for a smaller size where steps along it are large."""
        for _ in range(_TRIES):
            try:
                return two, self._merged(two, sizes)
            except TooClose:
                two = Two(one=two.one, other=self._smaller(two))
        return two, self._merged(two, sizes)

    def _smaller(self, two: Two) -> int:
        """A size below that of the second program, which tells as much.

        Raises:
            TooClose: there is none.
        """
        for size in range(two.other - 1, max(1, self.dim.minimum) - 1, -1):
            if two.tells(size):
                return size
        raise TooClose(f"it goes in steps too large for sizes up to {two.one}")

    def _merged(self, two: Two, sizes: list[int]) -> _Merged:
        """The programs in one.

        Raises:
            NotFilled: an operation does not go.
        """
        from iree.compiler import ir

        from edgec.toolchain.batches.plain import plain
        from edgec.toolchain.buckets.model import Model, main_of
        from edgec.toolchain.buckets.write import write_main

        traces = [self._of(two.one), self._of(two.other)]
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
            grown = model.results
            none = [None] * len(grown)
            return _Merged(buffer.getvalue(), roles, grown, examples.results if examples else none)

    def _signature(self, merged: _Merged) -> Any:
        """Its signature; without another form of it nothing else says how outputs grow."""
        signature = self.traced.signature
        if not self.alone:
            return signature
        outputs = zip(signature.outputs, merged.grown, merged.marks, strict=True)
        return replace(signature, outputs=tuple(self._open(*output) for output in outputs))

    def _open(self, spec: TensorSpec, sizes: Sequence[Size], mark: Mark | None) -> TensorSpec:
        """An output with the axes open along which it grows.

        Raises:
            NotByExample: one grows with two dimensions.
        """
        shape = [following(self.dim, s) if s.is_open else s.more for s in sizes]
        if mark is not None and self.batch is not None:
            if sizes[mark.axis].is_open:
                raise NotByExample("an axis of an output grows with two dimensions")
            whole = Size(each=mark.total, more=0)
            shape[mark.axis] = following(self.batch, whole)
        return replace(spec, shape=tuple(shape))

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

    def _another(self, one: int) -> int:
        """A second size for the framework: it tells what grows from what happens to be as large.

        It is smaller by no multiple of usual steps.
        """
        least, most = max(1, self.dim.minimum, min(3, one - 1)), one - 1 - one // 8
        found = (n for n in range(most, least - 1, -1) if gcd(one - n, _STEPS) == 1)
        return next(found, min(max(least, most), one - 1))

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

    def _more_calls(self, sizes: list[int], *, often: Any) -> tuple[TracedCall, ...]:
        """A golden call for each bucket or more, of two examples where there are."""
        missing = self._unproved(sizes, often=bool(often))
        if self.batch is None:
            return self.calls(missing)
        most = 2 if self.batch.maximum is None else self.batch.maximum
        two = max(self.batch.minimum, min(2, most))
        return self.calls(missing, {self.batch.name: two})

    def _unproved(self, sizes: list[int], *, often: bool) -> list[int]:
        """A size for each bucket that no golden call goes through with filling behind it.

        `often`: without another form of the function nobody has seen that it does the same for
        all sizes between those that it was traced for, and what goes in steps has another rest
        for each; so each bucket has its least size, too, and of the two one is odd.
        """
        known = self.known(self.dim.name)
        missing = []
        for before, size in pairwise([max(1, self.dim.minimum) - 1, *sizes]):
            least, most = before + 1, max(before + 1, size - max(1, (size - before) // 3))
            if often:
                even = most > least and (most - least) % 2 == 0
                missing += [n for n in sorted({least, most - even}) if n not in known]
            elif not any(before < n < size for n in known) and not (size == least in known):
                missing.append(most)
        return missing
