"""Calls are bound to signatures, and shapes checked, with errors that name the argument."""

import json

import numpy as np
import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, ProgramError, UsageError
from edgec.runtime.signature import Argument, Dim, Quantization, Signature, TensorSpec

BATCH = Dim(name="batch", minimum=1, maximum=8)


def spec(name: str, *shape: int | Dim) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=DType.F32)


NESTED = Signature(
    name="predict",
    inputs=(spec("params.w", 3, 4), spec("params.b", 4), spec("x", BATCH, 3)),
    outputs=(spec("logits", BATCH, 4), spec("norm")),
    arguments=(
        Argument(name="params", tree={"w": 0, "b": 1}),
        Argument(name="x", tree=2),
        Argument(name="mask", tree=None, keyword_only=True),
    ),
    result={"logits": 0, "aux": [1, None]},
)


def test_json_is_lossless() -> None:
    assert Signature.from_json(NESTED.to_json()) == NESTED


def test_json_keeps_what_a_file_said_of_a_tensor() -> None:
    quantization = Quantization(scales=(0.1, 0.3), zero_points=(0, -3), axis=1)
    tensor = TensorSpec(
        name="x", shape=(3, 2), dtype=DType.I8, quantization=quantization, original="x:0"
    )
    assert TensorSpec.from_json(json.loads(json.dumps(tensor.to_json()))) == tensor
    assert set(spec("x", 3).to_json()) == {"name", "shape", "dtype"}


def test_a_quantisation_without_scales_is_refused() -> None:
    with pytest.raises(UsageError, match="no quantisation"):
        Quantization(scales=(), zero_points=())
    with pytest.raises(UsageError, match="1 scales and 2 zero points"):
        Quantization(scales=(0.5,), zero_points=(0, 1))


def test_arguments_by_position_and_by_name_bind_alike() -> None:
    by_position = NESTED.bind(({"w": 1, "b": 2}, 3), {})
    by_name = NESTED.bind((), {"x": 3, "params": {"b": 2, "w": 1}})
    assert by_position == by_name == [1, 2, 3]


def test_outputs_come_back_nested_as_the_model_gave_them() -> None:
    assert NESTED.unflatten(["L", "n"]) == {"logits": "L", "aux": ["n", None]}


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((1, 2, 3), {}, "takes 2 arguments and got 3"),
        (({"w": 1, "b": 2},), {}, "needs x"),
        (({"w": 1, "b": 2}, 3), {"x": 3}, "got x twice"),
        (({"w": 1, "b": 2}, 3), {"y": 3}, "does not take y"),
        (({"w": 1}, 3), {}, "params has the wrong keys: missing ['b']"),
        (({"w": 1, "b": 2}, 3), {"mask": 1}, "mask takes None"),
    ],
)
def test_a_wrong_call_is_refused_by_name(args: tuple, kwargs: dict, says: str) -> None:
    with pytest.raises(InputError) as refused:
        NESTED.bind(args, kwargs)
    assert says in str(refused.value)


def test_shapes_are_checked_against_bounds_and_each_other() -> None:
    sizes: dict[str, int] = {}
    NESTED.inputs[2].check((5, 3), sizes)
    assert sizes == {"batch": 5}
    for shape, says in [
        ((5,), "rank 2 is needed"),
        ((5, 4), "dimension 1 must be 3"),
        ((9, 3), "dimension 0 is out of batch=1..8"),
        ((4, 3), "batch is 5 in another argument"),
    ]:
        with pytest.raises(InputError, match="x takes f32") as refused:
            NESTED.inputs[2].check(shape, dict(sizes))
        assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "low", "high"), [("n", 1, None), ("n=2..4", 2, 4), ("n=0..", 0, None)]
)
def test_dimensions_are_parsed(text: str, low: int, high: int | None) -> None:
    assert Dim.parse(text) == Dim(name="n", minimum=low, maximum=high)
    assert Dim.parse(str(Dim.parse(text))) == Dim.parse(text)


@pytest.mark.parametrize("text", ["", "1", "n=", "n=3", "n=4..2", "n=-1..2", "a b"])
def test_other_dimensions_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Dim.parse(text)


def test_bounds_that_no_size_has_are_damage() -> None:
    damaged = NESTED.to_json()
    damaged["inputs"][0]["shape"] = [{"name": "n", "min": 3, "max": 2}]
    with pytest.raises(ProgramError, match="impossible bounds"):
        Signature.from_json(damaged)


@pytest.mark.parametrize("damage", [{}, {"name": "x"}, {**NESTED.to_json(), "inputs": [1]}])
def test_damaged_json_is_refused(damage: dict) -> None:
    with pytest.raises(ProgramError):
        Signature.from_json(damage)


def test_a_signature_must_name_each_input_once() -> None:
    with pytest.raises(ProgramError):
        Signature(
            name="f",
            inputs=(spec("x"),),
            outputs=(),
            arguments=(Argument(name="x", tree=(0, 0)),),
            result=None,
        )


def test_the_text_reads_like_a_function() -> None:
    flat = Signature.flat("main", [spec("x", BATCH, 3)], [spec("y", 2)])
    assert str(flat) == "main(x: f32[batch=1..8, 3]) -> (y: f32[2])"


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_survives_numpy_and_mlir(dtype: DType) -> None:
    assert DType.of(dtype.numpy) is dtype
    assert DType.from_mlir(dtype.mlir) is dtype
    assert np.zeros(1, dtype.numpy).nbytes * 8 == dtype.bits


def test_an_unknown_element_type_is_refused() -> None:
    with pytest.raises(InputError, match="datetime64"):
        DType.of("datetime64[s]")
    with pytest.raises(InputError):
        DType.from_mlir("f8E4M3FN")
