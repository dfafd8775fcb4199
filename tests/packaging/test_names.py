"""Names that any language takes."""

import pytest

from edgec.packaging.bindings import bind
from edgec.packaging.names import camel, identifier, pascal, unique
from edgec.runtime import Dim, DType, Signature, TensorSpec


@pytest.mark.parametrize(
    ("text", "snake", "camels", "type_name"),
    [
        ("digits", "digits", "digits", "Digits"),
        ("Digit reader-2", "Digit_reader_2", "digitReader2", "DigitReader2"),
        ("7seg", "x_7seg", "x7seg", "X7seg"),
        ("class", "class_", "class_", "Class"),
        ("token_ids", "token_ids", "tokenIds", "TokenIds"),
        ("zahl größe", "zahl_gr_e", "zahlGrE", "ZahlGrE"),
        ("images[0].k", "images_0_k", "images0K", "Images0K"),
        ("数", "x", "x", "X"),
    ],
)
def test_any_text_becomes_an_identifier(text: str, snake: str, camels: str, type_name: str) -> None:
    assert identifier(text) == snake
    assert camel(text) == camels
    assert pascal(text) == type_name
    assert snake.isidentifier()


def test_names_that_are_there_are_numbered() -> None:
    assert unique(["x", "y", "x", "x"]) == ["x", "y", "x_2", "x_3"]


def test_sizes_and_tensors_of_a_function_have_names_of_their_own() -> None:
    batch, out = Dim(name="batch", maximum=8), Dim(name="found", minimum=0)
    signature = Signature.flat(
        "open",
        [
            TensorSpec(name="batch", shape=(batch, 3), dtype=DType.F32),
            TensorSpec(name="b", shape=(batch,), dtype=DType.I32),
        ],
        [
            TensorSpec(name="b", shape=(2, batch), dtype=DType.C64),
            TensorSpec(name="rest", shape=(out,), dtype=DType.F32),
        ],
    )
    (function,) = bind([signature], taken=("open_",))
    assert function.name == "open__2"
    assert function.sizes == {"batch": batch}
    assert [t.name for t in function.inputs] == ["batch_2", "b"]
    assert [t.name for t in function.outputs] == ["b_2", "rest"]
    assert [t.known for t in function.outputs] == [True, False]
    assert function.inputs[0].shape == ("batch", 3)
    assert function.inputs[0].product() == "batch * 3"
    assert function.outputs[0].elements == 2
