"""Products and convolutions become dispatches of SPIR-V kernels, which compute what they should.

The kernels run on any Vulkan device here; those for matrix units are checked on an NVIDIA GPU:
`benchmarks/vulkan/check.py`.
"""

import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir, tools

from edgec import runtime, toolchain
from edgec.targets import Backend, Gpu, catalogue, find
from edgec.toolchain.kernels.vulkan import choice, forms, glsl_compiler
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

ADA = find("vulkan:nvidia-ada").gpu
WITHOUT_MATRIX_UNITS = replace(ADA, kernels="desktop")


def lower(function, *shapes, dtype="float32") -> str:
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes]
    return str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))


def rewrite(text: str, gpu: Gpu = ADA, *, whole: bool = False) -> str:
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        VulkanKernels(gpu=gpu).run(module)
        assert module.operation.verify()
        asm = module.operation.get_asm(large_elements_limit=None if whole else 4)
        return asm if whole else asm[asm.index("func.func") :]


def called(after: str) -> list[str]:
    """The kernels that a rewritten program calls, in order."""
    return re.findall(r"flow\.dispatch @edgec_(\w+)_[0-9a-f]{8}::", after)


def convolution(x, w, stride=1, pad=0, gaps=(1, 1)):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, rhs_dilation=gaps, dimension_numbers=layout
    )


def test_a_product_with_its_bias_and_activation_becomes_one_kernel() -> None:
    text = lower(lambda x, w, b: jax.nn.relu(x @ w + b), (512, 64), (64, 512), (512,))
    assert "stablehlo.dot_general" in text
    after = rewrite(text)
    (name,) = called(after)
    assert name.startswith("product_nn_")
    assert "stablehlo.add" not in after
    assert "stablehlo.maximum" not in after


def test_few_tiles_are_summed_in_parts_which_a_second_kernel_joins() -> None:
    after = rewrite(lower(lambda x, w, b: x @ w + b, (32, 8192), (8192, 32), (32,)))
    first, second = called(after)
    assert first.startswith("product_nn_")
    assert second == "join_f32"
    assert "stablehlo.add" not in after


def test_a_convolution_is_a_product_that_gathers_its_rows() -> None:
    after = rewrite(lower(lambda x, w: convolution(x, w, 1, 1), (1, 56, 56, 64), (3, 3, 64, 64)))
    assert called(after)[0].startswith("convolution_")
    assert "stablehlo.convolution" not in after


def test_f16_needs_matrix_units() -> None:
    text = lower(lambda x, w: x @ w, (128, 768), (768, 768), dtype="float16")
    assert called(rewrite(text, WITHOUT_MATRIX_UNITS)) == []
    assert called(rewrite(text))[0].split("_")[2] in forms.MATRIX_FORMS


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w: x @ w, [(64, 764), (764, 512)]),
        (lambda x, w: jnp.einsum("mk,nk->mn", x, w), [(64, 768), (512, 768)]),
        (lambda x, w: x @ w, [(4, 64, 64), (4, 64, 64)]),
    ],
)
def test_other_products_of_f16_stay_with_the_compiler(function, shapes) -> None:
    assert called(rewrite(lower(function, *shapes, dtype="float16"))) == []


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w: x @ w, [(64, 62), (62, 512)]),
        (lambda x, w: x @ w, [(1024, 1024), (1024, 1)]),
        (lambda x, w: x @ w, [(16, 16), (16, 16)]),
        (lambda x, w: jnp.einsum("kbm,bkn->bmn", x, w), [(64, 4, 64), (4, 64, 64)]),
    ],
)
def test_other_products_stay_with_the_compiler(function, shapes) -> None:
    after = rewrite(lower(function, *shapes))
    assert called(after) == []
    assert "stablehlo.dot_general" in after


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("size", [(1, 1000, 2048), (49, 512, 4608), (3136, 64, 64), (128, 768, 8)])
def test_the_parts_of_a_choice_cover_the_inside_once(size, matrix) -> None:
    m, n, k = size
    chosen = choice.choose(ADA, size, matrix=matrix)
    form = chosen.form
    assert chosen.inside % form.inner == 0
    assert (chosen.parts - 1) * chosen.inside < k <= chosen.parts * chosen.inside
    assert chosen.tiles == -(-m // form.rows) * -(-n // form.columns)


def test_a_small_gpu_splits_less_and_takes_longer_than_a_large_one() -> None:
    small = replace(ADA, multiprocessors=16, clock=1000, vector=4.1, bandwidth=200)
    for size in ((128, 768, 3072), (49, 512, 4608)):
        large, less = choice.choose(ADA, size), choice.choose(small, size)
        assert less.parts < large.parts
        assert less.time > large.time
        # No kernel is expected to be quicker than the arithmetic units are.
        assert less.time > 2 * size[0] * size[1] * size[2] / (small.vector * 1e6)


def test_what_a_workgroup_may_share_decides_which_tiles_there_are() -> None:
    little = replace(ADA, shared_memory=18000)
    assert choice.choose(ADA, (4096, 4096, 512)).word == "middle"
    assert choice.choose(little, (4096, 4096, 512)).word == "small"


def test_every_target_with_kernels_says_how_fast_it_is() -> None:
    gpus = [t.gpu for t in catalogue() if t.gpu and t.backend is Backend.VULKAN and t.gpu.kernels]
    assert {gpu.kernels for gpu in gpus} == {"direct", "nvidia"}
    assert all(gpu.vector and gpu.bandwidth for gpu in gpus)
    with_units = [gpu for gpu in gpus if gpu.kernels == "nvidia"]
    assert all(gpu.tensor for gpu in with_units)
    every = [*forms.SUM_FORMS.values(), *forms.MATRIX_FORMS.values(), *forms.WINDOW_FORMS.values()]
    for form in [*every, *forms.MATRIX_ATTENTION_FORMS]:
        assert form.shared <= min(gpu.shared_memory for gpu in with_units)
    for form in forms.DIRECT_FORMS.values():
        assert form.shared == 0


@pytest.mark.parametrize(
    "form", [*forms.MATRIX_FORMS.values(), *forms.WINDOW_FORMS.values()], ids=str
)
def test_threads_share_a_tile_of_matrix_units_evenly(form) -> None:
    pieces = (form.rows * form.inner, form.columns * form.inner)
    assert all(size % (8 * form.threads) == 0 for size in pieces)
    assert form.rows % form.high == form.columns % form.wide == form.high % 16 == 0
    assert 128 % form.wide == 0  # A subgroup finishes whole rows at a time.
    # In the end a subgroup's patch of 16 rows in f32 takes the place of tiles.
    patches = form.threads // forms.SUBGROUP * 16 * (form.wide + 4) * 4
    assert patches <= form.shared


@pytest.mark.parametrize("form", forms.MATRIX_ATTENTION_FORMS, ids=lambda form: form.word)
def test_threads_share_a_tile_of_attention_evenly(form) -> None:
    groups = form.threads // forms.SUBGROUP
    a_row = form.threads // form.queries
    assert form.width % (16 * groups) == form.keys % (16 * groups) == form.queries % 16 == 0
    assert form.keys % (8 * a_row) == form.keys * form.width % (8 * form.threads) == 0
    # A row's threads are of one subgroup, and exchange what they found by halves.
    assert a_row in (1, 2, 4, 8, 16, 32)


def test_what_is_compiled_beforehand_is_chosen_where_nothing_else_is() -> None:
    hopper = find("vulkan:hopper").gpu
    for size in ((4096, 4096, 4096), (197, 768, 768)):
        every = choice.choose(hopper, size, matrix=True)
        usual = choice.choose(hopper, size, matrix=True, usual=True)
        assert every.word not in forms.USUAL
        assert usual.word in forms.USUAL
        assert usual.time >= every.time


def test_a_row_that_a_subgroup_does_is_told_so_on_matrix_units_alone() -> None:
    def norm(x):
        x = x.astype(jnp.float32)
        y = x - x.mean(-1, keepdims=True)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)).astype(jnp.float16)

    if glsl_compiler.tools() is None:
        pytest.skip("glslang is not here (edgec[vulkan])")
    text = lower(norm, (128, 768), dtype="float16")
    kernels = [
        re.findall(r"flow\.dispatch @edgec_(norm_row_f16_[0-9a-f]{8})::", rewrite(text, gpu))
        for gpu in (ADA, WITHOUT_MATRIX_UNITS)
    ]
    assert [len(each) for each in kernels] == [1, 1]
    assert kernels[0] != kernels[1]


def test_matrix_units_are_for_the_targets_that_they_were_measured_on() -> None:
    named = {t.name: t.gpu.kernels for t in catalogue() if t.driver == "vulkan" and t.gpu}
    taking = {name for name, kernels in named.items() if kernels == "nvidia"}
    assert taking == {name for name in named if name.startswith("vulkan:nvidia-")}
    assert named["vulkan"] == named["vulkan:android"] == find("webgpu").gpu.kernels == "direct"


def test_the_pass_can_be_left_out(tmp_path) -> None:
    source = tmp_path / "product.mlir"
    source.write_text(lower(lambda x, w: x @ w, (128, 768), (768, 768)))
    assert "vulkan-kernels" in toolchain.run_passes(source, "vulkan:nvidia-ada").changes
    options = toolchain.CompileOptions(disabled=("vulkan-kernels",))
    assert (
        "vulkan-kernels" not in toolchain.run_passes(source, "vulkan:nvidia-ada", options).changes
    )


CASES = {
    "bias and max": (
        lambda x, w, b: jax.nn.relu(x @ w + b),
        [(100, 84), (84, 132), (132,)],
    ),
    "turned, a batch": (
        lambda x, w: jnp.einsum("bmk,bnk->bmn", x, w),
        [(3, 70, 52), (3, 132, 52)],
    ),
    "a long inside": (
        lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=False),
        [(33, 1028), (1028, 36), (36,)],
    ),
    "turned, an activation, a residual": (
        lambda x, w, y: jax.nn.silu(jnp.einsum("mk,nk->mn", x, w)) + y,
        [(65, 260), (68, 260), (65, 68)],
    ),
    "strides and a residual": (
        lambda x, w, b, y: jax.nn.relu(convolution(x, w, 2, 1) + b + y),
        [(2, 15, 17, 24), (3, 3, 24, 36), (36,), (2, 8, 9, 36)],
    ),
    "a bound above": (
        lambda x, w, b: jnp.minimum(jax.nn.relu(x @ w + b), 20.0),
        [(100, 84), (84, 132), (132,)],
    ),
    "a small slope": (
        lambda x, w: (lambda y: jnp.maximum(y, 0.001 * y))(x @ w),
        [(100, 84), (84, 132)],
    ),
    "a slope, then a residual": (
        lambda x, w, b, y: jax.nn.leaky_relu(x @ w + b, 0.2) + y,
        [(100, 84), (84, 132), (132,), (100, 132)],
    ),
    "hard swish, then a bound": (
        lambda x, w: (lambda y: jnp.minimum(y * jax.nn.relu6(y + 3) / 6, 5.0))(x @ w),
        [(100, 84), (84, 132)],
    ),
    "tanh, a residual, bounds": (
        lambda x, w, y: jnp.clip(jnp.tanh((x @ w) * 0.01 * 100.0) + y, -0.5, 1.5),
        [(100, 84), (84, 132), (100, 132)],
    ),
    "a scale and a residual": (
        lambda x, w, b, s, y: jax.nn.gelu(x @ w + b) * s + y,
        [(100, 84), (84, 132), (132,), (132,), (100, 132)],
    ),
    "sigmoid": (lambda x, w: jax.nn.sigmoid(x @ w), [(100, 84), (84, 132)]),
    "three channels": (
        lambda x, w, b: jax.nn.gelu(convolution(x, w, 1, 2) + b),
        [(1, 20, 22, 3), (5, 5, 3, 36), (36,)],
    ),
    "a window with gaps": (
        lambda x, w, b: jax.nn.relu(convolution(x, w, 2, 3, (2, 3)) + b),
        [(2, 15, 17, 24), (3, 3, 24, 36), (36,)],
    ),
    "a window with gaps, three channels": (
        lambda x, w: jax.nn.relu(convolution(x, w, 1, 2, (2, 3))),
        [(1, 20, 22, 3), (5, 3, 3, 100)],
    ),
}


@pytest.mark.sweep(fast=2)
@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("form", "parts", "names"),
    [
        (
            "small",
            1,
            ["a scale and a residual", "bias and max", "turned, a batch", "strides and a residual"],
        ),
        ("small", 1, ["a bound above", "a small slope", "a slope, then a residual", "sigmoid"]),
        (
            "small",
            3,
            ["tanh, a residual, bounds", "hard swish, then a bound", "a scale and a residual"],
        ),
        ("middle", 3, ["turned, an activation, a residual", "a long inside", "three channels"]),
        ("middle", 3, ["a window with gaps", "a window with gaps, three channels"]),
    ],
)
def test_the_kernels_are_right(form, parts, names, tmp_path: Path, monkeypatch) -> None:
    cases = [CASES[name] for name in names]
    monkeypatch.setattr(choice, "SUM_FORMS", {form: forms.SUM_FORMS[form]})
    monkeypatch.setattr(choice, "_PARTS", (1, parts))
    for each in ("_JOIN", "_JOIN_PLAIN"):  # so that parts are taken wherever they can
        monkeypatch.setattr(choice, each, -1000.0)

    def every(*arguments):
        given, results = iter(arguments), []
        for function, shapes in cases:
            results.append(function(*(next(given) for _ in shapes)))
        return tuple(results)

    shapes = [shape for _, shapes in cases for shape in shapes]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    path = tmp_path / "cases.vmfb"
    after = rewrite(lower(every, *shapes), WITHOUT_MATRIX_UNITS, whole=True)
    assert len([name for name in called(after) if f"_{form}_" in name]) == len(cases)
    assert ("join_f32" in called(after)) == (parts > 1)
    assert not re.search(r"stablehlo\.(maximum|minimum|tanh|add|select|divide|multiply)", after)
    tools.compile_str(
        after,
        output_file=str(path),
        input_type="stablehlo",
        extra_args=["--iree-hal-target-device=vulkan"],
    )
    with runtime.load(path, device="vulkan://0") as loaded:
        answers = [np.asarray(answer) for answer in loaded.main(*arrays)]
    with jax.default_matmul_precision("highest"):
        expected = every(*arrays)
    for name, got, right in zip(names, answers, expected, strict=True):
        error = np.linalg.norm(got - right) / np.linalg.norm(right)
        assert error < 1e-6, f"{name}: {error}"
