"""Every model of `diffusers` that can be made small, with inputs found by asking it."""

import importlib
import inspect
import itertools
import math
import re
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.zoo.kinds.probing import inputs_for
from benchmarks.zoo.kinds.torch_models import declare_torchvision, subject
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_MOST = 40_000_000  # parameters
_WIDTH, _SIDE = 32, 16
_SECONDS = 60.0
"""Of a core's work; after that no other sizes are tried."""


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
    declare_torchvision()
    kind = _kind(name)
    problems: list[str] = []
    end = time.thread_time() + _SECONDS
    for sizes, filled in itertools.product((_SMALL, _LAYERS, {}), (False, True)):
        if time.thread_time() > end:
            break
        try:
            model = _small(kind, {**_required(kind, filled=filled), **_cut(kind, sizes)})
            inputs = inputs_for(model)
        except Exception as error:  # noqa: BLE001 - sizes that do not go together; others may
            problems.append(_shortly(error))
            continue
        return subject(model, kwargs=inputs)
    raise Left(f"no small {name}: {'; '.join(dict.fromkeys(problems))[:300]}")


def _small(kind: Any, values: Mapping[str, Any]) -> Any:
    """The model with these values, or with the smaller ones that it needs to be small."""
    import torch

    values = dict(values)
    if math.isinf(_parameters(kind, values)):
        with torch.device("meta"):
            kind(**values)  # says why
    while (count := _parameters(kind, values)) > _MOST:
        smaller = [
            {**values, name: less}
            for name, value in _numbers(kind, values).items()
            for less in _smaller(value)
        ]
        size, best = min(
            ((_parameters(kind, tried), tried) for tried in smaller), key=lambda one: one[0]
        )
        if size >= count:
            raise ValueError(f"{count // 1_000_000} million parameters")
        values = best
    torch.manual_seed(0)
    return kind(**values).eval()


def _parameters(kind: Any, values: Mapping[str, Any]) -> float:
    """How many there are; infinite if the values do not go together."""
    import torch

    try:
        with torch.device("meta"):
            return sum(p.numel() for p in kind(**values).parameters())
    except Exception:  # noqa: BLE001 - whatever its constructor says
        return math.inf


def _numbers(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """All that is counted by the constructor's arguments."""
    defaults = {n: p.default for n, p in inspect.signature(kind.__init__).parameters.items()}
    return {
        name: value
        for name, value in {**defaults, **values}.items()
        if (isinstance(value, int) and not isinstance(value, bool) and value > 1)
        or (isinstance(value, tuple | list) and value and all(type(v) is int for v in value))
    }


def _smaller(value: Any) -> list[Any]:
    """A number's half; of several their halves, and all as the least of them or as a width."""
    if isinstance(value, int):
        return [value // 2]
    sizes = {min(value), *(size for size in (_WIDTH, 2 * _WIDTH) if size < min(value))}
    found = [type(value)(max(1, item // 2) for item in value)]
    found += [type(value)(size for _ in value) for size in sorted(sizes)]
    return [less for less in found if less != value]


def _required(kind: Any, *, filled: bool) -> dict[str, Any]:
    """Values for what has no default, by its annotation; `filled` for those that are None, too."""
    found: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if parameter.default is parameter.empty or (filled and parameter.default is None):
            said = str(parameter.annotation).lower()
            if "tuple[int" in said or "list[int" in said:
                found[name] = (_WIDTH, 2 * _WIDTH)
            elif "int" in said:
                found[name] = 4 if parameter.default is parameter.empty else _SIDE
    return found


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


def _shortly(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
