"""What a framework gives for fixed sizes of a function whose inputs have an open dimension."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.exporters.batches.given import with_examples
from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.errors import EdgecError
from edgec.runtime.signature import Dim
from edgec.toolchain.batches.marks import NotByExample
from edgec.toolchain.buckets.sizes import Size
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Role

__all__ = ["Fixed", "following", "multiplies", "open_dims", "roles_of", "together"]

_LOG = logging.getLogger("edgec.exporters")


def open_dims(traced: TracedFunction) -> dict[str, Dim]:
    """The dimensions of its inputs that are open, by name."""
    return {d.name: d for spec in traced.signature.inputs for d in spec.shape if isinstance(d, Dim)}


class Fixed:
    """The programs of one function for fixed sizes of its open dimensions.

    Args:
        traced: the function.
        bundle: what was traced.
        framework: whose it is.

    Raises:
        NotByExample: it has state.
    """

    def __init__(self, traced: TracedFunction, bundle: Bundle, framework: Framework) -> None:
        self.traced = traced
        self.framework = framework
        self.entry = next(e for e in bundle.entries if e.name == traced.signature.name)
        roles = (*traced.arguments, *traced.results)
        if not all(isinstance(role, Input | Output | Parameter) for role in roles):
            raise NotByExample("it has state")

    def program(self, size: int, others: Mapping[str, int] | None = None) -> TracedFunction:
        """What the framework gives for a size, in StableHLO.

        Args:
            size: of the dimensions.
            others: sizes of those of them that have another one, by name.

        Raises:
            NotByExample: nothing of this kind.
        """
        entry = self._entry(size, others, settled=False)
        found = self._asked(entry, size)
        if found.dialect is not Dialect.STABLEHLO:
            raise NotByExample(f"for {size} at a time it has no form in StableHLO")
        if len(found.signature.outputs) != len(self.traced.signature.outputs):
            raise NotByExample("its outputs change with the batch")
        return found

    def _entry(self, size: int, others: Mapping[str, int] | None, *, settled: bool) -> Entry:
        """The function with examples of a size; `settled` where its answers are used."""
        sizes = {**dict.fromkeys(open_dims(self.traced), size), **(others or {})}
        entry = with_examples(self.entry, self.framework, self.traced, sizes)
        return replace(entry, settled=settled)

    def _asked(self, entry: Entry, size: int) -> TracedFunction:
        """What the framework makes of it."""
        with _refused(size):
            (found,) = self.framework.tracer().trace(Bundle((entry,)), dynamic=Dynamic())
        return found

    def known(self, name: str = "") -> list[int]:
        """The sizes of the calls that the framework has answered, of a dimension or the first."""
        (number, axis), *_ = (
            (number, axis)
            for number, spec in enumerate(self.traced.signature.inputs)
            for axis, size in enumerate(spec.shape)
            if isinstance(size, Dim) and name in ("", size.name)
        )
        return [call.inputs[number].shape[axis] for call in self.traced.calls]

    def calls(
        self, sizes: Sequence[int], others: Mapping[str, int] | None = None
    ) -> tuple[TracedCall, ...]:
        """The framework's answers for some sizes; `others` as for `program`."""
        answers = getattr(self.framework.tracer(), "answers", None)
        found: list[TracedCall] = []
        for size in sizes:
            entry = self._entry(size, others, settled=True)
            if answers is None:
                found += self._asked(entry, size).calls
            else:
                with _refused(size):
                    found += answers(entry)
        if any(len(c.outputs) != len(self.traced.signature.outputs) for c in found):
            raise NotByExample("its outputs change with the batch")
        return tuple(found)


def following(dim: Dim, size: Size) -> Dim:
    """The dimension of an output that follows one of the inputs: `length`, `2*length`."""
    if size == Size(each=1, more=0):
        return dim
    shifted = f"({dim.name}+{size.shift})" if size.shift else dim.name
    name = shifted if size.over == 1 else f"{shifted}//{size.over}"
    name = name if size.each == 1 else f"{size.each}*{f'({name})' if size.over != 1 else name}"
    if size.more:
        name += f"{size.more:+}"
    most = None if dim.maximum is None else size.of(dim.maximum)
    return Dim(name=name, minimum=max(0, size.of(dim.minimum)), maximum=most)


def multiplies(module: Any) -> bool:
    """Whether an `ir.Module` has products, or what becomes some."""
    from edgec.toolchain.ir.functions import inside

    products = {"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.fft"}
    return any(op.name in products for op in inside(module.operation))


def roles_of(traced: TracedFunction, traces: Sequence[TracedFunction]) -> list[Role]:
    """The arguments of what is made of several programs: all inputs, and the weights of all."""
    roles: list[Role] = [Input(index=number) for number in range(len(traced.signature.inputs))]
    for trace in traces:
        roles += [r for r in trace.arguments if isinstance(r, Parameter) and r not in roles]
    return roles


def together(sets: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays by name, which are one where they have one name.

    Raises:
        NotByExample: they are not.
    """
    found: dict[str, np.ndarray] = {}
    for arrays in sets:
        for name, array in arrays.items():
            known = found.setdefault(name, array)
            if known is not array and known.tobytes() != array.tobytes():
                raise NotByExample(f"the weight {name} changes with the batch")
    return found


@contextlib.contextmanager
def _refused(size: int) -> Iterator[None]:
    """What the framework refuses is the reason; what was said of the function is not said again.

    Raises:
        NotByExample: it refuses.
    """
    before, _LOG.disabled = _LOG.disabled, True
    try:
        yield
    except EdgecError as error:
        raise NotByExample(f"for {size} at a time, {error.what}", error.where) from error
    finally:
        _LOG.disabled = before
