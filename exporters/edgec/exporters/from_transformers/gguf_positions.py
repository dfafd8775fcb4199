"""How a GGUF file stretches rotary positions, put into the model that transformers made of it.

transformers reads their base alone. Llama 3's files have a factor for each frequency as a tensor,
others a rule of their own in their keys; without it a model writes well for a while, and then
something else than it does elsewhere.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["FACTORS", "set_positions"]

FACTORS = "rope_freqs.weight"
"""The tensor with a factor for each frequency."""

_RULE = "rope.scaling."
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "factor": "factor",
        "original_context_length": "original_max_position_embeddings",
        "attn_factor": "attention_factor",
        "yarn_beta_fast": "beta_fast",
        "yarn_beta_slow": "beta_slow",
    }
)
"""What transformers calls the numbers of a rule."""
_RULES = ("linear", "yarn")
_FOLDER = "export the model's folder: hf:FOLDER"


def set_positions(path: Path, reader: Any, model: Any) -> None:
    """Change a model's rotary frequencies as its file says.

    Args:
        path: the file.
        reader: of the file.
        model: what transformers made of it.

    Raises:
        UnsupportedOp: the file has a rule that is not known here, or the model no place for it.
    """
    rule = _rule(reader)
    factors = next((t.data for t in reader.tensors if t.name == FACTORS), None)
    kind = rule.pop("type", "none")
    if kind == "none" and factors is None:
        return
    if kind not in ("none", *_RULES):
        raise UnsupportedOp(
            f"{path} stretches positions by {kind}, which transformers does not read from GGUF",
            hint=_FOLDER,
        )
    places = _rotary(model)
    if not places:
        raise UnsupportedOp(
            f"{path} stretches positions, and {type(model).__name__} has none that are known",
            hint=_FOLDER,
        )
    for place in places:
        if kind != "none":
            _apply_rule(path, place, kind, rule)
        if factors is not None:
            _divide(path, place, factors)


def _rule(reader: Any) -> dict[str, Any]:
    """The keys of a file's rule, without what they all begin with."""
    return {
        name.partition(_RULE)[2]: field.contents()
        for name, field in reader.fields.items()
        if _RULE in name
    }


def _rotary(model: Any) -> list[Any]:
    """The modules that turn queries and keys by their positions."""
    return [module for module in model.modules() if "inv_freq" in dict(module.named_buffers())]


def _apply_rule(path: Path, place: Any, kind: str, rule: Mapping[str, Any]) -> None:
    """Frequencies by a rule that transformers knows, as it does with a folder that names it."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    unknown = sorted(set(rule) - set(_KEYS) - {"finetuned"})
    if unknown:
        raise UnsupportedOp(
            f"{path} stretches positions by {kind} with {unknown[0]}, which is not known here",
            hint=_FOLDER,
        )
    given = {_KEYS[name]: value for name, value in rule.items() if name in _KEYS}
    config = place.config
    config.rope_parameters = {**config.rope_parameters, "rope_type": kind, **given}
    frequencies, place.attention_scaling = ROPE_INIT_FUNCTIONS[kind](config, None)
    place.inv_freq.copy_(frequencies)


def _divide(path: Path, place: Any, factors: Any) -> None:
    import torch

    if tuple(place.inv_freq.shape) != tuple(factors.shape):
        raise UnsupportedOp(
            f"{path} has {factors.size} factors of positions, and {type(place).__name__} "
            f"{place.inv_freq.numel()} frequencies",
            hint=_FOLDER,
        )
    place.inv_freq.div_(torch.from_numpy(factors.copy()))
