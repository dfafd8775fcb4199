import ml_dtypes
import numpy as np
import pytest

from edgec.cli.convert import convert
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError
from edgec.runtime.signature import TensorSpec


def to(dtype: DType, array: np.ndarray) -> tuple[np.ndarray, str | None]:
    return convert(array, TensorSpec(name="x", shape=array.shape, dtype=dtype))


def test_the_same_type_is_passed_on_untouched() -> None:
    array = np.arange(3, dtype=np.float32)
    converted, note = to(DType.F32, array)
    assert np.shares_memory(converted, array)
    assert note is None


@pytest.mark.parametrize(
    ("dtype", "array"),
    [
        (DType.F32, np.array([1.5, np.inf, np.nan], np.float64)),
        (DType.F16, np.array([1.5, -np.inf], np.float32)),
        (DType.BF16, np.array([1.5, 2.0], np.float32)),
        (DType.F32, np.array([1.5], ml_dtypes.bfloat16)),
        (DType.F32, np.array([0, 255], np.uint8)),
        (DType.I32, np.array([-5, 7], np.int64)),
        (DType.U8, np.array([0, 255], np.int64)),
        (DType.I64, np.array([True, False])),
        (DType.BOOL, np.array([0, 1], np.int32)),
        (DType.C64, np.array([1.0, 2.0], np.float64)),
        (DType.I32, np.array([1, 2], ">i8")),
    ],
)
def test_numbers_that_fit_are_converted_and_that_is_said(dtype: DType, array: np.ndarray) -> None:
    converted, note = to(dtype, array)
    assert DType.of(converted.dtype) is dtype
    np.testing.assert_array_equal(converted, array.astype(dtype.numpy))
    assert note is not None
    assert dtype.value in note


def test_another_byte_order_is_no_conversion() -> None:
    converted, note = to(DType.F32, np.array([1.5], ">f4"))
    assert note is None
    assert converted.dtype == np.dtype("<f4")
    assert converted[0] == 1.5


@pytest.mark.parametrize(
    ("dtype", "array"),
    [
        (DType.I8, np.array([300])),
        (DType.U32, np.array([-1])),
        (DType.I64, np.array([2**63], np.uint64)),
        (DType.BOOL, np.array([2])),
        (DType.F16, np.array([1e10], np.float32)),
        (DType.I32, np.array([1.0])),
        (DType.F32, np.array([1j])),
    ],
)
def test_numbers_that_would_be_lost_are_refused(dtype: DType, array: np.ndarray) -> None:
    with pytest.raises(InputError, match="x takes"):
        to(dtype, array)
