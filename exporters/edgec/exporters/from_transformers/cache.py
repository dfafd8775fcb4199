"""A static cache of transformers whose keys and values are buffers of a module, and stay whole.

transformers cuts the cache of a sliding window to the window and moves what is in it. Here every
layer keeps all tokens and the mask alone says what is seen: a prompt can come in padded chunks,
and any token can be taken back.
"""

from typing import Any

from edgec.exporters.failures import reason_of
from edgec.runtime.errors import UnsupportedOp

__all__ = ["cache_of_decoder", "kept_cache"]


def kept_cache(model: Any, holder: Any, length: int) -> Any:
    """A cache of `length` tokens for a model, in buffers of `holder`.

    The module `holder` has a buffer `position`, the number of tokens that are there; a layer's
    are `keys_0`, `values_0` …

    Raises:
        UnsupportedOp: a layer keeps something else than keys and values of each token.
    """
    from transformers import StaticCache

    cache = StaticCache(config=model.config, max_cache_len=length)
    layers = _used_layers(model)
    for number, (layer, used) in enumerate(zip(cache.layers, layers, strict=True)):
        if used is None:
            continue
        del layer
        cache.layers[number] = _registered(used, holder, number, length)
    return cache


def cache_of_decoder(used: Any, holder: Any, length: int) -> Any:
    """The same of a decoder behind an encoder, by its own cache after one token (`used`)."""
    from transformers import Cache

    layers = [layer for layer in used.layers if layer.is_initialized]
    return Cache(
        layers=[_registered(layer, holder, number, length) for number, layer in enumerate(layers)]
    )


def _registered(used: Any, holder: Any, number: int, length: int) -> Any:
    """A layer as the used one, in buffers of the holder."""
    kept = _kept_layer(holder, length)
    kept.lazy_initialization(used.keys[:, :, :0], used.values[:, :, :0])
    holder.register_buffer(f"keys_{number}", kept.keys, persistent=False)
    holder.register_buffer(f"values_{number}", kept.values, persistent=False)
    return kept


def _used_layers(model: Any) -> list[Any | None]:
    """The layers of a cache after one token, which know their sizes; None for what keeps nothing.

    Raises:
        UnsupportedOp: as `kept_cache`.
    """
    import torch
    from transformers import StaticCache
    from transformers.cache_utils import DummyLayer, StaticLayer, StaticSlidingWindowLayer

    try:
        cache = StaticCache(config=model.config, max_cache_len=2)
        with torch.no_grad():
            model(torch.zeros(1, 1, dtype=torch.int64), past_key_values=cache, use_cache=True)
    except Exception as error:  # models raise errors of every kind
        raise UnsupportedOp(
            f"{type(model).__name__} does not run with transformers' static cache: "
            f"{reason_of(error)}",
            hint="export its own code instead, the cache as buffers that it writes: FILE.py:NAME",
        ) from error
    found: list[Any | None] = []
    for layer in cache.layers:
        if type(layer) is DummyLayer:
            found.append(None)
        elif type(layer) in (StaticLayer, StaticSlidingWindowLayer):
            if not layer.is_initialized:
                raise UnsupportedOp(
                    f"{type(model).__name__} writes nothing into the cache of keys and values that "
                    "it is given: it reads a text anew for each token",
                    hint="choose a model that keeps a cache; or export its own code: FILE.py:NAME",
                )
            found.append(layer)
        else:
            raise UnsupportedOp(
                f"{type(model).__name__} keeps a {type(layer).__name__}, and edgec knows caches of "
                "keys and values alone",
                hint="choose a model whose layers are all attention",
            )
    return found


def _kept_layer(holder: Any, length: int) -> Any:
    """A layer that writes at the holder's position, and leaves moving it to the holder."""
    import torch
    from transformers.cache_utils import StaticLayer

    class KeptLayer(StaticLayer):  # type: ignore[misc]
        def update(self, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            count = keys.shape[-2]
            # The clamp says that all of it is inside, which the caller sees to.
            start = self.get_seq_length().clamp(0, length - count)
            places = torch.arange(count) + start
            self.keys.index_copy_(2, places, keys)
            self.values.index_copy_(2, places, values)
            return self.keys, self.values

        def get_seq_length(self) -> Any:
            return holder.position.to(torch.int64)

    return KeptLayer(length)
