from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.cli.input_spec import FileValue, InputSpec, LiteralValue, TypedShape, parse_input
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError, UsageError

NAMES = st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}(\.[a-z]{1,4}|\[\d\]){0,2}\Z").filter(
    lambda name: (
        TypedShape.parse(name) is None and not name.startswith(("true", "false", "nan", "inf"))
    )
)
TYPED = st.builds(
    TypedShape,
    shape=st.lists(st.integers(0, 10**6), max_size=5).map(tuple),
    dtype=st.sampled_from(DType),
)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("@x.npy", None, FileValue(path=Path("x.npy"))),
        ("image=@a/b=c.npy", "image", FileValue(path=Path("a/b=c.npy"))),
        ("@all.npz:w1", None, FileValue(path=Path("all.npz"), key="w1")),
        ("@C:/x.npy", None, FileValue(path=Path("C:/x.npy"))),
        (
            "2x3xi32=@raw.bin",
            None,
            FileValue(path=Path("raw.bin"), typed=TypedShape(shape=(2, 3), dtype=DType.I32)),
        ),
        (
            "1x3xf32=0.5",
            None,
            LiteralValue(typed=TypedShape(shape=(1, 3), dtype=DType.F32), text="0.5"),
        ),
        ("f32=1.0", None, LiteralValue(typed=TypedShape(shape=(), dtype=DType.F32), text="1.0")),
        ("4xui8", None, LiteralValue(typed=TypedShape(shape=(4,), dtype=DType.U8), text=None)),
        (
            "z=2xcomplex<f32>=1+2j",
            "z",
            LiteralValue(typed=TypedShape(shape=(2,), dtype=DType.C64), text="1+2j"),
        ),
        ("step=3", "step", LiteralValue(typed=None, text="3")),
        ("-1e-3", None, LiteralValue(typed=None, text="-1e-3")),
        ("params.w[0]=[1 2]", "params.w[0]", LiteralValue(typed=None, text="[1 2]")),
    ],
)
def test_each_form_means_what_the_manual_says(
    text: str, name: str | None, value: FileValue | LiteralValue
) -> None:
    assert parse_input(text) == InputSpec(text=text, name=name, value=value)


@pytest.mark.parametrize(
    "text", ["", "x", "=", "x=", "=3", "@", "x=@", "4xi33", "name=word", "x.npy"]
)
def test_other_texts_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_input(text)
    assert "@FILE" in (caught.value.hint or "")


def test_a_dimension_of_many_digits_is_refused() -> None:
    with pytest.raises(UsageError, match="no dimension is as large"):
        parse_input(f"{'9' * 5000}xf32=0")


@given(typed=TYPED, name=st.none() | NAMES)
def test_a_typed_shape_is_read_back_with_any_name(typed: TypedShape, name: str | None) -> None:
    spec = parse_input(f"{name}={typed}=0" if name else f"{typed}=0")
    assert spec.name == name
    assert spec.value == LiteralValue(typed=typed, text="0")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_input(text)
    except EdgecError as error:
        assert error.what
