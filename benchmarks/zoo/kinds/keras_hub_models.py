"""Every backbone of `keras_hub`, made small: what a constructor asks for, by what its name counts.

What asks for more than counts (other models, lists of stages) is made as the library's own
documentation makes one, small in what is a count.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from benchmarks.zoo.kinds import keras_models
from benchmarks.zoo.kinds.documented import documented
from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_TOKENS, _FRAMES, _SIDE, _VOCABULARY = 16, 4, 64, 256
_MOST = 40_000_000  # parameters
_SIDES = (_SIDE, 256, None)
"""Of the pictures of documented models; None for as documented."""

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
    r"num_frames": _FRAMES,
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
    from keras_hub import models

    problems = []
    ways = (lambda: getattr(models, name)(**_sizes(getattr(models, name))), *_documented(name))
    for made in ways:
        try:
            return _built(made)
        except Exception as error:  # noqa: BLE001 - sizes that do not go together; others may
            problems.append(f"{type(error).__name__}: {str(error)[:120]}")
    raise Left(f"no small {name}: {'; '.join(dict.fromkeys(problems))}")


def _built(made: Callable[[], Any]) -> Built:
    import keras

    keras.utils.set_random_seed(0)
    model = made()
    if model.count_params() > _MOST:
        raise Left(f"{model.count_params() // 1_000_000} million parameters")
    inputs = model.input
    example = (
        {key: _example(v) for key, v in inputs.items()}
        if isinstance(inputs, dict)
        else _example(inputs)
    )
    model(example)
    return Built(model=model, inputs=(example,))


def _documented(name: str) -> list[Callable[[], Any]]:
    """As the library's documentation makes one: with counts cut and with its own, on pictures."""
    from keras_hub import models

    call = documented(name, models)
    if call is None:
        return []
    return [
        partial(call.made, models, partial(_cut, sizes=sizes, side=side))
        for sizes in (_SIZES, {})
        for side in _SIDES
    ]


def _cut(
    name: str, given: Mapping[str, Any], *, sizes: Mapping[str, int], side: int | None
) -> dict[str, Any]:
    """What an example gives, its counts no larger than here, its pictures of this side if any."""
    from keras_hub import models

    found = dict(given)
    for key, value in given.items():
        small = next((size for pattern, size in sizes.items() if re.search(pattern, key)), None)
        if small is None or type(value) is not int or value <= small:
            continue
        found[key] = small
        for other, several in given.items():  # one for each layer
            if isinstance(several, list | tuple) and len(several) == value and "layers" in key:
                found[other] = several[:small]
    if side is not None and "image_shape" in inspect.signature(getattr(models, name)).parameters:
        found["image_shape"] = (side, side, 3)
    asked = _sizes(getattr(models, name), known={"image_shape": None, **found})
    return {**asked, **found}


def _sizes(kind: Any, known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Arguments that have no default and are not known, and pictures no larger than need be."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name in known or name == "self":
            continue
        if name == "image_shape":
            found[name] = (_SIDE, _SIDE, 3)
        elif parameter.default is parameter.empty and parameter.kind in _BY_NAME:
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

    open_sizes: tuple[int, ...] | None = {
        2: (1, _TOKENS),
        3: (1, 50, 80),
        4: (1, _SIDE, _SIDE, 3),
        5: (1, _FRAMES, _SIDE, _SIDE, 3),
    }.get(len(tensor.shape))
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
