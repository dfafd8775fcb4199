"""Kernels for GPUs without matrix units: right, and within what every phone has."""

import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.targets import Gpu, Limits, find
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import DIRECT_ATTENTION_FORMS, DIRECT_FORMS, NORM_FORMS
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from tests.toolchain.kernels.vulkan.phone import CASES, arguments, every

ANDROID = find("vulkan:android")


def called(function, shapes, gpu: Gpu, limits: Limits) -> list[str]:
    """The kernels of a function, in order."""
    specs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    with ir.Context():
        module = ir.Module.parse(str(jax.jit(function).lower(*specs).compiler_ir("stablehlo")))
        InlineCalls().run(module)
        Canonicalise().run(module)
        VulkanKernels(gpu=gpu, limits=limits).run(module)
        return re.findall(r"flow\.dispatch @edgec_(\w+)_[0-9a-f]{8}::", str(module))


_NEEDS = "edgec[vulkan]"
"""What a few kernels are compiled with: those that were compiled beforehand are not all."""


@pytest.mark.sweep(fast=6)
@pytest.mark.parametrize("name", CASES)
def test_a_phone_gets_kernels_that_fit_it(name: str) -> None:
    function, shapes, word = CASES[name]
    if tools() is None and name in ("wide attention", "many windows of 3 x 3"):
        pytest.skip(f"its kernel needs {_NEEDS}")
    found = called(function, shapes, ANDROID.gpu, ANDROID.limits)
    first, *others = [kernel for kernel in found if not kernel.startswith("edge_")]
    assert first.startswith(word)
    by_points = ["winograd_input_f32", "product_nn_each_f32", "winograd_output_f32"]
    assert others in ([], ["join_f32"], by_points)


def test_what_a_workgroup_may_be_decides_which_norms_and_attentions_there_are() -> None:
    many = Limits(invocations=256)
    norm, *_ = called(*CASES["long norm"][:2], ANDROID.gpu, many)
    assert norm == "norm_long_f32"
    least = 16384
    assert any(form.threads <= 128 and form.shared <= least for form in NORM_FORMS.values())
    assert all(form.threads <= 128 and form.shared <= least for form in DIRECT_ATTENTION_FORMS)


def test_registers_decide_how_much_a_thread_computes() -> None:
    case = (lambda x, w: x @ w, [(12544, 16), (16, 64)])
    assert called(*case, ANDROID.gpu, ANDROID.limits)[0] == "product_nn_each_f32"
    desktop = replace(ANDROID.gpu, registers=0)
    # What was compiled beforehand is for few registers, too.
    word = "each" if tools() is None else "broad"
    assert called(*case, desktop, Limits())[0] == f"product_nn_{word}_f32"


def test_what_the_compiler_cuts_evenly_is_left_to_it() -> None:
    def attention(q, k, v):
        return jax.nn.softmax(q @ k.swapaxes(1, 2)) @ v

    for count, names in ((128, []), (132, ["attention_32_f32"])):
        shapes = [(12, count, 32)] * 3
        assert called(attention, shapes, ANDROID.gpu, ANDROID.limits) == names
    for rows, names in ((128, []), (130, ["product_nn_each_f32"])):
        shapes = [(rows, 384), (384, 384)]
        found = called(lambda x, w: x @ w, shapes, ANDROID.gpu, ANDROID.limits)
        assert found[:1] == names


def test_a_product_that_shares_nothing_says_so() -> None:
    shares = {shader.name: shader.shared for shader in shaders.shaders()}
    found = [name for name in shares if name.split("_")[-2] in DIRECT_FORMS]
    assert len(found) == 6
    assert not any(shares[name] for name in found)


@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [pytest.param("float32", 2e-5, marks=pytest.mark.slow), ("float16", 1e-2)],
)
def test_a_phones_kernels_are_right(dtype: str, tolerance: float, tmp_path: Path) -> None:
    if tools() is None and dtype == "float16":
        pytest.skip(f"its kernels need {_NEEDS}")
    given = arguments(dtype)
    path = tmp_path / "phone.vmfb"
    program = export(every, tuple(given))
    share = toolchain.compile(program, "vulkan:android", CompileOptions(output=path)).facts.kernels
    assert share is not None
    assert share.own_flops > 0.95 * share.flops
    with runtime.load(path, device="edgert://vulkan") as loaded:
        found = loaded.main(*given)
    with jax.default_matmul_precision("highest"):
        wanted = every(*(each.astype(np.float32) for each in given))
    for name, array in wanted.items():
        got = np.asarray(found[name], np.float32)
        off = np.linalg.norm(got - array) / np.linalg.norm(array)
        assert off < tolerance, f"{name}: {off}"
