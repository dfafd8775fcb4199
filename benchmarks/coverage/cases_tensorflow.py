"""TensorFlow modules, functions and SavedModels."""

from typing import Any

import tensorflow as tf

from benchmarks.coverage.case import Case, Given, Source, integers, normal
from edgec.exporters import Bundle, Entry


class Mlp(tf.Module):
    """Two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(normal(32, 64, scale=0.2), name="w")
        self.v = tf.Variable(normal(64, 10, scale=0.1), name="v")

    @tf.function(input_signature=[tf.TensorSpec([4, 32], tf.float32, name="x")])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x @ self.w) @ self.v

    @tf.function(input_signature=[tf.TensorSpec([4, 32], tf.float32, name="x")])
    def halved(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"half": self(x) / 2}


class Counter(tf.Module):
    """A running sum."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(tf.zeros(4), name="total")

    @tf.function
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        self.total.assign_add(x)
        return self.total.read_value()


class Trainer(tf.Module):
    """Gradient descent on variables, and a prediction with them."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(normal(8, 3, scale=0.3), name="w")

    @tf.function
    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ self.w - y) ** 2)
        self.w.assign_sub(0.1 * tape.gradient(loss, self.w))
        return loss

    @tf.function
    def predict(self, x: tf.Tensor) -> tf.Tensor:
        return x @ self.w


_HELD: list[tf.Module] = []


def _held(module: Any) -> Any:
    """A module that stays: TensorFlow's functions do not hold what they are methods of."""
    _HELD.append(module)
    return module


def mlp() -> Given:
    return Given(model=Mlp(), inputs=(normal(4, 32),))


def mlp_dynamic() -> Given:
    w = tf.Variable(normal(32, 10, scale=0.2))
    return Given(
        model=tf.function(lambda x: tf.nn.softmax(x @ w)),
        inputs=(normal(4, 32),),
        dynamic="batch=1..16",
    )


def mlp_external() -> Given:
    return Given(model=Mlp(), inputs=(normal(4, 32),), external_weights="mlp.safetensors")


def saved_model() -> Source:
    model = Mlp()
    tf.saved_model.save(model, "saved", signatures={"serving_default": model.halved})
    return Source(text="saved")


def two_signatures() -> Bundle:
    model = _held(Mlp())
    return Bundle(
        (
            Entry(model.__call__, (normal(4, 32),), name="whole"),
            Entry(model.halved, (normal(4, 32),), name="half"),
        )
    )


def cnn() -> Given:
    depth, point = normal(3, 3, 8, 1), normal(1, 1, 8, 16, scale=0.3)

    @tf.function
    def model(image: tf.Tensor) -> tf.Tensor:
        x = tf.nn.relu6(tf.nn.depthwise_conv2d(image, depth, [1, 2, 2, 1], "SAME"))
        x = tf.nn.max_pool2d(tf.nn.conv2d(x, point, 1, "SAME"), 2, 2, "VALID")
        return tf.reduce_mean(x, [1, 2])

    return Given(model=model, inputs=(normal(2, 16, 16, 8),))


def attention() -> Given:
    w = {name: normal(32, 32, scale=0.18, seed=i) for i, name in enumerate("qkv")}

    @tf.function
    def model(x: tf.Tensor) -> tf.Tensor:
        q, k, v = (x @ w[name] for name in "qkv")
        scores = tf.matmul(q, k, transpose_b=True) / 32**0.5
        mask = tf.linalg.band_part(tf.ones((8, 8)), -1, 0)
        return tf.nn.softmax(scores - 1e9 * (1 - mask)) @ v

    return Given(model=model, inputs=(normal(2, 8, 32),))


def counter() -> Given:
    return Given(model=Counter(), inputs=(normal(4),))


def train_step() -> Bundle:
    trainer = _held(Trainer())
    return Bundle(
        (
            Entry(trainer.step, (normal(16, 8), normal(16, 3)), name="step"),
            Entry(trainer.predict, (normal(16, 8),), name="predict"),
        )
    )


def control_flow() -> Given:
    @tf.function
    def model(x: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(steps):
            x = tf.cond(tf.reduce_sum(x) > 0, lambda x=x: x * 0.5 - 1, lambda x=x: x + 2)
        return x

    return Given(model=model, inputs=(normal(5), integers(9, 1, low=3)[0]))


def top_k_and_gather() -> Given:
    table = normal(50, 8)

    @tf.function
    def model(tokens: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
        top = tf.math.top_k(x, 3)
        return {"rows": tf.gather(table, tokens), "top": top.values, "at": top.indices}

    return Given(model=model, inputs=(integers(50, 6), normal(4, 20)))


def half_floats() -> Given:
    w = normal(32, 16, scale=0.2).astype("float16")
    return Given(
        model=tf.function(lambda x: tf.nn.relu(x @ w)), inputs=(normal(4, 32).astype("float16"),)
    )


def fourier() -> Given:
    return Given(model=tf.function(lambda x: tf.abs(tf.signal.rfft(x))), inputs=(normal(2, 64),))


def logic() -> Given:
    @tf.function
    def model(x: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"both": (x > 0) & mask, "any": tf.reduce_any(mask, -1)}

    return Given(model=model, inputs=(normal(3, 7), integers(2, 3, 7).astype(bool)))


CASES = (
    Case("MLP (tf.Module)", "f32", mlp),
    Case("dense layer", "f16", half_floats),
    Case("dense layer, dynamic batch", "f32", mlp_dynamic),
    Case("MLP, external weights", "f32", mlp_external),
    Case("SavedModel", "f32", saved_model),
    Case("two signatures, shared variables", "f32", two_signatures),
    Case("depthwise CNN", "f32", cnn),
    Case("causal attention", "f32", attention),
    Case("running sum in a variable", "f32", counter),
    Case("training step, variables as state", "f32", train_step),
    Case("control flow: loops, branches", "f32, i32", control_flow),
    Case("embedding, top-k", "f32, i32", top_k_and_gather),
    Case("Fourier transform", "f32, c64", fourier),
    Case("logic", "bool", logic),
)
