"""Plain JAX: functions over arrays and dicts of arrays."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.coverage.case import Case, Given, integers, normal
from edgec.exporters import Bundle, Entry

WIDTH = 64
HEADS = 4
Weights = Mapping[str, Any]


def dense(x: jax.Array, w: Any) -> jax.Array:
    return x @ w


def layer_norm(x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def attention(x: jax.Array, weights: Weights, *, causal: bool) -> jax.Array:
    """Multi-head self-attention over f32[batch, length, WIDTH]."""

    def heads(name: str) -> jax.Array:
        y = dense(x, weights[name])
        return y.reshape(*y.shape[:-1], HEADS, WIDTH // HEADS).swapaxes(-2, -3)

    scores = heads("q") @ heads("k").swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS)
    if causal:
        places = jnp.arange(x.shape[-2])
        scores = jnp.where(places[:, None] >= places, scores, -jnp.inf)
    mixed = (jax.nn.softmax(scores) @ heads("v")).swapaxes(-2, -3)
    return dense(mixed.reshape(x.shape), weights["o"])


def block(x: jax.Array, weights: Weights, *, causal: bool = False) -> jax.Array:
    x = x + attention(layer_norm(x), weights, causal=causal)
    return x + dense(jax.nn.gelu(dense(layer_norm(x), weights["up"])), weights["down"])


def block_weights(seed: int) -> dict[str, np.ndarray]:
    shapes = dict.fromkeys("qkvo", (WIDTH, WIDTH))
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    return {
        name: normal(*shape, scale=shape[0] ** -0.5, seed=seed + i)
        for i, (name, shape) in enumerate(shapes.items())
    }


def mlp_of(dtype: Any) -> Given:
    w1 = normal(32, 64, scale=0.2).astype(dtype)
    w2 = normal(64, 10, scale=0.1).astype(dtype)
    return Given(model=lambda x: jax.nn.relu(x @ w1) @ w2, inputs=(normal(4, 32).astype(dtype),))


def mlp() -> Given:
    return mlp_of(np.float32)


def mlp_f16() -> Given:
    return mlp_of(np.float16)


def mlp_bf16() -> Given:
    return mlp_of(jnp.bfloat16)


def depthwise_cnn() -> Given:
    depth, point, head = (
        normal(3, 3, 1, 16, seed=1),
        normal(1, 1, 16, 32, scale=0.2),
        normal(32, 10),
    )

    def conv(x: jax.Array, w: Any, groups: int = 1, stride: int = 1) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    def model(image: jax.Array) -> jax.Array:
        x = jax.nn.relu6(conv(image, depth, groups=16, stride=2))
        x = jax.nn.relu6(conv(x, point))
        return x.mean((1, 2)) @ head

    return Given(model=model, inputs=(normal(2, 16, 16, 16),))


def convolutions() -> Given:
    """One-, two- and three-dimensional, dilated and transposed."""
    lines, plane, solid, wide = (
        normal(3, 4, 8),
        normal(3, 3, 4, 8),
        normal(2, 3, 3, 2, 4),
        normal(2, 2, 4, 8),
    )

    def model(sound: Any, image: Any, video: Any) -> dict[str, jax.Array]:
        conv = jax.lax.conv_general_dilated
        return {
            "line": conv(sound, lines, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
            "dilated": conv(
                image, plane, (1, 1), "SAME", rhs_dilation=(2, 2),
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            "solid": conv(
                video, solid, (1, 1, 1), "VALID", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
            ),
            "transposed": jax.lax.conv_transpose(image, wide, (2, 2), "SAME"),
        }  # fmt: skip

    return Given(model=model, inputs=(normal(2, 20, 4), normal(1, 9, 9, 4), normal(1, 4, 6, 6, 2)))


def lstm() -> Given:
    w = normal(16 + 32, 4 * 32, scale=0.15)

    def model(sequence: jax.Array) -> jax.Array:
        def step(carry: Any, x: jax.Array) -> tuple[Any, jax.Array]:
            hidden, cell = carry
            i, f, g, o = jnp.split(jnp.concatenate([x, hidden], -1) @ w, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zeros = jnp.zeros((sequence.shape[1], 32))
        return jax.lax.scan(step, (zeros, zeros), sequence)[1]

    return Given(model=model, inputs=(normal(12, 2, 16),))


def state_space_scan() -> Given:
    """A linear recurrence by associative scan."""

    def model(decay: jax.Array, x: jax.Array) -> jax.Array:
        def combine(a: Any, b: Any) -> Any:
            return a[0] * b[0], a[1] * b[0] + b[1]

        return jax.lax.associative_scan(combine, (jax.nn.sigmoid(decay), x), axis=1)[1]

    return Given(model=model, inputs=(normal(2, 16, 8), normal(2, 16, 8, seed=1)))


def encoder() -> Given:
    layers = [block_weights(10 * i) for i in range(2)]

    def model(x: jax.Array) -> jax.Array:
        for weights in layers:
            x = block(x, weights)
        return layer_norm(x)

    return Given(model=model, inputs=(normal(2, 16, WIDTH),))


def language_model() -> Given:
    weights, table = block_weights(3), normal(100, WIDTH, scale=0.1)

    def model(tokens: jax.Array) -> jax.Array:
        return layer_norm(block(jnp.asarray(table)[tokens], weights, causal=True)) @ table.T

    return Given(model=model, inputs=(integers(100, 2, 8),))


def language_model_dynamic() -> Given:
    given = language_model()
    sizes = {"tokens": {0: "batch=1..4", 1: "length=2..32"}}
    return Given(model=given.model, inputs=given.inputs, dynamic=sizes)


def mlp_dynamic() -> Given:
    given = mlp()
    return Given(model=given.model, inputs=given.inputs, dynamic="batch=1..16")


def cnn_dynamic() -> Given:
    given = depthwise_cnn()
    return Given(model=given.model, inputs=given.inputs, dynamic="batch=1..8")


def decoder_step() -> Bundle:
    """One token at a time with a cache of keys and values that stays on the device."""
    weights = block_weights(5)
    length = 16

    def step(state: Weights, x: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        at = state["length"]
        keys = jax.lax.dynamic_update_slice(state["k"], (x @ weights["k"])[None], (at, 0))
        values = jax.lax.dynamic_update_slice(state["v"], (x @ weights["v"])[None], (at, 0))
        scores = keys @ (x @ weights["q"]) / np.sqrt(WIDTH)
        scores = jnp.where(jnp.arange(length) <= at, scores, -jnp.inf)
        mixed = jax.nn.softmax(scores) @ values
        return {"k": keys, "v": values, "length": at + 1}, mixed @ weights["o"]

    zeros = np.zeros((length, WIDTH), np.float32)
    state = {"k": zeros, "v": zeros, "length": np.int32(0)}
    return Bundle((Entry(step, (normal(WIDTH),), name="step", updates_state=True),), state=state)


def train_adamw() -> Bundle:
    """Gradients, optimiser and parameters all on the device."""
    optimizer = optax.adamw(1e-2)
    start = {"w1": normal(8, 32, scale=0.3), "w2": normal(32, 3, scale=0.2)}

    def predict(state: Any, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ state[0]["w1"]) @ state[0]["w2"]

    def step(state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, jax.Array]:
        def loss_of(weights: Weights) -> jax.Array:
            return ((predict((weights, None), x) - y) ** 2).mean()

        weights, memory = state
        loss, gradients = jax.value_and_grad(loss_of)(weights)
        updates, memory = optimizer.update(gradients, memory, weights)
        return (optax.apply_updates(weights, updates), memory), loss

    return Bundle(
        (
            Entry(step, (normal(16, 8), normal(16, 3, seed=1)), name="step", updates_state=True),
            Entry(predict, (normal(16, 8),), name="predict", reads_state=True),
        ),
        state=(start, optimizer.init(start)),
    )


def value_and_grad() -> Given:
    def step(weights: Weights, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Any]:
        def loss_of(weights: Weights) -> jax.Array:
            scores = jax.nn.relu(x @ weights["w"]) @ weights["v"]
            return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()

        loss, gradients = jax.value_and_grad(loss_of)(weights)
        return loss, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = {"w": normal(8, 16, scale=0.3), "v": normal(16, 4, scale=0.3)}
    return Given(model=step, inputs=(weights, normal(6, 8), integers(4, 6)))


def two_signatures() -> Bundle:
    w = normal(16, 4, scale=0.25)
    return Bundle(
        (
            Entry(lambda x: jnp.tanh(x @ w), (normal(2, 16),), name="encode"),
            Entry(lambda z: z @ w.T, (normal(2, 4),), name="decode"),
        )
    )


def external_weights() -> Given:
    weights = [block_weights(10 * i) for i in range(2)]

    def model(x: jax.Array) -> jax.Array:
        return block(block(x, weights[0]), weights[1])

    return Given(model=model, inputs=(normal(1, 8, WIDTH),), external_weights="encoder.safetensors")


def sort_and_top_k() -> Given:
    def model(x: jax.Array) -> dict[str, Any]:
        values, places = jax.lax.top_k(x, 3)
        return {
            "sorted": jnp.sort(x),
            "order": jnp.argsort(x),
            "top": values,
            "places": places,
            "best": jnp.argmax(x, -1),
        }

    return Given(model=model, inputs=(normal(4, 20),))


def control_flow() -> Given:
    def model(x: jax.Array, steps: jax.Array) -> dict[str, jax.Array]:
        powers = jax.lax.fori_loop(0, 5, lambda i, v: v * x + i, jnp.ones_like(x))
        count, _ = jax.lax.while_loop(
            lambda c: (c[1] > 1) & (c[0] < 100),
            lambda c: (c[0] + 1, jnp.where(c[1] % 2 == 0, c[1] // 2, 3 * c[1] + 1)),
            (jnp.int32(0), steps),
        )
        chosen = jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)
        switched = jax.lax.switch(steps % 3, [jnp.exp, jnp.tanh, jnp.negative], x)
        return {"powers": powers, "count": count, "chosen": chosen, "switched": switched}

    return Given(model=model, inputs=(normal(5), np.int32(27)))


def random_numbers() -> Given:
    def model(seed: jax.Array) -> dict[str, jax.Array]:
        one, two, three = jax.random.split(jax.random.key(seed), 3)
        return {
            "normal": jax.random.normal(one, (8, 8)),
            "uniform": jax.random.uniform(two, (5,)),
            "choice": jax.random.permutation(three, 10),
        }

    return Given(model=model, inputs=(np.uint32(42),))


def scatter_and_gather() -> Given:
    def model(x: jax.Array, at: jax.Array) -> dict[str, jax.Array]:
        return {
            "taken": x[at],
            "added": x.at[at].add(1.0),
            "set": x.at[at[0]].set(0.0),
            "segments": jax.ops.segment_sum(x[: at.shape[0]], at, num_segments=10),
        }

    return Given(model=model, inputs=(normal(10, 4), integers(10, 6)))


def graph_convolution() -> Given:
    w = normal(8, 8, scale=0.3)

    def model(nodes: jax.Array, sources: jax.Array, sinks: jax.Array) -> jax.Array:
        messages = (nodes @ w)[sources]
        return jax.nn.relu(jax.ops.segment_sum(messages, sinks, num_segments=12) + nodes)

    return Given(model=model, inputs=(normal(12, 8), integers(12, 30), integers(12, 30, 1)[:, 0]))


def mixture_of_experts() -> Given:
    experts, gate = normal(4, 16, 16, scale=0.25), normal(16, 4)

    def model(x: jax.Array) -> jax.Array:
        values, chosen = jax.lax.top_k(jax.nn.softmax(x @ gate), 2)
        outputs = jnp.einsum("bi,eij->bej", x, experts)
        picked = jnp.take_along_axis(outputs, chosen[..., None], axis=1)
        return (picked * values[..., None]).sum(1)

    return Given(model=model, inputs=(normal(6, 16),))


def int8_product() -> Given:
    """Integers multiplied and summed as integers, as in a quantised network."""
    w = integers(127, 32, 16, low=-127, dtype=np.int8)

    def model(x: jax.Array) -> jax.Array:
        return jax.lax.dot(x, w, preferred_element_type=jnp.int32)

    return Given(model=model, inputs=(integers(127, 4, 32, low=-127, dtype=np.int8),))


def int64_arithmetic() -> Given:
    jax.config.update("jax_enable_x64", True)

    def model(x: jax.Array) -> dict[str, jax.Array]:
        return {"product": x * 3 + 1, "hash": (x * 2654435761) >> 7, "rest": x % 97}

    return Given(model=model, inputs=(integers(1 << 40, 16, dtype=np.int64),))


def float64_arithmetic() -> Given:
    jax.config.update("jax_enable_x64", True)
    w = normal(8, 8).astype(np.float64)
    return Given(model=lambda x: x @ w + x**2, inputs=(normal(4, 8).astype(np.float64),))


def booleans() -> Given:
    def model(x: jax.Array, mask: jax.Array) -> dict[str, jax.Array]:
        return {"both": (x > 0) & mask, "any": jnp.any(mask, -1), "none": ~mask}

    return Given(model=model, inputs=(normal(3, 7), integers(2, 3, 7).astype(bool)))


def bytes_to_pixels() -> Given:
    """An image of bytes, resized and normalised, as a camera gives it."""

    def model(image: jax.Array) -> jax.Array:
        return jax.image.resize(image.astype(jnp.float32) / 255, (16, 16, 3), "bilinear") - 0.5

    return Given(model=model, inputs=(integers(256, 24, 20, 3, dtype=np.uint8),))


def complex_numbers() -> Given:
    def model(z: jax.Array) -> dict[str, jax.Array]:
        return {
            "product": z * z.conj(),
            "exp": jnp.exp(z),
            "size": jnp.abs(z),
            "angle": jnp.angle(z),
        }

    return Given(model=model, inputs=((normal(6) + 1j * normal(6, seed=1)).astype(np.complex64),))


def fourier() -> Given:
    def model(x: jax.Array) -> dict[str, jax.Array]:
        spectrum = jnp.fft.rfft(x)
        return {"power": jnp.abs(spectrum) ** 2, "back": jnp.fft.irfft(spectrum)}

    return Given(model=model, inputs=(normal(2, 64),))


def linear_algebra() -> Given:
    def model(a: jax.Array, b: jax.Array) -> dict[str, jax.Array]:
        square = a @ a.T + 4 * jnp.eye(6)
        return {"root": jnp.linalg.cholesky(square), "solution": jnp.linalg.solve(square, b)}

    return Given(model=model, inputs=(normal(6, 6), normal(6, 2)))


def special_functions() -> Given:
    def model(x: jax.Array) -> dict[str, jax.Array]:
        return {
            "erf": jax.lax.erf(x),
            "lgamma": jax.lax.lgamma(jnp.abs(x) + 0.5),
            "digamma": jax.lax.digamma(jnp.abs(x) + 0.5),
            "bessel": jax.lax.bessel_i1e(x),
            "expm1": jnp.expm1(x),
            "arctan2": jnp.arctan2(x, x + 2),
        }

    return Given(model=model, inputs=(normal(32),))


def running_sums() -> Given:
    def model(x: jax.Array) -> dict[str, jax.Array]:
        return {
            "sum": jnp.cumsum(x, 1),
            "product": jnp.cumprod(x, 1),
            "max": jax.lax.cummax(x, 1),
            "softmax": jax.nn.logsumexp(x, 0),
        }

    return Given(model=model, inputs=(normal(4, 12),))


CASES = (
    Case("MLP", "f32", mlp),
    Case("MLP", "f16", mlp_f16),
    Case("MLP", "bf16", mlp_bf16),
    Case("MLP, dynamic batch", "f32", mlp_dynamic),
    Case("depthwise CNN", "f32", depthwise_cnn),
    Case("depthwise CNN, dynamic batch", "f32", cnn_dynamic),
    Case("1-d, 3-d, dilated and transposed convolution", "f32", convolutions),
    Case("LSTM (scan)", "f32", lstm),
    Case("state-space model (associative scan)", "f32", state_space_scan),
    Case("transformer encoder", "f32", encoder),
    Case("causal language model", "f32, i32", language_model),
    Case("language model, dynamic batch and length", "f32, i32", language_model_dynamic),
    Case("decoder step, cache as state", "f32", decoder_step),
    Case("mixture of experts", "f32", mixture_of_experts),
    Case("graph convolution", "f32, i32", graph_convolution),
    Case("training step, AdamW as state", "f32", train_adamw),
    Case("training step, parameters in and out", "f32", value_and_grad),
    Case("two signatures", "f32", two_signatures),
    Case("external weights", "f32", external_weights),
    Case("sort, top-k, argmax", "f32, i32", sort_and_top_k),
    Case("control flow: loops, branches", "f32, i32", control_flow),
    Case("random numbers", "u32, f32", random_numbers),
    Case("gather, scatter, segments", "f32, i32", scatter_and_gather),
    Case("integer matrix product", "i8, i32", int8_product),
    Case("64-bit integers", "i64", int64_arithmetic),
    Case("64-bit floats", "f64", float64_arithmetic),
    Case("logic", "bool", booleans),
    Case("bytes resized to pixels", "u8, f32", bytes_to_pixels),
    Case("complex numbers", "c64", complex_numbers),
    Case("Fourier transform", "f32, c64", fourier),
    Case("Cholesky, linear solve", "f32", linear_algebra),
    Case("special functions", "f32", special_functions),
    Case("running sums and products", "f32", running_sums),
)
