"""A static cache of transformers whose keys and values are buffers of a module, and stay whole.

transformers cuts the cache of a sliding window to the window and moves what is in it. Here every
layer keeps all tokens and the mask alone says what is seen: a prompt can come in padded chunks,
and any token can be taken back.

A recurrent layer (linear attention, a state space, a short convolution) keeps what all tokens so
far have left instead. Nothing can be taken back from that, so its chunks are full; and models that
go on from such states with one token alone get no chunks. Some keep it in a cache of a class of
their own, or in their modules; it is found there by what a token changes.
"""

import inspect
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from edgec.exporters.failures import reason_of
from edgec.exporters.from_transformers.kept_layers import (
    attends,
    empty_layer,
    is_known,
    registered,
    registered_states,
    states_of,
)
from edgec.exporters.from_transformers.loose_states import (
    LooseStates,
    Place,
    Watch,
)
from edgec.runtime.errors import UnsupportedOp

__all__ = ["cache_of_decoder", "is_recurrent", "kept_cache", "reads_chunks", "scores_of"]

_CHUNK = 4
"""Tokens by which it is tried whether a model goes on with several."""
_OWN = ("past_key_values", "cache_params")
"""What models call the cache that they give back."""


@dataclass(frozen=True, kw_only=True)
class _Used:
    """A cache after one token.

    Attributes:
        cache: it.
        layers: its layers, which know their sizes; None for one that keeps nothing.
        own: whether the model made it.
        loose: what is kept beside the layers.
    """

    cache: Any
    layers: list[Any | None]
    own: bool
    loose: list[tuple[Place, Any]]


def is_recurrent(model: Any) -> bool:
    """Whether a layer keeps what all tokens so far have left, of which none can be taken back.

    Raises:
        UnsupportedOp: as `kept_cache`.
    """
    used = _used(model)
    return bool(used.loose) or any(states_of(layer) for layer in used.layers)


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
                scores = scores_of(model, cache, text[places], places)[-1]
            holder.position += size
        found.append(scores)
    return bool(torch.allclose(*found, rtol=1e-3, atol=1e-3 * float(found[1].abs().max())))


def kept_cache(model: Any, holder: Any, length: int) -> Any:
    """A cache of `length` tokens for a model, in buffers of `holder`.

    The module `holder` has a buffer `position`, the number of tokens that are there; a layer's
    are `keys_0`, `values_0` … A recurrent one's are `convolved_0`, `recurrent_0` …, and those that
    no layer holds `kept_0` …; the cache's `states` lists their names.

    Raises:
        UnsupportedOp: a layer keeps something else than these.
    """
    from transformers import StaticCache

    used = _used(model)
    cache = used.cache if used.own else StaticCache(config=model.config, max_cache_len=length)
    cache.states = []
    for number, layer in enumerate(used.layers):
        if layer is None:
            if attends(cache.layers[number]):  # it may be asked how many tokens there are
                cache.layers[number] = empty_layer(holder, length)
        elif states_of(layer):
            cache.layers[number] = registered_states(layer, holder, cache.states, number, length)
        else:
            cache.layers[number] = registered(layer, holder, number, length)
    cache.loose = LooseStates(holder, used.loose) if used.loose else None
    cache.states += cache.loose.names if used.loose else []
    return cache


def scores_of(model: Any, cache: Any, tokens: Any, places: Any, *, kept: Any = None) -> Any:
    """Scores of what follows each of the tokens, which stand at these places.

    Args:
        kept: only of these, by their numbers, if the model knows how.
    """
    import torch

    given = {} if kept is None else {"logits_to_keep": kept}
    with nullcontext() if cache.loose is None else cache.loose.lent():
        return model(
            input_ids=tokens.to(torch.int64)[None], **_with_cache(model, cache, places), **given
        ).logits[0]


def _with_cache(model: Any, cache: Any, places: Any) -> dict[str, Any]:
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
        layers=[registered(layer, holder, number, length) for number, layer in enumerate(layers)]
    )


def _used(model: Any) -> _Used:
    """The cache of a model after two tokens: a static one, or the model's own.

    Raises:
        UnsupportedOp: as `kept_cache`.
    """
    import torch
    from transformers import StaticCache

    watch = Watch(model)
    with torch.no_grad():
        try:
            cache = StaticCache(config=model.config, max_cache_len=2)
            _read(model, cache, 0)
            own = False
        except Exception as error:  # models raise errors of every kind
            cache, own = _own_cache(model), True
            if cache is None:
                raise UnsupportedOp(
                    f"{type(model).__name__} does not run with transformers' static cache: "
                    f"{reason_of(error)}",
                    hint="export its own code instead, the cache as buffers that it writes: "
                    "FILE.py:NAME",
                ) from error
        layers = [_known_layer(model, layer) for layer in getattr(cache, "layers", ())]
        loose = watch.changed(cache) if own or None in layers else []
        sizes = [tensor.shape for _, tensor in loose]
        if loose:
            _read(model, cache, 1)
            grown = [tensor.shape for _, tensor in watch.changed(cache)] != sizes
            watch.put_back(loose)
            if grown:
                raise UnsupportedOp(
                    f"{type(model).__name__} keeps tensors beside its cache that grow with a text",
                    hint="export its own code instead, what it keeps as buffers: FILE.py:NAME",
                )
    if not loose and any(map(_is_silent, getattr(cache, "layers", ()))):
        raise UnsupportedOp(
            f"{type(model).__name__} writes nothing into the cache that it is given: it reads a "
            "text anew for each token, or keeps what it has read where edgec does not find it",
            hint="choose a model that keeps a cache; or export its own code: FILE.py:NAME",
        )
    return _Used(cache=cache, layers=layers, own=own, loose=loose)


def _read(model: Any, cache: Any, place: int) -> None:
    """Read a token at a place."""
    import torch

    places = torch.tensor([place])
    model(torch.zeros(1, 1, dtype=torch.int64), **_with_cache(model, cache, places))


def _own_cache(model: Any) -> Any | None:
    """The cache that a model makes where it is given none; None if it gives none back."""
    import torch

    try:
        found = model(torch.zeros(1, 1, dtype=torch.int64), use_cache=True)
    except Exception:  # noqa: BLE001 - models raise errors of every kind
        return None
    caches = (getattr(found, name, None) for name in _OWN)
    return next((cache for cache in caches if hasattr(cache, "__dict__")), None)


def _known_layer(model: Any, layer: Any) -> Any | None:
    """The layer; None if it keeps nothing.

    Raises:
        UnsupportedOp: it keeps something else than keys and values, and states.
    """
    if not is_known(layer):
        raise UnsupportedOp(
            f"{type(model).__name__} keeps a {type(layer).__name__}, and edgec knows caches of "
            "keys and values, and of states that are as large for any text",
            hint="choose a model whose layers are attention or recurrent",
        )
    return layer if getattr(layer, "is_initialized", False) or states_of(layer) else None


def _is_silent(layer: Any) -> bool:
    """Whether it should keep something and keeps nothing."""
    from transformers.cache_utils import DummyLayer

    return not isinstance(layer, DummyLayer) and not (
        getattr(layer, "is_initialized", False) or states_of(layer)
    )
