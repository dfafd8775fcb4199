"""Every cut that tuning offers gives the answers that NumPy gives."""

import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export
from edgec.runtime import load
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cpu.source import Cut, Form, KernelKey, VectorUnit, vector_unit
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from edgec.toolchain.tuning.cuts import cuts_for, model_cut, split_cuts
from tests.toolchain.tuning.conftest import KEY, Product

AVX2 = VectorUnit(lanes=8, registers=16)


@pytest.mark.parametrize(
    "symbol",
    [
        "edgec_convolution_3x3_56x48x64x128",
        "edgec_product_1x1_1x12x64x96",
        "edgec_depthwise_5x3_28x20x240",
        "edgec_byte_convolution_3x3_56x48x64x128",
        "edgec_byte_depthwise_5x3_28x20x240",
        "edgec_convolution_3x3_56x48x64x128_g2_s2x2",
        "edgec_depthwise_5x3_28x20x240_s1x2_d2x3",
    ],
)
def test_a_key_spells_its_kernels_symbol(symbol: str) -> None:
    key = KernelKey.parse(symbol)
    assert key is not None
    assert str(key) == symbol
    assert KernelKey.parse(f"{symbol}_v3") == key


@pytest.mark.parametrize(
    "name",
    [
        "main_dispatch_0_reduction_64x1024_f32",
        "edgec_attention_8x64",
        "edgec_depthwise_3x3_1x2x3x4",
        "edgec_convolution_3x3_1x2x3",
        "edgec_product_1x1_1x12x64x96_more",
        "",
    ],
)
def test_other_names_are_no_keys(name: str) -> None:
    assert KernelKey.parse(name) is None


def test_both_forms_of_a_convolution_share_a_key() -> None:
    key = KernelKey.parse("edgec_convolution_3x3_56x48x64x128")
    assert key is not None
    assert key.symbol(Form.WINOGRAD) == "edgec_winograd_3x3_56x48x64x128"
    assert KernelKey.parse(key.symbol(Form.WINOGRAD)) == key
    assert key.flops == 2 * 56 * 48 * 128 * 9 * 64


def test_cuts_of_both_forms_are_offered_and_come_back_from_json() -> None:
    key = KernelKey.parse("edgec_convolution_3x3_56x48x64x128")
    strided = KernelKey.parse("edgec_convolution_3x3_28x24x64x128_s2x2")
    assert key is not None
    assert strided is not None
    cuts = cuts_for(key, AVX2)
    assert {cut.form for cut in cuts} == set(Form)
    assert [Cut.from_json(cut.to_json()) for cut in cuts] == cuts
    assert {cut.form for cut in cuts_for(strided, AVX2)} == {Form.PLAIN}


def test_cuts_are_other_than_the_models_and_few() -> None:
    for symbol in ("edgec_byte_product_1x1_1x12x64x96", "edgec_depthwise_3x3_7x7x960", KEY):
        key = KernelKey.parse(symbol)
        assert key is not None
        cuts = cuts_for(key, AVX2)
        assert 4 <= len(cuts) <= 20
        assert len(set(cuts)) == len(cuts)
        model = model_cut(key, AVX2)
        assert model not in cuts
        assert all(cut.split != model.split for cut in split_cuts(model))


def test_a_profile_names_kernels_by_their_keys(product: Product) -> None:
    """The symbol in a module is the key under which cuts are looked up."""
    cut = Cut(columns=3, vectors=1, split=(2, 3))
    plain = compile(product.path, options=CompileOptions(cache=False)).path.read_bytes()
    other = compile(product.path, options=CompileOptions(cuts={KEY: cut}, cache=False))
    assert KEY.encode() in plain
    assert other.path.read_bytes() != plain
    with load(other.path) as module:
        np.testing.assert_allclose(module.main(product.x), product.answer, rtol=1e-4, atol=1e-4)


def test_a_cut_that_does_not_fit_is_not_used(product: Product) -> None:
    large = Cut(rows=9, columns=400, vectors=90, split=(1, 1))
    plain, other = (
        compile(product.path, options=CompileOptions(cuts=cuts, cache=False)).path.read_bytes()
        for cuts in ({}, {KEY: large})
    )
    assert plain == other


def test_a_cut_splits_work_at_most_as_far_as_there_are_tiles(product: Product) -> None:
    cut = Cut(columns=12, vectors=2, split=(5000, 5000))
    made = compile(product.path, options=CompileOptions(cuts={KEY: cut}))
    with load(made.path) as module:
        np.testing.assert_allclose(module.main(product.x), product.answer, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def net():
    """Three convolutions and a depthwise one, with padding, strides and odd sizes."""
    random = np.random.default_rng(3)
    x = random.standard_normal((1, 13, 11, 5)).astype(np.float32)
    a = random.standard_normal((3, 3, 5, 40)).astype(np.float32)
    d = random.standard_normal((3, 3, 1, 40)).astype(np.float32)
    b = random.standard_normal((1, 1, 40, 24)).astype(np.float32)
    c = random.standard_normal((3, 3, 24, 48)).astype(np.float32)

    def call(x):
        names = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, a, (2, 2), "SAME", dimension_numbers=names)
        y = jax.lax.conv_general_dilated(
            jnp.maximum(y, 0), d, (1, 1), "SAME", dimension_numbers=names, feature_group_count=40
        )
        y = jax.lax.conv_general_dilated(y, b, (1, 1), "SAME", dimension_numbers=names)
        return jax.lax.conv_general_dilated(y, c, (1, 1), "SAME", dimension_numbers=names)

    return export(call, (x,)), x, np.asarray(jax.jit(call)(x))


def keys_of(program, folder: Path) -> list[KernelKey]:
    run_passes(program, "cpu", CompileOptions(keep_temps=folder))
    (written,) = folder.glob("*.mlirbc")
    names = set(re.findall(rb"edgec_[a-z]+_[0-9x]+_[0-9xsdgv_]+", written.read_bytes()))
    keys = {KernelKey.parse(name.decode()) for name in names}
    return sorted((key for key in keys if key is not None), key=str)


def test_every_cut_of_a_network_is_right(net, tmp_path: Path) -> None:
    program, x, want = net
    unit = vector_unit(find("cpu"))
    assert unit is not None
    keys = keys_of(program, tmp_path / "temps")
    assert [key.kind for key in keys] == ["convolution", "convolution", "convolution", "depthwise"]
    cuts = {str(key): cuts_for(key, unit) for key in keys}
    rounds = max(len(found) for found in cuts.values())
    for number in range(0, rounds, 3):
        chosen = {key: found[number % len(found)] for key, found in cuts.items()}
        made = compile(program, "cpu", CompileOptions(cuts=chosen, check=False, cache=False))
        with load(made.path) as module:
            np.testing.assert_allclose(
                module.main(x), want, rtol=1e-3, atol=2e-5 * np.abs(want).max(), err_msg=str(chosen)
            )


def test_the_pass_keeps_its_cuts() -> None:
    cut = Cut(columns=2, split=(1, 1))
    planned = CpuKernels(unit=AVX2, cuts={KEY: cut})
    assert replace(planned).cuts[KEY] == cut
