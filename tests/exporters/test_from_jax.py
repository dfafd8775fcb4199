"""JAX functions and models, exported, compiled for this CPU and compared with JAX itself."""

import functools
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import Bundle, Entry, export
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, SourceError, UnsupportedOp, UsageError
from edgec.runtime.signature import Dim
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Program, State

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def signature(program: Program, index: int = 0):
    return program.info.functions[index].signature


# Arguments and results


def test_a_function_gives_the_answers_of_jax(replay) -> None:
    program = export(lambda x, y: jax.nn.softmax(x @ y), (normal(3, 4), normal(4, 5)))
    assert str(signature(program)) == "main(x: f32[3, 4], y: f32[4, 5]) -> (result: f32[3, 5])"
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) <= 1e-4


def test_the_file_is_a_portable_artifact_that_jaxlib_reads() -> None:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    program = export(jnp.sin, (normal(3),), name="sine")
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, program.bytecode)
        assert "func.func public @sine" in str(module)


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


@functools.partial(jax.tree_util.register_dataclass, data_fields=["k", "v"], meta_fields=[])
@dataclass
class Cache:
    k: jax.Array
    v: jax.Array


def test_trees_keep_their_names_and_nesting(replay) -> None:
    def model(params, pair, cache, *rest, scale):
        total = sum(rest)
        return {"out": params["w"] @ pair.left + total, "more": [cache.k * scale, (None, cache.v)]}

    program = export(
        model,
        (
            {"w": normal(2, 3), "bias": None},
            Pair(normal(3), normal(3)),
            Cache(normal(2), normal(2)),
            normal(2),
            normal(2),
        ),
        example_kwargs={"scale": np.float32(2)},
    )
    said = signature(program)
    assert [s.name for s in said.inputs] == [
        *("params.w", "pair.left", "pair.right", "cache.k", "cache.v", "rest0", "rest1", "scale"),
    ]
    by_name = {a.name: a for a in said.arguments}
    assert by_name["params"].tree == {"w": 0, "bias": None}
    assert by_name["pair"].tree == {"left": 1, "right": 2}
    assert by_name["scale"].keyword_only
    assert said.result == {"out": 1, "more": [0, (None, 2)]} or said.result == {
        "more": [0, (None, 1)],
        "out": 2,
    }
    assert {s.name for s in said.outputs} == {"out", "more[0]", "more[1][1]"}
    assert replay(program) <= 1e-4


def test_an_argument_that_the_function_does_not_use_stays(replay) -> None:
    program = export(lambda used, unused: used * 2, (normal(3), normal(5)))
    assert len(signature(program).inputs) == 2
    assert replay(program) == 0


def test_strings_bools_and_static_arguments_configure_the_model(replay) -> None:
    def model(x, mode, negate=False):
        y = x**3 if mode == "cube" else x
        return -y if negate else y

    program = export(model, (normal(3),), example_kwargs={"mode": "cube", "negate": True})
    assert [s.name for s in signature(program).inputs] == ["x"]
    assert replay(program) <= 1e-4
    jitted = jax.jit(lambda x, power: x**power, static_argnames="power")
    program = export(jitted, (normal(3), 2))
    assert [s.name for s in signature(program).inputs] == ["x"]
    assert replay(program) <= 1e-4


def test_python_numbers_are_scalars_that_give_way_to_array_types(replay) -> None:
    program = export(lambda x, k, t: x * k + t, (jnp.ones(3, jnp.bfloat16), 3, 0.5))
    said = signature(program)
    assert [s.dtype for s in said.inputs] == [DType.BF16, DType.I32, DType.F32]
    assert said.outputs[0].dtype is DType.BF16
    assert replay(program) == 0


def test_every_element_type_of_jax(replay) -> None:
    names = (
        *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
        *("float16", "bfloat16", "float32", "complex64"),
    )
    values = {name: jnp.asarray(np.arange(6).reshape(2, 3) % 3).astype(name) for name in names}
    program = export(
        lambda values: {k: ~x if x.dtype == bool else x + x for k, x in values.items()}, (values,)
    )
    for spec in (*signature(program).inputs, *signature(program).outputs):
        assert spec.dtype.numpy.name == spec.name.removeprefix("values.")
    assert replay(program) == 0


def test_64_bit_types_where_the_user_asks_for_them() -> None:
    with jax.enable_x64(True):
        program = export(lambda x, n: x + n, (np.ones(3), np.arange(3)))
    assert [s.dtype for s in signature(program).inputs] == [DType.F64, DType.I64]
    program = export(lambda x, n: x + n, (np.ones(3), np.arange(3)))
    assert [s.dtype for s in signature(program).inputs] == [DType.F32, DType.I32]


def test_a_random_key_is_an_input_of_its_raw_data(replay) -> None:
    program = export(
        lambda key, x: x + jax.random.normal(key, x.shape), (jax.random.key(3), normal(2, 3))
    )
    assert str(signature(program).inputs[0]) == "key: u32[2]"
    assert replay(program) <= 1e-4


def test_a_result_may_be_a_random_key(replay) -> None:
    program = export(lambda key: jax.random.split(key)[0], (jax.random.key(3),))
    assert str(signature(program).outputs[0]) == "result: u32[2]"
    assert replay(program) == 0


def test_a_training_step_returns_the_updated_parameters(replay) -> None:
    def step(params, x, y):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"] + p["b"] - y) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    params = {"w": normal(4, 2), "b": np.zeros(2, np.float32)}
    program = export(step, (params, normal(8, 4), normal(8, 2)), name="train")
    assert signature(program).result == ({"w": 1, "b": 0}, 2)
    assert replay(program) <= 1e-4


def test_sharding_hints_are_taken_out(replay) -> None:
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    where = NamedSharding(mesh, PartitionSpec("d"))
    program = export(lambda x: jax.lax.with_sharding_constraint(x * 2, where), (normal(4),))
    assert replay(program) == 0


# Models


def test_a_linen_model_keeps_its_weights_names(replay, tmp_path) -> None:
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, image, train=False):
            x = nn.Conv(4, (3, 3), name="conv")(image)
            x = nn.relu(nn.BatchNorm(use_running_average=not train, name="norm")(x))
            return nn.Dense(3, name="head")(x.reshape(x.shape[0], -1))

    net, image = Net(), normal(2, 8, 8, 1)
    variables = net.init(jax.random.key(0), image)
    bound = export(net.bind(variables), (image,))
    assert str(signature(bound)) == "main(image: f32[2, 8, 8, 1]) -> (result: f32[2, 3])"
    assert bound.info.functions[0].arguments == (Input(index=0),)
    assert replay(bound) <= 1e-4
    pair = export(
        (net, variables),
        (image,),
        example_kwargs={"train": False},
        external_weights=tmp_path / "net.safetensors",
    )
    assert pair.info.weights is not None
    assert set(pair.info.weights.names) == {
        *("params.conv.kernel", "params.conv.bias", "params.head.kernel", "params.head.bias"),
        *("params.norm.scale", "params.norm.bias"),
        *("batch_stats.norm.mean", "batch_stats.norm.var"),
    }
    assert replay(pair) <= 1e-4


def test_a_linen_module_without_variables_is_refused() -> None:
    import flax.linen as nn

    with pytest.raises(SourceError, match="has no variables") as caught:
        export(nn.Dense(3), (normal(2, 4),))
    assert "module.bind(variables)" in str(caught.value)


def test_a_linen_decoder_keeps_its_cache_on_the_device(replay) -> None:
    import flax.linen as nn

    attention = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, decode=True)
    variables = attention.init(jax.random.key(0), normal(1, 4, 8))
    program = export((attention, variables), (normal(1, 1, 8),))
    names = {s.name for s in program.info.states}
    assert names == {"cache.cached_key", "cache.cached_value", "cache.cache_index"}
    assert replay(program) <= 1e-4


def test_an_nnx_model_runs_in_evaluation_mode(replay) -> None:
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.linear = nnx.Linear(4, 4, rngs=rngs)
            self.norm = nnx.BatchNorm(4, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.dropout(self.norm(self.linear(x)))

    net, x = Net(nnx.Rngs(0)), normal(2, 4)
    program = export(net, (x,))
    assert program.info.functions[0].arguments == (Input(index=0),)
    assert not program.info.states
    assert replay(program) <= 1e-4
    assert not net.dropout.deterministic  # the user's model is as it was
    net.eval()
    np.testing.assert_allclose(program.golden.calls[0].outputs[0], net(x), rtol=1e-5)


def test_an_nnx_variable_that_a_call_changes_is_state(replay) -> None:
    from flax import nnx

    class Counter(nnx.Module):
        def __init__(self):
            self.count = nnx.Variable(jnp.zeros((), jnp.int32))
            self.scale = nnx.Param(jnp.arange(3.0))

        def __call__(self, x):
            self.count[...] = self.count[...] + 1
            return x * self.scale[...] + self.count[...]

    program = export(Counter(), (normal(3),))
    assert program.info.functions[0].arguments == (State(name="count"), Input(index=0))
    assert len(program.golden.calls) == 3
    assert replay(program) <= 1e-4


def test_an_equinox_model_and_its_vmap(replay, tmp_path) -> None:
    import equinox

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlp = equinox.nn.MLP(4, 3, 32, 2, key=jax.random.key(0))
    program = export(mlp, (normal(4),), external_weights=tmp_path / "one.irpa")
    assert "layers[0].weight" in program.info.weights.names
    assert replay(program) <= 1e-4
    batched = export(jax.vmap(mlp), (normal(5, 4),), external_weights=tmp_path / "many.irpa")
    # 32 x 32 floats are 4 KiB; the other layers are too small to leave the code.
    assert batched.info.weights.names == ("layers[1].weight",)
    assert replay(batched) <= 1e-4


def test_arrays_that_a_function_closes_over_can_live_outside(replay, tmp_path) -> None:
    params = {"first": jnp.asarray(normal(32, 32)), "second": jnp.asarray(normal(32, 32))}

    @jax.jit
    def layer(x):
        return jnp.tanh(x @ params["second"])

    def model(x):
        return layer(x @ params["first"]) + params["second"][0]

    inside = export(model, (normal(2, 32),))
    assert inside.info.weights is None
    outside = export(model, (normal(2, 32),), external_weights=tmp_path / "w.safetensors")
    assert set(outside.info.weights.names) == {"params.first", "params.second"}
    assert len(outside.bytecode) < 8000 < len(inside.bytecode)
    assert replay(inside) <= 1e-4
    assert replay(outside) <= 1e-4


# State


def test_state_lives_between_calls_of_several_signatures(replay) -> None:
    state = {"w": normal(3, 2), "steps": np.int32(0)}

    def predict(state, x):
        return x @ state["w"]

    def train(state, x, y):
        grad = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(state["w"])
        return {"w": state["w"] - 0.1 * grad, "steps": state["steps"] + 1}, state["steps"]

    x, y = normal(4, 3), normal(4, 2)
    program = export(
        Bundle(
            (
                Entry(predict, (x,), name="predict", reads_state=True),
                Entry(train, (x, y), name="train", updates_state=True),
            ),
            state=state,
        )
    )
    assert {s.name: str(s.dtype.value) for s in program.info.states} == {"w": "f32", "steps": "i32"}
    predict_function, train_function = program.info.functions
    assert predict_function.results == (Output(index=0),)
    assert set(train_function.results) == {
        *(State(name="steps"), State(name="w"), Output(index=0)),
    }
    calls = program.golden.calls
    assert [c.signature for c in calls] == ["predict", "train"] * 3
    assert [int(c.outputs[0]) for c in calls[1::2]] == [0, 1, 2]
    assert np.abs(calls[0].outputs[0] - calls[4].outputs[0]).max() > 1e-3
    assert replay(program) <= 1e-4


def test_a_state_that_changes_its_shape_is_refused() -> None:
    def grow(state, x):
        return jnp.concatenate([state, x]), x

    with pytest.raises(ExportError, match=r"from float32\[2\] into float32\[4\]"):
        export(Bundle((Entry(grow, (normal(2),), updates_state=True),), state=normal(2)))


def test_an_update_without_outputs_is_refused() -> None:
    with pytest.raises(ExportError, match="updates the state and returned"):
        export(Bundle((Entry(lambda s, x: s + x, (normal(2),), updates_state=True),), normal(2)))


# Dynamic dimensions


def test_a_dynamic_batch_is_right_at_every_size(replay) -> None:
    w = normal(4, 3)
    program = export(lambda x: jax.nn.softmax(x @ w), (normal(3, 4),), dynamic="batch=1..8")
    batch = Dim(name="batch", minimum=1, maximum=8)
    assert signature(program).inputs[0].shape == (batch, 4)
    assert signature(program).outputs[0].shape == (batch, 3)
    assert [c.inputs[0].shape[0] for c in program.golden.calls] == [3, 8, 1]
    assert replay(program) <= 1e-4


def test_dimensions_by_input_and_computed_ones(replay) -> None:
    program = export(
        lambda x, y: jnp.concatenate([x, x, y], axis=1),
        (normal(2, 3), normal(2, 5)),
        dynamic={"x": {1: "n=1..4"}, "y": (None, "m")},
    )
    said = signature(program)
    assert str(said.inputs[1].shape[1]) == "m"
    computed = said.outputs[0].shape[1]
    assert isinstance(computed, Dim)
    assert set(computed.name.replace("*", " ").split()) >= {"m", "n", "2"}
    assert replay(program) <= 1e-4


def test_jaxs_own_symbolic_shapes(replay) -> None:
    (b,) = jax.export.symbolic_shape("b", constraints=["b <= 8"])
    program = export(lambda x: x * 2, (jax.ShapeDtypeStruct((b, 3), jnp.float32),))
    assert signature(program).inputs[0].shape == (Dim(name="b", minimum=1, maximum=8), 3)
    assert replay(program) == 0


def test_images_of_any_size_are_right_at_every_size(replay) -> None:
    """A window alone, and a convolution before a global mean, which the compiler refused."""
    kernel = np.random.default_rng(1).standard_normal((3, 3, 3, 8)).astype(np.float32)

    def features(x: jax.Array) -> dict[str, jax.Array]:
        deep = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        steps = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return {
            "sums": jax.lax.reduce_window(x, 0.0, jax.lax.add, *steps),
            "largest": jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *steps),
            "mean": deep.mean((1, 2)),
        }

    x = np.random.default_rng(2).standard_normal((1, 16, 20, 3)).astype(np.float32)
    program = export(features, (x,), dynamic={"x": {1: "h=8..32", 2: "w=8..32"}})
    assert program.golden is not None
    assert {call.inputs[0].shape for call in program.golden.calls} >= {(1, 16, 20, 3), (1, 8, 8, 3)}
    assert replay(program) < 2e-6


def test_an_input_that_is_not_there_cannot_be_dynamic() -> None:
    with pytest.raises(UsageError, match="no input z"):
        export(lambda x: x, (normal(2),), dynamic="z:0=batch")


def test_a_model_of_one_size_refuses_a_dynamic_one() -> None:
    with pytest.raises(ExportError, match="cannot be traced by JAX") as caught:
        export(lambda x: x @ np.ones((4, 2), np.float32), (normal(3, 4),), dynamic="x:1=n")
    assert "test_from_jax.py" in str(caught.value)


# Refusals


@pytest.mark.parametrize(
    ("function", "primitive"),
    [
        (lambda x: jax.scipy.linalg.schur(x)[0], "schur"),
        (lambda x: jax.pure_callback(lambda v: v, x, x), "pure_callback"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_run_is_named_with_its_line(function, primitive: str) -> None:
    with pytest.raises(UnsupportedOp) as caught:
        export(function, (np.eye(3, dtype=np.float32),))
    assert f"JAX's {primitive}," in caught.value.what
    line = function.__code__.co_firstlineno
    assert f"test_from_jax.py:{line}" in (caught.value.where or "")
    assert caught.value.hint


def test_a_transform_of_any_length_is_exported() -> None:
    program = export(lambda x: jnp.abs(jnp.fft.fft(x)), (normal(15),))
    assert str(signature(program).outputs[0]) == "result: f32[15]"


def test_a_refused_print_has_printed_nothing(capfd) -> None:
    def model(x):
        jax.debug.print("value {}", x)
        return x

    with pytest.raises(UnsupportedOp, match="prints from the host"):
        export(model, (normal(2),))
    assert "value" not in capfd.readouterr().out


def test_python_control_flow_on_values_says_what_to_use() -> None:
    with pytest.raises(ExportError, match="TracerBoolConversionError") as caught:
        export(lambda x: x if x.sum() > 0 else -x, (normal(3),))
    assert "test_from_jax.py" in (caught.value.where or "")
    assert "jax.lax.cond" in (caught.value.hint or "")


def test_missing_example_inputs_are_named() -> None:
    with pytest.raises(UsageError, match="missing a required argument: 'y'"):
        export(lambda x, y: x + y, (normal(3),))


def test_an_element_type_that_edgec_has_not() -> None:
    with pytest.raises(ExportError, match="the input x has elements of type int4"):
        export(lambda x: x, (jnp.ones(3, jnp.int4),))


def test_places_in_the_users_source_are_in_the_code() -> None:
    from iree.compiler import ir

    from edgec.toolchain.stablehlo import parse_stablehlo

    program = export(lambda x: jnp.sin(x), (normal(3),))
    with ir.Context() as context:
        text = parse_stablehlo(program.bytecode, context).operation.get_asm(enable_debug_info=True)
    assert "test_from_jax.py" in text
    assert "exporters/edgec" not in text


def test_a_parameter_that_no_function_uses_is_left_out(tmp_path) -> None:
    import flax.linen as nn

    net = nn.Dense(3)
    variables = net.init(jax.random.key(0), normal(2, 4))
    program = export(
        (net, {**variables, "other": {"x": normal(7)}}),
        (normal(2, 4),),
        external_weights=tmp_path / "w.irpa",
    )
    assert set(program.info.weights.names) == {"params.kernel", "params.bias"}
    assert Parameter(name="other.x") not in program.info.functions[0].arguments
