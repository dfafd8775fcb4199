"""Convolutions in groups become one dispatch of a SPIR-V kernel, which computes what it should."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.targets import find
from edgec.toolchain.kernels.spec import Answers, Declined
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels


def numbers(*shape):
    values = np.random.default_rng(shape).standard_normal(shape)
    return (values / np.sqrt(max(1, np.prod(shape[:-1])))).astype(np.float32)


def convolve(x, w, groups, stride=1, dilation=1, pads=((1, 1), (1, 1))):
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        pads,
        rhs_dilation=(dilation, dilation),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


IMAGE = numbers(2, 9, 7, 24)
CASES = {
    "by channels": (numbers(3, 3, 1, 24), 24, 1, 1, ((1, 1), (1, 1))),
    "by channels in steps": (numbers(5, 3, 1, 24), 24, 2, 1, ((0, 2), (1, 0))),
    "dilated": (numbers(3, 3, 1, 24), 24, 1, 2, ((2, 2), (2, 2))),
    "two windows a channel": (numbers(7, 7, 1, 48), 24, 2, 1, ((3, 3), (3, 3))),
    "groups of 4": (numbers(3, 3, 4, 24), 6, 1, 1, ((1, 1), (1, 1))),
    "groups of 3 into 5": (numbers(3, 3, 3, 40), 8, 1, 1, ((1, 1), (1, 1))),
    "groups of 12 into 2": (numbers(1, 1, 12, 4), 2, 1, 1, ((0, 0), (0, 0))),
}


def every(x):
    return {
        name: jax.nn.relu(convolve(x, w, groups, stride, dilation, pads) + numbers(w.shape[-1]))
        for name, (w, groups, stride, dilation, pads) in CASES.items()
    }


def rewritten(text: str) -> tuple[str, Answers]:
    answers = Answers()
    with ir.Context():
        module = ir.Module.parse(text)
        VulkanKernels(gpu=find("vulkan:nvidia-ada").gpu, answers=answers).run(module)
        assert module.operation.verify()
        return str(module), answers


def lower(function, *shapes, dtype="float32") -> str:
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes]
    return str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_convolution_in_groups_and_its_bias_are_one_dispatch(dtype: str) -> None:
    def function(x, w, b):
        return convolve(x, w, 6) + b

    after, answers = rewritten(lower(function, IMAGE.shape, (3, 3, 4, 24), (24,), dtype=dtype))
    assert len(re.findall(r"flow\.dispatch @edgec_grouped_f\d\d_\w{8}::", after)) == 1
    assert "stablehlo.convolution" not in after
    assert "stablehlo.add" not in after
    assert [str(answer.outcome.name)[:8] for answer in answers] == ["grouped_"]


@pytest.mark.parametrize(
    ("dtype", "shape", "groups", "reason"),
    [
        ("bfloat16", (3, 3, 1, 24), 24, "bf16 by bf16 summed in bf16"),
        ("float32", (3, 3, 1, 30), 6, "24 and 30 channels, not fours"),
    ],
)
def test_what_no_kernel_takes_is_said(dtype, shape, groups, reason) -> None:
    image = IMAGE.shape if shape[2] * groups == 24 else (*IMAGE.shape[:-1], shape[2] * groups)
    after, answers = rewritten(
        lower(lambda x, w: convolve(x, w, groups), image, shape, dtype=dtype)
    )
    assert "stablehlo.convolution" in after
    (answer,) = answers
    assert isinstance(answer.outcome, Declined)
    assert answer.outcome.reason.endswith(reason[-20:])


@pytest.mark.vulkan
def test_answers_are_those_of_jax(tmp_path) -> None:
    program = export(every, (IMAGE,))
    report = toolchain.run_passes(program, "vulkan:nvidia-ada")
    assert report.changes["vulkan-kernels"] == len(CASES)
    assert not report.changes.get("separate-groups")
    options = toolchain.CompileOptions(check=False, output=tmp_path / "m.vmfb")
    module = toolchain.compile(program, "vulkan:nvidia-ada", options)
    with runtime.load(module, device="vulkan") as loaded:
        answer = loaded.main(IMAGE)
    for name, value in every(IMAGE).items():
        np.testing.assert_allclose(answer[name], value, 1e-4, 1e-4, err_msg=name)
