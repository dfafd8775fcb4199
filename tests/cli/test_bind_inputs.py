from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgec.cli.bind_inputs import bind
from edgec.cli.calls import input_slots, output_slots
from edgec.cli.input_spec import parse_input
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, UsageError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.signature import Argument, Dim, Signature, TensorSpec


def spec(name: str, *shape: int | Dim, dtype: DType = DType.F32) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype)


STEP = Signature(
    name="step",
    inputs=(
        spec("x", 2, 3),
        spec("params.w", 3),
        spec("params.b[0]"),
        spec("tokens", Dim(name="n", minimum=1), dtype=DType.I32),
    ),
    outputs=(spec("loss"), spec("scores", 2, 3)),
    arguments=(
        Argument(name="x", tree=0),
        Argument(name="params", tree={"w": 1, "b": [2]}),
        Argument(name="tokens", tree=3),
    ),
    result=(0, 1),
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.array([7, 8, 9], np.float32)


def bound(*texts: str, signature: Signature = STEP) -> dict[int, np.ndarray]:
    return bind([parse_input(t) for t in texts], input_slots(signature, each=False))


def refused(texts: Sequence[str], match: str) -> str:
    with pytest.raises((InputError, UsageError), match=match) as caught:
        bound(*texts)
    return caught.value.hint or ""


@pytest.fixture(autouse=True)
def _files() -> None:
    np.save("x.npy", X)
    np.savez("params.npz", w=W, **{"b[0]": np.float32(4)})
    np.savez("named.npz", **{"x": X, "params.w": W})
    np.savez("numbered.npz", X, W)
    np.savez("other.npz", a=X, b=W)
    Path("x.bin").write_bytes(X.tobytes())


def test_values_go_by_position_and_by_name() -> None:
    found = bound("@x.npy", "tokens=2xi32=1,2", "3xf32=1")
    assert sorted(found) == [0, 1, 3]
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], [1, 1, 1])
    np.testing.assert_array_equal(found[3], [1, 2])


def test_a_leaf_and_a_whole_argument_can_be_named() -> None:
    np.testing.assert_array_equal(bound("params.w=@numbered.npz:arr_1")[1], W)
    found = bound("params=@params.npz")
    np.testing.assert_array_equal(found[1], W)
    np.testing.assert_array_equal(found[2], 4)


def test_an_archive_fills_by_its_names_or_its_numbers() -> None:
    for file in ("@named.npz", "@numbered.npz"):
        found = bound(file)
        assert sorted(found) == [0, 1]
        np.testing.assert_array_equal(found[0], X)
        np.testing.assert_array_equal(found[1], W)


def test_raw_bytes_take_the_functions_type_or_their_own() -> None:
    np.testing.assert_array_equal(bound("@x.bin")[0], X)
    np.testing.assert_array_equal(bound("tokens=6xi32=@x.bin")[3], X.view(np.int32).ravel())


def test_bare_numbers_take_the_functions_type() -> None:
    np.testing.assert_array_equal(bound("2.5")[0], np.full((2, 3), 2.5, np.float32))


def test_golden_answers_fill_everything() -> None:
    tokens = np.array([1, 2], np.int32)
    call = GoldenCall(
        signature="step", inputs=(X, W, np.float32(4), tokens), outputs=(np.float32(1), X)
    )
    other = GoldenCall(signature="other", inputs=(), outputs=())
    Golden(calls=(other, call)).save(Path("a.golden.npz"))
    assert sorted(bound("@a.golden.npz")) == [0, 1, 2, 3]
    answers = bind([parse_input("@a.golden.npz")], output_slots(STEP, rows=None))
    np.testing.assert_array_equal(answers[1], X)
    Golden(calls=(other,)).save(Path("b.golden.npz"))
    assert "it has other" in refused(["@b.golden.npz"], "no call of step")


@pytest.mark.parametrize(
    ("texts", "match", "hint"),
    [
        (["y=@x.npy"], "nothing named y", "x, params.w, params.b[0], tokens"),
        (["@x.npy", "x=@x.npy"], "x is given twice", "once"),
        (["1", "1", "1", "2xi32=1", "1"], "4 slots for --input", "step("),
        (["params=3xf32=1"], "params holds 2 arrays", "archive"),
        (["params=@other.npz"], "holds a, b, and params takes w, b", ""),
        (["@other.npz"], "holds a, b, which are not the names", "NAME=@other.npz:KEY"),
        (["x=@other.npz"], "holds a, b", "@other.npz:KEY"),
        (["x=@other.npz:c"], "holds a, b, not c", ""),
        (["params.w=@x.npy"], "rank 1 is needed", "step("),
        (["x=2x4xf32=0"], "dimension 1 must be 3", "step("),
        (["tokens=0xi32"], "out of n", "step("),
        (["tokens=@x.bin"], "is dynamic", "4xi32=@x.bin"),
        (["tokens=5"], "gives no shape", "4xi32=5"),
        (["@x.txt"], "of no kind that edgec reads", ".npy"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(texts: list[str], match: str, hint: str) -> None:
    assert hint in refused(texts, match)


def test_a_shape_that_does_not_fit_is_refused_before_it_is_allocated() -> None:
    refused(["x=999999999999x3xf32=0"], "dimension 0 must be 2")
