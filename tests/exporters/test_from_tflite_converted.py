"""What TensorFlow's converter makes of Keras models, in every form of quantisation it has."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec.runtime.lite as lite
from edgec.exporters import export_source
from edgec.exporters.from_tflite.check import check_operators
from edgec.exporters.from_tflite.graph import compute
from edgec.exporters.from_tflite.model import read_model
from tests.exporters.tflite_cases import litert

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

RNG = np.random.default_rng(3)
FORMS = ("f32", "f16 weights", "8-bit weights", "int8", "int16")


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow

    return tensorflow


def images(*shape: int) -> list[np.ndarray]:
    return [RNG.normal(size=shape).astype(np.float32) for _ in range(8)]


def small_cnn() -> Any:
    import keras
    from keras import layers

    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(6.0),
            layers.DepthwiseConv2D(3, padding="same", activation="relu"),
            layers.Conv2D(16, 1, activation="relu", kernel_initializer="he_normal"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, padding="same", kernel_initializer="he_normal"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, kernel_initializer="he_normal"),
        ]
    )


def converted(tf: Any, model: Any, form: str, samples: list[np.ndarray]) -> bytes:
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if form == "f32":
        return converter.convert()
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "f16 weights":
        converter.target_spec.supported_types = [tf.float16]
    elif form != "8-bit weights":
        converter.representative_dataset = lambda: ([sample] for sample in samples)
    if form == "int8":
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    if form == "int16":
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        ]
    return converter.convert()


@pytest.fixture(scope="module")
def files(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("converted")
    model, samples = small_cnn(), images(1, 16, 16, 3)
    made = {}
    for form in FORMS:
        made[form] = folder / f"{form.replace(' ', '_')}.tflite"
        made[form].write_bytes(converted(tf, model, form, samples))
    return made


def computed(data: bytes, samples: list[np.ndarray]) -> list[np.ndarray]:
    """What the exported operators give of each sample, run by XLA."""
    import jax

    graphs = read_model(data, "a test").subgraphs
    check_operators(graphs[0], "a test", graphs)
    with jax.enable_x64(True):
        run = jax.jit(lambda image: compute(graphs[0], [image], {}, graphs)[0])
        return [np.asarray(run(sample)) for sample in samples]


def surface(data: bytes) -> tuple[np.dtype, float]:
    """The type of the input, and a step of the output's grid (0 without one)."""
    graph = read_model(data, "a test").subgraphs[0]
    out = graph.tensors[graph.outputs[0]]
    steps = [graph.tensors[o.inputs[0]] for o in graph.operators if o.kind == "DEQUANTIZE"]
    given = out.quantization or (steps[-1].quantization if steps else None)
    return graph.tensors[graph.inputs[0]].dtype, given.scales[0] if given else 0.0


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_litert_s_answers(form: str, files: dict[str, Path]) -> None:
    data = files[form].read_bytes()
    dtype, step = surface(data)
    samples = images(1, 16, 16, 3)[:3]
    if dtype.kind != "f":
        samples = [(sample * 30).clip(-128, 127).astype(dtype) for sample in samples]
    for sample, got in zip(samples, computed(data, samples), strict=True):
        (want,) = litert(data, [sample])
        assert got.dtype == want.dtype
        difference = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
        spread = float(want.max()) - float(want.min())
        if form in ("f32", "f16 weights"):
            assert difference < 1e-5
        elif form == "8-bit weights":
            # LiteRT rounds the activations to 8 bits, too, while it runs.
            assert difference < 0.02 * spread
        else:
            # Of 16 bits each layer may round another way; of 8 bits they agree.
            steps = 4 if form == "int16" else 1
            step = 1 if want.dtype.kind == "i" else step
            assert difference <= 1.01 * steps * step
            assert spread > 20 * step


@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
def test_recurrent_layers_are_loops(layer: str, tf: Any) -> None:
    import keras

    keras.utils.set_random_seed(1)
    sequence = keras.layers.Input((7, 5), batch_size=1)
    made = getattr(keras.layers, layer)(6, return_sequences=True)(sequence)
    data = converted(tf, keras.Model(sequence, made), "f32", [])
    assert "WHILE" in {o.kind for o in read_model(data, "a test").subgraphs[0].operators}
    samples = images(1, 7, 5)[:2]
    for sample, got in zip(samples, computed(data, samples), strict=True):
        np.testing.assert_allclose(got, litert(data, [sample])[0], atol=1e-6)


def test_an_int8_model_compiles_and_is_off_by_a_step_at_most(
    files: dict[str, Path], tmp_path: Path
) -> None:
    from edgec import toolchain

    program = export_source(str(files["int8"]))
    saved = program.save(tmp_path / "int8.mlirbc")
    options = toolchain.CompileOptions(output=tmp_path / "int8.vmfb", level=1, cache=False)
    assert toolchain.compile(saved, "cpu", options).facts.check.startswith("checked on")
    interpreter = lite.Interpreter(tmp_path / "int8.vmfb")
    interpreter.allocate_tensors()
    (given,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert given["name"].startswith("serving_default_")
    scale, zero = given["quantization"]
    for sample in images(1, 16, 16, 3)[:4]:
        image = (sample / scale + zero).round().clip(-128, 127).astype(np.int8)
        interpreter.set_tensor(given["index"], image)
        interpreter.invoke()
        got = interpreter.get_tensor(out["index"]).astype(np.int32)
        (want,) = litert(files["int8"].read_bytes(), [image])
        assert np.abs(got - want).max() <= 1


@pytest.mark.slow
@pytest.mark.vulkan
def test_an_int8_model_of_any_batch_is_right_on_vulkan(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """The compile's check gives LiteRT's answers to batches of 1 and 4, in another process."""
    from edgec import toolchain

    program = export_source(str(files["int8"]), dynamic=["batch=1..4"])
    assert {call.inputs[0].shape[0] for call in program.golden.calls} == {1, 4}
    saved = program.save(tmp_path / "int8.mlirbc")
    options = toolchain.CompileOptions(output=tmp_path / "int8.vmfb", cache=False)
    facts = toolchain.compile(saved, "vulkan", options).facts
    assert facts.check.startswith("checked on")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["f32", "int8"])
def test_mobilenet_v2(form: str, tf: Any, tmp_path: Path, replay: Callable[..., float]) -> None:
    import keras

    keras.utils.set_random_seed(1)
    model = keras.applications.MobileNetV2(weights=None, input_shape=(96, 96, 3), classes=100)
    # Statistics of the untrained network's own, so that its activations neither grow nor vanish.
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    samples = images(1, 96, 96, 3)
    model(np.concatenate(samples), training=True)
    path = tmp_path / "mobilenet.tflite"
    path.write_bytes(converted(tf, model, form, samples))
    program = export_source(str(path))
    want = program.golden.calls[0].outputs[0]
    if form == "f32":
        assert want.max() > 2 * want.min()
        assert replay(program) < 1e-4
        return
    assert want.dtype == np.int8
    assert replay(program) <= 2  # LiteRT's own two sets of kernels differ by as much
