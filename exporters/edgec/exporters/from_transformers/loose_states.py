"""Tensors that a model keeps outside of a cache's layers: attributes of modules and of the cache.

They are found by what a call changes. A call is lent buffers in their places, and what it leaves
there is written to the buffers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from edgec.exporters.from_transformers.kept_layers import RANK

__all__ = ["LooseStates", "Place", "Watch"]

Place = tuple[Any, tuple[Any, ...]]
"""A module or a cache, and the names and numbers that lead from it to a tensor."""


class Watch:
    """What stands beside layers before a call, to tell what the call changed."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before = {
            id(module): {name: _copied(value) for name, value in _held(module).items()}
            for module in model.modules()
        }

    def changed(self, cache: Any) -> list[tuple[Place, Any]]:
        """Tensors of a cache, and floats of modules that are others now; and their places."""
        found = []
        for owner in (*self._model.modules(), cache):
            before = self._before.get(id(owner), {})
            for name, value in _held(owner).items():
                known = {path: id(tensor) for path, tensor in _tensors(before.get(name))}
                found += [
                    ((owner, (name, *path)), tensor)
                    for path, tensor in _tensors(value)
                    if name != "layers" and (owner is cache or tensor.is_floating_point())
                    if known.get(path) != id(tensor)
                ]
        return found

    def put_back(self, found: Sequence[tuple[Place, Any]]) -> None:
        """Modules hold again what they held before."""
        for (owner, (name, *_)), _ in found:
            if id(owner) in self._before:
                _put_back(owner, name, self._before[id(owner)])


class LooseStates:
    """Such tensors in buffers of a holder, zeros at first.

    Attributes:
        names: of the buffers.
    """

    def __init__(self, holder: Any, found: Sequence[tuple[Place, Any]]) -> None:
        self._holder = holder
        self._places = [place for place, _ in found]
        self.names = [f"kept_{number}" for number, _ in enumerate(found)]
        self._is_wide = []
        for name, (_, tensor) in zip(self.names, found, strict=True):
            wide = tensor.ndim == RANK
            self._is_wide.append(wide)
            state = tensor[None] * 0 if wide else tensor * 0
            holder.register_buffer(name, state.detach(), persistent=False)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The model finds the buffers in the places, and what it leaves is kept."""
        with _restored(self._places):
            for place, name, wide in zip(self._places, self.names, self._is_wide, strict=True):
                state = getattr(self._holder, name)
                _put(place, state[0] if wide else state)
            yield
            for place, name, wide in zip(self._places, self.names, self._is_wide, strict=True):
                left = _at(place)
                getattr(self._holder, name).copy_(left[None] if wide else left)


def _held(owner: Any) -> dict[str, Any]:
    """What an owner holds itself, by name."""
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


@contextmanager
def _restored(places: Sequence[Place]) -> Iterator[None]:
    """What stands in these places is what stood there before, in the end."""
    owners = {id(owner): owner for owner, _ in places}
    before = {key: {n: _copied(v) for n, v in _held(owners[key]).items()} for key in owners}
    try:
        yield
    finally:
        for owner, path in places:
            _put_back(owner, path[0], before[id(owner)])


def _put_back(owner: Any, name: str, before: Mapping[str, Any]) -> None:
    if name in before:
        vars(owner)[name] = before[name]
    else:
        vars(owner).pop(name, None)


def _copied(value: Any) -> Any:
    """The same tensors in other lists and dictionaries."""
    if isinstance(value, dict):
        copy = type(value)()
        copy.update({key: _copied(inner) for key, inner in value.items()})
        return copy
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


def _tensors(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Tensors in lists, tuples and dictionaries, and what leads to them."""
    import torch

    if isinstance(value, torch.Tensor):
        yield (), value
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            for path, tensor in _tensors(inner):
                yield (key, *path), tensor


def _at(place: Place) -> Any:
    owner, path = place
    found: Any = vars(owner)
    for key in path:
        found = found[key]
    return found


def _put(place: Place, value: Any) -> None:
    owner, path = place
    _with(vars(owner), path, value)


def _with(holder: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A container with a value at the end of a path; a tuple becomes another."""
    if not path:
        return value
    key, *rest = path
    inner = _with(holder[key], tuple(rest), value)
    if isinstance(holder, tuple):
        return (*holder[:key], inner, *holder[key + 1 :])
    holder[key] = inner
    return holder
