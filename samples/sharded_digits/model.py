"""A reader of digits that is cut over four devices, and exported as the program of one.

    edgec compile samples/sharded_digits/model.py:reader -o reader.vmfb

Two devices share the images, two the layer in the middle: each makes a half of its numbers and a
half of every sum, and `psum` adds the halves. JAX runs it on four devices that it makes of one CPU.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

WIDTH = 256

jax.config.update("jax_num_cpu_devices", 4)


def _device(images, inner, bias, outer):
    """What one device does with its images and its half of the layers."""
    middle = jnp.tanh(images @ inner + bias)
    return jax.lax.psum(middle @ outer, "layer")


def sharded():
    """The function of all devices: f32[n, 64] images, and the weights, to f32[n, 10]."""
    mesh = jax.make_mesh((2, 2), ("images", "layer"), axis_types=(AxisType.Auto,) * 2)
    spec = PartitionSpec
    return jax.shard_map(
        _device,
        mesh=mesh,
        in_specs=(
            spec("images", None),
            spec(None, "layer"),
            spec("layer"),
            spec("layer", None),
        ),
        out_specs=spec("images", None),
    )


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 digits of scikit-learn, f32[1797, 64], and what they are."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.data / 16).astype(np.float32), found.target


def learnt() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A first layer of random numbers, its bias, and a second by least squares on 1,500 digits."""
    images, labels = digits()
    random = np.random.default_rng(0)
    inner = (random.standard_normal((64, WIDTH)) / 4).astype(np.float32)
    bias = random.standard_normal(WIDTH).astype(np.float32)
    middle = np.tanh(images[:1500] @ inner + bias)
    wanted = np.eye(10, dtype=np.float32)[labels[:1500]]
    outer = np.linalg.lstsq(middle, wanted, rcond=None)[0].astype(np.float32)
    return inner, bias, outer


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """256 digits that nothing was learnt from, and what they are."""
    images, labels = digits()
    return images[1500:1756], labels[1500:1756]


def reader():
    """The model: how much each image looks like each digit."""
    weights = learnt()
    function = sharded()
    return lambda images: function(images, *weights), (held_out()[0],)
