"""Products, convolutions, attention and norms become dispatches of PTX kernels on CUDA.

That the kernels compute what they should is checked on a GPU: `benchmarks/cuda/check.py`.
"""

import json
import re
from importlib import resources

import jax
import jax.numpy as jnp
import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.targets import Backend, catalogue, find
from edgec.toolchain.kernels.cuda.choice import choose
from edgec.toolchain.passes.place.cuda_kernels import CudaKernels
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

KERNELS = resources.files("edgec.toolchain") / "kernels" / "cuda"
POINTERS = {"product": 6, "convolution": 6, "attention": 4, "norm": 4}
INTEGERS = {"product": 8, "convolution": 17, "attention": 19, "norm": 3}


def rewrite(text: str, kernels: str = "sm_90a") -> str:
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        CudaKernels(kernels=kernels).run(module)
        assert module.operation.verify()
        asm = module.operation.get_asm(large_elements_limit=4)
        return asm[asm.index("func.func") :]


def lower(function, *shapes, dtype="float16"):
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes]
    return str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))


def called(after: str) -> list[str]:
    """The kernels that a rewritten program calls, in order."""
    return re.findall(r"flow\.dispatch @edgec_(\w+)::", after)


def numbers(after: str, which: int = 0) -> list[int]:
    """The integers that a call gives its kernel."""
    call = re.findall(r"flow\.dispatch @\S+\[.*?\]\((.*?)\) :", after)[which]
    values = dict(re.findall(r"(%\S+) = arith\.constant (-?\d+) : i32", after))
    return [int(values[name]) for name in call.split(", ") if name in values]


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
    after = rewrite(PRODUCT)
    assert called(after) == ["product_nn_deep_f16"]
    assert "stablehlo.dot_general" not in after
    assert "stablehlo.add" not in after
    m, n, k, part, *_, what = numbers(after)
    assert (m, n, k, part, what) == (128, 3072, 768, 768, 1)


@pytest.mark.parametrize(
    ("activation", "left"),
    [
        (lambda y: jnp.maximum(y, 0.001 * y), "stablehlo.maximum"),
        (lambda y: jnp.minimum(jax.nn.relu(y), 20), "stablehlo.minimum"),
        (lambda y: jnp.maximum(y, -0.01), "stablehlo.maximum"),
        (lambda y: jnp.minimum(jax.nn.silu(y), 50), "stablehlo.minimum"),
        (lambda y: y / (1 + jnp.exp(-1.001 * y)), "stablehlo.divide"),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_only_resembles_an_activation_stays_with_the_compiler(activation, left, dtype) -> None:
    after = rewrite(lower(lambda x, w: activation(x @ w), (128, 768), (768, 768), dtype=dtype))
    assert called(after)[0].startswith("product_nn_")
    assert left in after


def test_f32_keeps_its_precision_in_a_kernel_of_its_own() -> None:
    after = rewrite(lower(lambda x, w: x @ w, (128, 768), (768, 768), dtype="float32"))
    assert called(after)[0].startswith("product_nn_")
    assert called(after)[0].endswith("_f32")


def test_a_product_with_a_turned_matrix_reads_it_as_it_lies() -> None:
    after = rewrite(lower(lambda x, w: x @ w.T, (64, 256), (512, 256)))
    (name,) = called(after)
    assert name.startswith("product_n")
    # JAX transposes first; einsum gives the product itself the turned form.
    after = rewrite(lower(lambda x, w: jnp.einsum("mk,nk->mn", x, w), (64, 256), (512, 256)))
    assert called(after)[0].startswith("product_nt_")


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((64, 256), (256, 510)), "float16"),  # no multiple of 8 columns
        (((64, 250), (250, 512)), "float16"),  # no multiple of 8 inside
        (((64, 256), (256, 512)), "int32"),
        (((8, 16), (16, 8)), "float16"),  # not worth a kernel
    ],
)
def test_other_products_stay_with_the_compiler(shapes, dtype) -> None:
    after = rewrite(lower(lambda x, w: x @ w, *shapes, dtype=dtype))
    assert called(after) == []
    assert "stablehlo.dot_general" in after


def test_what_stays_is_summed_in_f32() -> None:
    after = rewrite(lower(lambda x, w: x @ w, (64, 250), (250, 512)))
    assert "-> tensor<64x512xf32>" in after
    assert "-> tensor<64x512xf16>" in after


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

    after = rewrite(lower(function, (64, 256), (256, 512), (512,), (64, 512)))
    assert numbers(after)[-1] == what


@pytest.mark.parametrize(
    "tail",
    [
        lambda x, b: (x + b) * b,
        lambda x, b: jax.nn.relu(x + b) + x,
        lambda x, b: jax.nn.leaky_relu(x + b),
        lambda x, b: jnp.minimum(jax.nn.relu(x + b), 6),
    ],
)
def test_what_no_kernel_does_is_left_in_the_program(tail) -> None:
    after = rewrite(lower(lambda x, w, b: tail(x @ w, b), (64, 256), (256, 512), (512,)))
    assert len(called(after)) == 1
    assert numbers(after)[-1] in (0, 1, 1 | 8)
    assert "stablehlo.multiply" in after or "stablehlo.add" in after or "minimum" in after


def test_attention_over_heads_cut_from_one_tensor_reads_them_in_place() -> None:
    def function(x):
        q, k, v = (p.reshape(128, 12, 64).transpose(1, 0, 2) for p in jnp.split(x, 3, -1))
        scores = jnp.einsum("hqd,hkd->hqk", q, k).astype(jnp.float32) / 8
        share = jax.nn.softmax(scores).astype(x.dtype)
        return jnp.einsum("hqk,hkd->hqd", share, v).transpose(1, 0, 2).reshape(128, 768)

    after = rewrite(lower(function, (128, 2304)))
    assert called(after) == ["attention_64_16_f16"]
    assert "stablehlo.transpose" not in after
    assert "stablehlo.slice" not in after
    queries, keys, _, *starts = numbers(after)[:6]
    assert (queries, keys, starts) == (128, 128, [0, 768, 1536])
    assert numbers(after)[14:18] == [2304, 2304, 2304, 768]


def test_attention_with_a_mask_stays_products() -> None:
    def function(q, k, v, mask):
        share = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) + mask)
        return jnp.einsum("hqk,hkd->hqd", share, v)

    shapes = ((12, 128, 64), (12, 128, 64), (12, 128, 64), (12, 128, 128))
    assert [name.split("_")[0] for name in called(rewrite(lower(function, *shapes)))] == [
        "product",
        "product",
    ]


@pytest.mark.parametrize("centred", [True, False])
def test_a_norm_becomes_one_dispatch(centred) -> None:
    def function(x, scale, shift):
        y = x.astype(jnp.float32)
        if centred:
            y = y - y.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * scale + shift
        return y.astype(x.dtype)

    after = rewrite(lower(function, (128, 768), (768,), (768,)))
    assert called(after) == ["norm_1024_f16"]
    assert "stablehlo.reduce" not in after
    width, _, what = numbers(after)
    assert (width, what) == (768, 3 if centred else 3 | 8)


def convolution(x, w, stride, pad):
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def test_a_convolution_with_its_tail_becomes_one_dispatch() -> None:
    def function(x, w, b):
        return jax.nn.relu(convolution(x, w, 2, 1) + b)

    after = rewrite(lower(function, (2, 30, 30, 64), (3, 3, 64, 128), (128,)))
    assert called(after)[0].startswith("convolution_")
    assert "stablehlo.convolution" not in after
    values = numbers(after)
    assert values[:10] == [2, 30, 30, 64, 15, 15, 128, 64, 3, 9]
    assert values[10:14] == [2, 2, 1, 1]
    assert values[-1] == 1 | 8


def test_an_image_of_three_channels_is_read_a_row_of_the_window_at_a_time() -> None:
    after = rewrite(lower(lambda x, w: convolution(x, w, 2, 3), (1, 224, 224, 3), (7, 7, 3, 64)))
    assert "stablehlo.pad" in after
    assert numbers(after)[:10] == [1, 230, 230, 56, 112, 112, 64, 8, 1, 7]


def test_grouped_and_channel_first_convolutions_stay() -> None:
    def depthwise(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=64,
        )  # fmt: skip

    after = rewrite(lower(depthwise, (1, 56, 56, 64), (3, 3, 1, 64)))
    assert called(after) == []


@pytest.mark.parametrize("size", [(128, 768, 3072), (1, 1000, 2048), (49, 512, 4608), (7, 8, 64)])
def test_the_parts_of_a_choice_cover_the_inside_once(size) -> None:
    m, n, k = size
    choice = choose(m, n, k)
    assert choice.parts * choice.steps * choice.inner >= k
    assert (choice.parts - 1) * choice.steps * choice.inner < k


def test_only_many_tiles_take_the_kernel_that_stays() -> None:
    assert choose(8192, 8192, 8192, large=True).form == "large"
    assert choose(8192, 8192, 8192).form == "wide"
    assert choose(128, 768, 768, large=True).form == "narrow"
    assert choose(4096, 4096, 4096, batch=2, large=True).form != "large"


@pytest.mark.parametrize("folder", ["sm_80", "sm_90a"])
def test_every_kernel_has_the_parameters_that_it_is_called_with(folder) -> None:
    index = json.loads((KERNELS / folder / "index.json").read_text())
    assert index
    for name, facts in index.items():
        text = (KERNELS / folder / f"{name}.ptx").read_text()
        head, rest = text.split(f".visible .entry edgec_{name}(")
        kinds = re.findall(r"\.param \.(\w+)", rest.split(")")[0])
        family = name.split("_")[0]
        pointers, integers = POINTERS[family], INTEGERS[family]
        if "_large_" in name:
            integers = 4
        assert kinds == ["u64"] * pointers + ["u32"] * integers, name
        assert f".target {folder}" in head
        assert f".reqntid {facts['threads']}" in rest
        # What every GPU of compute capability 8 and later has; Hopper has more.
        assert facts["shared"] <= (101376 if folder == "sm_80" else 232448)


def test_every_target_with_kernels_has_them() -> None:
    gpus = [t.gpu for t in catalogue() if t.gpu and t.backend is Backend.CUDA]
    named = {gpu.kernels for gpu in gpus if gpu.kernels}
    assert named == {"sm_80", "sm_90a"}
    assert all((KERNELS / name / "index.json").is_file() for name in named)


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


def test_level_1_leaves_products_to_the_compiler(tmp_path) -> None:
    source = tmp_path / "product.mlir"
    source.write_text(PRODUCT)
    assert "cuda-kernels" in toolchain.run_passes(source, "cuda").changes
    plain = toolchain.run_passes(source, "cuda", toolchain.CompileOptions(level=1))
    assert "cuda-kernels" not in plain.changes
    assert find("cuda:sm_70").gpu.kernels == ""
