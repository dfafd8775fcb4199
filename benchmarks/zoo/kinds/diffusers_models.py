"""Every model of `diffusers` that can be made small and called by the names of its arguments."""

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_MOST = 40_000_000  # parameters
_TOKENS, _SIDE = 16, 16


def names() -> list[str]:
    declare_torchvision()
    from diffusers import models

    return sorted(
        name
        for module, members in models._import_structure.items()
        if "." in module
        for name in members
        if name[0].isupper() and "Multi" not in name
    )


def build(name: str) -> Built:
    import torch

    declare_torchvision()
    kind = _kind(name)
    problems: list[str] = []
    for sizes in (_SMALL, _LAYERS, {}):
        try:
            torch.manual_seed(0)
            plain = {**_cut(kind, sizes)}
            with torch.device("meta"):
                count = sum(p.numel() for p in kind(**plain).parameters())
            if count > _MOST:
                raise ValueError(f"{count // 1_000_000} million parameters")
            model = kind(**plain).eval()
        except Exception as error:  # noqa: BLE001 - sizes that do not go together; others may
            problems.append(_shortly(error))
            continue
        for inputs in _inputs(model):
            try:
                with torch.no_grad():
                    model(**inputs)
            except Exception as error:  # noqa: BLE001 - a shape that does not fit; another may
                problems.append(_shortly(error))
                continue
            return subject(model, kwargs=inputs)
    raise Left(f"no small {name}: {'; '.join(dict.fromkeys(problems))[:300]}")


# What a parameter's name counts → how many there shall be.
_LAYERS = {
    r"^(num_layers|num_single_layers|num_refiner_layers|depth|num_decoder_layers)$": 1,
    r"^(layers_per_block|encoder_layers_per_block|decoder_layers_per_block)$": 1,
}
_SMALL = _LAYERS | {
    r"num_attention_heads$|^num_key_value_heads$|^num_kv_heads$|^n_heads$": 2,
    r"^(attention_head_dim)$": 16,
    r"^(hidden_size|inner_dim)$": 32,
    r"^(cross_attention_dim|joint_attention_dim|caption_channels|text_embed_dim)$": 32,
    r"^(pooled_projection_dim|text_dim|embedding_dim|caption_projection_dim)$": 32,
    r"^(intermediate_size|ffn_dim)$": 64,
    r"^(sample_size)$": _SIDE,
}


def _kind(name: str) -> Any:
    from diffusers import models

    module = next(m for m, members in models._import_structure.items() if name in members)
    return getattr(importlib.import_module(f"diffusers.models.{module}"), name)


def _cut(kind: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    found = {}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        value = parameter.default
        for pattern, size in sizes.items():
            if isinstance(value, bool) or not re.search(pattern, name):
                continue
            if isinstance(value, int) and value > size:
                found[name] = size
            elif isinstance(value, tuple | list) and value and isinstance(value[0], int):
                found[name] = type(value)(min(size, item) for item in value)
    return found


def _inputs(model: Any) -> Iterator[dict[str, Any]]:
    """Arguments for the names in `forward`, with pictures, films, sounds or tokens in turn."""
    import torch

    config = model.config
    channels = config.get("in_channels") or config.get("in_chans") or 3
    width = next(
        (
            config[name]
            for name in (
                "cross_attention_dim",
                "joint_attention_dim",
                "caption_channels",
                "text_embed_dim",
                "text_dim",
                "encoder_hidden_dim",
            )
            if isinstance(config.get(name), int)
        ),
        32,
    )
    for shape in (
        (1, channels, _SIDE, _SIDE),
        (1, channels, 1, _SIDE, _SIDE),
        (1, 1, channels, _SIDE, _SIDE),
        (1, _TOKENS, channels),
        (1, channels, 64),
        (1, channels, 2048),
    ):
        known = {
            "sample": torch.randn(*shape),
            "hidden_states": torch.randn(*shape),
            "x": torch.randn(*shape),
            "timestep": torch.tensor([7.0]),
            "timesteps": torch.tensor([7.0]),
            "class_labels": torch.tensor([1]),
            "encoder_hidden_states": torch.randn(1, _TOKENS, width),
            "encoder_attention_mask": torch.ones(1, _TOKENS),
            "encoder_hidden_states_mask": torch.ones(1, _TOKENS, dtype=torch.bool),
            "pooled_projections": torch.randn(1, config.get("pooled_projection_dim") or 32),
            "proj_embedding": torch.randn(1, config.get("embedding_dim") or 32),
            "guidance": torch.tensor([3.5]),
            "img_ids": torch.zeros(_TOKENS, 3),
            "txt_ids": torch.zeros(_TOKENS, 3),
            "controlnet_cond": torch.randn(1, 3, 8 * _SIDE, 8 * _SIDE),
        }
        wanted = {
            name: known.get(name)
            for name, parameter in inspect.signature(model.forward).parameters.items()
            if parameter.default is parameter.empty or name in ("encoder_hidden_states", "timestep")
            if parameter.kind is not parameter.VAR_KEYWORD
        }
        if all(value is not None for value in wanted.values()):
            yield wanted


def _shortly(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
