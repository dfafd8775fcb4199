"""TensorFlow functions, modules and SavedModels: compiled for CPU and Vulkan, against TensorFlow.

Vulkan runs in the process that `compile` checks in; this one holds TensorFlow.
"""

import os
from pathlib import Path

import numpy as np
import pytest

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "jax"  # TensorFlow imports Keras, whose tests run on JAX
import tensorflow as tf

from edgec import toolchain
from edgec.exporters import Bundle, Entry, export, export_source
from edgec.runtime.errors import ExportError, SourceError, UnsupportedOp, UsageError
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.places import place_of
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Program, State
from edgec.toolchain.stablehlo import parse_stablehlo
from edgec.verifying.framework import matched
from edgec.verifying.reference import numbered, refer

pytestmark = pytest.mark.tensorflow

RANDOM = np.random.default_rng(5)
TARGETS = ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def check_of(program: Program, target: str, folder: Path) -> str:
    """Compile, which runs the golden calls in a process of its own, and what it says of them."""
    options = toolchain.CompileOptions(output=folder / f"{target}.vmfb", cache=False)
    return toolchain.compile(program, target, options).facts.check


class Counter(tf.Module):
    """Weights that are read, and two variables that calls assign."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [{"kernel": tf.Variable(normal(4, 3))}]
        self.calls = tf.Variable(0, dtype=tf.int32)
        self.total = tf.Variable(tf.zeros([3]))
        self.scale = tf.constant(normal(3))

    @tf.function
    def __call__(self, inputs, factor):
        self.calls.assign_add(1)
        scores = tf.nn.softmax(tf.matmul(inputs["x"], self.layers[0]["kernel"]) * self.scale)
        self.total.assign(self.total + tf.reduce_sum(scores, axis=0) * factor)
        return {"scores": scores, "seen": (self.calls.read_value(), None)}

    @tf.function
    def mean(self):
        return self.total / tf.cast(self.calls, tf.float32)


@pytest.fixture
def counted() -> tuple[Counter, Program]:
    model = Counter()
    inputs = {"x": normal(2, 4), "unused": np.zeros(3, np.int8)}
    entries = (Entry(model, (inputs, np.float32(2))), Entry(model.mean, name="mean"))
    return model, export(Bundle(entries))


def test_a_module_keeps_names_nesting_weights_and_state(counted) -> None:
    model, program = counted
    assert program.info.dialect is Dialect.STABLEHLO
    main, mean = program.info.functions
    assert str(main.signature) == (
        "main(inputs.x: f32[2, 4], inputs.unused: i8[3], factor: f32[]) -> "
        "(scores: f32[2, 3], seen[0]: i32[])"
    )
    assert main.signature.result == {"scores": 0, "seen": (1, None)}
    states = {"calls", "total"}
    assert {r.name for r in main.arguments if isinstance(r, State)} == states
    assert {r.name for r in main.results if isinstance(r, State)} == states
    assert {r.name for r in mean.arguments if isinstance(r, State)} == states
    assert mean.results == (Output(index=0),)
    assert model.calls.numpy() == 0, "export leaves the model as it was"


@pytest.mark.parametrize("target", TARGETS)
def test_state_lives_on_between_calls(target: str, counted, tmp_path: Path) -> None:
    _, program = counted
    assert program.golden is not None
    seen = [int(c.outputs[1]) for c in program.golden.calls if c.signature == "main"]
    assert seen == [1, 2, 3]
    assert check_of(program, target, tmp_path).startswith("checked on")


def test_weights_are_parameters_by_their_paths(tmp_path: Path, replay) -> None:
    model = Counter()
    inputs = {"x": normal(2, 4), "unused": np.zeros(3, np.int8)}
    weights = tmp_path / "w.safetensors"
    program = export(model, (inputs, np.float32(2)), external_weights=weights)
    roles = program.info.functions[0].arguments
    names = {r.name for r in roles if isinstance(r, Parameter)}
    assert "layers.0.kernel" in names
    assert replay(program) <= 1e-4


@pytest.mark.parametrize("target", TARGETS)
def test_a_convolutional_network(target: str, tmp_path: Path) -> None:
    first, second = tf.Variable(normal(3, 3, 3, 8) / 5), tf.Variable(normal(8 * 16, 5) / 10)

    @tf.function
    def network(image):
        x = tf.nn.relu(tf.nn.conv2d(image, first, 2, "SAME"))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        return tf.nn.softmax(tf.reshape(x, [-1, 8 * 16]) @ second)

    program = export(network, normal(2, 16, 16, 3))
    assert check_of(program, target, tmp_path).startswith("checked on")


def test_a_plain_function_with_loops_and_conditions(replay) -> None:
    def collatz(x):
        for _ in tf.range(3):
            if tf.reduce_sum(x) > 0:
                x = x * 0.5
            else:
                x = x * 3.0 + 1.0
        return x, tf.argmax(x), x > 0

    program = export(collatz, tf.constant(normal(5)), framework="tensorflow")
    assert [o.dtype.value for o in program.info.functions[0].signature.outputs] == [
        "f32",
        "i64",
        "bool",
    ]
    assert replay(program) <= 1e-4


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.math.top_k(x, 3),
        lambda x: tf.cumsum(tf.sort(x, axis=-1), axis=0),
        lambda x: tf.gather(x, tf.constant([2, 0]), axis=1),
        lambda x: tf.linalg.einsum("ij,kj->ik", x, x),
        lambda x: tf.image.resize(x[None, :, :, None], [8, 10]),
        lambda x: tf.math.erf(x) + tf.nn.gelu(x) + tf.asinh(x) + tf.sinh(x),
        lambda x: tf.one_hot(tf.argmax(x, -1), 6) @ tf.ones([6, 2]),
    ],
    ids=["top_k", "sort", "gather", "einsum", "resize", "special", "one_hot"],
)
def test_operations(function, replay) -> None:
    assert replay(export(tf.function(function), normal(4, 6))) <= 1e-4


def test_gradients_and_updated_weights(replay) -> None:
    weight = tf.Variable(normal(4, 1), name="weight")

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight - y) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    program = export(step, (normal(8, 4), normal(8, 1)))
    assert program.golden is not None
    losses = [float(call.outputs[0]) for call in program.golden.calls]
    assert losses == sorted(losses, reverse=True)
    assert replay(program) <= 1e-4


# SavedModels


class Saved(tf.Module):
    """Two signatures over one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(normal(4, 3))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
    def scores(self, x):
        return {"scores": x @ self.weight}

    @tf.function(input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([], tf.int32)])
    def scaled(self, x, by):
        return x @ self.weight * tf.cast(by, tf.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    model = Saved()
    signatures = {"serving_default": model.scores, "scaled_up": model.scaled}
    tf.saved_model.save(model, str(folder), signatures=signatures)
    return folder


def test_a_saved_model_gives_its_default_signature_as_main(saved: Path, replay) -> None:
    program = export_source(str(saved))
    (main,) = program.info.functions
    assert str(main.signature) == "main(x: f32[1, 4]) -> (scores: f32[1, 3])"
    assert main.signature.result == {"scores": 0}
    assert replay(program) <= 1e-4


def test_an_operation_of_a_saved_model_is_called_by_its_node(saved: Path) -> None:
    """A graph keeps no lines; XLA makes up a file for all of them."""
    from iree.compiler import ir

    with ir.Context() as context:
        module = parse_stablehlo(export_source(str(saved)).bytecode, context)
        places = [place_of(op) for op in inside(module.operation) if op.name == "stablehlo.dot"]
    assert [place.rpartition("/")[2] for place in places if place] == ["matmul"]


class Turning(tf.Module):
    """A called function, a loop, a branch and a variable that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(normal(4, 4))
        self.total = tf.Variable(tf.fill([2, 4], 2.0))

    @tf.function
    def product(self, x):
        return tf.nn.relu(x @ self.kernel)

    @tf.function(input_signature=[tf.TensorSpec([2, 4])])
    def __call__(self, x):
        y = self.product(x) + self.total
        for _ in tf.range(3):
            y = tf.tanh(y) * 1.5
        y = y - 1.0 if tf.reduce_sum(y) > 1000.0 else tf.exp(y)
        self.total.assign_add(y)
        return y


def turning_values(model: Turning, x: np.ndarray) -> dict[str, list[np.ndarray]]:
    """What each operation gives in NumPy, by TensorFlow's word for it."""
    product = x @ model.kernel.numpy()
    y = np.maximum(product, 0) + model.total.numpy()
    bent, scaled = [], []
    for _ in range(3):
        bent.append(np.tanh(y))
        y = bent[-1] * 1.5
        scaled.append(y)
    return {
        "MatMul": [product],
        "Relu": [np.maximum(product, 0)],
        "Tanh": bent,
        "Mul": scaled,
        "Exp": [np.exp(y)],
    }


@pytest.mark.parametrize("is_saved", [False, True])
def test_what_tensorflow_computes_is_kept_turn_by_turn(is_saved: bool, tmp_path: Path) -> None:
    model, x = Turning(), normal(2, 4)
    before = model.total.numpy()
    if is_saved:
        tf.saved_model.save(model, str(tmp_path / "net"))
        given = {"arr_0": x}
        program = export_source(str(tmp_path / "net"), inputs=given, values=True)
    else:
        program = export(model, x, values=True)
    np.testing.assert_array_equal(model.total.numpy(), before)  # it was run on the way
    assert program.values is not None
    by_kind = {value.operation: value for value in program.values.values}
    for kind, arrays in turning_values(model, x).items():
        np.testing.assert_allclose(np.stack(by_kind[kind].arrays), np.stack(arrays), rtol=2e-5)
    assert "Sub" not in by_kind  # the branch that was not taken
    line = __file__ if not is_saved else "node "
    assert by_kind["Exp"].line.startswith(line)
    numbers = numbered(program)
    reference = refer(numbers, program.golden, 0)
    kept = program.values.values
    places = matched(kept, numbers.operations, reference, "main", None).places
    by_place = {value.operation for value, _, by_place in places if by_place}
    assert {"MatMul", "Relu", "Tanh", "Mul", "Exp", "Sum"} <= by_place


def test_operations_have_the_users_line() -> None:
    """XLA says only where in TensorFlow they were made."""
    from iree.compiler import ir

    with ir.Context() as context:
        module = parse_stablehlo(export(Turning(), normal(2, 4)).bytecode, context)
        places = {op.name: place_of(op) for op in inside(module.operation)}
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    for name, words in (("stablehlo.exponential", "tf.exp(y)"), ("stablehlo.tanh", "tf.tanh(y)")):
        file, _, line = (places[name] or "").rpartition(":")
        assert file == __file__
        assert words in text[int(line) - 1]


def test_signatures_and_own_functions_of_a_saved_model_by_name(saved: Path, replay) -> None:
    program = export_source(str(saved), signatures=["scaled_up", "plain=scores"])
    names = [f.signature.name for f in program.info.functions]
    assert names == ["scaled_up", "plain"]
    assert replay(program) <= 1e-4


def test_a_saved_model_keeps_the_paths_of_its_weights(saved: Path, tmp_path: Path) -> None:
    program = export_source(str(saved), external_weights=tmp_path / "w.safetensors")
    assert program.info.weights is not None
    assert program.info.weights.names == ("weight",)


def test_a_signature_that_is_not_there_names_those_that_are(saved: Path) -> None:
    with pytest.raises(SourceError) as caught:
        export_source(str(saved), signatures=["nothing"])
    assert "serving_default" in (caught.value.hint or "")


def test_a_folder_that_is_no_whole_saved_model(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01garbage")
    with pytest.raises(SourceError, match="cannot open"):
        export_source(str(tmp_path))


# Refusals


def test_python_in_the_graph_is_named_with_the_users_line() -> None:
    def sine(x):
        return tf.numpy_function(np.sin, [x], tf.float32)  # the line to name

    with pytest.raises(UnsupportedOp, match="PyFunc") as caught:
        export(tf.function(sine), normal(3))
    line = next(n for n, text in enumerate(_lines(), 1) if "# the line to name" in text)
    assert f"test_from_tensorflow.py:{line}" in (caught.value.where or "")


def _lines() -> list[str]:
    return Path(__file__).read_text(encoding="utf-8").splitlines()


def test_string_operations_are_named() -> None:
    def join(x):
        return tf.strings.length(tf.strings.as_string(x))

    with pytest.raises(UnsupportedOp, match="AsString"):
        export(tf.function(join), normal(3))


def test_a_string_input_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="strings"):
        export(tf.function(tf.strings.length), np.array(["a", "b"]))


def test_a_lookup_table_is_refused() -> None:
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([10, 20])), -1
    )
    with pytest.raises(UnsupportedOp, match="lookup table"):
        export(tf.function(table.lookup), np.array([1, 2], np.int32))


@pytest.mark.parametrize("function", [tf.where, lambda x: tf.unique(x)[0]], ids=["where", "unique"])
def test_a_size_that_depends_on_data_is_refused(function) -> None:
    with pytest.raises(UnsupportedOp, match="size depends on data"):
        export(tf.function(function), normal(5))


def test_a_library_routine_is_named() -> None:
    with pytest.raises(UnsupportedOp, match="Qr"):
        export(tf.function(tf.linalg.inv), normal(4, 4))


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        export(Counter(), (normal(2, 4),))


def test_a_model_that_fails_names_the_users_line() -> None:
    @tf.function
    def wrong(x):
        return x @ tf.ones([7, 2])

    with pytest.raises(ExportError, match="cannot be traced") as caught:
        export(wrong, normal(2, 3))
    assert "test_from_tensorflow.py" in (caught.value.where or "")


def test_roles_follow_the_order_of_the_arguments() -> None:
    scale = tf.Variable(2.0, name="scale")
    program = export(tf.function(lambda a, b: a * scale + b), (normal(2), normal(2)))
    assert program.info.functions[0].arguments[:2] == (Input(index=0), Input(index=1))
