"""Products, convolutions, attention and norms become dispatches of PTX kernels on CUDA.

That the kernels compute what they should is checked on a GPU: `benchmarks/cuda/check.py`.
"""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.targets import Backend, catalogue, find
from edgec.toolchain.kernels.cuda.choice import choose, ranked
from edgec.toolchain.kernels.cuda.library import Launch, Library, variant_of
from edgec.toolchain.kernels.cuda.placing import place_kernels
from edgec.toolchain.kernels.cuda.prebuilt import Prebuilt
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton
from edgec.toolchain.kernels.cuda.usual import usual
from edgec.toolchain.kernels.cuda.variants import FAMILIES, Variant
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.passes.place.cuda_kernels import CudaKernels
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

H200 = find("cuda:sm_90").gpu
needs_triton = pytest.mark.skipif(not has_triton(), reason="Triton is not here (edgec[cuda])")


class Unbuilt:
    """Kernels without code: placing needs none."""

    def __init__(self, *, folds: bool = True) -> None:
        self.folds = folds

    def find(self, variant: Variant) -> Binary:
        return Binary(name=variant.symbol, data=b"ptx", threads=32 * variant.warps, shared=0)


def place(text: str, target: str = "cuda:sm_90") -> tuple[str, list[Launch]]:
    """The program after placing, and what it calls, in order."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        library = Library(module, find(target).gpu, Unbuilt())
        place_kernels(module, library)
        assert module.operation.verify()
        asm = module.operation.get_asm(large_elements_limit=4)
        return asm[asm.index("func.func") :], library.launches


def lower(function, *shapes, dtype="float16"):
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes]
    return str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))


def values(launch: Launch, *names: str) -> list:
    """What a call gives to these parameters."""
    given = {**launch.numbers, **launch.folded, **launch.constants}
    return [given[name] for name in names]


PRODUCT = """
func.func @main(%x: tensor<128x768xf16>, %w: tensor<768x3072xf16>, %b: tensor<3072xf16>)
    -> tensor<128x3072xf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<128x768xf16>, tensor<768x3072xf16>) -> tensor<128x3072xf16>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3072xf16>) -> tensor<128x3072xf16>
  %2 = stablehlo.add %0, %1 : tensor<128x3072xf16>
  return %2 : tensor<128x3072xf16>
}"""


def test_a_product_with_its_bias_becomes_one_dispatch() -> None:
    after, (launch,) = place(PRODUCT)
    assert launch.name == "product_nn_deep_f16"
    assert "stablehlo.dot_general" not in after
    assert "stablehlo.add" not in after
    assert values(launch, "m", "n", "k", "k_part", "what") == [128, 3072, 768, 768, 1]


def test_a_single_row_has_its_bias_before_and_another_row_behind_an_activation() -> None:
    bias = np.linspace(-1, 1, 256, dtype=np.float32)

    def layer(x, w, other):
        return jax.nn.silu(x @ w + bias) + other

    after, (launch,) = place(lower(layer, (1, 512), (512, 256), (1, 256), dtype="float32"))
    assert "stablehlo.add" not in after
    assert "stablehlo.logistic" not in after
    bits = 1 | 2 | 4 | 3 << 8  # a bias, another tensor, to f32, SiLU
    assert values(launch, "what") == [bits]


def clipped(launch: Launch, x: np.ndarray) -> np.ndarray:
    """What a kernel's clip makes of its sums, from the bits that it is given."""
    bits = np.array(values(launch, "clip_slope", "clip_low", "clip_high"), np.int32)
    slope, low, high = bits.view(np.float32)
    return np.minimum(np.maximum(np.where(x > 0, x, slope * x), low), high)


@pytest.mark.parametrize(
    "activation",
    [
        lambda y: jnp.maximum(y, 0.001 * y),
        lambda y: jnp.minimum(jax.nn.relu(y), 20),
        lambda y: jnp.maximum(y, -0.01),
        lambda y: jnp.clip(jax.nn.leaky_relu(y, 0.5), -4, 6),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_corners_are_clips_by_their_numbers(activation, dtype) -> None:
    text = lower(lambda x, w: activation(x @ w), (128, 768), (768, 768), dtype=dtype)
    after, (launch,) = place(text)
    assert launch.folded["what"] & ~4 == 16
    assert "stablehlo.maximum" not in after
    x = np.linspace(-30, 30, 601, dtype=np.float32)
    np.testing.assert_allclose(clipped(launch, x), activation(x), rtol=1e-3, atol=1e-6)


def test_what_only_resembles_an_activation_stays_with_the_compiler() -> None:
    def function(x, w):
        y = x @ w
        return y / (1 + jnp.exp(-1.001 * y))

    after, (launch,) = place(lower(function, (128, 768), (768, 768), dtype="float32"))
    assert launch.folded["what"] == 4
    assert "stablehlo.divide" in after


def test_f32_keeps_its_precision_in_a_kernel_of_its_own() -> None:
    text = lower(lambda x, w: x @ w, (128, 768), (768, 768), dtype="float32")
    _, (launch,) = place(text)
    assert launch.name.startswith("product_nn_")
    assert launch.name.endswith("_f32")
    assert launch.constants["PRECISION"] == "tf32x3"


@pytest.mark.parametrize(
    ("target", "dtype", "turned"),
    [("cuda:sm_90", "float32", True), ("cuda:sm_90", "float16", False), ("cuda", "float32", False)],
)
def test_weights_of_f32_are_turned_once_for_units_that_sum_along_memory(
    target: str, dtype: str, turned: bool
) -> None:
    weights = np.random.default_rng(0).standard_normal((256, 512)).astype(dtype)
    windows = np.random.default_rng(1).standard_normal((3, 3, 64, 128)).astype(dtype)

    def function(x, image):
        dimensions = ("NHWC", "HWIO", "NHWC")
        window = jax.lax.conv_general_dilated(
            image, windows, (1, 1), "SAME", dimension_numbers=dimensions
        )
        return x @ weights, window

    text = lower(function, (128, 256), (1, 28, 28, 64), dtype=dtype)
    after, launches = place(text, target)
    product, window = sorted(launches, key=lambda launch: launch.source, reverse=True)
    assert after.count("stablehlo.transpose") == 2 * turned
    assert product.name.startswith("product_nt_" if turned else "product_nn_")
    assert values(product, "b_inner") == [1 if turned else 512]
    assert window.constants["TURNED"] == turned
    # What changes from call to call is not turned.
    after, (launch,) = place(lower(lambda x, w: x @ w, (128, 256), (256, 512), dtype=dtype), target)
    assert launch.name.startswith("product_nn_")
    assert "stablehlo.transpose" not in after


def test_a_product_with_a_turned_matrix_reads_it_as_it_lies() -> None:
    # JAX transposes first; einsum gives the product itself the turned form.
    text = lower(lambda x, w: jnp.einsum("mk,nk->mn", x, w), (64, 256), (512, 256))
    _, (launch,) = place(text)
    assert values(launch, "b_column", "b_inner") == [256, 1]


def test_what_a_side_was_turned_and_cut_from_is_read_as_it_lies() -> None:
    text = lower(lambda x, w: x @ w.T, (100, 768), (512, 768))  # as PyTorch keeps weights
    after, (launch,) = place(text)
    assert "stablehlo.transpose" not in after
    assert values(launch, "b_column", "b_inner", "COLUMNS") == [768, 1, 1]

    def heads(q, k):
        q, k = (v.reshape(197, 12, 64).transpose(1, 0, 2) for v in (q, k))
        return jnp.einsum("hqd,hkd->hqk", q, k)

    after, (launch,) = place(lower(heads, (197, 768), (197, 768)))
    assert "stablehlo.transpose" not in after
    names = ("heads", "a_head", "a_row", "b_head", "b_column")
    assert values(launch, *names) == [12, 64, 768, 64, 768]


def test_a_product_of_what_was_widened_reads_it_narrow() -> None:
    def function(x, w):
        return x.astype(jnp.float32) @ w.astype(jnp.float32)

    after, (launch,) = place(lower(function, (128, 256), (256, 512)))
    assert launch.name.endswith("_f16")
    assert "stablehlo.convert" not in after


def test_what_was_rounded_is_not_read_as_it_was_before() -> None:
    def function(x, w):
        return x.astype(jnp.float16) @ w.astype(jnp.float16)

    after, (launch,) = place(lower(function, (128, 256), (256, 512), dtype="float32"))
    assert launch.name.endswith("_f16")
    assert after.count("stablehlo.convert") == 2


def test_a_matrix_by_a_vector_is_a_row_by_its_columns() -> None:
    _, (launch,) = place(lower(lambda x, w: x @ w, (1024, 768), (768,)))
    assert values(launch, "m", "n", "k", "b_column", "b_inner") == [1, 1024, 768, 768, 1]


def test_a_small_product_of_halves_that_fills_no_matrix_unit_has_a_kernel() -> None:
    # The compiler's own would read what lies behind the last matrix.
    _, (launch,) = place(lower(lambda x, w: x @ w, (3, 4, 8), (3, 8, 5), dtype="bfloat16"))
    assert values(launch, "m", "n", "k") == [4, 5, 8]


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((64, 256), (256, 512)), "int32"),
        (((16, 16), (16, 16)), "float16"),  # not worth a kernel
    ],
)
def test_other_products_stay_with_the_compiler(shapes, dtype) -> None:
    after, launches = place(lower(lambda x, w: x @ w, *shapes, dtype=dtype))
    assert launches == []
    assert "stablehlo.dot_general" in after


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        (lambda x, b, r: x + b, 1),
        (lambda x, b, r: jax.nn.relu(x + b), 1 | 8),
        (lambda x, b, r: jax.nn.gelu(x + b), 1 | 1 << 8),
        (lambda x, b, r: jax.nn.gelu(x + b, approximate=False), 1 | 2 << 8),
        (lambda x, b, r: jax.nn.silu(x), 3 << 8),
        (lambda x, b, r: x + b + r, 1 | 2),
        (lambda x, b, r: r + x + b, 1 | 2),
        (lambda x, b, r: jax.nn.relu(r + jax.nn.silu(x + b)), 1 | 2 | 8 | 3 << 8),
        (lambda x, b, r: x.astype(jnp.float32), 0),
        (lambda x, b, r: (x.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype), 1),
    ],
)
def test_what_follows_is_known_by_its_values(tail, what) -> None:
    def function(x, w, b, r):
        return tail(x @ w, b, r)

    _, (launch,) = place(lower(function, (64, 256), (256, 512), (512,), (64, 512)))
    assert values(launch, "what") == [what]


@pytest.mark.parametrize(
    "tail",
    [
        lambda x, b: (x + b) * b,
        lambda x, b: jax.nn.relu(x + b) + x,
    ],
)
def test_what_no_kernel_does_is_left_in_the_program(tail) -> None:
    text = lower(lambda x, w, b: tail(x @ w, b), (64, 256), (256, 512), (512,))
    after, (launch,) = place(text)
    assert launch.folded["what"] in (0, 1, 1 | 8)
    assert "stablehlo.multiply" in after or "stablehlo.add" in after


def test_attention_of_what_was_widened_reads_and_writes_it_narrow() -> None:
    def function(q, k, v):
        q, k, v = (x.reshape(197, 12, 64).transpose(1, 0, 2).astype(jnp.float32) for x in (q, k, v))
        share = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 8)
        return jnp.einsum("hqk,hkd->hqd", share, v).astype(jnp.float16)

    after, (launch,) = place(lower(function, (197, 768), (197, 768), (197, 768)))
    assert launch.name.endswith("_f16")
    assert "stablehlo.convert" not in after


def test_gelu_as_pytorch_writes_it_is_taken_along() -> None:
    def function(x, w):
        y = x @ w
        half, root = jnp.float16(0.5), jax.lax.rsqrt(jnp.full(y.shape, 2, y.dtype))
        wide = (y * root).astype(jnp.float32)
        return (jax.lax.erf(wide).astype(y.dtype) + 1) * (y * half)

    after, (launch,) = place(lower(function, (197, 768), (768, 3072)))
    assert launch.folded["what"] == 2 << 8
    assert "rsqrt" not in after


def test_attention_over_heads_cut_from_one_tensor_reads_them_in_place() -> None:
    def function(x):
        q, k, v = (p.reshape(128, 12, 64).transpose(1, 0, 2) for p in jnp.split(x, 3, -1))
        scores = jnp.einsum("hqd,hkd->hqk", q, k).astype(jnp.float32) / 8
        share = jax.nn.softmax(scores).astype(x.dtype)
        return jnp.einsum("hqk,hkd->hqd", share, v).transpose(1, 0, 2).reshape(128, 768)

    after, (launch,) = place(lower(function, (128, 2304)))
    assert launch.name == "attention_64_16_f16"
    assert "stablehlo.transpose" not in after
    assert "stablehlo.slice" not in after
    assert values(launch, "queries", "keys") == [128, 128]
    assert values(launch, "q_at", "k_at", "v_at") == [0, 768, 1536]
    assert values(launch, "q_row", "k_row", "v_row", "o_row") == [2304, 2304, 2304, 768]


def test_attention_with_a_bias_and_a_mask_reads_both_where_they_lie() -> None:
    def function(q, k, v, bias):
        kept = jnp.arange(128)[:, None] >= jnp.arange(128)
        scores = jnp.einsum("hqd,hkd->hqk", q, k) + bias
        share = jax.nn.softmax(jnp.where(kept, scores, -jnp.inf))
        return jnp.einsum("hqk,hkd->hqd", share, v)

    shapes = ((12, 128, 80), (12, 128, 80), (12, 128, 80), (128, 128))
    _, (launch,) = place(lower(function, *shapes))
    assert launch.source == "attention"
    assert [launch.constants[name] for name in ("T0", "T1", "T2", "D")] == [1, 2, 0, 128]
    assert launch.numbers["t0_inner"] == 0
    assert launch.numbers["t0_row"] == 128


def test_attention_with_heads_that_share_keys_reads_these_once() -> None:
    def function(q, k, v):
        return jax.nn.dot_product_attention(q, k, v)

    shapes = ((2, 64, 8, 64), (2, 64, 2, 64), (2, 64, 2, 64))
    _, (launch,) = place(lower(function, *shapes, dtype="float32"))
    assert launch.source == "attention"
    assert [launch.numbers[f"k_{word}"] for word in ("outer", "middle", "inner")] == [8192, 64, 0]


def block(shift, more=lambda w, share: ()):
    """A layer with attention in windows of 7 x 7, shifted, and what its input becomes with it.

    `more` are further results, of the windows and of the weights of their values.
    """

    def function(x, into, bias, out, shared):
        moved = jnp.roll(x, (-shift, -shift), (1, 2)) if shift else x
        w = moved.reshape(2, 7, 3, 7, 32).transpose(0, 2, 1, 3, 4).reshape(6, 49, 32)
        q, k, v = (w @ into + bias).reshape(6, 49, 3, 2, 16).transpose(2, 0, 3, 1, 4)
        share = jax.nn.softmax(jnp.einsum("whqd,whkd->whqk", q, k) / 4 + shared)
        y = jnp.einsum("whqk,whkd->wqhd", share, v).reshape(6, 49, 32) @ out + bias[:32]
        y = y.reshape(2, 3, 7, 7, 32).transpose(0, 2, 1, 3, 4).reshape(1, 14, 21, 32)
        y = jnp.roll(y, (shift, shift), (1, 2)) if shift else y
        return x + y, more(w, share)

    return lower(function, (1, 14, 21, 32), (32, 96), (96,), (32, 32), (2, 49, 49))


@pytest.mark.parametrize("shift", [0, 3])
def test_windows_are_read_and_written_where_they_lie(shift) -> None:
    after, launches = place(block(shift))
    attention, into, out = launches
    assert [launch.source for launch in launches] == ["attention", "product", "product"]
    assert not re.search(r"stablehlo\.(transpose|concatenate|add)", after)
    assert (into.numbers["m"], out.folded["what"]) == (294, 3)  # bias, and the input added
    assert values(attention, "q_row", "o_row", "queries") == [96, 32, 49]
    turned = {"Q": (21, 96, 3, 14, 21 * 96, 3), "O": (21, 32, 3, 14, 21 * 32, 3)}
    for name, width in (("Q", 96), ("K", 96), ("V", 96), ("O", 32)):
        assert attention.constants[f"{name}_PARTS"] == (7, 21 * width)
    for name, rolls in turned.items():
        found = attention.constants[f"{name}_ROLLS"]
        assert {found[:3], found[3:]} == ({rolls[:3], rolls[3:]} if shift else {()})


def test_windows_that_something_else_reads_are_made_for_that_alone() -> None:
    after, launches = place(block(3, more=lambda w, share: w * 2))
    assert [launch.source for launch in launches] == ["attention", "product", "product"]
    assert after.count("stablehlo.transpose") == 1


def test_windows_of_more_indices_than_the_kernel_has_stay_where_they_are() -> None:
    def function(x, into, out, mask):
        w = x.reshape(2, 2, 7, 3, 7, 32).transpose(0, 1, 3, 2, 4, 5).reshape(12, 49, 32)
        q, k, v = (w @ into).reshape(12, 49, 3, 2, 16).transpose(2, 0, 3, 1, 4)
        scores = jnp.einsum("whqd,whkd->whqk", q, k).reshape(2, 6, 2, 49, 49) + mask[:, None]
        share = jax.nn.softmax(scores.reshape(12, 2, 49, 49))
        y = jnp.einsum("whqk,whkd->wqhd", share, v).reshape(12, 49, 32) @ out
        y = y.reshape(2, 2, 3, 7, 7, 32).transpose(0, 1, 3, 2, 4, 5)
        return x + y.reshape(2, 14, 21, 32)

    text = lower(function, (2, 14, 21, 32), (32, 96), (32, 32), (6, 49, 49))
    after, launches = place(text)
    assert [launch.source for launch in launches] == ["attention", "product", "product"]
    assert launches[0].constants["Q_PARTS"] == launches[0].constants["O_PARTS"] == ()
    assert after.count("stablehlo.transpose") == 2


def test_rows_are_not_moved_for_attention_that_no_kernel_takes() -> None:
    after, launches = place(block(3, more=lambda w, share: share))
    assert [launch.source for launch in launches] == ["product"] * 4
    assert after.count("stablehlo.concatenate") == 4


def test_attention_that_is_too_wide_is_declined_with_its_reason() -> None:
    def function(q, k, v):
        return jax.nn.softmax(q @ k.T) @ v

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(lower(function, (64, 520), (64, 520), (64, 520)))
        InlineCalls().run(module)
        library = Library(module, H200, Unbuilt())
        place_kernels(module, library)
    (answer,) = (each for each in library.answers if each.what.startswith("attention"))
    assert answer.what == "attention: 1 head, 64 x 64 x 520, f16"
    assert answer.outcome == Declined(reason="a width of 520")


@pytest.mark.parametrize("rows", [(128,), (1, 8, 16)])
@pytest.mark.parametrize("centred", [True, False])
def test_a_norm_becomes_one_dispatch(centred, rows) -> None:
    def function(x, scale, shift):
        y = x.astype(jnp.float32)
        if centred:
            y = y - y.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * scale + shift
        return y.astype(x.dtype)

    after, (launch,) = place(lower(function, (*rows, 768), (768,), (768,)))
    assert launch.name == "norm_1024_f16"
    assert "stablehlo.reduce" not in after
    assert values(launch, "width", "what") == [768, 3 if centred else 3 | 8]


def test_a_norm_of_what_was_widened_and_moved_reads_it_narrow() -> None:
    def merged(x, scale, shift):
        y = x.astype(jnp.float32).reshape(14, 2, 14, 2, 96).transpose(0, 2, 3, 1, 4)
        y = y.reshape(196, 384)
        y = y - y.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
        return (y * scale + shift).astype(x.dtype)

    after, (launch,) = place(lower(merged, (28, 28, 96), (384,), (384,)))
    assert launch.name == "norm_1024_f16"
    assert values(launch, "width", "what") == [384, 3]
    assert "stablehlo.convert" not in after
    assert after.count("stablehlo.transpose") == 1


@pytest.mark.parametrize("twice", [False, True], ids=["alone", "used twice"])
def test_a_residual_that_is_added_to_a_norm_is_added_by_its_kernel(twice) -> None:
    def function(x, scale, residual):
        y = x.astype(jnp.float32)
        y = (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * scale).astype(x.dtype)
        return (residual + y, y) if twice else residual + y

    after, (launch,) = place(lower(function, (2, 64, 512), (512,), (2, 64, 512)))
    assert values(launch, "what") == [1 | 8 | (0 if twice else 16)]
    assert ("stablehlo.add" in after) is twice


def test_a_norm_of_f32_takes_scales_of_f16() -> None:
    def function(x, scale):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale

    specs = [jax.ShapeDtypeStruct((8, 64), jnp.float32), jax.ShapeDtypeStruct((64,), jnp.float16)]
    text = str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))
    after, (launch,) = place(text)
    assert launch.name == "norm_1024_f32"
    assert values(launch, "what") == [1 | 4 | 8]
    assert after.count("stablehlo.convert") == 1


def convolution(x, w, stride, pad):
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def test_a_convolution_with_its_tail_becomes_one_dispatch() -> None:
    def function(x, w, b):
        return jax.nn.relu(convolution(x, w, 2, 1) + b)

    after, (launch,) = place(lower(function, (2, 30, 30, 64), (3, 3, 64, 128), (128,)))
    assert launch.source == "convolution"
    assert "stablehlo.convolution" not in after
    assert values(launch, "images", "high", "wide", "inputs") == [2, 30, 30, 64]
    assert values(launch, "out_high", "out_wide", "outputs", "pixel") == [15, 15, 128, 64]
    assert values(launch, "taps", "taps_wide", "stride_high", "pad_wide") == [9, 3, 2, 1]
    assert values(launch, "what") == [1 | 8]


def test_an_image_of_three_channels_is_read_a_row_of_the_window_at_a_time() -> None:
    text = lower(lambda x, w: convolution(x, w, 2, 3), (1, 224, 224, 3), (7, 7, 3, 64))
    after, (launch,) = place(text)
    assert "stablehlo.pad" in after
    assert values(launch, "high", "wide", "inputs", "pixel") == [230, 230, 56, 8]
    assert values(launch, "taps", "taps_wide") == [7, 1]


def grouped(x, w, groups):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "outputs", "groups", "source"),
    [
        (1, 64, 64, "grouped"),
        (1, 128, 64, "grouped"),
        (12, 4, 2, "grouped"),
        (8, 48, 8, "grouped_product"),
        (24, 72, 3, "grouped_product"),
        (128, 256, 2, "grouped_product"),
    ],
)
def test_a_convolution_in_groups_is_one_launch(inner, outputs, groups, source) -> None:
    def function(x, w, b):
        return jax.nn.relu(grouped(x, w, groups) + b)

    shapes = (1, 14, 14, inner * groups), (3, 3, inner, outputs), (outputs,)
    text, (launch,) = place(lower(function, *shapes))
    assert launch.source == source
    assert launch.folded["each"] == outputs // groups
    assert "stablehlo.convolution" not in text
    assert "stablehlo.maximum" not in text


def test_groups_share_a_tile_where_one_alone_would_not_fill_a_matrix_unit() -> None:
    for inner, together, side in ((4, 4, 16), (8, 2, 16), (24, 1, 32), (128, 1, 64)):
        width = 16 * inner
        text = lower(lambda x, w: grouped(x, w, 16), (1, 14, 14, width), (3, 3, inner, width))
        _, (launch,) = place(text)
        assert values(launch, "TOGETHER", "BK", "BN") == [together, side, side]
        assert launch.grid[1] * together == 16


def test_channels_are_read_by_eights_where_they_can_be() -> None:
    for channels, vector in ((72, 8), (20, 4), (33, 1)):
        text = lower(
            lambda x, w, n=channels: grouped(x, w, n), (1, 14, 14, channels), (3, 3, 1, channels)
        )
        _, (launch,) = place(text)
        assert launch.constants["VECTOR"] == vector
        assert set(launch.multiples.values()) == ({vector} if vector > 1 else set())
        assert launch.grid[1] * launch.constants["BN"] < channels + 16


@pytest.mark.parametrize("size", [(128, 768, 3072), (1, 1000, 2048), (49, 512, 4608), (7, 8, 64)])
def test_the_parts_of_a_choice_cover_the_inside_once(size) -> None:
    _, _, k = size
    choice = choose(H200, size)
    assert choice.parts * choice.steps * choice.inner >= k
    assert (choice.parts - 1) * choice.steps * choice.inner < k


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_90", "cuda:orin"])
def test_loops_copy_as_far_ahead_as_there_is_shared_memory_for(target) -> None:
    gpu = find(target).gpu
    for size in ((128, 768, 768), (197, 768, 3072), (8, 64, 64)):
        for choice in ranked(gpu, size):
            bytes_ = (choice.rows + choice.columns) * choice.inner * 2 * (choice.stages - 1)
            assert bytes_ <= gpu.shared_memory
    (few, *_), (many, *_) = (ranked(H200, size) for size in ((64, 64, 768), (512, 4096, 768)))
    assert few.stages > 4
    assert many.stages <= few.stages


def test_only_many_tiles_take_the_kernel_that_stays() -> None:
    many = (8192, 8192, 8192)
    assert choose(H200, many, large=True).form == "large"
    assert choose(H200, many).form == "wide"
    assert choose(H200, (128, 768, 768), large=True).form == "narrow"
    assert choose(H200, (4096, 4096, 4096), batch=2, large=True).form != "large"


def test_a_small_gpu_splits_less_than_a_large_one() -> None:
    size = (128, 768, 3072)
    orin = find("cuda:orin").gpu
    assert choose(orin, size).parts < choose(H200, size).parts
    assert choose(orin, size).time > choose(H200, size).time


def test_sums_in_parts_count_in_zeros_that_belong_to_the_run() -> None:
    def function(x, w, u):
        return (x @ w) @ u @ w

    after, launches = place(lower(function, (128, 3072), (3072, 768), (768, 3072)))
    split = [launch for launch in launches if launch.counters]
    assert len(split) == 2
    (count,) = re.findall(r"flow.tensor.splat .* : tensor<(\d+)xi32>", after)
    assert int(count) == sum(launch.counters for launch in split)


def test_every_parameter_of_a_kernel_is_given_once() -> None:
    _, (launch,) = place(PRODUCT)
    short = {name: n for name, n in launch.numbers.items() if name != "k_part"}
    with pytest.raises(ValueError, match="k_part"):
        variant_of(replace(launch, numbers=short, reads={}, writes={}), "sm_80", folds=True)


def test_what_is_prebuilt_serves_many_sizes_and_tails() -> None:
    def kernels(bias, columns):
        with ir.Context(), ir.Location.unknown():
            text = lower(lambda x, w, b: x @ w + b * bias, (128, 768), (768, columns), (columns,))
            module = ir.Module.parse(text)
            library = Library(module, find("cuda").gpu, Unbuilt(folds=False))
            place_kernels(module, library)
            return {variant_of(each, "sm_80", folds=False).key for each in library.launches}

    assert kernels(1, 3072) == kernels(0, 3080)


def test_a_kernel_that_is_neither_compiled_nor_prebuilt_leaves_the_program_alone(tmp_path) -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(PRODUCT)
        library = Library(module, find("cuda").gpu, Prebuilt(tmp_path / "none.zip"))
        place_kernels(module, library)
        assert library.calls == 0
        assert "flow.dispatch" not in str(module)


def test_every_target_that_takes_kernels_names_a_family_and_its_size() -> None:
    gpus = [t.gpu for t in catalogue() if t.gpu and t.backend is Backend.CUDA and t.gpu.kernels]
    assert {gpu.kernels for gpu in gpus} == set(FAMILIES)
    assert all(gpu.tensor and gpu.bandwidth for gpu in gpus)


@needs_triton
@pytest.mark.parametrize(
    ("target", "arch"), [("cuda", "sm_80"), ("cuda:sm_89", "sm_80"), ("cuda:sm_90", "sm_90a")]
)
def test_the_module_is_one_file_with_the_kernels_inside(tmp_path, target, arch) -> None:
    source = tmp_path / "product.mlir"
    source.write_text(PRODUCT)
    options = toolchain.CompileOptions(output=tmp_path / "m.vmfb", cache=False, check=False)
    toolchain.compile(source, target, options)
    data = (tmp_path / "m.vmfb").read_bytes()
    assert b"edgec_product_nn_" in data
    assert f".target {arch}".encode() in data


@needs_triton
def test_level_1_leaves_products_to_the_compiler(tmp_path) -> None:
    source = tmp_path / "product.mlir"
    source.write_text(PRODUCT)
    assert "cuda-kernels" in toolchain.run_passes(source, "cuda").changes
    with ir.Context(), ir.Location.unknown():
        assert CudaKernels(gpu=H200).run(ir.Module.parse(PRODUCT)) == 1
    plain = toolchain.run_passes(source, "cuda", toolchain.CompileOptions(level=1))
    assert "cuda-kernels" not in plain.changes
    assert find("cuda:sm_70").gpu.kernels == ""


@pytest.mark.slow
def test_the_usual_kernels_are_of_every_family_and_serve_any_tail() -> None:
    found = list(usual())
    assert {variant.family for variant in found} == set(FAMILIES)
    assert {variant.source for variant in found} >= {"product", "convolution"}
    assert len({variant.key for variant in found}) == len(found)
    assert all(("what", "i32") in variant.types for variant in found)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(PRODUCT)
        library = Library(module, find("cuda").gpu, Unbuilt(folds=False))
        place_kernels(module, library)
        (launch,) = library.launches
        key = variant_of(launch, "sm_80", folds=False).key
    assert key in {variant.key for variant in found}


def written(keys, values, key, value, at):
    """A token's keys and values into caches, at a place that the device computes."""
    place = jnp.asarray(at, jnp.int32) + 1
    write = jax.lax.dynamic_update_slice
    return tuple(write(c, n, (0, place, 0)) for c, n in ((keys, key), (values, value)))


def lowered(function, *arguments):
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(kind)) for shape, kind in arguments]
    return str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))


CACHE, TOKEN, PLACE = ((3, 90, 16), "float32"), ((3, 1, 16), "float32"), ((), "int32")


def test_updates_at_one_place_are_one_dispatch_that_reads_the_place() -> None:
    after, (launch,) = place(lowered(written, CACHE, CACHE, TOKEN, TOKEN, PLACE))
    assert launch.source == "put"
    assert list(launch.into) == ["y0", "y1"]
    assert values(launch, "count", "room0", "step0", "hop1") == [48, 89, 16, 90 * 16]
    assert "dynamic_update_slice" not in after


@pytest.mark.parametrize("array", [jnp.zeros_like, jnp.sin], ids=lambda each: each.__name__)
def test_updates_of_what_may_be_one_value_are_two_dispatches(array) -> None:
    """The compiler would have both arrays in one piece of memory."""

    def alike(cache, key, value, place):
        return written(array(cache), array(cache), key, value, place)

    _, launches = place(lowered(alike, CACHE, TOKEN, TOKEN, PLACE))
    assert [list(each.into) for each in launches] == [["y0"], ["y0"]]


def test_updates_at_two_places_are_two_dispatches() -> None:
    def apart(cache, other, new, at, to):
        write = jax.lax.dynamic_update_slice
        return write(cache, new, (0, at, 0)), write(other, new, (0, to, 0))

    _, launches = place(lowered(apart, CACHE, CACHE, TOKEN, PLACE, PLACE))
    assert [list(each.into) for each in launches] == [["y0"], ["y0"]]


def test_an_update_that_is_read_before_the_next_does_not_wait_for_it() -> None:
    def read_between(cache, new, at):
        write = jax.lax.dynamic_update_slice
        first = write(cache, new, (0, at, 0))
        return first, write(jnp.exp(first), new, (0, at, 0))

    _, launches = place(lowered(read_between, CACHE, TOKEN, PLACE))
    assert [list(each.into) for each in launches] == [["y0"], ["y0"]]


def turn(x, cosine, sine):
    """A rotary position embedding as `transformers` writes it."""
    a, b = jnp.split(x, 2, -1)
    return x * cosine + jnp.concatenate([-b, a], -1) * sine


def token(keys, values, query, key, value, cosine, sine, at):
    """Keys turned and values into caches, and queries turned."""
    place = at + 1
    query, key = turn(query, cosine, sine), turn(key, cosine, sine)
    write = jax.lax.dynamic_update_slice
    keys, values = (write(c, n, (0, place, 0)) for c, n in ((keys, key), (values, value)))
    return keys, values, jnp.sin(query)


ANGLE, QUERY = ((1, 1, 16), "float32"), ((9, 1, 16), "float32")


def test_queries_and_keys_turn_where_keys_and_values_are_put() -> None:
    after, (launch,) = place(lowered(token, CACHE, CACHE, QUERY, TOKEN, TOKEN, ANGLE, ANGLE, PLACE))
    assert launch.source == "put"
    assert list(launch.into) == ["y0", "y1"]
    assert list(launch.writes) == ["y0", "y1", "y2"]
    widths = [launch.constants[f"WIDTH{n}"] for n in range(3)]
    assert widths == [16, 0, 16]
    assert values(launch, "count", "whole", "span0", "span2") == [48, 144, 16, 16]
    assert "stablehlo.concatenate" not in after


def test_what_turns_by_other_angles_or_is_read_before_has_a_kernel_of_its_own() -> None:
    def others(keys, values, query, key, value, cosine, sine, at):
        return token(keys, values, turn(query, sine, cosine), key, value, cosine, sine, at)

    def before(keys, values, query, key, value, cosine, sine, at):
        turned = turn(query, cosine, sine)
        at = at + turned[0, 0, 0].astype(jnp.int32)
        write = jax.lax.dynamic_update_slice
        return write(keys, turn(key, cosine, sine), (0, at, 0)), turned

    arguments = (CACHE, CACHE, QUERY, TOKEN, TOKEN, ANGLE, ANGLE, PLACE)
    _, launches = place(lowered(others, *arguments))
    assert [list(each.writes) for each in launches] == [["y0", "y1", "y2"], ["y2"]]
    _, launches = place(lowered(before, *arguments))
    assert [list(each.writes) for each in launches] == [["y0"], ["y2"]]


def test_keys_that_are_read_elsewhere_too_are_turned_once() -> None:
    def twice(keys, key, cosine, sine, at):
        turned = turn(key, cosine, sine)
        return jax.lax.dynamic_update_slice(keys, turned, (0, at + 1, 0)), jnp.sin(turned)

    _, (put, alone) = place(lowered(twice, CACHE, TOKEN, ANGLE, ANGLE, PLACE))
    assert (list(put.writes), put.constants["WIDTH0"]) == (["y0"], 0)
    assert (list(alone.writes), alone.constants["WIDTH2"]) == (["y2"], 16)


@pytest.mark.parametrize(
    "other",
    [
        lambda x, c, s: x * c + jnp.concatenate([x[..., 8:], -x[..., :8]], -1) * s,
        lambda x, c, s: x * c + jnp.concatenate([-x[..., 8:], x[..., 8:]], -1) * s,
        lambda x, c, s: jnp.exp(x) * c + jnp.concatenate([-x[..., 8:], x[..., :8]], -1) * s,
        lambda x, c, s: x * c + jnp.concatenate([-x[..., 4:], x[..., :4]], -1) * s,
        lambda x, c, s: x * c + jnp.flip(x, -1) * s,
    ],
)
def test_what_only_looks_like_a_turn_stays_with_the_compiler(other) -> None:
    assert place(lowered(other, TOKEN, ANGLE, ANGLE))[1] == []


def test_a_row_by_its_number_is_read_where_the_number_lies() -> None:
    take = lowered(lambda x, at: jnp.take(x, at, axis=0, mode="clip"), ((90, 16), "int8"), PLACE)
    after, (launch,) = place(take)
    assert launch.source == "take"
    assert values(launch, "count", "room0", "step0") == [16, 89, 16]
    assert "stablehlo.gather" not in after


def test_slices_at_known_places_and_in_loops_stay_with_the_compiler() -> None:
    def known(cache, new):
        return jax.lax.dynamic_update_slice(cache, new, (0, 5, 0))

    def looped(cache, new, count):
        step = lambda n, c: jax.lax.dynamic_update_slice(c, new, (0, n, 0))  # noqa: E731
        return jax.lax.fori_loop(0, count, step, cache)

    assert place(lowered(known, CACHE, TOKEN))[1] == []
    assert place(lowered(looped, CACHE, TOKEN, PLACE))[1] == []
