"""What weights in blocks are read as, and that this means what NumPy works out code by code."""

import numpy as np
import pytest
from iree.compiler import ir

from edgec.runtime.errors import CompileError
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match import description
from edgec.toolchain.match.block_product import read_block_product
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.validation import validating
from tests.toolchain.block_programs import FORMS, Form


def found(text: str):
    module = ir.Module.parse(text)
    (op,) = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]
    return read_block_product(op), module


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_read_and_means_what_its_codes_say(name):
    form = FORMS[name]
    numbers = form.numbers(5, 256)
    x = np.random.default_rng(1).standard_normal((3, 256))
    with ir.Context():
        product, _module = found(form.text(3, 5, 256))
        assert product is not None
        blocks = product.weights
        assert (blocks.bits, blocks.group) == (form.bits, form.group or 256)
        assert (blocks.outputs, blocks.inner, product.rows) == (5, 256, 3)
        (answer,) = product.reference(x, *(each for each in numbers.values()))
        with validating() as compared:
            validate(product, "product by blocks")
    assert compared.same == {"product by blocks": 1}
    np.testing.assert_allclose(answer, x @ form.weights(numbers, 256).T, 1e-6, 1e-9)


def test_it_says_what_it_is_in_a_few_words():
    with ir.Context():
        product, _module = found(FORMS["Q4_1"].text(1, 96, 64))
        assert str(product) == "product: 1 x 64 by 64 x 96, int4 in groups of 32, with least values"
        assert product.work.flops == 2 * 64 * 96
        assert product.weights.size == 96 * (32 + 2 * 2 * 2)


def test_a_matrix_that_lies_the_other_way_is_read_through_its_turn():
    text = FORMS["Q8_0"].text(3, 5, 64)
    turned = text.replace(
        "%product = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : "
        "(tensor<3x64xf32>, tensor<5x64xf32>)",
        "%t = stablehlo.transpose %w, dims = [1, 0] : (tensor<5x64xf32>) -> tensor<64x5xf32>\n"
        "  %product = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : "
        "(tensor<3x64xf32>, tensor<64x5xf32>)",
    )
    assert turned != text
    with ir.Context():
        product, _module = found(turned)
        assert product is not None
        assert (product.weights.outputs, product.weights.inner) == (5, 64)


OTHERS = {
    "a scale for each weight": ("dims = [0, 1]", "dims = [0, 2]"),
    "halves in another order": ("%low, %high, dim", "%high, %low, dim"),
    "another mask": ("dense<15>", "dense<7>"),
    "another shift": ("stablehlo.constant dense<4>", "stablehlo.constant dense<3>"),
    "a quotient": ("stablehlo.multiply", "stablehlo.divide"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_it_is_left(name):
    # As many groups as neighbours, so that another axis fits, too.
    text = Form(bits=4, group=32, zero=8.0).text(1, 3, 32 * 32)
    changed = text.replace(*OTHERS[name])
    assert changed != text
    with ir.Context():
        product, _module = found(changed)
        assert product is None


def test_a_wrong_meaning_is_found(monkeypatch):
    with ir.Context():
        product, _module = found(FORMS["Q4_0"].text(2, 3, 64))
        wrong = product.weights.__class__.reference
        monkeypatch.setattr(product.weights.__class__, "reference", lambda *a: wrong(*a) * 1.1)
        with validating(), pytest.raises(CompileError, match="compute something else"):
            description.validate(product, "product by blocks")
