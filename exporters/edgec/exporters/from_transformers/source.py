"""What an encoder reads before its decoder writes: a text's tokens, or features of sound.

The encoder runs once for a source. What every layer of the decoder keeps of it, keys and values, is
in buffers of the module, beside the decoder's own cache.
"""

from dataclasses import dataclass
from typing import Any

from edgec.exporters.failures import reason_of
from edgec.exporters.from_transformers.cache import cache_of_decoder
from edgec.runtime.errors import UnsupportedOp

__all__ = ["Source", "source_of"]

_TEXT = "input_ids"
_SOUND = "input_features"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of one size; a shorter text is padded.

    Attributes:
        name: what the model calls it.
        shape: its size without a batch: tokens, or features by frames.
        layers: how many layers the decoder has.
    """

    name: str
    shape: tuple[int, ...]
    layers: int

    @property
    def is_text(self) -> bool:
        """Whether it is a text's tokens."""
        return self.name == _TEXT

    def example(self) -> tuple[Any, ...]:
        """What `encode` is traced with."""
        import torch

        if self.is_text:
            return torch.zeros(self.shape, dtype=torch.int32), torch.ones((), dtype=torch.int32)
        return (torch.zeros(self.shape),)

    def given(self, values: Any, count: Any) -> dict[str, Any]:
        """As the model takes it, with a batch and what of it counts."""
        import torch

        if not self.is_text:
            return {self.name: values[None]}
        return {self.name: values.to(torch.int64)[None], "attention_mask": self.mask(count)}

    def mask(self, count: Any) -> Any:
        """Which tokens count."""
        import torch

        return (torch.arange(self.shape[0]) < count).to(torch.int64)[None]

    def kept_cache(self, model: Any, holder: Any, length: int) -> Any:
        """The decoder's cache of `length` tokens, and buffers for what it keeps of a source.

        Raises:
            UnsupportedOp: the model does not run so.
        """
        import torch

        one = torch.ones((), dtype=torch.int32)
        try:
            with torch.no_grad():
                _, layers = self.read(model, self.example()[0], one)
                cache = cache_of_decoder(self._asked(model, one), holder, length)
        except Exception as error:  # models raise errors of every kind
            raise UnsupportedOp(
                f"{type(model).__name__} does not run with a cache of keys and values: "
                f"{reason_of(error)}",
                hint="export its own code instead, the cache as buffers that it writes: "
                "FILE.py:NAME",
            ) from error
        for number, (keys, values) in enumerate(layers):
            holder.register_buffer(f"source_keys_{number}", keys, persistent=False)
            holder.register_buffer(f"source_values_{number}", values, persistent=False)
        holder.register_buffer("source", one * 0, persistent=False)
        return cache

    def read(self, model: Any, values: Any, count: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """Run the encoder: its states, and the keys and values of each layer of the decoder."""
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        given = self.given(values, count)
        hidden = model.get_encoder()(**given).last_hidden_state
        cache = _growing_cache()
        # The decoder reads a token for what it keeps of the source; nothing else of it is used.
        model(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            decoder_input_ids=torch.zeros(1, 1, dtype=torch.int64),
            past_key_values=cache,
            use_cache=True,
            **self._masked(count),
        )
        kept = cache.cross_attention_cache.layers[: self.layers]
        return hidden, [(layer.keys, layer.values) for layer in kept]

    def keep(self, holder: Any, model: Any, values: Any, count: Any) -> Any:
        """Read a source into the buffers; how many states the encoder made, -1 for none."""
        import torch

        hidden, layers = self.read(model, values, count)
        fits = (count >= 1) & (count <= self.shape[0]) if self.is_text else count >= 1
        for number, (keys, values_) in enumerate(layers):
            for name, new in (("keys", keys), ("values", values_)):
                buffer = getattr(holder, f"source_{name}_{number}")
                buffer.copy_(torch.where(fits, new, buffer))
        holder.source.copy_(torch.where(fits, count, holder.source))
        holder.position.copy_(torch.where(fits, 0, holder.position))
        made = count if self.is_text else count * hidden.shape[1]
        return torch.where(fits, made, -1)

    def scores(self, holder: Any, model: Any, tokens: Any, places: Any) -> Any:
        """Scores of what follows each of the tokens, which stand at these places."""
        import inspect

        import torch
        from transformers import Cache, EncoderDecoderCache
        from transformers.modeling_outputs import BaseModelOutput

        layers = [
            _known_layer(
                getattr(holder, f"source_keys_{number}"), getattr(holder, f"source_values_{number}")
            )
            for number in range(self.layers)
        ]
        cache = EncoderDecoderCache(holder.cache, Cache(layers=layers))
        cache.is_updated = dict.fromkeys(range(self.layers), True)
        length = layers[0].keys.shape[-2]
        width = int(model.config.get_text_config().hidden_size)
        more = {}
        if "decoder_position_ids" in inspect.signature(model.forward).parameters:
            # A padded chunk may reach behind the last place that there is.
            more["decoder_position_ids"] = places[None].clamp(max=holder.last_place)
        return model(
            # Whose keys and values are known; only its size is asked for.
            encoder_outputs=BaseModelOutput(last_hidden_state=torch.zeros(1, length, width)),
            decoder_input_ids=tokens.to(torch.int64)[None],
            past_key_values=cache,
            use_cache=True,
            **self._masked(holder.source),
            **more,
        ).logits[0]

    def _masked(self, count: Any) -> dict[str, Any]:
        return {"attention_mask": self.mask(count)} if self.is_text else {}

    def _asked(self, model: Any, count: Any) -> Any:
        """The decoder's own cache after one token."""
        import torch

        cache = _growing_cache()
        given = self.given(self.example()[0], count)
        model(
            **given,
            decoder_input_ids=torch.zeros(1, 1, dtype=torch.int64),
            past_key_values=cache,
            use_cache=True,
        )
        return cache.self_attention_cache


def source_of(model: Any, context: int) -> Source | None:
    """What the model's encoder reads; None where it has none.

    Args:
        model: a `PreTrainedModel` that writes.
        context: how many tokens of a text.

    Raises:
        UnsupportedOp: it reads something else than text or sound.
    """
    config = model.config
    if not getattr(config, "is_encoder_decoder", False):
        return None
    numbers = ("decoder_layers", "num_decoder_layers", "num_hidden_layers")
    layers = next(int(getattr(config, name)) for name in numbers if getattr(config, name, None))
    if model.main_input_name == _TEXT:
        return Source(name=_TEXT, shape=(context,), layers=layers)
    encoder = model.get_encoder()
    strides = [getattr(getattr(encoder, name, None), "stride", None) for name in ("conv1", "conv2")]
    rows = getattr(config, "num_mel_bins", None)
    if model.main_input_name != _SOUND or rows is None or None in strides:
        raise UnsupportedOp(
            f"{type(model).__name__} reads {model.main_input_name}, and edgec knows encoders of "
            "text and of sound",
            hint="export its own code instead: FILE.py:NAME",
        )
    frames = int(config.max_source_positions)
    for stride in strides:
        frames *= int(stride[0]) if stride is not None else 1
    return Source(name=_SOUND, shape=(int(rows), frames), layers=layers)


def _growing_cache() -> Any:
    from transformers import DynamicCache, EncoderDecoderCache

    return EncoderDecoderCache(DynamicCache(), DynamicCache())


def _known_layer(keys: Any, values: Any) -> Any:
    """A layer of a cache that holds these, and is not written."""
    from transformers.cache_utils import DynamicLayer

    layer = DynamicLayer()
    layer.keys, layer.values = keys, values
    layer.is_initialized = True
    return layer
