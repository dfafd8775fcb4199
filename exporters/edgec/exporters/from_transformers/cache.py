"""A static cache of transformers whose keys and values are buffers of a module, and stay whole.

transformers cuts the cache of a sliding window to the window and moves what is in it. Here every
layer keeps all tokens and the mask alone says what is seen: a prompt can come in padded chunks,
and any token can be taken back.

A recurrent layer (linear attention, a state space, a short convolution) keeps what all tokens so
far have left instead. Nothing can be taken back from that, so its chunks are full; and models that
go on from such states with one token alone get no chunks. Some keep it in a cache of a class of
their own, or in their modules; it is found there by what a token changes.

Some models look for a token's place at the end of the keys. Whether one does is tried, too: such a
model gets keys turned so that the newest are the last, and a mask that says which there are.
"""

import inspect
import logging
from collections.abc import Callable
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

_LOG = logging.getLogger("edgec.exporters")
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
    used = _used(model)
    plain = used.loose or any(states_of(layer) for layer in used.layers)
    newest_last = not plain and not _agrees(model, length)
    if newest_last and not _agrees(model, length, True):
        newest_last = False
        _LOG.warning(
            "%s gives other scores with a cache of %d tokens than without one: it may write "
            "something else than transformers, which the check after compiling tells",
            type(model).__name__,
            length,
        )
    return _built(model, used, holder, length, newest_last=newest_last)


def _built(model: Any, used: _Used, holder: Any, length: int, *, newest_last: bool) -> Any:
    from transformers import StaticCache

    cache = used.cache if used.own else StaticCache(config=model.config, max_cache_len=length)
    cache.states = []
    for number, layer in enumerate(used.layers):
        if layer is None:
            if attends(cache.layers[number]):  # it may be asked how many tokens there are
                cache.layers[number] = empty_layer(holder, length)
        elif states_of(layer):
            cache.layers[number] = registered_states(layer, holder, cache.states, number, length)
        else:
            cache.layers[number] = registered(
                layer, holder, number, length, newest_last=newest_last
            )
    cache.loose = LooseStates(holder, used.loose) if used.loose else None
    cache.states += cache.loose.names if used.loose else []
    cache.masked = _mask(length) if newest_last else None
    return cache


def _mask(length: int) -> Callable[[Any], Any]:
    """From the places of the newest tokens to the mask by which they see what is before them."""
    import torch

    def mask(places: Any) -> Any:
        keys = torch.arange(length) + places[-1] + 1 - length
        seen = (keys >= 0) & (keys <= places[:, None])
        return torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]

    return mask


def _agrees(model: Any, length: int, newest_last: bool = False) -> bool:
    """Whether a text read in a chunk and a token has the scores that it has without a cache."""
    import torch

    rows = min(int(model.get_input_embeddings().weight.shape[0]), 1000)
    count = min(_CHUNK, length - 1)
    text = torch.arange(1, count + 2) % rows
    holder = torch.nn.Module()
    holder.register_buffer("position", torch.zeros((), dtype=torch.int32))
    found = []
    try:
        with torch.no_grad():
            cache = _built(model, _used(model), holder, length, newest_last=newest_last)
            for places in torch.arange(count + 1).split(count):
                found.append(scores_of(model, cache, text[places], places)[-1])
                holder.position += len(places)
            right = model(text[None], use_cache=False).logits[0, [count - 1, count]]
    except Exception:  # noqa: BLE001 - models raise errors of every kind; the trace will tell
        return False
    tolerance = 1e-3 * float(right.abs().max())
    return bool(torch.allclose(torch.stack(found), right, rtol=1e-3, atol=tolerance))


def scores_of(model: Any, cache: Any, tokens: Any, places: Any, *, kept: Any = None) -> Any:
    """Scores of what follows each of the tokens, which stand at these places.

    Args:
        kept: only of these, by their numbers, if the model knows how.
    """
    import torch

    given = {} if kept is None else {"logits_to_keep": kept}
    if cache.masked is not None:
        given["attention_mask"] = cache.masked(places)
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
        layers = [_known_layer(model, layer, own=own) for layer in getattr(cache, "layers", ())]
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


def _known_layer(model: Any, layer: Any, *, own: bool) -> Any | None:
    """The layer; None if it keeps nothing.

    Raises:
        UnsupportedOp: it keeps something else than a token's keys and values, and states.
    """
    if not is_known(layer):
        raise UnsupportedOp(
            f"{type(model).__name__} keeps a {type(layer).__name__}, and edgec knows caches of "
            "keys and values, and of states that are as large for any text",
            hint="choose a model whose layers are attention or recurrent",
        )
    keys = getattr(layer, "keys", None)
    if own and keys is not None and keys.shape[-2] != 1:
        raise UnsupportedOp(
            f"{type(model).__name__} keeps {keys.shape[-2]} keys of one token, and edgec knows "
            "caches of a key a token",
            hint="export its own code instead, the cache as buffers that it writes: FILE.py:NAME",
        )
    return layer if keys is not None or states_of(layer) else None


def _is_silent(layer: Any) -> bool:
    """Whether it should keep something and keeps nothing."""
    from transformers.cache_utils import DummyLayer

    has_keys = getattr(layer, "keys", None) is not None
    return not isinstance(layer, DummyLayer) and not has_keys and not states_of(layer)
