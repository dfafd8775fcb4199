"""One model of each family of `transformers`, from its own configuration made small.

The library's mapping of configurations to models is the list. Sizes are cut by what an attribute's
name says it counts, in several ways from very small to nearly the default; the first that builds
and runs is taken. Inputs are made for the model's main input, or found by asking it. Where no such
cut fits, sizes are fitted one by one.
"""

import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.zoo.kinds.fitted import fitted
from benchmarks.zoo.kinds.probing import inputs_for
from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built, Left

__all__ = ["CUTS", "Cuts", "build", "names", "parameters", "shortly", "small"]

Cuts = Mapping[str, int]
"""What an attribute's name counts → how many there shall be."""

_LENGTH, _PICTURE, _SOUND, _WORDS = 16, 64, 4000, 256
_MOST = 40_000_000  # parameters; a family that cannot be made smaller is left out


def names() -> list[str]:
    declare_torchvision()
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def build(name: str, auto: str = "AutoModel") -> Built:
    """A family's model with seeded weights, as one of the library's `Auto…` classes makes it."""
    import transformers

    declare_torchvision()
    problems: list[str] = []
    models: list[Any] = []
    for cuts in CUTS:
        try:
            model = _model(small(name, cuts, getattr(transformers, auto)), auto)
            models.append(model)
            return subject(model, kwargs=_taken(model))
        except Exception as error:  # noqa: BLE001 - a cut that does not fit; another may
            problems.append(shortly(error))
    asked = [partial(_asked, model) for model in models[:1]]
    for made in (*asked, partial(_fitted, name, auto)):
        try:
            model, inputs = made()
        except Exception as error:  # noqa: BLE001 - nothing fits, which is told with the rest
            problems.append(shortly(error))
        else:
            return subject(model, kwargs=inputs)
    raise Left(f"no small {name} could be built: {'; '.join(dict.fromkeys(problems))}")


def small(name: str, cuts: Cuts, auto: Any) -> Any:
    """A family's configuration with these cuts, if the model that `auto` makes of it is small."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[name]()
    for part in _parts(config):
        _cut(part, cuts)
    config.return_dict = True
    size = parameters(config, auto)
    if size > _MOST:
        raise ValueError(f"{size // 1_000_000} million parameters")
    return config


def parameters(config: Any, auto: Any) -> int:
    """How many parameters the model has that `auto` makes of a configuration."""
    import torch

    with torch.device("meta"):
        return sum(p.numel() for p in auto.from_config(config).parameters())


def shortly(error: Exception) -> str:
    """An error's kind and the begin of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"


def _model(config: Any, auto: str) -> Any:
    """The seeded model that one of the library's classes makes, without a cache."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, auto).from_config(config).eval()
    for part in _parts(model.config):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    return model


def _taken(model: Any) -> dict[str, Any]:
    """The first of the inputs made for it that a model takes.

    Raises:
        Exception: it takes none; what the first that were made came to.
    """
    import torch

    problems: list[Exception] = []
    given = _inputs(model, model.config)
    for inputs in (given, _masked(model, given), _turned(given), _text(given)):
        try:
            with torch.no_grad():
                model(**inputs)
        except Exception as error:  # noqa: BLE001 - others may be taken
            problems.append(error)
        else:
            return inputs
    raise problems[0]


def _asked(model: Any) -> tuple[Any, dict[str, Any]]:
    return model, inputs_for(model)


def _fitted(name: str, auto: str) -> tuple[Any, dict[str, Any]]:
    """A model whose sizes are fitted until it runs, of a family that no cut of names suits."""
    import transformers

    shared = {"vocab_size": _WORDS, "return_dict": True}
    shared |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = fitted(
        transformers.CONFIG_MAPPING[name],
        shared,
        partial(parameters, auto=getattr(transformers, auto)),
        lambda config: _taken(_model(config, auto)),
        most=_MOST,
    )
    model = _model(config, auto)
    return model, _taken(model)


_SMALL = {
    r"^(hidden_size|d_model|n_embd|dim|embed_dim|encoder_hidden_size|model_dim)$": 64,
    r"^(word_embed_proj_dim|embedding_size|projection_dim)$": 64,
    r"^(intermediate_size|ffn_dim|d_ff|encoder_ffn_dim|decoder_ffn_dim|n_inner|mlp_dim)$": 96,
    r"^(moe_intermediate_size|shared_expert_intermediate_size)$": 48,
    r"(num_hidden_layers|n_layers?|num_layers|encoder_layers|decoder_layers|depth)$": 2,
    r"(num_attention_heads|n_heads?|num_heads|encoder_attention_heads|decoder_attention_heads)$": 4,
    r"^(num_key_value_heads|num_kv_heads)$": 2,
    r"^(head_dim|d_kv)$": 16,
    # Recurrent layers: heads times their width is what they expand the hidden size to.
    r"^(mamba_expand|expand|mamba_n_?groups|n_groups)$": 1,
    r"^(mamba_n_heads|mamba_num_heads|n_mamba_heads|linear_num_(key|value)_heads)$": 4,
    r"^(mamba_d_head|mamba_head_?dim|linear_(key|value)_head_dim)$": 16,
    r"^(state_size|ssm_state_size|mamba_d_state|mamba_dt_rank)$": 16,
    r"^(mamba_d_ssm|lru_width)$": 64,
    r"^(attn|expert)_layer_(period|offset)$": 2,
    r"^(vocab_size|text_vocab_size)$": _WORDS,
    r"^(num_local_experts|num_experts|n_routed_experts)$": 4,
    r"^(num_experts_per_tok|num_experts_per_token|moe_top_?k|moe_topk)$": 2,
    r"^(image_size)$": _PICTURE,
    r"^(num_queries)$": 8,
}
_LAYERS = {key: value for key, value in _SMALL.items() if "layers" in key}
_KEEP_WIDTH = {
    key: value
    for key, value in _SMALL.items()
    if not key.startswith("^(hidden") and "heads" not in key
}
CUTS: tuple[Cuts, ...] = (_SMALL, _KEEP_WIDTH, _LAYERS, {})


def _parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it."""
    from transformers import PretrainedConfig

    yield config
    for value in list(vars(config).values()):
        if isinstance(value, PretrainedConfig):
            yield from _parts(value)


def _cut(config: Any, cuts: Cuts) -> None:
    for key, value in list(vars(config).items()):
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        for pattern, size in cuts.items():
            named = "layers" in key and getattr(config, "out_indices", None)  # by their numbers
            if re.search(pattern, key) and value > size and not named:
                setattr(config, key, size - key.endswith("offset"))
        if cuts is _SMALL and key.endswith("token_id") and value >= 256:
            setattr(config, key, 1)
    types = getattr(config, "layer_types", None)
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(types, list) and isinstance(layers, int) and len(types) > layers:
        # Each kind of layer stays, even where that makes more of them.
        kept = list(dict.fromkeys(types))
        kept = [*kept, *types[len(kept) : max(layers, len(kept))]]
        with contextlib.suppress(AttributeError):  # of some it follows from other numbers
            config.layer_types = kept
            config.num_hidden_layers = len(kept)


def _masked(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with the masks that some models do not make themselves: all of it counts."""
    import torch

    masks = {}
    for name, value in inputs.items():
        mask = "attention_mask" if name == "input_ids" else f"{name}_mask"
        if mask in inspect.signature(model.forward).parameters:
            shape = value.shape if name == "input_ids" else value.shape[::2]
            masks[mask] = torch.ones(shape, dtype=torch.long)
    return {**inputs, **masks}


def _turned(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with the features of sound last, as some models take them."""
    return {k: v.transpose(1, 2) if k == "input_features" else v for k, v in inputs.items()}


def _text(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs without the picture, which some models want cut into pieces."""
    return {k: v for k, v in inputs.items() if k != "pixel_values" or "input_ids" not in inputs}


def _inputs(model: Any, config: Any) -> dict[str, Any]:
    import torch

    text = config.get_text_config()
    vocabulary = getattr(text, "vocab_size", None) or 100
    ids = torch.randint(3, max(4, min(vocabulary, 250)), (1, _LENGTH))
    main = model.main_input_name
    if main == "input_ids":
        found = {"input_ids": ids}
    elif main == "pixel_values":
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", _PICTURE)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        channels = getattr(vision, "num_channels", 3)
        found = {"pixel_values": torch.randn(1, channels, height, width)}
    elif main == "input_values" and hasattr(config, "num_mel_bins"):  # a spectrum
        found = {"input_values": torch.randn(1, config.max_length, config.num_mel_bins)}
    elif main == "input_values":
        channels = getattr(config, "audio_channels", None)
        shape = (1, _SOUND) if channels is None else (1, channels, _SOUND)
        found = {"input_values": torch.randn(*shape)}
    elif main == "input_features":
        bins = getattr(config, "num_mel_bins", getattr(config, "feature_size", 80))
        frames = 2 * getattr(config, "max_source_positions", 50)
        found = {"input_features": torch.randn(1, bins, frames)}
    else:
        raise ValueError(f"no inputs are known for {main}")
    accepted = inspect.signature(model.forward).parameters
    if "decoder_input_ids" in accepted and config.is_encoder_decoder:
        found["decoder_input_ids"] = ids[:, :4]
    if "pixel_values" in accepted and main == "input_ids" and hasattr(config, "vision_config"):
        size = getattr(config.vision_config, "image_size", _PICTURE)
        found["pixel_values"] = torch.randn(1, 3, size, size)
    if "use_cache" in accepted:
        found["use_cache"] = False
    return found
