"""Arrays for a function to calls of it: one call, or with `--each` one call a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.cli.bind_inputs import Slots
from edgec.cli.convert import convert
from edgec.cli.session import Session
from edgec.runtime.errors import InputError
from edgec.runtime.signature import Signature, TensorSpec

__all__ = ["Calls", "input_slots", "join", "output_slots", "split"]


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The inputs of each call, and how their outputs go together: `rows` is None for one call."""

    inputs: tuple[tuple[np.ndarray, ...], ...]
    rows: int | None


def input_slots(signature: Signature, *, each: bool) -> Slots:
    """The slots that `--input` fills; with `each` an array may hold rows of what one takes."""

    def accept(spec: TensorSpec, shape: tuple[int, ...]) -> str | None:
        reason = _misfit(spec, shape)
        if reason is None or (each and _row_shape(spec, shape) is not None):
            return None
        one = None if each else _row_shape(spec, shape)
        hint = f"; with --each, {shape[0]} calls with a row each" if one is not None else ""
        return f"{reason}{hint}"

    return Slots(signature=signature, specs=signature.inputs, flag="--input", accept=accept)


def output_slots(signature: Signature, *, rows: int | None) -> Slots:
    """The slots that `--expected` fills: an output's shape, that of its rows, or its labels'.

    Types and exact sizes are compared later; here only what could never fit is refused.
    """

    def accept(spec: TensorSpec, shape: tuple[int, ...]) -> str | None:
        rank = len(spec.shape) + (rows is not None and not _stacks_on_first(spec))
        if len(shape) in (rank, rank - 1):
            return None
        return f"{spec} has rank {rank} here and the expected array {len(shape)}"

    return Slots(signature=signature, specs=signature.outputs, flag="--expected", accept=accept)


def split(
    session: Session, signature: Signature, arrays: Mapping[int, np.ndarray], *, each: bool
) -> Calls:
    """Inputs in the function's types, all of them there, a set for each call.

    Raises:
        InputError: an input is missing, does not fit, or the rows are not equally many.
    """
    missing = [s.name for i, s in enumerate(signature.inputs) if i not in arrays]
    if missing:
        raise InputError(
            f"{signature.name} needs {', '.join(missing)} too", hint=f"it is {signature}"
        )
    ready: list[np.ndarray] = []
    for index, spec in enumerate(signature.inputs):
        array, note = convert(arrays[index], spec)
        if note:
            session.note(note)
        ready.append(array)
    if not each:
        sizes: dict[str, int] = {}
        for spec, array in zip(signature.inputs, ready, strict=True):
            spec.check(array.shape, sizes)
        return Calls(inputs=(tuple(ready),), rows=None)
    return _rows(signature, ready)


def join(calls: Calls, spec: TensorSpec, results: Sequence[np.ndarray]) -> np.ndarray:
    """One output of every call as one array: end to end if it has a batch of one, else stacked."""
    if calls.rows is None:
        return results[0]
    if _stacks_on_first(spec) and all(r.shape[0] == 1 for r in results):
        return np.concatenate(results)
    return np.stack(results)


def _rows(signature: Signature, arrays: Sequence[np.ndarray]) -> Calls:
    shapes = [
        None if _misfit(spec, array.shape) is None else _row_shape(spec, array.shape)
        for spec, array in zip(signature.inputs, arrays, strict=True)
    ]
    counts = {
        spec.name: array.shape[0]
        for spec, array, shape in zip(signature.inputs, arrays, shapes, strict=True)
        if shape is not None
    }
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"--each needs as many rows in every input, and there are {text}")
    rows = next(iter(counts.values()), 1)
    if rows == 0:
        raise InputError("--each has no rows to call with")
    return Calls(
        inputs=tuple(
            tuple(
                array if shape is None else array[row].reshape(shape)
                for array, shape in zip(arrays, shapes, strict=True)
            )
            for row in range(rows)
        ),
        rows=rows,
    )


def _row_shape(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of one row as the spec takes it; None if no row fits."""
    if not shape:
        return None
    if _misfit(spec, shape[1:]) is None:
        return shape[1:]
    batch = (1, *shape[1:])
    return batch if _misfit(spec, batch) is None else None


def _misfit(spec: TensorSpec, shape: tuple[int, ...]) -> str | None:
    try:
        spec.check(shape, {})
    except InputError as error:
        return error.what
    return None


def _stacks_on_first(spec: TensorSpec) -> bool:
    return bool(spec.shape) and not (isinstance(spec.shape[0], int) and spec.shape[0] != 1)
