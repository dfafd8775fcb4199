"""Keras models, exported through JAX, compiled for CPU and Vulkan, compared with Keras itself."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

os.environ["KERAS_BACKEND"] = "jax"
import keras
from keras import layers

from edgec import toolchain
from edgec.exporters import Bundle, Entry, export, export_source
from edgec.runtime.errors import ExportError, SourceError
from edgec.toolchain.program import Dialect, Parameter, Program, State

# Keras imports TensorFlow, where it is installed, as soon as a model is saved.
pytestmark = [
    pytest.mark.tensorflow,
    # Keras' variables do not know NumPy 2's copy keyword.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

RANDOM = np.random.default_rng(3)
TARGETS = ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def check_of(program: Program, target: str, folder: Path) -> str:
    """Compile, which runs the golden calls in a process of its own, and what it says of them."""
    options = toolchain.CompileOptions(output=folder / f"{target}.vmfb", cache=False)
    return toolchain.compile(program, target, options).facts.check


@pytest.fixture(scope="module")
def picture_model() -> keras.Model:
    keras.utils.set_random_seed(1)
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(6, 3, padding="same", activation="relu")(image)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Dropout(0.5)(x)
    features = layers.Flatten()(x)
    scores = layers.Dense(4, activation="softmax", name="scores")(features)
    model = keras.Model(image, {"scores": scores, "features": features})
    norm = model.get_layer("norm")
    norm.moving_mean.assign(normal(6))
    norm.moving_variance.assign(np.abs(normal(6)) + 0.5)
    return model


@pytest.fixture
def picture_file(picture_model: keras.Model, tmp_path: Path) -> Path:
    path = tmp_path / "picture.keras"
    picture_model.save(path)
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_a_keras_file_with_dynamic_batch_gives_the_answers_of_keras(
    target: str, picture_file: Path, picture_model: keras.Model, tmp_path: Path
) -> None:
    program = export_source(str(picture_file), dynamic=["batch=1..8"])
    assert program.info.dialect is Dialect.STABLEHLO
    assert str(program.info.functions[0].signature) == (
        "main(image: f32[batch=1..8, 8, 8, 3]) -> "
        "(features: f32[batch=1..8, 96], scores: f32[batch=1..8, 4])"
    )
    assert program.golden is not None
    assert {call.inputs[0].shape[0] for call in program.golden.calls} >= {1, 8}
    for call in program.golden.calls:
        answers = picture_model.predict(call.inputs[0], verbose=0)
        np.testing.assert_allclose(call.outputs[0], answers["features"], atol=1e-5)
        np.testing.assert_allclose(call.outputs[1], answers["scores"], atol=1e-5)
    assert check_of(program, target, tmp_path).startswith("checked on")


@pytest.mark.parametrize("form", ["sequential", "one", "list"])
def test_outputs_are_called_as_their_layers_are(form: str, tmp_path: Path) -> None:
    if form == "sequential":
        model = keras.Sequential(
            [keras.Input((3,)), layers.Dense(2, name="hidden"), layers.Softmax(name="class probs")]
        )
        expected = ["class_probs"]
    else:
        x = keras.Input((3,), name="x")
        first, second = layers.Dense(2, name="probs")(x), layers.Dense(2)(x)
        model = keras.Model(x, [first, second] if form == "list" else first)
        # What Keras called by counting is called as before.
        expected = ["probs", "result[1]"] if form == "list" else ["probs"]
    model.save(tmp_path / "model.keras")
    for program in (export(model), export_source(str(tmp_path / "model.keras"))):
        outputs = program.info.functions[0].signature.outputs
        assert [spec.name for spec in outputs] == expected


def test_weights_are_parameters_by_their_paths(picture_model: keras.Model, tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    program = export(picture_model, normal(2, 8, 8, 3), external_weights=weights)
    roles = program.info.functions[0].arguments
    names = {role.name for role in roles if isinstance(role, Parameter)}
    assert {"norm/moving_mean", "norm/moving_variance", "scores/kernel"} <= names
    assert not any(isinstance(role, State) for role in roles)


@pytest.mark.parametrize("form", ["dict", "list"])
def test_several_inputs_keep_the_nesting_of_the_model(form: str, tmp_path: Path, replay) -> None:
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    given = {"left": left, "right": right} if form == "dict" else [left, right]
    model = keras.Model(given, layers.Dense(2)(layers.Subtract()([left, right])))
    model.save(tmp_path / "two.keras")
    program = export_source(str(tmp_path / "two.keras"))
    names = [spec.name for spec in program.info.functions[0].signature.inputs]
    expected = {"dict": ["inputs.left", "inputs.right"], "list": ["inputs[0]", "inputs[1]"]}
    assert names == expected[form]
    assert replay(program) <= 1e-4


def test_a_text_model_of_embedding_and_attention(replay) -> None:
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    x = layers.Embedding(50, 16)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    model = keras.Model(tokens, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))
    program = export(model, RANDOM.integers(0, 50, (2, 12)).astype(np.int32), dynamic="batch")
    assert replay(program) <= 1e-4


def test_a_recurrent_layer(replay) -> None:
    model = keras.Sequential([keras.Input((5, 4)), layers.LSTM(8), layers.Dense(2)])
    assert replay(export(model, normal(3, 5, 4))) <= 1e-4


def test_the_memory_of_a_stateful_layer_is_state(replay) -> None:
    model = keras.Sequential([keras.Input(batch_shape=(1, 2, 4)), layers.GRU(3, stateful=True)])
    program = export(model, normal(1, 2, 4))
    states = [r for r in program.info.functions[0].arguments if isinstance(r, State)]
    assert len(states) == 1
    assert program.golden is not None
    first, second = (call.outputs[0] for call in program.golden.calls[:2])
    assert np.abs(first - second).max() > 1e-3
    assert replay(program) <= 1e-4


class Scaled(keras.Model):
    """A model with a class of its own, two arguments and no functional graph."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x, scale, training=False):
        return self.dense(x) * scale


def test_a_subclassed_model_names_its_arguments(replay) -> None:
    program = export(Scaled(), (normal(2, 4), normal(2, 1)))
    names = [a.name for a in program.info.functions[0].signature.arguments]
    assert names == ["x", "scale"]
    assert replay(program) <= 1e-4


def test_two_models_in_one_program(replay) -> None:
    one = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    two = keras.Sequential([keras.Input((3,)), layers.Dense(5)])
    x = normal(2, 3)
    program = export(Bundle((Entry(one, (x,), name="one"), Entry(two, (x,), name="two"))))
    assert [f.signature.name for f in program.info.functions] == ["one", "two"]
    assert replay(program) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_model_on_another_backend_goes_through_jax(backend: str, tmp_path: Path, replay) -> None:
    script = f"""
import keras, numpy as np
from pathlib import Path
from edgec.exporters import export
assert keras.backend.backend() == {backend!r}
model = keras.Sequential([keras.Input((5, 6)), keras.layers.LSTM(4)])
program = export(model, np.ones((2, 5, 6), np.float32))
call = program.golden.calls[0]
own = keras.ops.convert_to_numpy(model(call.inputs[0]))
assert np.abs(own - call.outputs[0]).max() == 0
rng = np.random.default_rng(0)
even = rng.normal(size=(50, 1)) * (1 + 1e-7 * rng.normal(size=(50, 400))) * 1e9
sharp = keras.Sequential([keras.Input((50,)), keras.layers.Dense(400, "softmax")])
sharp.set_weights([even, np.zeros(400)])
x = rng.normal(size=(1, 50)).astype(np.float32)
assert export(sharp, x).golden.calls[0].within[0] >= 1, "the largest of nearly equal numbers"
program.save(Path("model.mlirbc"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": backend},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    program = toolchain.load_program(tmp_path / "model.mlirbc")
    assert str(program.info.functions[0].signature).startswith("main(inputs: f32[2, 5, 6])")
    assert replay(program) <= 1e-4


@pytest.mark.slow
def test_a_model_that_only_its_own_python_can_make_goes_through_its_backend(
    tmp_path: Path, replay
) -> None:
    script = """
import keras, numpy as np
from pathlib import Path
from edgec.exporters import export
class Doubled(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)
    def call(self, x):
        return self.dense(x) * 2
export(Doubled(), np.ones((2, 4), np.float32)).save(Path("model.mlirbc"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert replay(toolchain.load_program(tmp_path / "model.mlirbc")) <= 1e-4


def test_these_tests_run_on_jax() -> None:
    assert keras.backend.backend() == "jax"


def test_a_file_with_a_layer_that_is_not_known_says_what_to_do(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Lambda(lambda x: x * 2)])
    model.save(tmp_path / "own.keras")
    with pytest.raises(SourceError) as caught:
        export_source(str(tmp_path / "own.keras"))
    assert "model.py:make_model" in (caught.value.hint or "")


def test_a_file_that_is_no_keras_file(tmp_path: Path) -> None:
    (tmp_path / "bad.keras").write_bytes(b"not a zip")
    with pytest.raises(SourceError, match="Keras cannot open"):
        export_source(str(tmp_path / "bad.keras"))


def test_a_model_that_cannot_run_names_the_users_line() -> None:
    class Wrong(keras.Model):
        def call(self, x):
            return keras.ops.matmul(x, np.ones((7, 2), np.float32))

    with pytest.raises(ExportError) as caught:
        export(Wrong(), normal(2, 3))
    assert "test_from_keras.py" in (caught.value.where or "")


def test_a_file_for_images_of_any_size_needs_no_examples(
    tmp_path: Path, replay, caplog: pytest.LogCaptureFixture
) -> None:
    image = keras.Input((None, None, 3))
    deep = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    pooled = keras.layers.GlobalAveragePooling2D()(keras.layers.MaxPooling2D()(deep))
    keras.Model(image, keras.layers.Dense(2)(pooled)).save(tmp_path / "any.keras")
    source = str(tmp_path / "any.keras")
    program = export_source(source, dynamic=["inputs:1=h=8..32", "inputs:2=w=8..32"])
    assert "inputs:0 is 1" in caplog.text
    (spec,) = program.info.functions[0].signature.inputs
    assert str(spec) == "inputs: f32[1, h=8..32, w=8..32, 3]"
    assert program.golden is not None
    assert not any(np.isnan(call.outputs[0]).any() for call in program.golden.calls)
    assert replay(program) < 1e-6
