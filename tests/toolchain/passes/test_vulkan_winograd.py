"""Convolutions by Winograd and turned results for GPUs without matrix units are right."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from iree.compiler import ir, tools

from edgec import runtime, toolchain
from edgec.targets import find
from edgec.toolchain.flags import compile_flags
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.kernels.vulkan import library, winograd
from edgec.toolchain.kernels.vulkan.prebuilt import Prebuilt
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

PHONE = find("vulkan:android")
CASES = [
    ((1, 16, 16, 32), 64, ((1, 1), (1, 1))),
    ((2, 9, 14, 24), 36, ((1, 1), (1, 1))),
    ((1, 15, 13, 64), 32, ((0, 0), (2, 1))),
    ((1, 33, 18, 128), 64, ((2, 2), (0, 0))),
]


def convolve(x, w, pads):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (1, 1), pads, dimension_numbers=layout)


def place(function, arrays, gpu) -> tuple[str, list[str]]:
    text = str(jax.jit(function).lower(*arrays).compiler_ir("stablehlo"))
    said = Answers()
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        with validating():
            VulkanKernels(gpu=gpu, answers=said, limits=PHONE.limits).run(module)
        assert module.operation.verify()
        return str(module), [str(each.outcome) for each in said]


def answers(text, arrays, folder, weights=None):
    path = folder / "cases.vmfb"
    flags = ["--iree-hal-target-device=vulkan"]
    tools.compile_str(text, output_file=str(path), input_type="stablehlo", extra_args=flags)
    with runtime.load(path, device="vulkan://0", weights=weights) as loaded:
        return [np.asarray(each) for each in loaded.main(*arrays)]


def numbers():
    rng = np.random.default_rng(0)
    for image, outputs, pads in CASES:
        out = [n + sum(pair) - 2 for n, pair in zip(image[1:3], pads, strict=True)]
        shapes = (image, (3, 3, image[3], outputs), (outputs,), (image[0], *out, outputs))
        yield [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.vulkan
@pytest.mark.parametrize("share", [4, 400])
def test_winograd_gives_what_the_convolution_does_in_one_band_and_in_several(
    share: int, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(winograd, "_SHARE", share)
    monkeypatch.setattr(winograd, "_LAUNCH", -1e6)  # so that it is taken wherever it applies
    arrays = list(numbers())

    def every(given):
        pairs = zip(CASES, given, strict=True)
        return [jax.nn.relu(convolve(x, w, c[2]) + b) + y for c, (x, w, b, y) in pairs]

    flat = [each for case in arrays for each in case]

    def spread(*given):
        return every([given[i : i + 4] for i in range(0, len(given), 4)])

    text, said = place(spread, flat, PHONE.gpu)
    assert sum("winograd" in each for each in said) == len(CASES)
    with jax.default_matmul_precision("highest"):
        expected = every(arrays)
    for got, right in zip(answers(text, flat, tmp_path), expected, strict=True):
        assert np.linalg.norm(got - right) / np.linalg.norm(right) < 3e-6


def test_few_pixels_of_many_channels_stay_a_plain_convolution() -> None:
    x, w = np.zeros((1, 7, 7, 512), np.float32), np.zeros((3, 3, 512, 512), np.float32)
    _, said = place(lambda x, w: convolve(x, w, ((1, 1), (1, 1))), (x, w), PHONE.gpu)
    assert any("convolution_" in each for each in said)


def test_where_no_kernel_can_be_compiled_it_is_said(monkeypatch) -> None:
    monkeypatch.setattr(library, "_binaries", Prebuilt)
    x, w = np.zeros((1, 64, 64, 64), np.float32), np.zeros((3, 3, 64, 64), np.float32)
    pads = ((1, 1), (1, 1))
    lowered = jax.jit(lambda x, w: convolve(x, w, pads)).lower(x, w)
    step = VulkanKernels(gpu=PHONE.gpu, limits=PHONE.limits)
    with ir.Context():
        step.run(ir.Module.parse(str(lowered.compiler_ir("stablehlo"))))
    (said,) = step.remarks
    assert said.startswith("1 convolution of 3 x 3 would be quicker")
    assert "edgec[vulkan]" in said


def test_a_gpu_with_shared_memory_has_none() -> None:
    x, w = np.zeros((1, 64, 64, 64), np.float32), np.zeros((3, 3, 64, 64), np.float32)
    gpu = replace(find("vulkan:nvidia-ada").gpu)
    _, said = place(lambda x, w: convolve(x, w, ((1, 1), (1, 1))), (x, w), gpu)
    assert not any("winograd" in each for each in said)


def test_halves_are_not_summed_and_cancelled() -> None:
    x, w = np.zeros((1, 64, 64, 64), np.float16), np.zeros((3, 3, 64, 64), np.float16)
    _, said = place(lambda x, w: convolve(x, w, ((1, 1), (1, 1))), (x, w), PHONE.gpu)
    assert any("convolution_" in each for each in said)


@pytest.mark.slow
def test_a_call_that_would_hold_too_much_is_computed_plainly_and_says_so(tmp_path) -> None:
    weights = np.random.default_rng(2).standard_normal((3, 3, 3, 64, 64)).astype(np.float32)

    def kept(x):
        found = [x * 2]
        for w in weights:
            found.append(jax.nn.relu(convolve(found[-1], w, ((1, 1), (1, 1)))))
        return sum(found)

    image = jax.ShapeDtypeStruct((1, 336, 336, 64), np.float32)
    program = tmp_path / "kept.mlir"
    program.write_text(str(jax.jit(kept).lower(image).compiler_ir("stablehlo")))
    options = toolchain.CompileOptions(output=tmp_path / "m.vmfb", check=False, cache=False)
    notes = toolchain.compile_with_report(program, PHONE, options).report.notes
    (said,) = [each for each in notes if "Winograd" in each]
    assert "are computed plainly" in said


def test_weights_from_a_file_are_turned_at_load() -> None:
    words = "--iree-opt-const-expr-max-size-increase-threshold="
    assert f"{words}134217728" in compile_flags(PHONE)
    assert f"{words}16777216" in compile_flags(find("vulkan:nvidia-ada"))
    assert not any(flag.startswith(words) for flag in compile_flags(find("cpu")))


@pytest.mark.vulkan
def test_odd_columns_with_their_bias_and_turned_results_are_right(tmp_path) -> None:
    rng = np.random.default_rng(1)
    shapes = [(2, 64, 60, 32), (1, 1, 32, 21), (21,)]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

    def last(x, w, b):
        return [(convolve(x, w, ((0, 0), (0, 0))) + b).transpose(0, 3, 1, 2)]

    text, _ = place(last, arrays, PHONE.gpu)
    assert "edgec_transpose_f32" in text and "stablehlo.add" not in text
    got = np.stack(answers(text, arrays, tmp_path))  # images of the one result
    right = np.einsum("nhwc,co->nohw", arrays[0], arrays[1][0, 0]) + arrays[2][:, None, None]
    assert np.linalg.norm(got - right) / np.linalg.norm(right) < 1e-6
