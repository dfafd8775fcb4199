"""Networks and steps of training in JAX, as calls of a jitted function.

Networks are those of the zoo, their weights constants of the program; a step of training gets its
weights and gives new ones.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["NAMES", "call"]

_NETWORKS = (
    *("flax/ResNet18", "flax/ResNet34", "flax/ResNet50"),
    *("equimo/attnet-attnet", "equimo/convnext-convnext", "equimo/convnext-eupe"),
    *("equimo/iformer-iformer", "equimo/mobilenet-mobilenetv3"),
    *("equimo/reduceformer-reduceformer", "equimo/vit-dinov2", "equimo/vit-dinov3"),
    *("equimo/vit-eupe", "equimo/vit-tips", "equimo/vit-vit", "equimo/vit-vit5"),
)
_DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits"


def call(name: str) -> Callable[[], list[Any]]:
    """A call that gives arrays of the device; the first one compiles."""
    return _STEPS[name]() if name in _STEPS else _network(*name.split("/"))


def _network(kind: str, name: str) -> Callable[[], list[Any]]:
    import jax

    from benchmarks.zoo.kinds import equimo_models, flax_models

    # Weights are made by XLA: each of hundreds of initialisers would be a module.
    with jax.default_device(jax.devices("cpu")[0]):
        built = {"flax": flax_models, "equimo": equimo_models}[kind].build(name)
    if kind == "flax":
        module, variables = built.model

        def apply(image: Any) -> Any:
            return module.apply(variables, image, **(built.kwargs or {}))
    else:
        import equinox

        apply = equinox.nn.inference_mode(built.model)
    run = jax.jit(lambda *given: apply(*given))  # a module of Equinox has no hash
    given = [jax.device_put(each) for each in built.inputs]
    return lambda: jax.tree.leaves(run(*given))


def _digits() -> Callable[[], list[Any]]:
    """A step of Adam of `samples/digits`, 128 pictures, from the same weights each time."""
    import jax
    import numpy as np
    import optax

    sys.path.insert(0, str(_DIGITS))
    import data
    import model

    learn, _ = data.load()
    images, labels = (jax.device_put(np.asarray(x[:128])) for x in (learn.images, learn.labels))
    network = model.DigitReader()
    variables = network.init(jax.random.key(0), images[:1])
    optimizer = optax.adam(3e-3)

    def loss_of(variables: Any) -> Any:
        scores = network.apply(variables, images)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    @jax.jit
    def step(variables: Any, memory: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(variables)
        updates, memory = optimizer.update(gradients, memory)
        return optax.apply_updates(variables, updates), memory, loss

    memory = optimizer.init(variables)
    return lambda: jax.tree.leaves(step(variables, memory))


def _resnet() -> Callable[[], list[Any]]:
    """Gradients of the zoo's ResNet-18, four pictures of 112 x 112, norms by their own means."""
    import flaxmodels
    import jax
    import numpy as np

    network = flaxmodels.ResNet18(output="logits", pretrained=None)
    random = np.random.default_rng(0)
    images = jax.device_put(random.random((4, 112, 112, 3), np.float32))
    wanted = jax.device_put(random.random((4, 1000), np.float32))
    variables = network.init(jax.random.key(0), images, train=False)
    weights, rest = variables["params"], {k: v for k, v in variables.items() if k != "params"}

    def loss_of(weights: Any, rest: Any) -> Any:
        scores, new = network.apply(
            {"params": weights, **rest}, images, train=True, mutable=list(rest)
        )
        return ((scores - wanted) ** 2).mean(), new

    step = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
    return lambda: jax.tree.leaves(step(weights, rest))


_STEPS: dict[str, Callable[[], Callable[[], list[Any]]]] = {
    "digits in Flax, a step of Adam, 128 pictures": _digits,
    "flax/ResNet18, gradients, 4 of 112²": _resnet,
}

NAMES = (*_NETWORKS, *_STEPS)
