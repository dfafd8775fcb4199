"""A static cache of transformers whose keys and values are buffers of a module, and stay whole.

transformers cuts the cache of a sliding window to the window and moves what is in it. Here every
layer keeps all tokens and the mask alone says what is seen: a prompt can come in padded chunks,
and any token can be taken back.

A recurrent layer (linear attention, a state space, a short convolution) keeps what all tokens so
far have left instead. Nothing can be taken back from that, so its chunks are full; and models that
go on from such states with one token alone get no chunks.
"""

import inspect
from typing import Any

from edgec.exporters.failures import reason_of
from edgec.runtime.errors import UnsupportedOp

__all__ = ["cache_of_decoder", "is_recurrent", "kept_cache", "reads_chunks", "with_cache"]

_RANK = 4
"""Of keys and values."""
_CHUNK = 4
"""Tokens by which it is tried whether a model goes on with several."""


def is_recurrent(model: Any) -> bool:
    """Whether a layer keeps what all tokens so far have left, of which none can be taken back.

    Raises:
        UnsupportedOp: as `kept_cache`.
    """
    return any(_states(layer) for layer in _used_layers(model))


def reads_chunks(model: Any) -> bool:
    """Whether a recurrent model goes on from what it has kept with several tokens at once.

    Some begin anew with them. So a text is read in two chunks and in one, and scores are compared.
    """
    import torch

    rows = min(int(model.get_input_embeddings().weight.shape[0]), 1000)
    text = torch.arange(1, 2 * _CHUNK + 1) % rows
    found = []
    for size in (_CHUNK, 2 * _CHUNK):
        holder = torch.nn.Module()
        holder.register_buffer("position", torch.zeros((), dtype=torch.int32))
        cache = kept_cache(model, holder, 2 * _CHUNK)
        for places in torch.arange(2 * _CHUNK).split(size):
            with torch.no_grad():
                given = with_cache(model, cache, places)
                scores = model(text[places][None], **given).logits[0, -1]
            holder.position += size
        found.append(scores)
    return bool(torch.allclose(*found, rtol=1e-3, atol=1e-3 * float(found[1].abs().max())))


def kept_cache(model: Any, holder: Any, length: int) -> Any:
    """A cache of `length` tokens for a model, in buffers of `holder`.

    The module `holder` has a buffer `position`, the number of tokens that are there; a layer's
    are `keys_0`, `values_0` … A recurrent one's are `convolved_0`, `recurrent_0` …, whose names the
    cache's `states` lists.

    Raises:
        UnsupportedOp: a layer keeps something else than these.
    """
    from transformers import StaticCache

    cache = StaticCache(config=model.config, max_cache_len=length)
    cache.states = []
    for number, used in enumerate(_used_layers(model)):
        if used is None:
            continue
        if _states(used):
            cache.layers[number] = _registered_states(used, holder, cache.states, number, length)
        else:
            cache.layers[number] = _registered(used, holder, number, length)
    return cache


def with_cache(model: Any, cache: Any, places: Any) -> dict[str, Any]:
    """What a model is called with beside tokens, which stand at these places."""
    known = inspect.signature(model.forward).parameters
    if "cache_params" not in known:
        return {"past_key_values": cache, "position_ids": places[None], "use_cache": True}
    more = {"position_ids": places[None]} if "position_ids" in known else {}
    return {"cache_params": cache, **more, "use_cache": True}


def cache_of_decoder(used: Any, holder: Any, length: int) -> Any:
    """The same of a decoder behind an encoder, by its own cache after one token (`used`)."""
    from transformers import Cache

    layers = [layer for layer in used.layers if layer.is_initialized]
    return Cache(
        layers=[_registered(layer, holder, number, length) for number, layer in enumerate(layers)]
    )


def _registered(used: Any, holder: Any, number: int, length: int) -> Any:
    """A layer as the used one, in buffers of the holder."""
    kept = _kept_layer(holder)(length)
    _register_keys(kept, used, holder, number)
    return kept


def _register_keys(kept: Any, used: Any, holder: Any, number: int) -> None:
    from transformers.cache_utils import StaticLayer

    StaticLayer.lazy_initialization(kept, used.keys[:, :, :0], used.values[:, :, :0])
    holder.register_buffer(f"keys_{number}", kept.keys, persistent=False)
    holder.register_buffer(f"values_{number}", kept.values, persistent=False)


def _registered_states(used: Any, holder: Any, names: list[str], number: int, length: int) -> Any:
    """A recurrent layer as the used one, which may have keys and values beside; likewise."""
    from transformers.cache_utils import StaticLayer

    attends = isinstance(used, StaticLayer)
    kept = _both(_kept_layer(holder))(length) if attends else _kept_states()()
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
            state = state[None] * 0 if state.ndim == _RANK else state * 0
            holder.register_buffer(held.named(place), state, persistent=False)
            getattr(kept, f"is_{known}_initialized")[place] = True
    kept.has_previous_state = dict.fromkeys(range(used.number_of_states), True)
    if attends:
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
        return state[0] if state is not None and state.ndim > _RANK else state


def _states(layer: Any) -> list[Any]:
    """What a layer of a used cache keeps of all tokens together."""
    kinds = (getattr(layer, name, {}) for name in ("conv_states", "recurrent_states"))
    return [state for kind in kinds for state in kind.values() if state is not None]


def _used_layers(model: Any) -> list[Any | None]:
    """The layers of a cache after one token, which know their sizes; None for what keeps nothing.

    Raises:
        UnsupportedOp: as `kept_cache`.
    """
    import torch
    from transformers import StaticCache
    from transformers.cache_utils import (
        DummyLayer,
        LinearAttentionAndStaticFullAttentionLayer,
        LinearAttentionAndStaticSlidingWindowAttentionLayer,
        LinearAttentionLayer,
        StaticLayer,
        StaticSlidingWindowLayer,
    )

    both = (
        LinearAttentionAndStaticFullAttentionLayer,
        LinearAttentionAndStaticSlidingWindowAttentionLayer,
    )
    try:
        cache = StaticCache(config=model.config, max_cache_len=2)
        with torch.no_grad():
            given = with_cache(model, cache, torch.zeros(1, dtype=torch.int64))
            model(torch.zeros(1, 1, dtype=torch.int64), **given)
    except Exception as error:  # models raise errors of every kind
        raise UnsupportedOp(
            f"{type(model).__name__} does not run with transformers' static cache: "
            f"{reason_of(error)}",
            hint="export its own code instead, the cache as buffers that it writes: FILE.py:NAME",
        ) from error
    found: list[Any | None] = []
    for layer in cache.layers:
        attends = type(layer) in (StaticLayer, StaticSlidingWindowLayer, *both)
        if type(layer) is DummyLayer:
            found.append(None)
        elif type(layer) not in both and not attends and type(layer) is not LinearAttentionLayer:
            raise UnsupportedOp(
                f"{type(model).__name__} keeps a {type(layer).__name__}, and edgec knows caches of "
                "keys and values, and of states that are as large for any text",
                hint="choose a model whose layers are attention or recurrent",
            )
        elif (attends and not layer.is_initialized) or not (attends or _states(layer)):
            raise UnsupportedOp(
                f"{type(model).__name__} writes nothing into the cache that it is given: it reads "
                "a text anew for each token, or keeps what it has read elsewhere",
                hint="choose a model that keeps a cache; or export its own code: FILE.py:NAME",
            )
        else:
            found.append(layer)
    return found


def _kept_layer(holder: Any) -> Any:
    """A kind of layer that writes at the holder's position, and leaves moving it to the holder."""
    import torch
    from transformers.cache_utils import StaticLayer

    class KeptLayer(StaticLayer):  # type: ignore[misc]
        def update(self, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            count = keys.shape[-2]
            # The clamp says that all of it is inside, which the caller sees to.
            start = self.get_seq_length().clamp(0, self.max_cache_len - count)
            places = torch.arange(count) + start
            self.keys.index_copy_(2, places, keys)
            self.values.index_copy_(2, places, values)
            return self.keys, self.values

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
