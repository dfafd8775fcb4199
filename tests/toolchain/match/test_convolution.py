"""What a convolution's description says it means is what JAX computes, whatever its kind."""

import re

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.convolution import Convolution, read_convolution

FIRST = ("NCHW", "OIHW", "NCHW")
CASES = {
    "an image": {"image": (2, 7, 6, 4), "weight": (3, 2, 4, 5), "pads": [(1, 0), (2, 1)]},
    "channels first": {"image": (2, 4, 7, 6), "weight": (5, 4, 3, 2), "layout": FIRST},
    "any order": {
        "image": (7, 2, 4, 6),
        "weight": (4, 3, 5, 2),
        "layout": ("HNCW", "IHOW", "CWNH"),
    },
    "a line": {
        "image": (2, 9, 4),
        "weight": (3, 4, 5),
        "layout": ("NWC", "WIO", "NWC"),
        "strides": (2,),
    },
    "a volume": {
        "image": (1, 4, 5, 6, 4),
        "weight": (2, 3, 2, 4, 5),
        "layout": ("NDHWC", "DHWIO", "NDHWC"),
    },
    "no axis": {"image": (3, 4), "weight": (4, 5), "layout": ("NC", "IO", "NC")},
    "groups": {"image": (2, 6, 6, 8), "weight": (3, 3, 2, 12), "groups": 4, "strides": (2, 1)},
    "by channels": {"image": (2, 6, 6, 8), "weight": (3, 3, 1, 16), "groups": 8},
    "groups of images": {"image": (4, 6, 6, 3), "weight": (3, 3, 3, 8), "batch_groups": 2},
    "dilated": {"image": (2, 9, 8, 4), "weight": (3, 2, 4, 5), "dilation": (2, 3)},
    "transposed": {
        "image": (2, 5, 4, 4),
        "weight": (4, 3, 4, 5),
        "spread": (2, 3),
        "pads": [(2, 2), (1, 3)],
    },
    "cut": {"image": (2, 7, 6, 4), "weight": (2, 2, 4, 5), "pads": [(-1, 1), (0, -2)]},
    "transposed and cut": {
        "image": (2, 5, 6, 4),
        "weight": (3, 3, 4, 5),
        "spread": (2, 2),
        "pads": [(-1, 2), (1, -3)],
    },
}


def convolve(case):
    rank = len(case["image"]) - 2
    plain = ("NHWC", "HWIO", "NHWC")
    return lambda image, weight: jax.lax.conv_general_dilated(
        image,
        weight,
        case.get("strides", (1,) * rank),
        case.get("pads", [(0, 0)] * rank),
        lhs_dilation=case.get("spread", (1,) * rank),
        rhs_dilation=case.get("dilation", (1,) * rank),
        dimension_numbers=case.get("layout", plain),
        feature_group_count=case.get("groups", 1),
        batch_group_count=case.get("batch_groups", 1),
    )


def prepared(case):
    """The same, with the zeros put around and between the pixels before."""
    rank = len(case["image"]) - 2
    whole = convolve({**case, "pads": [(0, 0)] * rank, "spread": (1,) * rank})
    order = [case.get("layout", ("NHWC",))[0].index(letter) for letter in "DHW"[3 - rank :]]
    edges = [(0, 0, 0)] * (rank + 2)
    for axis, place in enumerate(order):
        low, high = case.get("pads", [(0, 0)] * rank)[axis]
        edges[place] = (low, high, case.get("spread", (1,) * rank)[axis] - 1)
    return lambda image, weight: whole(jax.lax.pad(image, np.float32(0), edges), weight)


def described(module: ir.Module) -> Convolution:
    (op,) = [op for op in inside(module.operation) if op.name == "stablehlo.convolution"]
    found = read_convolution(op)
    assert found is not None
    return found


@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
@pytest.mark.parametrize("name", CASES)
def test_the_meaning_is_what_jax_computes(name, turned):
    function = convolve(CASES[name])
    rng = np.random.default_rng(2)
    image, weight = (
        rng.standard_normal(CASES[name][what]).astype(np.float32) for what in ("image", "weight")
    )
    text = str(jax.jit(function).lower(image, weight).compiler_ir("stablehlo"))
    expected = np.asarray(prepared(CASES[name])(image, weight))
    layout = CASES[name].get("layout", ("NHWC", "HWIO", "NHWC"))[1]
    axes = [place for place, letter in enumerate(layout) if letter not in "IO"]
    if turned and not axes:
        return
    if turned:
        flags = ", ".join(["true"] * len(axes))
        text, count = re.subn(r"reverse = \[[^\]]*\]", f"reverse = [{flags}]", text)
        assert count == 1
        expected = np.asarray(prepared(CASES[name])(image, np.flip(weight, axes)))
    with ir.Context():
        module = ir.Module.parse(text)
        found = described(module)
        (answer,) = found.reference(image.astype(np.float64), weight.astype(np.float64))
    np.testing.assert_allclose(answer, expected, 1e-4, 1e-5)


def test_it_says_what_it_is_in_a_few_words():
    case = {"image": (2, 9, 8, 8), "weight": (3, 2, 2, 12), "groups": 4, "dilation": (2, 2)}
    specs = [jax.ShapeDtypeStruct(case[what], np.float32) for what in ("image", "weight")]
    text = str(jax.jit(convolve(case)).lower(*specs).compiler_ir("stablehlo"))
    with ir.Context():
        module = ir.Module.parse(text)
        found = described(module)
        words = "convolution: 3x2, 8 to 12 in 4 groups, 5x6, dilation 2x2, f32"
        assert str(found) == words
        assert found.work.flops == 2 * 2 * 5 * 6 * 12 * 2 * 6
        assert found.work.bytes == 4 * (2 * 9 * 8 * 8 + 3 * 2 * 2 * 12 + 2 * 5 * 6 * 12)
