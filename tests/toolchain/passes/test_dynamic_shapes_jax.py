"""JAX functions with symbolic dimensions against JAX itself, at several sizes, on CPU and Vulkan.

Cases are compiled several to a module, as starting the compiler costs more than they do.
"""

import functools
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree import runtime
from iree.compiler import ir
from jax import export, lax

from edgec.toolchain.passes.legalise.dynamic_shapes import DynamicShapes
from edgec.toolchain.process import compiler_path
from edgec.toolchain.stablehlo import parse_stablehlo

SIZES = ({"b": 1, "s": 5, "t": 6}, {"b": 4, "s": 8, "t": 5})
FLAGS = {
    "cpu": (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
        "--iree-opt-data-tiling",
        "--iree-llvmcpu-stack-allocation-limit=262144",
    ),
    "vulkan": ("--iree-hal-target-device=vulkan", "--iree-vulkan-target=vp_android_baseline_2022"),
}
W84 = np.sin(np.arange(32, dtype=np.float32)).reshape(8, 4)
W44 = np.cos(np.arange(16, dtype=np.float32)).reshape(4, 4)
TABLE = np.sin(np.arange(128, dtype=np.float32)).reshape(16, 8)
NHWC = ("NHWC", "HWIO", "NHWC")
NHC = ("NHC", "HIO", "NHC")


def weights(*shape: int) -> np.ndarray:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


@dataclass(frozen=True)
class Case:
    """A function, its arguments (`b,s,8:f32`), and the end of the range of integer arguments."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    high: int = 5
    tolerance: float = 1e-4


def case(function: Callable[..., Any], *arguments: str, **options: Any) -> Case:
    return Case(function, arguments, **options)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x: Any) -> Any:
    b, s, d = x.shape
    q, k, v = jnp.split(x @ jnp.tile(W84, (1, 6)), 3, -1)
    q, k, v = (y.reshape(b, s, 2, d // 2).transpose(0, 2, 1, 3) for y in (q, k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 2
    mask = jnp.tril(jnp.ones((s, s), bool))
    scores = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
    return jnp.einsum("bhqk,bhkd->bhqd", scores, v).transpose(0, 2, 1, 3).reshape(b, s, d)


def language_model(tokens: Any) -> Any:
    s = tokens.shape[1]
    x = jnp.asarray(TABLE)[tokens] + jnp.cos(jnp.arange(s)[:, None] * jnp.arange(1.0, 9.0))
    for _ in range(2):
        x = x + attention(layer_norm(x))
        x = x + 0.1 * jax.nn.gelu(layer_norm(x) @ jnp.tile(W84, (1, 4))) @ jnp.tile(W84, (2, 2))
    return x @ TABLE.T


def loss(w: Any, x: Any, y: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()


def recurrent(x: Any) -> Any:
    def step(h: Any, t: Any) -> Any:
        h = jnp.tanh(h @ W44 + t)
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[0], 4)), x.transpose(1, 0, 2))[1].transpose(1, 0, 2)


def rotary(x: Any) -> Any:
    angle = jnp.arange(x.shape[1])[:, None] / 10000 ** (jnp.arange(4) / 4)
    c, n = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([x[..., :4] * c - x[..., 4:] * n, x[..., 4:] * c + x[..., :4] * n], -1)


def group_norm(x: Any) -> Any:
    g = x.reshape(x.shape[0], x.shape[1], 2, 4)
    m, v = g.mean((1, 3), keepdims=True), g.var((1, 3), keepdims=True)
    return ((g - m) / jnp.sqrt(v + 1e-5)).reshape(x.shape)


def small_cnn(x: Any) -> Any:
    y = lax.conv_general_dilated(x, weights(3, 3, 3, 4), (1, 1), "SAME", dimension_numbers=NHWC)
    y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return y.reshape(x.shape[0], -1) @ weights(64, 3)


def depthwise(x: Any, out: int, stride: int) -> Any:
    return lax.conv_general_dilated(
        x, weights(3, 3, 1, out), (stride,) * 2, "SAME", dimension_numbers=NHWC,
        feature_group_count=4,
    )  # fmt: skip


def conv1d(x: Any, kernel: np.ndarray, stride: int = 1, **options: Any) -> Any:
    options = {"padding": "SAME", "dimension_numbers": NHC} | options
    return lax.conv_general_dilated(x, kernel, (stride,), **options)


def length_mean(x: Any, n: Any) -> Any:
    mask = jnp.arange(x.shape[1])[None] < n[:, None]
    return jnp.where(mask, x, 0).sum(1) / jnp.maximum(mask.sum(1), 1)


# What the fast run covers: at least one case of every rewrite.
CASES: Mapping[str, Case] = {
    "mlp": case(lambda x: jax.nn.relu(x @ W84 + 1), "b,8:f32"),
    "softmax": case(lambda x: jax.nn.softmax(x * 2), "b,s:f32"),
    "layer_norm": case(layer_norm, "b,s,8:f32"),
    "flatten": case(lambda x: x.reshape(x.shape[0], -1) @ weights(48, 2), "b,4,4,3:f32"),
    "merge_split": case(
        lambda x: (x.reshape(-1, 8) @ TABLE[:8]).reshape(x.shape) + x, "b,s,8:f32"
    ),
    "language_model": case(language_model, "b,s:i32", high=16),
    "cumsum": case(lambda x: jnp.cumsum(x, 1), "b,s:f32"),
    "cumprod_reverse": case(lambda x: lax.cumprod(x, axis=1, reverse=True), "b,s:f32"),
    "recurrent": case(recurrent, "b,s,4:f32"),
    "fori": case(
        lambda x: lax.fori_loop(0, x.shape[1], lambda i, c: c + x[:, i] * i, x[:, 0]), "b,s:f32"
    ),
    "cond": case(
        lambda x: lax.cond(x.sum() > 0, jax.nn.softmax, lambda v: v - v.mean(), x), "b,s:f32"
    ),
    "argsort": case(lambda x: jnp.argsort(x, axis=-1), "b,s:f32"),
    "pad_edge": case(lambda x: jnp.pad(x, ((1, 1), (2, 2)), mode="edge"), "b,s:f32"),
    "pad_by_size": case(lambda x: jnp.pad(x, ((0, x.shape[1]), (0, 0))), "b,s:f32"),
    "concatenate": case(lambda x, y: jnp.concatenate([x, y, x], 1), "b,s:f32", "b,t:f32"),
    "slice_by_size": case(lambda x: x[:, : x.shape[1] // 2 + 1], "b,s:f32"),
    "update_slice": case(
        lambda x, y, i: lax.dynamic_update_slice(x, y, (0, i)), "b,s:f32", "b,2:f32", ":i32",
        high=9,
    ),
    "cross_attention": case(
        lambda x, y: jax.nn.softmax(x @ y.transpose(0, 2, 1), -1) @ y, "b,s,8:f32", "b,t,8:f32"
    ),
    "cnn": case(small_cnn, "b,8,8,3:f32"),
    "depthwise": case(lambda x: depthwise(x, 4, 1), "b,8,8,4:f32"),
    "separable": case(
        lambda x: lax.conv_general_dilated(
            jax.nn.relu6(depthwise(x, 4, 1)), weights(1, 1, 4, 16), (1, 1), "VALID",
            dimension_numbers=NHWC,
        ),
        "b,8,8,4:f32",
    ),
    "conv1d_dynamic_length": case(lambda x: conv1d(x, weights(3, 4, 3), 2), "b,s,4:f32"),
    "max_pool_dynamic_length": case(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 1), (1, 1, 1), "SAME"),
        "b,s,4:f32",
    ),
    "train_step": case(
        lambda x, y: jax.value_and_grad(loss)(jnp.asarray(W84), x, y), "b,8:f32", "b:i32", high=4
    ),
    "quantile": case(lambda x: jnp.quantile(x, 0.5, axis=1), "b,s:f32"),
    "unsigned": case(
        lambda x, y: ((x ^ y) + jnp.uint32(7), jnp.broadcast_to(x[:, :1] >> 3, x.shape)),
        "b,s:u32", "b,s:u32", high=2**31,
    ),
}  # fmt: skip

MORE_CASES: Mapping[str, Case] = {
    "log_softmax": case(lambda x: jax.nn.log_softmax(x, axis=0), "b,s:f32"),
    "batch_norm": case(lambda x: (x - x.mean((0, 1))) / x.std((0, 1)), "b,s,8:f32"),
    "group_norm": case(group_norm, "b,s,8:f32"),
    "attention_padding": case(
        lambda x, n: jax.nn.dot_product_attention(
            x, x, x,
            mask=(jnp.arange(x.shape[1]) <= n[:, None])[:, None, None, :],
        ),
        "b,s,2,4:f32", "b:i32",
    ),
    "rotary": case(rotary, "b,s,8:f32"),
    "embedding_take": case(lambda i: jnp.take(TABLE, i, axis=0), "b,s:i32", high=16),
    "embedding_index": case(lambda i: jnp.asarray(TABLE)[i], "b,s:i32", high=16),
    "take_from_dynamic": case(lambda x, i: jnp.take(x, i, axis=0, mode="clip"), "s,8:f32", "b:i32"),
    "take_along": case(
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=-1), axis=-1), "b,s:f32"
    ),
    "take_points": case(
        lambda x: (x[jnp.array([0, 0]), jnp.array([1, 2])], x[:, jnp.array([2, 0])], x[0, 1:]),
        "b,s:f32",
    ),
    "gather_in_vmap": case(lambda x: jax.vmap(lambda r: r[jnp.argmax(r[:, 0])])(x), "b,s,2:f32"),
    "one_hot": case(lambda i: jax.nn.one_hot(i, 5), "b,s:i32"),
    "cumsum_integers": case(
        lambda x: (jnp.cumsum(x, 0), lax.cummin(x, axis=1, reverse=True)), "b,s:i32"
    ),
    "cummax": case(lambda x: lax.cummax(x, axis=1), "b,s:f32"),
    "cumlogsumexp": case(lambda x: lax.cumlogsumexp(x, axis=1), "b,s:f32"),
    "scan_with_state": case(
        lambda x: lax.scan(
            lambda c, t: (c + jnp.roll(t, 1) * c.mean(), jax.nn.softmax(c)), x[0], x
        ),
        "b,s:f32",
    ),
    "map_rows": case(lambda x: lax.map(jax.nn.softmax, x), "b,s:f32"),
    "while": case(
        lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 1.5 + 1, jnp.abs(x)),
        "b,s:f32",
    ),
    "associative_scan": case(lambda x: lax.associative_scan(jnp.add, x, axis=2), "b,s,4:f32"),
    "sort": case(lambda x: jnp.sort(x, axis=-1), "b,s:f32"),
    "argmax": case(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, 0)), "b,s:f32"),
    "top_k": case(lambda x: lax.top_k(x, 2), "b,s:f32"),
    "pad_constant": case(lambda x: jnp.pad(x, ((1, 2), (0, 3))), "b,s:f32"),
    "pad_reflect": case(lambda x: jnp.pad(x, ((0, 0), (1, 1)), mode="reflect"), "b,s:f32"),
    "repeat": case(lambda x: jnp.repeat(x, 2, axis=1), "b,s:f32"),
    "tile": case(lambda x: jnp.tile(x, (2, 3)), "b,s:f32"),
    "stack": case(lambda x: jnp.stack([x, x * 2], 1), "b,s:f32"),
    "concatenate_rows": case(lambda x: jnp.concatenate([x, x * 2, x[:1]]), "b,s:f32"),
    "slices": case(lambda x: (x[:, 1:, ::2], x[:, -1], x[:, :2]), "b,s,8:f32"),
    "diff": case(lambda x: jnp.diff(x, axis=1), "b,s:f32"),
    "dynamic_slice": case(
        lambda x, i: lax.dynamic_slice(x, (0, i), (x.shape[0], 2)), "b,s:f32", ":i32", high=9
    ),
    "kv_cache": case(
        lambda c, n, i: lax.dynamic_update_slice(c, n, (0, i, 0, 0)),
        "b,16,2,4:f32", "b,2,2,4:f32", ":i32", high=14,
    ),
    "arange": case(
        lambda x: x + jnp.arange(x.shape[1]) * jnp.arange(x.shape[0])[:, None], "b,s:f32"
    ),
    "size_as_value": case(lambda x: (x.sum() / x.shape[0], x.shape[1] * 2 + x), "b,s:f32"),
    "flip_roll": case(lambda x: (jnp.flip(x, 1), jnp.roll(x, 1, axis=1)), "b,s:f32"),
    "einsum": case(
        lambda x: (jnp.einsum("bsd,btd->bst", x, x), jnp.einsum("bsd,de->bse", x, W84)), "b,s,8:f32"
    ),
    "matrix_products": case(lambda x, y: (x @ y.T, x.T @ y), "b,s:f32", "b,s:f32"),
    "batched_products": case(lambda x: (x @ x, x @ x.transpose(0, 2, 1)), "b,s,s:f32"),
    "int8_product": case(
        lambda x, y: lax.dot_general(
            x, y, (((2,), (1,)), ((0,), (0,))), preferred_element_type=jnp.int32
        ),
        "b,s,8:i8", "b,8,t:i8", high=100,
    ),
    "depthwise_multiplier": case(lambda x: depthwise(x, 8, 2), "b,8,8,4:f32"),
    "grouped_conv": case(
        lambda x: lax.conv_general_dilated(
            x, weights(3, 3, 2, 6), (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=2
        ),
        "b,8,8,4:f32",
    ),
    "conv_nchw": case(
        lambda x: lax.conv_general_dilated(x, weights(4, 3, 3, 3), (2, 2), "VALID"), "b,3,8,8:f32"
    ),
    "conv2d_dynamic_image": case(
        lambda x: lax.conv_general_dilated(
            x, weights(3, 3, 3, 4), (2, 2), "VALID", dimension_numbers=NHWC
        ),
        "b,s,t,3:f32",
    ),
    "causal_dilated_conv": case(
        lambda x: conv1d(
            x, weights(3, 1, 4), padding=[(4, 0)], rhs_dilation=(2,), feature_group_count=4
        ),
        "b,s,4:f32",
    ),
    "conv_transpose": case(
        lambda x: lax.conv_transpose(x, weights(3, 3, 3, 4), (2, 2), "SAME"), "b,4,4,3:f32"
    ),
    "conv_transpose_dynamic": case(
        lambda x: lax.conv_transpose(x, weights(3, 4, 3), (2,), "SAME", dimension_numbers=NHC),
        "b,s,4:f32",
    ),
    "avg_pool": case(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") / 4,
        "b,8,8,4:f32",
    ),
    "max_pool_stride": case(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "VALID"),
        "b,s,4:f32",
    ),
    "resize_image": case(
        lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 3), "bilinear"), "b,4,4,3:f32"
    ),
    "resize_dynamic": case(
        lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 3), "nearest"), "b,s,3:f32"
    ),
    "pixel_shuffle": case(
        lambda x: x.reshape(-1, 4, 4, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 8, 8, 2),
        "b,4,4,8:f32",
    ),
    "reductions": case(lambda x: (x.sum(), x.max(0), x.min(1), x.prod(0)), "b,s:f32"),
    "any_all": case(lambda x: ((x > 0).any(1), (x > 0).all(0)), "b,s:f32"),
    "normalise": case(lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), "b,s:f32"),
    "statistics": case(lambda x: (x.std(0), jnp.var(x), jnp.median(x, axis=1)), "b,s:f32"),
    "scatter_add": case(
        lambda i: jnp.zeros(30).at[i.reshape(-1)].add(1.0), "b,s:i32", high=30
    ),
    "scatter_rows": case(lambda x, i: x.at[0, i].set(1.0), "b,8:f32", "s:i32", high=8),
    "scatter_columns": case(lambda x: (x.at[:, 0].set(5.0), x.at[0].add(1.0)), "b,s:f32"),
    "scatter_windows": case(
        lambda i: jnp.zeros((6, 3)).at[i].add(jnp.ones(3)), "b,s:i32", high=6
    ),
    "scatter_in_vmap": case(
        lambda x, i: jax.vmap(lambda r, k: r.at[k].add(1.0))(x, i), "b,s:f32", "b,4:i32"
    ),
    "segment_sum": case(lambda x, i: jax.ops.segment_sum(x, i, 5), "s,4:f32", "s:i32"),
    "histogram": case(
        lambda x: jnp.bincount((jnp.abs(x).reshape(-1) * 2).astype(jnp.int32), length=8), "b,s:f32"
    ),
    "nonzero": case(lambda x: jnp.nonzero(x[0] > 0, size=3, fill_value=-1)[0], "b,s:f32"),
    "searchsorted": case(lambda x: jnp.searchsorted(jnp.arange(5.0) - 2, x), "b,s:f32"),
    "meshgrid": case(lambda x: jnp.stack(jnp.meshgrid(x, x), -1), "s:f32"),
    "diagonals": case(lambda x: (jnp.diag(x), jnp.eye(x.shape[0])), "s:f32"),
    "triangles": case(lambda x: (jnp.triu(x), jnp.tril(x, -1)), "b,s:f32"),
    "trace": case(
        lambda x: (jnp.trace(x, axis1=1, axis2=2), jnp.swapaxes(x, 1, 2)), "b,s,s:f32"
    ),
    "clip_where": case(lambda x: (jnp.clip(x, -0.5, x.mean()), jnp.where(x > 0, x, 0)), "b,s:f32"),
    "length_mean": case(length_mean, "b,s:f32", "b:i32"),
    "grad_cnn": case(
        lambda x: jax.grad(
            lambda w: jnp.mean(
                lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC) ** 2
            )
        )(jnp.asarray(weights(3, 3, 3, 4))),
        "b,8,8,3:f32",
    ),
    "random": case(lambda x: jax.random.normal(jax.random.key(0), x.shape) + x, "b,s:f32"),
    "booleans": case(lambda x, y: (x & ~y, (x | y).sum(), jnp.where(x, 1, 2)), "b,s:b", "b,s:b"),
    "bytes": case(lambda x: x.astype(jnp.float32) / 255 - jnp.float32(0.5), "b,s:u8", high=256),
    "complex": case(lambda x: jnp.abs(x * x + 1), "b,s:c64"),
    "f16": case(lambda x: jax.nn.softmax(x), "b,s:f16", tolerance=2e-3),
    "bf16": case(lambda x: jnp.einsum("bsd,btd->bst", x, x), "b,s,8:bf16", tolerance=3e-2),
    "half_batch": case(
        lambda x: (x.reshape(2, -1, x.shape[1]).sum(0), x[: x.shape[0] // 2]), "2*b,s:f32"
    ),
}  # fmt: skip

DTYPES: Mapping[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": jnp.bfloat16, "c64": np.complex64, "b": np.bool_,
    "i8": np.int8, "i32": np.int32, "u8": np.uint8, "u32": np.uint32,
}  # fmt: skip


def spec(argument: str, scope: export.SymbolicScope) -> jax.ShapeDtypeStruct:
    shape, dtype = argument.split(":")
    sizes = export.symbolic_shape(shape, scope=scope) if shape else ()
    return jax.ShapeDtypeStruct(sizes, jnp.dtype(DTYPES[dtype]))


def value(argument: str, sizes: Mapping[str, int], high: int, seed: int) -> np.ndarray:
    shape, kind = argument.split(":")
    dtype = jnp.dtype(DTYPES[kind])
    dims = tuple(int(eval(d, {}, dict(sizes))) for d in shape.split(",") if d)
    random = np.random.default_rng(seed)
    if dtype == np.bool_:
        return random.random(dims) > 0.5
    if dtype.kind in "iu":
        return np.asarray(random.integers(0, high, dims)).astype(dtype)
    return np.asarray(random.normal(size=dims) + (1j if kind == "c64" else 0)).astype(dtype)


def compiled(cases: Sequence[Case], device: str, path: Path) -> tuple[int, ...]:
    """Compile the cases as one function to `path`; which of the flat arguments it takes."""
    names = "".join(a.split(":")[0] for c in cases for a in c.arguments)
    scope = export.SymbolicScope([f"{n} >= 5" for n in "st" if n in names])
    arguments = [[spec(a, scope) for a in c.arguments] for c in cases]

    def together(arguments: list[list[Any]]) -> list[Any]:
        return [c.function(*a) for c, a in zip(cases, arguments, strict=True)]

    exported = export.export(jax.jit(together), platforms=("cpu",))(arguments)
    with ir.Context() as context:
        module = parse_stablehlo(exported.mlir_module_serialized, context)
        assert DynamicShapes().run(module) > 0
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
    source = path.with_suffix(".mlirbc")
    source.write_bytes(stream.getvalue())
    compiler = compiler_path()
    done = subprocess.run(
        [compiler, source, "-o", path, "--iree-input-type=stablehlo", *FLAGS[device]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
    return tuple(exported.module_kept_var_idx)


def run_here(path: Path, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    config = runtime.Config("local-sync")
    module = runtime.VmModule.mmap(config.vm_instance, str(path))
    context = runtime.SystemContext(config=config, vm_modules=[*config.default_vm_modules, module])
    got = context.modules[module.name]["main"](*arguments)
    return [np.asarray(g.to_host()) for g in (got if isinstance(got, tuple | list) else [got])]


def run_in_child(
    path: Path, arguments: Sequence[np.ndarray], kinds: Sequence[np.dtype[Any]]
) -> list[np.ndarray]:
    """On Vulkan, which cannot share a process with TensorFlow."""
    folder = path.parent
    flags = []
    for i, argument in enumerate(arguments):
        np.save(folder / f"in{i}.npy", argument)
        flags.append(f"--input=@{folder / f'in{i}.npy'}")
    flags += [f"--output=@{folder / f'out{i}.npy'}" for i in range(len(kinds))]
    runner = Path(sys.executable).with_name("iree-run-module")
    done = subprocess.run(
        [runner, "--device=vulkan", f"--module={path}", "--function=main", *flags],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
    return [np.load(folder / f"out{i}.npy") for i in range(len(kinds))]


Answers = tuple[list[np.ndarray], list[np.ndarray]]


@functools.cache
def answers(names: tuple[str, ...], device: str) -> dict[tuple[str, int], Answers]:
    """What every case of a module gives at every size, and what JAX gives."""
    cases = [({**CASES, **MORE_CASES})[name] for name in names]
    found: dict[tuple[str, int], Answers] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.vmfb"
        kept = compiled(cases, device, path)
        for which, sizes in enumerate(SIZES):
            values = [
                [value(a, sizes, c.high, seed) for seed, a in enumerate(c.arguments)] for c in cases
            ]
            flat = [a for group in values for a in group]
            wanted = [
                [np.asarray(v) for v in jax.tree.leaves(jax.jit(c.function)(*group))]
                for c, group in zip(cases, values, strict=True)
            ]
            given = [flat[i] for i in kept]
            if device == "cpu":
                got = run_here(path, given)
            else:
                got = run_in_child(path, given, [w.dtype for group in wanted for w in group])
            for name, want in zip(names, wanted, strict=True):
                found[name, which] = (got[: len(want)], want)
                got = got[len(want) :]
    return found


def check(name: str, which: int, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    tolerance = {**CASES, **MORE_CASES}[name].tolerance
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        if w.dtype == jnp.bfloat16:
            g, w = g.view(w.dtype).astype(np.float32), w.astype(np.float32)
        np.testing.assert_allclose(
            g.astype(w.dtype),
            w,
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"{name} at {SIZES[which]}",
        )


def groups(names: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(names[i : i + size]) for i in range(0, len(names), size)]


def each(names: Sequence[str], size: int) -> list[Any]:
    """A parameter for each case and size: (name, which size, the cases that share its module)."""
    return [
        pytest.param(name, which, group, id=f"{name}-{'-'.join(map(str, sizes.values()))}")
        for group in groups(names, size)
        for name in group
        for which, sizes in enumerate(SIZES)
    ]


@pytest.mark.sweep(fast=8)
@pytest.mark.parametrize(("name", "which", "group"), each(list(CASES), 13))
def test_a_function_with_symbolic_sizes_is_right(
    name: str, which: int, group: tuple[str, ...]
) -> None:
    check(name, which, *answers(group, "cpu")[name, which])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "which", "group"), each(list(MORE_CASES), 14))
def test_every_function_with_symbolic_sizes_is_right(
    name: str, which: int, group: tuple[str, ...]
) -> None:
    check(name, which, *answers(group, "cpu")[name, which])


@pytest.mark.sweep(fast=4)
@pytest.mark.vulkan
@pytest.mark.parametrize(("name", "which", "group"), each(list(CASES), 13))
def test_a_function_with_symbolic_sizes_is_right_on_vulkan(
    name: str, which: int, group: tuple[str, ...]
) -> None:
    check(name, which, *answers(group, "vulkan")[name, which])


# Vulkan (Mesa's software device) reads and writes past the last whole word of 1-byte tensors.
NOT_ON_VULKAN = {"any_all", "booleans", "bytes", "int8_product", "f16", "bf16", "complex"}


@pytest.mark.slow
@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("name", "which", "group"), each([n for n in MORE_CASES if n not in NOT_ON_VULKAN], 12)
)
def test_every_function_with_symbolic_sizes_is_right_on_vulkan(
    name: str, which: int, group: tuple[str, ...]
) -> None:
    check(name, which, *answers(group, "vulkan")[name, which])
