"""Layers of a cache of transformers, made as used ones are: their tensors are buffers of a module.

Keys and values, and what an indexer keeps to find them, stand at the places of their tokens and are
as long as a text may be. Recurrent states are as large for any text.
"""

from typing import Any

__all__ = [
    "RANK",
    "attends",
    "empty_layer",
    "is_known",
    "registered",
    "registered_states",
    "states_of",
]

RANK = 4
"""Of what has a place a token (its third): of a saved text as much is kept as it is long."""


def states_of(layer: Any) -> list[Any]:
    """What a layer of a used cache keeps of all tokens together."""
    kinds = (getattr(layer, name, {}) for name in ("conv_states", "recurrent_states"))
    return [state for kind in kinds for state in kind.values() if state is not None]


def is_known(layer: Any) -> bool:
    """Whether a layer is of a kind that is known, and not one derived from it."""
    from transformers import cache_utils as known

    kinds = (
        *(known.StaticLayer, known.StaticSlidingWindowLayer, known.StaticIndexedLayer),
        *(known.DynamicLayer, known.DynamicSlidingWindowLayer, known.DynamicIndexedLayer),
        known.LinearAttentionLayer,
        known.LinearAttentionAndStaticFullAttentionLayer,
        known.LinearAttentionAndStaticSlidingWindowAttentionLayer,
        known.LinearAttentionAndFullAttentionLayer,
        known.LinearAttentionAndSlidingWindowAttentionLayer,
        known.DummyLayer,
    )
    return type(layer) in kinds


def attends(layer: Any) -> bool:
    """Whether a layer is of a kind that keeps keys and values."""
    from transformers.cache_utils import CacheLayerMixin

    return isinstance(layer, CacheLayerMixin)


def empty_layer(holder: Any, length: int) -> Any:
    """A layer that keeps nothing, and tells how many tokens the holder has."""
    return _kept_layer(holder)(length)


def registered(
    used: Any, holder: Any, number: int, length: int, *, newest_last: bool = False
) -> Any:
    """A layer as the used one, in buffers of the holder.

    Args:
        newest_last: whether it gives keys and values turned, so that the newest are the last.
    """
    kept = _kept_layer(holder)(length)
    kept.newest_last = newest_last
    _register_keys(kept, used, holder, number)
    indexed = getattr(used, "indexer_keys", None)
    if indexed is not None:
        kept.indexer = f"indexed_{number}"
        buffer = indexed.new_zeros(indexed.shape[0], 1, length, indexed.shape[-1])
        holder.register_buffer(kept.indexer, buffer, persistent=False)
    return kept


def _register_keys(kept: Any, used: Any, holder: Any, number: int) -> None:
    from transformers.cache_utils import StaticLayer

    StaticLayer.lazy_initialization(kept, used.keys[:, :, :0], used.values[:, :, :0])
    holder.register_buffer(f"keys_{number}", kept.keys, persistent=False)
    holder.register_buffer(f"values_{number}", kept.values, persistent=False)


def registered_states(used: Any, holder: Any, names: list[str], number: int, length: int) -> Any:
    """A recurrent layer as the used one, which may have keys and values beside; likewise."""
    has_keys = attends(used)
    kept = _both(_kept_layer(holder))(length) if has_keys else _kept_states()()
    kinds = (("convolved", "conv_states"), ("recurrent", "recurrent_states"))
    for name, known in kinds:
        held = _HeldStates(holder)
        setattr(kept, known, held)
        for place, state in getattr(used, known).items():
            held[place] = None
            if state is None:
                continue
            end = f"_{place}" if used.number_of_states > 1 else ""
            held[place] = f"{name}_{number}{end}"
            names.append(held.named(place))
            # Of rank 4 are keys and values alone, of which a saved text has as much as it is long.
            state = state[None] * 0 if state.ndim == RANK else state * 0
            holder.register_buffer(held.named(place), state, persistent=False)
            getattr(kept, f"is_{known}_initialized")[place] = True
    kept.has_previous_state = dict.fromkeys(range(used.number_of_states), True)
    if has_keys:
        _register_keys(kept, used, holder, number)
    return kept


class _HeldStates(dict[int, Any]):
    """States by their number, in buffers of a holder by these names."""

    def __init__(self, holder: Any) -> None:
        super().__init__()
        self._holder = holder

    def named(self, place: int) -> Any:
        """The name of a state's buffer; None where there is none."""
        return super().__getitem__(place)

    def __getitem__(self, place: int) -> Any:
        name = self.named(place)
        state = None if name is None else getattr(self._holder, name)
        return state[0] if state is not None and state.ndim > RANK else state


def _kept_layer(holder: Any) -> Any:
    """A kind of layer that writes at the holder's position, and leaves moving it to the holder."""
    import torch
    from transformers.cache_utils import StaticLayer

    class KeptLayer(StaticLayer):  # type: ignore[misc]
        indexer = ""  # the name of what finds keys, in layers that have it
        indexer_position_ids = None
        newest_last = False

        def update(self, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            places = self._places(keys.shape[-2])
            self.keys.index_copy_(2, places, keys)
            self.values.index_copy_(2, places, values)
            if self.newest_last:
                turned = (torch.arange(self.max_cache_len) + places[-1] + 1) % self.max_cache_len
                return self.keys.index_select(2, turned), self.values.index_select(2, turned)
            return self.keys, self.values

        def update_indexer(self, keys: Any) -> Any:
            buffer = getattr(holder, self.indexer)
            buffer.index_copy_(2, self._places(keys.shape[1]), keys[:, None])
            return buffer[:, 0]

        def _places(self, count: int) -> Any:
            # The clamp says that all of it is inside, which the caller sees to.
            start = self.get_seq_length().clamp(0, self.max_cache_len - count)
            return torch.arange(count) + start

        def get_seq_length(self) -> Any:
            return holder.position.to(torch.int64)

    return KeptLayer


def _kept_states() -> Any:
    """A kind of layer whose states are as before the first token at first: zeros.

    That is what models take for the states of no token, too, so a layer always has some.
    """
    import torch
    from transformers.cache_utils import LinearAttentionLayer

    class KeptStates(LinearAttentionLayer):  # type: ignore[misc]
        def update_conv_state(self, conv_states: Any, state_idx: int = 0, **_: Any) -> Any:
            state = self.conv_states[state_idx]
            seen = torch.cat([state, conv_states], dim=-1)
            state.copy_(seen[..., -state.shape[-1] :])
            return seen

    return KeptStates


def _both(layer: Any) -> Any:
    """A kind of layer that has such states beside keys and values."""
    from transformers.cache_utils import LinearAttentionLayer, StaticLayer

    class KeptBoth(_kept_states(), layer):  # type: ignore[misc]
        def __init__(self, length: int) -> None:
            StaticLayer.__init__(self, length)
            LinearAttentionLayer.__init__(self)

    return KeptBoth
