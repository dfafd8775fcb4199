import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.cli.input_spec import TypedShape
from edgec.cli.literals import parse_values
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError, InputError


def typed(text: str) -> TypedShape:
    found = TypedShape.parse(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("4xi32", "1,2,3,4", np.array([1, 2, 3, 4], np.int32)),
        ("2x2xf32", "[[1 2][3 4]]", np.array([[1, 2], [3, 4]], np.float32)),
        ("2x2xf32", "[1 2][3 4]", np.array([[1, 2], [3, 4]], np.float32)),
        ("1x3xf32", "0.5", np.full((1, 3), 0.5, np.float32)),
        ("f32", "1.0", np.array(1, np.float32)),
        ("3xi1", "true 0 1", np.array([True, False, True])),
        ("2xui8", "0xff 0", np.array([255, 0], np.uint8)),
        ("2xi8", "-0x80 127", np.array([-128, 127], np.int8)),
        ("2xc64", "1+2j 3", np.array([1 + 2j, 3], np.complex64)),
        ("3xf16", "nan inf -inf", np.array([np.nan, np.inf, -np.inf], np.float16)),
        ("2xbf16", "1.5 -2", np.array([1.5, -2], ml_dtypes.bfloat16)),
        ("i64", "9223372036854775807", np.array(2**63 - 1, np.int64)),
        ("u64", "18446744073709551615", np.array(2**64 - 1, np.uint64)),
        ("2x3xi32", None, np.zeros((2, 3), np.int32)),
        ("0x3xf32", "", np.zeros((0, 3), np.float32)),
    ],
)
def test_numbers_become_the_array_they_say(
    shape: str, text: str | None, expected: np.ndarray
) -> None:
    actual = parse_values(text, typed(shape))
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("shape", "text", "why"),
    [
        ("4xi32", "1,2,3", "needs 4 numbers and got 3"),
        ("4xi32", "", "needs 4 numbers and got 0"),
        ("4xi32", "[1]", "needs 4 numbers and got 1"),
        ("i8", "300", "does not fit i8: -128 to 127"),
        ("u8", "-1", "does not fit u8: 0 to 255"),
        ("i32", "1.5", "is no i32 number"),
        ("i32", "1_0e", "is no i32 number"),
        ("bool", "2", "is no bool number"),
        ("f16", "1e10", "too large for f16"),
        ("f32", "1e39", "too large for f32"),
        ("2xf32", "[1 2", "brackets"),
        ("2xf32", "]1 2[", "brackets"),
        ("2xf32", "[[1 2]]", "brackets"),
        ("f32", "one", "is no f32 number"),
        ("i32", "9" * 5000, "is no i32 number"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(shape: str, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_values(text, typed(shape))


@pytest.mark.parametrize("text", [None, "0", "1 2"])
def test_an_array_beyond_all_memory_is_refused_before_it_is_made(text: str | None) -> None:
    with pytest.raises(InputError, match="GiB of memory"):
        parse_values(text, typed("999999999999xf32"))
    with pytest.raises(InputError, match="GiB of memory"):
        parse_values(text, typed("999999999999999999x" * 30 + "f64"))


@given(st.lists(st.floats(width=32), min_size=2, max_size=20))
def test_floats_come_back_bit_for_bit(values: list[float]) -> None:
    text = ",".join(repr(v) for v in values)
    actual = parse_values(text, typed(f"{len(values)}xf32"))
    np.testing.assert_array_equal(actual, np.array(values, np.float32))


@given(st.sampled_from([d for d in DType if d.value[0] in "iu"]), st.data())
def test_integers_come_back_over_their_whole_range(dtype: DType, data: st.DataObject) -> None:
    limits = np.iinfo(dtype.numpy)
    number = data.draw(st.integers(int(limits.min), int(limits.max)))
    assert parse_values(str(number), TypedShape(shape=(), dtype=dtype)).item() == number


@given(
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.sampled_from(DType),
    st.text(max_size=30) | st.text("0123456789,[] .-+ejxnaif", max_size=30),
)
def test_any_text_gives_the_shape_and_type_asked_for_or_an_error(
    shape: tuple[int, ...], dtype: DType, text: str
) -> None:
    try:
        array = parse_values(text, TypedShape(shape=shape, dtype=dtype))
    except EdgecError as error:
        assert error.what
    else:
        assert array.shape == shape
        assert DType.of(array.dtype) is dtype
        assert array.size == math.prod(shape)
