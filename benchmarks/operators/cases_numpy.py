"""Functions of jax.numpy, jax.scipy and jax.nn as models call them, and NumPy's ways to index."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from benchmarks.operators.case import Case, arg

__all__ = ["cases"]

_X, _Y = ((4, 6), -2, 2), ((4, 6), 0.2, 3)
_V, _CUBE, _SQUARE = ((9,), -2, 2), ((2, 3, 5), -2, 2), ((4, 4), -2, 2)
_IMAGE = ((1, 6, 6, 3), -2, 2)

_Form = tuple[Callable[..., Any], tuple[tuple[tuple[int, ...], float, float], ...]]

_ARRAYS: dict[str, _Form] = {
    "append": (lambda x, y: jnp.append(x, y, 0), (_X, _Y)),
    "apply_along_axis": (lambda x: jnp.apply_along_axis(jnp.cumsum, 1, x), (_X,)),
    "argpartition": (lambda x: jnp.sort(jnp.argpartition(x, 3)[..., :3]), (_X,)),
    "argsort_descending": (lambda x: jnp.argsort(x, descending=True), (_X,)),
    "argwhere": (lambda x: jnp.argwhere(x > 0, size=9, fill_value=-1), (_X,)),
    "array_split": (lambda x: jnp.array_split(x, 4, 1), (_X,)),
    "average": (lambda x, y: jnp.average(x, 1, y), (_X, _Y)),
    "bincount": (lambda x: jnp.bincount(jnp.abs(x).astype(int).ravel(), length=4), (_X,)),
    "block": (lambda x: jnp.block([[x, x * 2], [x - 1, x]]), (_X,)),
    "broadcast_arrays": (lambda x, y: jnp.broadcast_arrays(x[:, :1], y[:1]), (_X, _Y)),
    "choose": (
        lambda x, y: jnp.choose((x > 0).astype(int), [x, y], mode="clip"),
        (_X, _Y),
    ),
    "column_stack": (lambda x, y: jnp.column_stack([x, y]), (_X, _Y)),
    "compress": (lambda x: jnp.compress(jnp.array([True, False, True]), x, 1, size=2), (_CUBE,)),
    "convolve": (lambda x, y: jnp.convolve(x, y[0], "same"), (_V, _Y)),
    "correlate": (lambda x, y: jnp.correlate(x, y[0], "full"), (_V, _Y)),
    "cross": (lambda x, y: jnp.cross(x[:, :3], y[:, 3:]), (_X, _Y)),
    "cummulative_max": (lambda x: lax.cummax(x, 1, reverse=True), (_X,)),
    "delete": (lambda x: jnp.delete(x, jnp.array([1, 3]), 1), (_X,)),
    "diag": (jnp.diag, (_SQUARE,)),
    "diagflat": (jnp.diagflat, (_V,)),
    "diagonal": (lambda x: jnp.diagonal(x, 1, 1, 2), (_CUBE,)),
    "digitize": (lambda x: jnp.digitize(x, jnp.array([-1.0, 0.0, 1.5])), (_X,)),
    "divmod": (lambda x, y: jnp.divmod(x, y), (_X, _Y)),
    "ediff1d": (jnp.ediff1d, (_V,)),
    "einsum_batch": (lambda x: jnp.einsum("bij,bkj->bik", x, x), (_CUBE,)),
    "einsum_diagonal": (lambda x: jnp.einsum("ii->i", x), (_SQUARE,)),
    "einsum_many": (lambda x, y: jnp.einsum("ij,kj,kl->il", x, y, x), (_X, _Y)),
    "einsum_outer": (lambda x: jnp.einsum("i,j->ij", x, x), (_V,)),
    "einsum_trace": (lambda x: jnp.einsum("bii->b", x[:, :3, :3]), (_CUBE,)),
    "extract": (lambda x: jnp.extract(x > 0, x, size=8), (_X,)),
    "fill_diagonal": (lambda x: jnp.fill_diagonal(x, 5.0, inplace=False), (_SQUARE,)),
    "fliplr": (jnp.fliplr, (_X,)),
    "float_power": (lambda x, y: jnp.float_power(y, x), (_X, _Y)),
    "frexp": (jnp.frexp, (_X,)),
    "geomspace": (lambda x: x[0] * jnp.geomspace(1, 100, 6), (_X,)),
    "heaviside": (jnp.heaviside, (_X, _Y)),
    "histogram": (lambda x: jnp.histogram(x, bins=5, range=(-2, 2)), (_X,)),
    "histogram2d": (
        lambda x: jnp.histogram2d(x[0], x[1], bins=3, range=((-2, 2), (-2, 2))),
        (_X,),
    ),
    "hypot": (jnp.hypot, (_X, _Y)),
    "in1d": (lambda x: jnp.isin(jnp.round(x), jnp.array([0.0, 1.0])), (_X,)),
    "inner": (jnp.inner, (_X, _Y)),
    "insert": (lambda x: jnp.insert(x, 2, 7.0, 1), (_X,)),
    "intersect1d": (
        lambda x: jnp.intersect1d(jnp.round(x[0]), jnp.round(x[1]), size=4, fill_value=9),
        (_X,),
    ),
    "isclose": (lambda x: jnp.isclose(x, jnp.round(x), atol=0.2), (_X,)),
    "kron": (lambda x, y: jnp.kron(x[:2, :2], y[:2, :3]), (_X, _Y)),
    "ldexp": (lambda x: jnp.ldexp(x, jnp.arange(6)), (_X,)),
    "lexsort": (lambda x: jnp.lexsort((x[0], jnp.round(x[1]))), (_X,)),
    "logaddexp": (jnp.logaddexp, (_X, _Y)),
    "logaddexp2": (jnp.logaddexp2, (_X, _Y)),
    "mask_indices": (lambda x: x[jnp.triu_indices(4)], (_SQUARE,)),
    "matvec": (lambda x, y: x @ y[0], (_X, _Y)),
    "median_axes": (lambda x: jnp.median(x, (0, 2)), (_CUBE,)),
    "modf": (jnp.modf, (_X,)),
    "nan_to_num": (lambda x: jnp.nan_to_num(jnp.sqrt(x)), (_X,)),
    "nanargmax": (lambda x: jnp.nanargmax(jnp.sqrt(x), 1), (_X,)),
    "nancumsum": (lambda x: jnp.nancumsum(jnp.sqrt(x), 1), (_X,)),
    "nanmedian": (lambda x: jnp.nanmedian(jnp.sqrt(x + 1), 1), (_X,)),
    "nanquantile": (lambda x: jnp.nanquantile(jnp.sqrt(x + 1), 0.3, 1), (_X,)),
    "nanvar": (lambda x: jnp.nanvar(jnp.sqrt(x), 1), (_X,)),
    "nextafter": (jnp.nextafter, (_X, _Y)),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=12), (_X,)),
    "outer": (jnp.outer, (_V, _V)),
    "pad_edge": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), "edge"), (_X,)),
    "pad_linear": (lambda x: jnp.pad(x, 2, "linear_ramp"), (_X,)),
    "pad_maximum": (lambda x: jnp.pad(x, 1, "maximum"), (_X,)),
    "pad_reflect": (lambda x: jnp.pad(x, ((1, 2), (2, 1)), "reflect"), (_X,)),
    "pad_symmetric": (lambda x: jnp.pad(x, 3, "symmetric"), (_X,)),
    "pad_wrap": (lambda x: jnp.pad(x, 2, "wrap"), (_X,)),
    "partition": (lambda x: jnp.partition(x, 3)[..., 3], (_X,)),
    "percentile": (lambda x: jnp.percentile(x, jnp.array([10.0, 50.0, 90.0]), 1), (_X,)),
    "piecewise": (
        lambda x: jnp.piecewise(x, [x < -1, x > 1], [lambda v: -v, lambda v: v * v, 0.0]),
        (_X,),
    ),
    "poly": (lambda x: jnp.polyfit(jnp.arange(9.0), x, 2), (_V,)),
    "polyint": (lambda x: jnp.polyint(x, 2), (_V,)),
    "polymul": (lambda x: jnp.polymul(x, x[:3]), (_V,)),
    "putmask": (lambda x, y: jnp.place(x, x > 0, y.ravel(), inplace=False), (_X, _Y)),
    "quantile_lower": (lambda x: jnp.quantile(x, 0.4, 0, method="lower"), (_X,)),
    "ravel_multi_index": (
        lambda x: jnp.ravel_multi_index(
            (jnp.arange(4), jnp.abs(x[:, 0]).astype(int)), (4, 6), mode="clip"
        ),
        (_X,),
    ),
    "remainder_negative": (lambda x, y: jnp.remainder(x, -y), (_X, _Y)),
    "repeat": (lambda x: jnp.repeat(x, jnp.array([1, 0, 2, 1]), 0, total_repeat_length=4), (_X,)),
    "resize": (lambda x: jnp.resize(x, (3, 7)), (_X,)),
    "rollaxis": (lambda x: jnp.rollaxis(x, 2), (_CUBE,)),
    "rot90": (lambda x: jnp.rot90(x, 3), (_X,)),
    "round_places": (lambda x: jnp.round(x, 1), (_X,)),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.sort(x), x + 0.1), (_V,)),
    "searchsorted_sort": (lambda x: jnp.searchsorted(jnp.sort(x), x, method="sort"), (_V,)),
    "select": (lambda x: jnp.select([x > 1, x > 0], [x, -x], 3.0), (_X,)),
    "setdiff1d": (
        lambda x: jnp.setdiff1d(jnp.round(x), jnp.array([0.0, 1.0]), size=5, fill_value=7),
        (_V,),
    ),
    "signbit": (jnp.signbit, (_X,)),
    "sinc": (jnp.sinc, (_X,)),
    "sort_complex": (lambda x: jnp.sort_complex(jnp.round(x)), (_V,)),
    "spacing": (jnp.spacing, (_Y,)),
    "take_along_axis": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), (_X,)),
    "tensordot": (lambda x: jnp.tensordot(x, x, ((1, 2), (1, 2))), (_CUBE,)),
    "tile": (lambda x: jnp.tile(x, (2, 1, 3)), (_X,)),
    "trace": (lambda x: jnp.trace(x, 1), (_SQUARE,)),
    "tril": (lambda x: jnp.tril(x, -1), (_SQUARE,)),
    "trim_zeros": (lambda x: jnp.trapezoid(x, dx=0.5), (_X,)),
    "unique": (lambda x: jnp.unique(jnp.round(x), size=6, fill_value=9, return_inverse=True), (_X,)),
    "unique_counts": (
        lambda x: jnp.unique(jnp.round(x), size=6, return_counts=True, return_index=True),
        (_V,),
    ),
    "unravel_index": (lambda x: jnp.unravel_index(jnp.argmax(x), x.shape), (_X,)),
    "unwrap": (lambda x: jnp.unwrap(x * 3), (_X,)),
    "vander": (lambda x: jnp.vander(x, 4), (_V,)),
    "vdot": (jnp.vdot, (_X, _Y)),
    "where_size": (lambda x: jnp.where(x > 0, size=7, fill_value=0), (_X,)),
}
_INDEXING: dict[str, _Form] = {
    "at_add_many": (lambda x: x.at[jnp.array([0, 0, 2]), 1:3].add(1.0), (_X,)),
    "at_apply": (lambda x: x.at[1].apply(jnp.sin), (_X,)),
    "at_mask": (lambda x: x.at[x > 0].set(0.0), (_X,)),
    "at_max": (lambda x: x.at[:, jnp.array([1, 3])].max(0.5), (_X,)),
    "at_negative": (lambda x: x.at[-1, ::-2].multiply(2.0), (_X,)),
    "at_step": (lambda x: x.at[::2, 1::3].set(x[1::2, :2]), (_X,)),
    "boolean_where": (lambda x: jnp.where(x[:, :1] > 0, x, 0), (_X,)),
    "ellipsis": (lambda x: x[..., None, 1], (_CUBE,)),
    "fancy_apart": (lambda x: x[jnp.array([0, 1]), :, jnp.array([2, 4])], (_CUBE,)),
    "fancy_grid": (lambda x: x[jnp.ix_(jnp.array([3, 0]), jnp.array([1, 5, 2]))], (_X,)),
    "fancy_negative": (lambda x: x[jnp.array([-1, 0, -3])], (_X,)),
    "fancy_two": (lambda x: x[jnp.array([[0, 1], [2, 3]]), jnp.array([4, 5])], (_X,)),
    "fill": (lambda x: x.at[jnp.array([1, 9])].get(mode="fill", fill_value=3.0), (_X,)),
    "dynamic_scalar": (lambda x: x[jnp.argmax(x[:, 0])], (_X,)),
    "reversed": (lambda x: x[::-1, ::-2], (_X,)),
    "slice_in_scan": (
        lambda x: lax.scan(lambda c, i: (c + x[i], x[i, 1:3]), x[0], jnp.arange(4))[0],
        (_X,),
    ),
    "take_fill": (lambda x: jnp.take(x, jnp.array([0, 7, -1]), 0), (_X,)),
    "take_clip": (lambda x: jnp.take(x, jnp.array([0, 7, -9]), 1, mode="clip"), (_X,)),
    "take_wrap": (lambda x: jnp.take(x, jnp.array([0, 7, -9]), 1, mode="wrap"), (_X,)),
}
_SCIPY: dict[str, _Form] = {
    "convolve2d": (lambda x, y: jsp.signal.convolve2d(x, y[:2, :3], "same"), (_X, _Y)),
    "cdf_beta": (lambda y: jsp.stats.beta.cdf(y / 4, 1.5, 2.0), (_Y,)),
    "cdf_gamma": (lambda y: jsp.stats.gamma.cdf(y, 1.5), (_Y,)),
    "cdf_norm": (jsp.stats.norm.cdf, (_X,)),
    "detrend": (jsp.signal.detrend, (_X,)),
    "eigh": (lambda x: jnp.linalg.eigvalsh(x + x.T), (_SQUARE,)),
    "fftconvolve": (lambda x, y: jsp.signal.fftconvolve(x, y[:2, :3]), (_X, _Y)),
    "gammasgn": (jsp.special.gammasgn, (_X,)),
    "idct": (lambda x: jsp.fft.idct(x, norm="ortho"), (_X,)),
    "logpdf_dirichlet": (lambda y: jsp.stats.dirichlet.logpdf(y[0] / y[0].sum(), y[1]), (_Y,)),
    "logpdf_mvn": (
        lambda x: jsp.stats.multivariate_normal.logpdf(x, jnp.zeros(6), jnp.eye(6) * 2),
        (_X,),
    ),
    "logpdf_t": (lambda x: jsp.stats.t.logpdf(x, 3.0), (_X,)),
    "logsumexp_weights": (lambda x, y: jsp.special.logsumexp(x, 1, b=y), (_X, _Y)),
    "lu": (lambda x: jsp.linalg.lu(x)[1:], (_SQUARE,)),
    "map_coordinates": (
        lambda x, y: jsp.ndimage.map_coordinates(x, [y[0], y[1]], 1, mode="nearest"),
        (_X, _Y),
    ),
    "pmf_poisson": (lambda y: jsp.stats.poisson.pmf(jnp.round(y), 1.5), (_Y,)),
    "ppf_norm": (lambda y: jsp.stats.norm.ppf(y / 4), (_Y,)),
    "rankdata": (jsp.stats.rankdata, (_V,)),
    "sem": (jsp.stats.sem, (_X,)),
    "sici_like": (lambda x: jsp.special.dawsn(x) if hasattr(jsp.special, "dawsn") else x, (_X,)),
    "solve_toeplitz": (lambda x: jsp.linalg.toeplitz(x[0]) @ x[1], (_X,)),
    "spectrogram": (
        lambda x: jsp.signal.stft(jnp.tile(x, 8), nperseg=16)[2],
        (_V,),
    ),
    "sqrtm_free": (lambda x: jnp.linalg.norm(x, 2), (_SQUARE,)),
    "welch": (lambda x: jsp.signal.welch(jnp.tile(x, 8), nperseg=16)[1], (_V,)),
    "zeta": (lambda y: jsp.special.zeta(y + 1.2, 1.0), (_Y,)),
}
_NETWORKS: dict[str, _Form] = {
    **{
        name: (getattr(jax.nn, name), (_X,))
        for name in (
            "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid "
            "log_softmax mish relu relu6 selu sigmoid silu soft_sign softmax softplus "
            "sparse_plus sparse_sigmoid squareplus standardize swish"
        ).split()
    },
    "attention": (
        lambda x: jax.nn.dot_product_attention(*[x.reshape(1, 6, 2, 9)] * 3),
        (((1, 6, 6, 3), -1, 1),),
    ),
    "attention_causal": (
        lambda x: jax.nn.dot_product_attention(*[x.reshape(1, 6, 2, 9)] * 3, is_causal=True),
        (((1, 6, 6, 3), -1, 1),),
    ),
    "attention_grouped": (
        lambda x: jax.nn.dot_product_attention(
            x.reshape(1, 3, 4, 9), x[:, :3].reshape(1, 3, 2, 9), x[:, 3:].reshape(1, 3, 2, 9)
        ),
        (((1, 6, 6, 3), -1, 1),),
    ),
    "logmeanexp": (lambda x: jax.nn.logmeanexp(x, 0), (_X,)),
    "one_hot_axis": (lambda x: jax.nn.one_hot(jnp.abs(x).astype(int), 3, axis=0), (_X,)),
    "pool_average": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9,
        (_IMAGE,),
    ),
    "resize_cubic": (lambda x: jax.image.resize(x, (1, 9, 4, 3), "cubic"), (_IMAGE,)),
    "resize_lanczos": (lambda x: jax.image.resize(x, (1, 4, 9, 3), "lanczos3"), (_IMAGE,)),
    "resize_linear": (lambda x: jax.image.resize(x, (1, 12, 12, 3), "linear"), (_IMAGE,)),
    "resize_nearest": (lambda x: jax.image.resize(x, (1, 9, 4, 3), "nearest"), (_IMAGE,)),
    "scale_translate": (
        lambda x: jax.image.scale_and_translate(
            x, (1, 5, 5, 3), (1, 2), jnp.array([0.8, 1.2]), jnp.array([0.5, -0.3]), "linear"
        ),
        (_IMAGE,),
    ),
    "batch_norm": (lambda x: (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-3), (_IMAGE,)),
    "group_norm": (
        lambda x: jax.nn.standardize(x.reshape(1, 36, 3, 1), (1, 3)).reshape(x.shape),
        (_IMAGE,),
    ),
    "cross_entropy": (
        lambda x: -(jax.nn.log_softmax(x, 0) * jax.nn.one_hot(jnp.arange(6) % 4, 4, axis=0)).sum(0),
        (_X,),
    ),
    "softmax_first": (lambda x: jax.nn.softmax(x, 0), (_CUBE,)),
    "softmax_middle": (lambda x: jax.nn.softmax(x, 1), (_CUBE,)),
    "softmax_where": (lambda x: jax.nn.softmax(x, 1, where=x > -1), (_X,)),
    "softmax_grad": (jax.grad(lambda x: (jax.nn.softmax(x, 0) ** 2).sum()), (_X,)),
    "top_k_grad": (jax.grad(lambda x: lax.top_k(x, 2)[0].sum()), (_X,)),
    "rope": (
        lambda x: jnp.concatenate(
            [
                x[..., ::2] * jnp.cos(jnp.arange(3.0)) - x[..., 1::2] * jnp.sin(jnp.arange(3.0)),
                x[..., 1::2] * jnp.cos(jnp.arange(3.0)) + x[..., ::2] * jnp.sin(jnp.arange(3.0)),
            ],
            -1,
        ),
        (_X,),
    ),
    "rms_norm": (lambda x: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6), (_X,)),
    "depth_to_space": (
        lambda x: jnp.swapaxes(x.reshape(3, 6, 2, 3, 3, 1), 2, 3).reshape(3, 18, 6),
        (((1, 18, 6, 3), -2, 2),),
    ),
}


def cases() -> Iterator[Case]:
    """About two hundred, in f32."""
    for group, forms in {
        "numpy": _ARRAYS,
        "indexing": _INDEXING,
        "scipy": _SCIPY,
        "network": _NETWORKS,
    }.items():
        for name, (call, arguments) in forms.items():
            yield Case(
                group=group,
                name=name,
                call=call,
                args=tuple(arg("f32", *shape, low=low, high=high) for shape, low, high in arguments),
                slack=5,
            )
