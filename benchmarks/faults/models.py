"""Small models of which each line that a fault can hit has a name, in a comment behind it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

RNG = np.random.default_rng(0)


def some(*shape: int) -> np.ndarray:
    """Numbers of a size that keeps what is computed from them near one."""
    inside = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
    return (RNG.standard_normal(shape) / np.sqrt(max(inside, 1))).astype(np.float32)


def image(*shape: int) -> np.ndarray:
    """Numbers around zero, one and more of them."""
    return RNG.standard_normal(shape).astype(np.float32)


# A line of its own would be that of every convolution.
conv = functools.partial(
    jax.lax.conv_general_dilated,
    window_strides=(1, 1),
    padding="SAME",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
)


A, B, C = some(3, 3, 8, 48), some(3, 3, 48, 16), image(48)
D, E, F = some(3, 3, 64, 64), some(1, 1, 64, 64), some(64, 32)
G, H, K = some(64, 128), some(128, 64), image(128)
TURNED = jax.lax.conv_dimension_numbers((1, 3, 48, 48), (16, 3, 3, 3), ("NCHW", "OIHW", "NCHW"))
PLANES = np.ascontiguousarray(some(3, 3, 3, 16).transpose(3, 2, 0, 1))
SCALE, SHIFT = 1 + some(48), image(48)


def stem():
    """Two convolutions with what follows them."""

    def apply(x):
        y = conv(x, A)  # first
        y = y + C  # bias
        y = jnp.clip(y, -0.5, 1)  # clip
        z = conv(y, B)  # second
        return jnp.tanh(z)  # bend

    return apply, (image(1, 13, 13, 8),)


def wide():
    """Windows of 3 x 3 over many channels."""

    def apply(x):
        y = conv(x, D)  # first
        y = jax.nn.relu(y)  # clip
        return conv(y, D)  # second

    return apply, (image(1, 16, 16, 64),)


def residual():
    """A convolution to which another value is added, or from which it is taken."""

    def apply(x):
        y = conv(x, D)  # first
        y = y - x  # taken
        return conv(jnp.abs(y), D)  # second

    return apply, (image(1, 12, 12, 64),)


def dense():
    """Products of rows with what follows them."""

    def apply(x):
        y = x @ G  # first
        y = jnp.where(y < 0, 0.1 * y, y)  # bend
        z = y @ H  # second
        z = jax.nn.gelu(z, approximate=False)  # gelu
        return -(z @ F)  # third

    return apply, (image(7, 64),)


def norm():
    """A norm between two products."""

    def apply(x):
        y = x @ G + 2  # first
        mean = y.mean(-1, keepdims=True)  # mean
        deviation = jnp.sqrt(((y - mean) ** 2).mean(-1, keepdims=True) + 1e-5)  # deviation
        y = (y - mean) / deviation * (1 + K) + K  # norm
        return y @ H  # second

    return apply, (image(9, 64),)


def attention():
    """Attention with a mask."""

    def apply(x, mask):
        q, k, v = (  # parts
            (x @ G[:, i * 32 : i * 32 + 32]).reshape(48, 2, 16).transpose(1, 0, 2) for i in range(3)
        )
        scores = jnp.einsum("hqd,hkd->hqk", q, k) / 4  # scores
        weights = jax.nn.softmax(scores + mask, -1)  # weights
        y = jnp.einsum("hqk,hkd->hqd", weights, v)  # sum
        return y.transpose(1, 0, 2).reshape(48, 32) @ F.T[:, :32]  # out

    mask = np.where(np.tri(48, dtype=bool), 0, -np.inf).astype(np.float32)
    return apply, (image(48, 64), mask)


def choice():
    """A softmax that is no part of attention."""

    def apply(x):
        y = x @ G  # first
        y = jax.nn.softmax(y, -1)  # softmax
        return jnp.sin(4 * y)  # bend

    return apply, (image(9, 64),)


def gram():
    """A product of two matrices that are both computed."""

    def apply(x):
        left, right = jnp.tanh(x), jnp.sin(x)  # sides
        y = left @ right.T  # product
        return y * 2  # twice

    return apply, (image(53, 700),)


def recurrent():
    """A recurrent layer."""

    def step(state, x):
        state = jnp.tanh(x + state @ E[0, 0])  # step
        return state, state

    def apply(x):
        last, all_of = jax.lax.scan(step, jnp.zeros((1, 64), np.float32), x)  # scan
        return all_of[:, 0] @ F + last @ F  # out

    return apply, (image(24, 1, 64),)


def pooled():
    """The largest of each window."""

    def apply(x):
        y = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 5, 5, 1), (1,) * 4, "SAME")  # pool
        return conv(y, A)  # conv

    return apply, (image(1, 12, 12, 8),)


def blocks():
    """A transposed convolution whose window is its stride."""

    def apply(x):
        y = jax.lax.conv_transpose(x, A[:2, :2], (2, 2), "VALID")  # up
        return conv(y, B)  # conv

    return apply, (image(1, 6, 6, 8),)


def phases():
    """A transposed convolution whose windows overlap."""

    def apply(x):
        y = jax.lax.conv_transpose(x, A, (2, 2), "SAME")  # up
        return conv(y, B)  # conv

    return apply, (image(1, 6, 6, 8),)


def powers():
    """A power with a whole exponent."""

    def apply(x):
        y = x @ G  # first
        y = y**3.0  # power
        return y @ H  # second

    return apply, (image(5, 64),)


def sorted_rows():
    """The places of elements in order, of which some are equal."""

    def apply(x):
        places = jnp.argsort(jnp.round(x), -1)  # sort
        return places.astype(jnp.float32) / 16  # scale

    return apply, (image(4, 16),)


def folded():
    """A convolution with a batch norm, as exporters write it."""

    def apply(x):
        y = conv(x, A)  # first
        y = (y - SHIFT) * SCALE + C  # norm
        y = jax.nn.relu(y)  # clip
        return conv(y, B)  # second

    return apply, (image(1, 12, 12, 8),)


def planes():
    """An image whose channels come first."""

    def apply(x):
        y = jax.lax.conv_general_dilated(x, PLANES, (1, 1), "SAME", dimension_numbers=TURNED)  # one
        return jax.nn.relu(y)  # clip

    return apply, (image(1, 3, 48, 48),)


def looped():
    """A loop that is counted, and no recurrence of products."""

    def apply(x):
        y = x @ G  # first
        z = jax.lax.fori_loop(0, 29, lambda i, v: jnp.sin(v) + v[::-1] / (i + 1), y)  # loop
        return z @ H  # second

    return apply, (image(8, 64),)


def turned():
    """A loop whose turns the caller chooses, with a product and what follows it in its body."""

    def apply(x, turns):
        y = jnp.tanh(x)  # before

        def turn(_, v):
            w = v @ D[0, 0]  # inside
            w = w - v  # taken
            return jnp.clip(w, -0.75, 0.5)  # clip

        y = jax.lax.fori_loop(0, turns, turn, y)  # loop
        return y @ F  # after

    return apply, (image(9, 64), np.int32(5))


def turned_norm():
    """A loop whose turns the caller chooses, with a norm in its body."""

    def apply(x, turns):
        def turn(_, v):
            mean = v.mean(-1, keepdims=True)  # mean
            deviation = jnp.sqrt(((v - mean) ** 2).mean(-1, keepdims=True) + 1e-5)  # deviation
            v = (v - mean) / deviation * (1 + K) + K  # norm
            return v @ H @ G  # products

        return jax.lax.fori_loop(0, turns, turn, x)

    return apply, (image(9, 128), np.int32(3))


def left():
    """Weights on the left of a product."""

    def apply(x):
        y = jnp.exp(G.T @ x)  # product
        return H.T @ y  # second

    return apply, (image(64, 20),)


def backwards():
    """Every other element, from the last on."""

    def apply(x):
        y = (x @ G)[:, ::2][:, ::-1]  # slice
        return y @ H[:64]  # second

    return apply, (image(5, 64),)
