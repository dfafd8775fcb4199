"""Products: matrices in odd layouts, convolutions, Fourier transforms, linear algebra."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.operators.case import COMPLEX, FLOATS, INTEGERS, Case, arg

__all__ = ["cases"]

# shapes, contracting dimensions, batch dimensions
_DOTS = {
    "matrix": ((4, 8), (8, 5), ((1,), (0,)), ((), ())),
    "transposed": ((8, 4), (5, 8), ((0,), (1,)), ((), ())),
    "vector": ((8,), (8,), ((0,), (0,)), ((), ())),
    "matrix_vector": ((4, 8), (8,), ((1,), (0,)), ((), ())),
    "batched": ((3, 4, 8), (3, 8, 5), ((2,), (1,)), ((0,), (0,))),
    "batch_last": ((4, 8, 3), (8, 5, 3), ((1,), (0,)), ((2,), (2,))),
    "batch_mixed": ((4, 3, 8), (8, 3, 5), ((2,), (0,)), ((1,), (1,))),
    "two_contracting": ((4, 3, 8), (8, 5, 3), ((1, 2), (2, 0)), ((), ())),
    "two_batches": ((2, 3, 4, 8), (2, 3, 8, 5), ((3,), (2,)), ((0, 1), (0, 1))),
    "batches_crossed": ((2, 4, 3, 8), (3, 8, 2, 5), ((3,), (1,)), ((0, 2), (2, 0))),
    "outer": ((4,), (5,), ((), ()), ((), ())),
    "batch_only": ((3, 4), (3, 4), ((), ()), ((0, 1), (0, 1))),
    "large": ((33, 65), (65, 17), ((1,), (0,)), ((), ())),
}


def cases() -> Iterator[Case]:
    """About three hundred and fifty."""
    others = FLOATS[1:] + INTEGERS + COMPLEX
    n = 0
    for form, (left, right, contracting, batch) in _DOTS.items():
        for kind in ("f32", *(others[(n + k) % len(others)] for k in range(3))):
            yield Case(
                group="dot",
                name=f"{form}-{kind}",
                call=lambda x, y, c=contracting, b=batch: lax.dot_general(x, y, (c, b)),
                args=(arg(kind, *left), arg(kind, *right)),
            )
        n += 3
    mixed = {
        "i8-i32": ("i8", "i8", jnp.int32),
        "u8-i32": ("u8", "u8", jnp.int32),
        "u8i8-i32": ("u8", "i8", jnp.int32),
        "bf16-f32": ("bf16", "bf16", jnp.float32),
        "f16-f32": ("f16", "f16", jnp.float32),
        "i8-f32": ("i8", "i8", jnp.float32),
        "f16i8-f32": ("f16", "i8", jnp.float32),
        "bf16f32-f32": ("bf16", "f32", jnp.float32),
        "i32-i64-x64": ("i32", "i32", jnp.int64),
    }
    for name, (left, right, kind) in mixed.items():
        for form in ("matrix", "batched", "vector"):
            a, b, contracting, batch = _DOTS[form]
            yield Case(
                group="dot",
                name=f"{form}-{name}",
                call=lambda x, y, c=contracting, b=batch, k=kind: lax.dot_general(
                    x, y, (c, b), preferred_element_type=k
                ),
                args=(arg(left, *a), arg(right, *b)),
            )
    forms = {
        "einsum_attention": (
            lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
            (2, 3, 4, 8),
            (2, 5, 4, 8),
        ),
        "einsum_trace": (lambda a, b: jnp.einsum("iij,ij->j", a, b), (4, 4, 3), (4, 3)),
        "grad": (
            lambda a, b: jax.grad(lambda x, y: (x @ y).sum() ** 2, (0, 1))(a, b),
            (4, 6),
            (6, 3),
        ),
        "vmap": (jax.vmap(jnp.dot, (0, None)), (3, 4, 5), (5, 2)),
        "kron": (jnp.kron, (2, 3), (3, 2)),
        "tensordot": (lambda a, b: jnp.tensordot(a, b, 2), (2, 3, 4), (3, 4, 5)),
        "cross": (jnp.cross, (4, 3), (4, 3)),
    }
    for name, (call, a, b) in forms.items():
        for kind in ("f32", "bf16", "f16", "c64"):
            if kind == "c64" and name == "grad":
                continue
            yield Case(
                group="dot", name=f"{name}-{kind}", call=call, args=(arg(kind, *a), arg(kind, *b))
            )
    yield Case(
        group="dot",
        name="ragged_dot",
        call=lambda x, y, s: lax.ragged_dot(x, y, s),
        args=(arg("f32", 8, 4), arg("f32", 3, 4, 5), arg("i32", values=[3, 4, 1])),
    )
    yield from _attention()
    yield from _convolutions()
    yield from _transforms()
    yield from _algebra()


def _attention() -> Iterator[Case]:
    for kind in ("f32", "bf16"):
        yield Case(
            group="dot",
            name=f"attention-{kind}",
            call=lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
            args=tuple(arg(kind, 2, 6, 2, 8) for _ in range(3)),
        )


# input, kernel, strides, padding, input dilation, kernel dilation, dimensions, groups, batch groups
_CONVOLUTIONS = {
    "2d": ((2, 7, 8, 3), (3, 3, 3, 4), (1, 1), "SAME", (1, 1), (1, 1), "NHWC", 1, 1),
    "2d_strided": ((2, 7, 8, 3), (3, 2, 3, 4), (2, 3), "VALID", (1, 1), (1, 1), "NHWC", 1, 1),
    "2d_dilated": ((2, 9, 9, 3), (3, 3, 3, 4), (1, 1), "SAME", (1, 1), (2, 3), "NHWC", 1, 1),
    "2d_transposed": (
        (2, 4, 5, 3),
        (3, 3, 3, 4),
        (1, 1),
        ((1, 2), (2, 1)),
        (2, 2),
        (1, 1),
        "NHWC",
        1,
        1,
    ),
    "2d_grouped": ((2, 6, 6, 4), (3, 3, 2, 6), (1, 1), "SAME", (1, 1), (1, 1), "NHWC", 2, 1),
    "2d_depthwise": ((2, 6, 6, 4), (3, 3, 1, 4), (1, 1), "SAME", (1, 1), (1, 1), "NHWC", 4, 1),
    "2d_depthwise2": ((2, 6, 6, 4), (3, 3, 1, 8), (2, 2), "SAME", (1, 1), (1, 1), "NHWC", 4, 1),
    "2d_batch_groups": ((4, 6, 6, 3), (3, 3, 3, 4), (1, 1), "VALID", (1, 1), (1, 1), "NHWC", 1, 2),
    "2d_nchw": ((2, 3, 7, 8), (4, 3, 3, 3), (1, 2), "SAME", (1, 1), (1, 1), "NCHW", 1, 1),
    "2d_nchw_grouped": ((2, 4, 6, 6), (6, 2, 3, 3), (1, 1), "SAME", (1, 1), (1, 1), "NCHW", 2, 1),
    "2d_1x1": ((2, 5, 5, 6), (1, 1, 6, 4), (1, 1), "VALID", (1, 1), (1, 1), "NHWC", 1, 1),
    "2d_negative": (
        (1, 7, 7, 2),
        (3, 3, 2, 2),
        (1, 1),
        ((-1, 0), (1, -1)),
        (1, 1),
        (1, 1),
        "NHWC",
        1,
        1,
    ),
    "1d": ((2, 9, 3), (3, 3, 4), (1,), "SAME", (1,), (1,), "NWC", 1, 1),
    "1d_dilated": ((2, 12, 3), (3, 3, 4), (2,), "VALID", (1,), (2,), "NWC", 1, 1),
    "1d_depthwise": ((2, 9, 4), (3, 1, 4), (1,), "SAME", (1,), (1,), "NWC", 4, 1),
    "1d_causal": ((2, 9, 3), (3, 3, 4), (1,), ((2, 0),), (1,), (1,), "NWC", 1, 1),
    "1d_transposed": ((2, 5, 3), (4, 3, 2), (1,), ((3, 3),), (2,), (1,), "NWC", 1, 1),
    "3d": (
        (1, 4, 5, 6, 2),
        (2, 3, 2, 2, 3),
        (1, 1, 1),
        "SAME",
        (1, 1, 1),
        (1, 1, 1),
        "NDHWC",
        1,
        1,
    ),
    "3d_strided": (
        (1, 5, 5, 6, 2),
        (2, 2, 2, 2, 3),
        (2, 1, 2),
        "VALID",
        (1, 1, 1),
        (1, 1, 1),
        "NDHWC",
        1,
        1,
    ),
    "3d_grouped": (
        (1, 4, 4, 4, 4),
        (2, 2, 2, 2, 4),
        (1, 1, 1),
        "VALID",
        (1, 1, 1),
        (1, 1, 1),
        "NDHWC",
        2,
        1,
    ),
    "0d": ((2, 3), (3, 4), (), (), (), (), "NC", 1, 1),
}
_KERNELS = {"NHWC": "HWIO", "NCHW": "OIHW", "NWC": "WIO", "NDHWC": "DHWIO", "NC": "IO"}


def _convolutions() -> Iterator[Case]:
    others = ("bf16", "f16", "f64", "i32", "i8", "u8", "c64")
    for n, (form, given) in enumerate(_CONVOLUTIONS.items()):
        shape, kernel, strides, padding, dilation, kernel_dilation, dims, groups, batches = given
        call = lambda x, w, g=given: lax.conv_general_dilated(  # noqa: E731
            x, w, g[2], g[3], g[4], g[5], (g[6], _KERNELS[g[6]], g[6]), g[7], g[8]
        )
        del strides, padding, dilation, kernel_dilation, dims, groups, batches
        for kind in ("f32", others[n % 7], others[(n + 3) % 7]):
            args = (arg(kind, *shape), arg(kind, *kernel))
            yield Case(group="convolution", name=f"{form}-{kind}", call=call, args=args)
        if form != "0d":
            yield Case(
                group="convolution",
                name=f"{form}-grad",
                call=lambda x, w, f=call: jax.grad(lambda a, b: (f(a, b) ** 2).sum() / 100, (0, 1))(
                    x, w
                ),
                args=(arg("f32", *shape), arg("f32", *kernel)),
            )
            yield Case(
                group="convolution",
                name=f"{form}-vmapped",
                call=lambda x, w, f=call: jax.vmap(f)(x, w),
                args=(arg("f32", 2, *shape), arg("f32", 2, *kernel)),
            )
    for name, call in {
        "int8-i32": lambda x, w: lax.conv_general_dilated(
            x,
            w,
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            preferred_element_type=jnp.int32,
        ),
    }.items():
        yield Case(
            group="convolution",
            name=name,
            call=call,
            args=(arg("i8", 2, 6, 6, 3), arg("i8", 3, 3, 3, 4)),
        )
    yield Case(
        group="convolution",
        name="conv_transpose",
        call=lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        args=(arg("f32", 1, 4, 4, 3), arg("f32", 3, 3, 3, 2)),
    )
    yield Case(
        group="convolution",
        name="convolve",
        call=lambda x, w: jnp.convolve(x, w, "same"),
        args=(arg("f32", 20), arg("f32", 5)),
    )
    yield Case(
        group="convolution",
        name="local",
        call=lambda x, w: lax.conv_general_dilated_local(x, w, (1, 1), "VALID", (2, 2)),
        args=(arg("f32", 1, 2, 4, 4), arg("f32", 3, 8, 3, 3)),
    )
    yield Case(
        group="convolution",
        name="patches",
        call=lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"),
        args=(arg("f32", 1, 2, 4, 4),),
    )
    for kind in ("f32", "bf16", "f16"):
        for method in ("nearest", "linear", "cubic"):
            yield Case(
                group="convolution",
                name=f"resize-{method}-{kind}",
                call=lambda x, m=method: jax.image.resize(x, (2, 9, 7, 3), m),
                args=(arg(kind, 2, 5, 6, 3),),
            )


def _transforms() -> Iterator[Case]:
    for length in (1, 2, 3, 5, 8, 12, 16, 17, 30, 32, 60, 64, 97, 100, 128):
        for name in ("fft", "ifft", "rfft", "irfft"):
            if name == "irfft" and length == 1:
                continue
            call = getattr(jnp.fft, name)
            given = arg("f32" if name == "rfft" else "c64", 3, length)
            if name == "irfft":
                yield Case(
                    group="fft",
                    name=f"irfft-{length}",
                    call=lambda x, n=length: jnp.fft.irfft(x, n),
                    args=(arg("c64", 3, length // 2 + 1),),
                    slack=5,
                )
            else:
                yield Case(group="fft", name=f"{name}-{length}", call=call, args=(given,), slack=5)
    forms = {
        "fft2": (jnp.fft.fft2, "c64", (2, 6, 8)),
        "ifft2": (jnp.fft.ifft2, "c64", (2, 6, 8)),
        "rfft2": (jnp.fft.rfft2, "f32", (2, 6, 8)),
        "irfft2": (jnp.fft.irfft2, "c64", (2, 6, 5)),
        "fftn": (jnp.fft.fftn, "c64", (3, 4, 5)),
        "rfftn": (jnp.fft.rfftn, "f32", (3, 4, 5)),
        "irfftn": (jnp.fft.irfftn, "c64", (3, 4, 5)),
        "fft_axis": (lambda x: jnp.fft.fft(x, axis=0), "c64", (6, 4)),
        "fft_x64": (jnp.fft.fft, "c128", (2, 12)),
        "rfft_x64": (jnp.fft.rfft, "f64", (2, 15)),
        "irfft_x64": (jnp.fft.irfft, "c128", (2, 9)),
        "fftshift": (lambda x: jnp.fft.fftshift(jnp.fft.fft(x)), "c64", (2, 10)),
        "grad": (jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum()), "f32", (20,)),
        "dct": (lambda x: jax.scipy.fft.dct(x), "f32", (3, 12)),
        "stft": (lambda x: jax.scipy.signal.stft(x, nperseg=16)[2], "f32", (80,)),
        "large": (jnp.fft.fft, "c64", (1, 1000)),
        "large_power": (jnp.fft.rfft, "f32", (2, 1024)),
        "fftconvolve": (lambda x: jax.scipy.signal.fftconvolve(x[0], x[1]), "f32", (2, 20)),
        "vmapped": (jax.vmap(jnp.fft.fft2), "c64", (2, 4, 6)),
    }
    for name, (call, kind, shape) in forms.items():
        yield Case(group="fft", name=name, call=call, args=(arg(kind, *shape),), slack=5)


def _algebra() -> Iterator[Case]:
    def definite(x):  # type: ignore[no-untyped-def]
        return x @ jnp.conj(x.mT) + 4 * jnp.eye(x.shape[-1], dtype=x.dtype)

    forms = {
        "cholesky": lambda x: jnp.linalg.cholesky(definite(x)),
        "solve": lambda x: jnp.linalg.solve(definite(x), x[..., :2]),
        "inv": lambda x: jnp.linalg.inv(definite(x)),
        "det": lambda x: jnp.linalg.det(definite(x) / 8),
        "slogdet": lambda x: jnp.linalg.slogdet(definite(x)),
        "qr_r": lambda x: jnp.abs(jnp.linalg.qr(x)[1]),
        "triangular": lambda x: lax.linalg.triangular_solve(
            definite(x), x, left_side=True, lower=True
        ),
        "lstsq": lambda x: jnp.linalg.solve(definite(x).mT, x),
        "matrix_power": lambda x: jnp.linalg.matrix_power(x / 4, 5),
        "norm": lambda x: jnp.linalg.norm(x, axis=-1),
        "expm": lambda x: jax.scipy.linalg.expm(x / 4),
        "cho_solve": lambda x: jax.scipy.linalg.cho_solve(
            (jnp.linalg.cholesky(definite(x)), True), x
        ),
    }
    for name, call in forms.items():
        for kind in ("f32", "f64", "c64"):
            yield Case(
                group="linalg", name=f"{name}-{kind}", call=call, args=(arg(kind, 5, 5),), slack=20
            )
        if name not in ("expm", "cho_solve"):
            yield Case(
                group="linalg",
                name=f"{name}-batched",
                call=call,
                args=(arg("f32", 2, 4, 4),),
                slack=20,
            )
        yield Case(
            group="linalg",
            name=f"{name}-grad",
            call=lambda x, f=call: jax.grad(
                lambda y: sum((v**2).sum() for v in jax.tree.leaves(f(y)))
            )(x),
            args=(arg("f32", 4, 4),),
            slack=50,
        )
    for name, call in {
        "eigh": lambda x: jnp.linalg.eigvalsh(definite(x)),
        "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
        "eig": lambda x: jnp.linalg.eigvals(x),
        "pinv": lambda x: jnp.linalg.pinv(definite(x)),
    }.items():
        yield Case(
            group="linalg", name=f"{name}-f32", call=call, args=(arg("f32", 4, 4),), slack=20
        )
