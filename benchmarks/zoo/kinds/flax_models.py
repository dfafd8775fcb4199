"""Every image model of `flaxmodels`, written in Flax's linen, that is small enough."""

from typing import Any

from benchmarks.zoo.subject import Built, Left

__all__ = ["build", "names"]

_SIDES = (128, 224)
_MOST = 30_000_000  # parameters


def names() -> list[str]:
    import flaxmodels

    return sorted(name for name in vars(flaxmodels) if name[0].isupper())


def build(name: str) -> Built:
    import flaxmodels
    import jax
    import numpy as np

    module = getattr(flaxmodels, name)(output="logits", pretrained=None)
    problem = ""
    for side in _SIDES:
        image = np.random.default_rng(0).random((1, side, side, 3), np.float32)

        def made(key: Any, image: Any = image) -> Any:
            return module.init(key, image, train=False)

        try:
            shapes = jax.eval_shape(made, jax.random.key(0))
        except ValueError as error:  # it takes pictures of one size
            problem = str(error)
            continue
        size = sum(leaf.size for leaf in jax.tree.leaves(shapes))
        if size > _MOST:
            raise Left(f"{size // 1_000_000} million parameters")
        variables = made(jax.random.key(0))
        return Built(model=(module, variables), inputs=(image,), kwargs={"train": False})
    raise Left(problem)
