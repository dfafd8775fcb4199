"""Which weights of a model are the blocks of which tensor of a GGUF file, proved number by number.

transformers makes floats of the blocks and moves some of their rows (queries and keys of Llama's
kind). A weight is taken for a tensor's blocks only if these stand for just its numbers, row by
row; the order of the rows is found by what is in them.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from edgec.exporters.from_transformers.gguf_positions import FACTORS
from edgec.exporters.from_transformers.gguf_tensors import integers_of
from edgec.toolchain.blocked_weights import BlockedWeights

__all__ = ["blocks_of"]

_Array = np.ndarray[Any, np.dtype[Any]]
_LOG = logging.getLogger("edgec.exporters")
_FLOATS = ("F64", "F32", "F16", "BF16")
_AT_ONCE = 1 << 22
"""Numbers that are made floats of together, to be compared."""


def blocks_of(reader: Any, model: Any, tensors: Mapping[str, str]) -> dict[str, BlockedWeights]:
    """The weights of a model that its GGUF file has in blocks, by the model's names for them.

    Says in the log which tensors in blocks become floats, and why.

    Args:
        reader: the file's.
        model: what transformers made of it.
        tensors: what the file calls each weight.
    """
    held = {tensor.name: tensor for tensor in reader.tensors}
    found: dict[str, BlockedWeights] = {}
    by_memory: dict[int, BlockedWeights] = {}
    used: dict[str, str] = {}
    values = dict(model.state_dict())
    for name, tensor_name in tensors.items():
        tensor, value = held.get(tensor_name), values[name]
        if tensor is None or tensor.tensor_type.name in _FLOATS:
            continue
        made = integers_of(tensor.tensor_type.name, tensor.data)
        if made is None:
            used[tensor_name] = f"no kernel reads {tensor.tensor_type.name}"
            continue
        ordered = _as_in(made, np.asarray(value))
        if ordered is None:
            used[tensor_name] = f"{name} holds other numbers, or others beside them"
            continue
        used[tensor_name] = ""
        found[name] = by_memory[value.data_ptr()] = ordered
    for name, value in values.items():  # names of one memory: tied weights
        if name not in found and value.data_ptr() in by_memory:
            found[name] = by_memory[value.data_ptr()]
    blocked = [n for n, tensor in held.items() if tensor.tensor_type.name not in _FLOATS]
    for name in blocked:
        used.setdefault(name, "no weight of the model is known to be it")
    _tell(used, {name: tensor.tensor_type.name for name, tensor in held.items()})
    known = {*used, *tensors.values(), FACTORS}
    unread = [name for name in held if name not in known]
    if unread:
        _LOG.warning(
            "transformers reads nothing of %s%s: the model may write something else than elsewhere",
            unread[0],
            f" and {len(unread) - 1} more tensors" if len(unread) > 1 else "",
        )
    return found


def _as_in(made: BlockedWeights, value: _Array) -> BlockedWeights | None:
    """The blocks with their rows as a weight has them; None if they stand for other numbers."""
    if made.codes.shape != value.shape:
        return None
    if _is(made, value):
        return made
    order = _order(made, value)
    if order is None:
        return None
    moved = made.rows(order)
    return moved if _is(moved, value) else None


def _is(made: BlockedWeights, value: _Array) -> bool:
    """Whether blocks stand for just these numbers; floats are made of some rows at a time."""
    return all(np.array_equal(made.rows(some).floats(), value[some]) for some in _parts(value))


def _order(made: BlockedWeights, wanted: _Array) -> _Array | None:
    """Which of the blocks' rows is each of the wanted ones; None if they are not the same rows."""
    places: dict[bytes, list[int]] = {}
    for some in _parts(wanted):
        for row, mark in enumerate(_marks(made.rows(some).floats()), some.start):
            places.setdefault(mark, []).append(row)
    order = []
    for some in _parts(wanted):
        for mark in _marks(wanted[some]):
            left = places.get(mark)
            if not left:
                return None
            order.append(left.pop(0))
    return np.asarray(order)


def _marks(rows: _Array) -> Iterator[bytes]:
    """A digest of each row, with one zero for both signs."""
    for row in rows + np.float32(0):
        yield blake2b(row.tobytes(), digest_size=16).digest()


def _parts(value: _Array) -> Iterator[slice]:
    """Slices of a matrix' rows, so many numbers each."""
    rows = max(1, _AT_ONCE // value.shape[1])
    return (slice(start, start + rows) for start in range(0, len(value), rows))


def _tell(used: Mapping[str, str], kinds: Mapping[str, str]) -> None:
    """Say what tensors in blocks became."""
    kept = Counter(kinds[name] for name, reason in used.items() if not reason)
    if kept:
        _LOG.info("weights stay in their blocks: %s", _counted(kept))
    for reason, names in _by_reason(used):
        _LOG.warning(
            "%s of the file become f32: %s (%s%s)",
            _counted(Counter(kinds[name] for name in names)),
            reason,
            names[0],
            f" and {len(names) - 1} more" if len(names) > 1 else "",
        )


def _by_reason(used: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for reason in dict.fromkeys(used.values()):
        if reason:
            yield reason, [name for name, other in used.items() if other == reason]


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
