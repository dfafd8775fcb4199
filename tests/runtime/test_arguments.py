"""What stands for an input, and what is refused because a digit could get lost."""

import ml_dtypes
import numpy as np
import pytest

from edgec.runtime import Device, Dim, DType, TensorSpec
from edgec.runtime.arguments import check_input
from edgec.runtime.errors import InputError

DEVICE = Device.open("local-sync")


def take(dtype: DType, shape: tuple[int | Dim, ...], value: object) -> np.ndarray:
    spec = TensorSpec(name="x", shape=shape, dtype=dtype)
    array = check_input(spec, value, DEVICE, {})
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtype.numpy
    return array


@pytest.mark.parametrize(
    ("dtype", "shape", "value"),
    [
        (DType.F32, (), 0.1),
        (DType.F32, (), 3),
        (DType.F32, (2,), [1, 2.5]),
        (DType.F16, (2, 2), [[1.0, 2.0], (3.0, 4.0)]),
        (DType.BF16, (), 1.5),
        (DType.F32, (2,), [float("inf"), float("nan")]),
        (DType.I8, (2,), [-128, 127]),
        (DType.U64, (), 2**64 - 1),
        (DType.BOOL, (2,), [True, False]),
        (DType.C64, (2,), [1, 2j]),
        (DType.I32, (), np.int32(4)),
        (DType.F32, (1,), [np.float64(2.0)]),
        (DType.F32, (0,), []),
    ],
)
def test_numbers_that_fit_are_taken(dtype: DType, shape: tuple[int, ...], value: object) -> None:
    array = take(dtype, shape, value)
    np.testing.assert_array_equal(array, np.array(value, dtype.numpy))


@pytest.mark.parametrize(
    ("dtype", "shape", "value", "message"),
    [
        (DType.I32, (), 1.0, r"x takes i32 and got 1\.0 \(float\)"),
        (DType.I32, (), True, "got True"),
        (DType.BOOL, (), 1, "x takes bool and got 1"),
        (DType.F32, (), 1j, "got 1j"),
        (DType.I8, (), 128, "do not fit"),
        (DType.U8, (), -1, "do not fit"),
        (DType.F16, (), 1e6, "beyond its range"),
        (DType.F32, (2,), [[1.0], [1.0, 2.0]], "do not fit"),
        (DType.F32, (2,), [1.0, None], "got None"),
        (DType.F32, (), "1.0", "got str"),
        (DType.F32, (), np.float64(1.0), "x takes f32 and got f64"),
        (DType.F32, (2,), np.zeros(2, np.int32), "x takes f32 and got i32"),
        (DType.I64, (2,), np.zeros(2, np.int32), "x takes i64 and got i32"),
        (DType.F32, (1,), np.array(["a"]), "x takes f32 and got <U1"),
        (DType.F32, (1,), np.zeros(2, np.float32), r"x takes f32\[1\] and got shape \(2\)"),
    ],
)
def test_others_are_refused(
    dtype: DType, shape: tuple[int, ...], value: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        take(dtype, shape, value)


def test_the_hint_converts() -> None:
    with pytest.raises(InputError, match=r"x\.astype\(np\.float32\)"):
        take(DType.F32, (2,), np.zeros(2))
    with pytest.raises(InputError, match=r"x\.astype\(ml_dtypes\.bfloat16\)"):
        take(DType.BF16, (2,), np.zeros(2))
    assert take(DType.BF16, (2,), np.zeros(2).astype(ml_dtypes.bfloat16)).shape == (2,)


def test_named_sizes_are_checked_over_all_arguments() -> None:
    batch = Dim(name="batch", minimum=1, maximum=4)
    sizes: dict[str, int] = {}
    for name in ("a", "b"):
        spec = TensorSpec(name=name, shape=(batch,), dtype=DType.F32)
        check_input(spec, np.zeros(3, np.float32), DEVICE, sizes)
    assert sizes == {"batch": 3}
    spec = TensorSpec(name="c", shape=(batch,), dtype=DType.F32)
    with pytest.raises(InputError, match="batch is 3 in another argument"):
        check_input(spec, np.zeros(2, np.float32), DEVICE, sizes)
    with pytest.raises(InputError, match="out of batch"):
        check_input(spec, np.zeros(5, np.float32), DEVICE, {})


def test_a_nest_without_bottom_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InputError, match="more than 32 levels"):
        take(DType.F32, (1,), endless)
