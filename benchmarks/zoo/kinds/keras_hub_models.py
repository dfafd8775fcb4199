"""Every backbone of `keras_hub`, made small: what a constructor asks for, by what its name counts.

Those that are put together from other models, or from lists of stages, ask for more than counts.
"""

import inspect
import re
from typing import Any

from benchmarks.zoo.kinds import keras_models
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_TOKENS, _SIDE, _VOCABULARY = 16, 64, 256
_MOST = 40_000_000  # parameters

# What an argument's name counts, the first that fits → how many there shall be.
_SIZES = {
    r"vocab(ulary)?_size": _VOCABULARY,
    r"key_value_heads": 2,
    r"heads": 4,
    r"head_(dim|size)": 16,
    r"layers": 2,
    r"(intermediate|mlp|moe).*(dim|size)": 96,
    r"(hidden|embedding|filter)_(dim|size)|^embed_dim": 64,
    r"num_experts": 4,
    r"^top_k": 2,
    r"patch_size": 16,
    r"image_size": _SIDE,
}


def names() -> list[str]:
    keras_models.chosen("jax")
    from keras_hub import models

    return sorted(name for name in vars(models) if name.endswith("Backbone") and name[0].isupper())


def build(name: str) -> Built:
    keras_models.chosen("jax")
    import keras
    from keras_hub import models

    keras.utils.set_random_seed(0)
    kind = getattr(models, name)
    try:
        model = kind(**_sizes(kind))
    except Exception as error:
        raise Left(f"no small {name}: {type(error).__name__}: {str(error)[:120]}") from error
    if model.count_params() > _MOST:
        raise Left(f"{model.count_params() // 1_000_000} million parameters")
    inputs = model.input
    if isinstance(inputs, dict):
        return Built(model=model, inputs=({key: _example(v) for key, v in inputs.items()},))
    return Built(model=model, inputs=(_example(inputs),))


def _sizes(kind: Any) -> dict[str, Any]:
    """Arguments that have no default, and pictures no larger than they need be."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name == "image_shape":
            found[name] = (_SIDE, _SIDE, 3)
        elif parameter.default is parameter.empty and parameter.kind in _BY_NAME and name != "self":
            found[name] = _size(name)
    return found


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _size(name: str) -> int:
    for pattern, size in _SIZES.items():
        if re.search(pattern, name):
            return size
    raise Left(f"it asks for {name}, which is no count that is known here")


def _example(tensor: Any) -> Any:
    """Ids, masks of ones, or reals for an input of the model; open sizes are a few."""
    import numpy as np

    open_sizes = {2: (1, _TOKENS), 3: (1, 50, 80), 4: (1, _SIDE, _SIDE, 3)}.get(len(tensor.shape))
    if open_sizes is None:
        raise Left(f"its input {tensor.name} has {len(tensor.shape)} axes")
    shape = [
        other if size is None else size
        for size, other in zip(tensor.shape, open_sizes, strict=True)
    ]
    random = np.random.default_rng(0)
    if "int" not in tensor.dtype and tensor.dtype != "bool":
        return random.standard_normal(shape).astype(tensor.dtype)
    if "mask" in tensor.name:
        return np.ones(shape, tensor.dtype)
    if "segment" in tensor.name or "position" in tensor.name:
        return np.zeros(shape, tensor.dtype)
    return random.integers(3, _VOCABULARY, shape).astype(tensor.dtype)
