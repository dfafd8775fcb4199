"""Many values to fewer: reductions, running ones, windows, sorts, top_k."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.operators.case import COMPLEX, FLOATS, INTEGERS, SIGNED, Case, arg

__all__ = ["cases"]

_REDUCTIONS = {
    "sum": (jnp.sum, (*FLOATS, "i8", "i32", "u8", "u32", "i64", "u64", "bool", *COMPLEX)),
    "prod": (jnp.prod, (*FLOATS, "i32", "u8", "u64", "c64")),
    "max": (jnp.max, FLOATS + INTEGERS + ("bool",)),
    "min": (jnp.min, FLOATS + INTEGERS + ("bool",)),
    "argmax": (jnp.argmax, FLOATS + INTEGERS + ("bool",)),
    "argmin": (jnp.argmin, ("f32", "bf16", "i32", "u8", "u32")),
    "any": (jnp.any, ("bool", "i32", "u8")),
    "all": (jnp.all, ("bool", "f32")),
    "mean": (jnp.mean, (*FLOATS, "c64")),
    "var": (jnp.var, ("f32", "bf16", "c64")),
    "logsumexp": (jax.nn.logsumexp, FLOATS),
    "median": (jnp.median, ("f32", "f16")),
    "ptp": (jnp.ptp, ("f32", "u8")),
    "count_nonzero": (jnp.count_nonzero, ("f32", "u8", "bool")),
    "nanmax": (jnp.nanmax, ("f32",)),
    "softmax": (jax.nn.softmax, FLOATS),
    "log_softmax": (jax.nn.log_softmax, ("f32", "bf16")),
    "standardize": (jax.nn.standardize, ("f32", "f16")),
}
_RUNNING = {
    "cumsum": (lax.cumsum, FLOATS + INTEGERS + ("c64",)),
    "cumprod": (lax.cumprod, ("f32", "bf16", "i32", "u8", "c64")),
    "cummax": (lax.cummax, (*FLOATS, "i8", "i32", "u8", "u32", "u64")),
    "cummin": (lax.cummin, ("f32", "f16", "i32", "u16")),
    "cumlogsumexp": (lax.cumlogsumexp, ("f32", "bf16", "f64")),
}


def cases() -> Iterator[Case]:
    """About five hundred."""
    for n, (name, (call, kinds)) in enumerate(_REDUCTIONS.items()):
        for m, kind in enumerate(kinds):
            axis = ((1,), (0, 2), (0,), (2,))[(n + m) % 4]
            if name in ("argmax", "argmin", "median", "standardize", "ptp"):
                axis = axis[0]
            yield Case(
                group="reduce",
                name=f"{name}-{kind}",
                call=lambda x, f=call, a=axis: f(x, axis=a),
                args=(arg(kind, 3, 4, 5),),
            )
            if kind in ("f32", "u8"):
                yield Case(
                    group="reduce", name=f"{name}-all-{kind}", call=call, args=(arg(kind, 3, 7),)
                )
    for n, (name, (call, kinds)) in enumerate(_RUNNING.items()):
        for m, kind in enumerate(kinds):
            yield Case(
                group="cumulative",
                name=f"{name}-{kind}",
                call=lambda x, f=call, a=m % 2, r=bool(n % 2): f(x, axis=a, reverse=r),
                args=(arg(kind, 4, 6, **({"low": 0, "high": 3} if name == "cumprod" else {})),),
            )
            if kind == "f32":
                yield Case(
                    group="cumulative",
                    name=f"{name}-grad",
                    call=lambda x, f=call: jax.grad(lambda y: (f(y, axis=0) ** 2).sum())(x),
                    args=(arg(kind, 5, 3, low=0.5, high=2),),
                )
    yield Case(
        group="cumulative",
        name="associative_scan",
        call=lambda a, b: lax.associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (a, b)
        ),
        args=(arg("f32", 9, 3), arg("f32", 9, 3)),
    )
    yield from _long()
    yield from _several()
    yield from _windows()
    yield from _selected()
    yield from _sorts()


_LONG = 2048
"""Elements of a row that a GPU's threads reduce together, and hand on from warp to warp."""
_ALIKE = {
    "max": (-9, -2),
    "argmax": (-9, -2),
    "min": (3, 9),
    "argmin": (3, 9),
    "prod": (0.99, 1.01),
}
"""Bounds that show with which number a reduction begins where there are not enough of them."""


def _long() -> Iterator[Case]:
    """Long rows: what is right of five elements may be wrong, or refused, of thousands."""
    for name, (call, kinds) in _REDUCTIONS.items():
        for kind in kinds:
            if name == "prod" and kind not in FLOATS:
                continue
            low, high = _ALIKE.get(name, (None, None))
            if low is not None and low < 0 and kind not in (*FLOATS, *SIGNED):
                low, high = None, None
            yield Case(
                group="reduce",
                name=f"{name}-long-{kind}",
                call=lambda x, f=call: f(x, axis=1),
                args=(arg(kind, 2, _LONG, low=low, high=high),),
            )
    for kind in ("f32", "i8", "bf16"):
        yield Case(
            group="reduce",
            name=f"count-long-{kind}",
            call=lambda x: jnp.sum(x > 0, axis=1, dtype=np.int64),
            args=(arg(kind, 2, _LONG),),
        )
        yield Case(
            group="reduce",
            name=f"first-long-{kind}",
            call=lambda x: jnp.min(jnp.where(x > 1, jnp.arange(_LONG), _LONG), axis=1),
            args=(arg(kind, 2, _LONG),),
        )
        yield Case(
            group="reduce",
            name=f"wide-long-{kind}",
            call=lambda x: jnp.var(x, axis=1, dtype=np.float64),
            args=(arg(kind, 2, _LONG),),
        )


def _several() -> Iterator[Case]:
    computations = {
        "xor": (lambda x: lax.reduce(x, jnp.zeros((), x.dtype), lax.bitwise_xor, (1,)), INTEGERS),
        "and": (lambda x: lax.reduce(x, ~jnp.zeros((), x.dtype), lax.bitwise_and, (0,)), INTEGERS),
        "or": (
            lambda x: lax.reduce(x, jnp.zeros((), x.dtype), lax.bitwise_or, (0,)),
            ("u8", "i64"),
        ),
        "any_computation": (
            lambda x: lax.reduce(x, jnp.ones((), x.dtype), lambda a, b: a * b + a + b, (1,)),
            ("i32", "u32", "u8"),
        ),
        "two_results": (
            lambda x: lax.reduce(
                (x, x * x),
                (jnp.zeros((), x.dtype), jnp.zeros((), x.dtype)),
                lambda a, b: (a[0] + b[0], lax.max(a[1], b[1])),
                (1,),
            ),
            ("f32", "bf16", "i32", "u8", "u32"),
        ),
    }
    for name, (call, kinds) in computations.items():
        for kind in kinds:
            yield Case(group="reduce", name=f"{name}-{kind}", call=call, args=(arg(kind, 4, 5),))


# window, strides, padding, base dilation, window dilation
_WINDOWS = {
    "plain": ((1, 2, 2, 1), (1, 2, 2, 1), "VALID", None, None),
    "overlapping": ((1, 3, 3, 1), (1, 1, 1, 1), "VALID", None, None),
    "same": ((1, 3, 3, 1), (1, 2, 2, 1), "SAME", None, None),
    "padded": ((1, 2, 3, 1), (1, 1, 2, 1), ((0, 0), (2, 1), (1, 0), (0, 0)), None, None),
    "dilated": ((1, 2, 2, 1), (1, 1, 1, 1), "VALID", None, (1, 2, 3, 1)),
    "base_dilated": ((1, 3, 2, 1), (1, 1, 1, 1), "VALID", (1, 2, 2, 1), None),
    "both_dilated": (
        (1, 2, 2, 1),
        (1, 2, 1, 1),
        ((0, 0), (1, 1), (0, 2), (0, 0)),
        (1, 3, 1, 1),
        (1, 2, 2, 1),
    ),
    "channels": ((1, 1, 2, 3), (1, 1, 1, 1), "VALID", None, None),
    "batch": ((2, 1, 1, 1), (1, 1, 1, 1), "VALID", None, None),
}
_COMPUTATIONS = {
    "max": (lax.max, lambda d: _least(d)),
    "min": (lax.min, lambda d: -_least(d) if d.kind not in "iu" else jnp.iinfo(d).max),
    "add": (lax.add, lambda d: 0),
    "mul": (lax.mul, lambda d: 1),
}


def _least(dtype):  # type: ignore[no-untyped-def]
    return jnp.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _windows() -> Iterator[Case]:
    for n, form in enumerate(_WINDOWS):
        for m, (name, (computation, first)) in enumerate(_COMPUTATIONS.items()):
            others = ("i32", "bf16", "u8", "f16", "i8", "u32", "f64", "i64")
            for kind in ("f32", others[(n + 3 * m) % len(others)]):
                yield Case(
                    group="reduce_window",
                    name=f"{name}-{form}-{kind}",
                    call=lambda x, c=computation, i=first, form=form: lax.reduce_window(
                        x, np.asarray(i(x.dtype), x.dtype), c, *_WINDOWS[form]
                    ),
                    args=(arg(kind, 2, 6, 7, 3, low=1, high=3),),
                )
    for kind in ("f32", "i32", "u8"):
        yield Case(
            group="reduce_window",
            name=f"two_operands-{kind}",
            call=lambda x: lax.reduce_window(
                (x, x * x),
                (jnp.zeros((), x.dtype), jnp.zeros((), x.dtype)),
                lambda a, b: (a[0] + b[0], lax.max(a[1], b[1])),
                (2, 3),
                (1, 2),
                "SAME",
            ),
            args=(arg(kind, 6, 8, low=0),),
        )
        yield Case(
            group="reduce_window",
            name=f"any_computation-{kind}",
            call=lambda x: lax.reduce_window(
                x, jnp.ones((), x.dtype), lambda a, b: a * b + a + b, (2, 2), (1, 1), "VALID"
            ),
            args=(arg(kind, 5, 5, low=0, high=2),),
        )
    for name, call, shape in (
        ("1d", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (2,), "SAME"), (9,)),
        (
            "3d",
            lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 2, 1), (1, 2, 1, 2, 1), "SAME"),
            (1, 4, 5, 6, 2),
        ),
        (
            "nchw",
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
            (2, 3, 6, 6),
        ),
        ("scalar", lambda x: lax.reduce_window(x, 0.0, lax.add, (), (), "VALID"), ()),
        ("whole", lambda x: lax.reduce_window(x, 0.0, lax.add, (4, 5), (1, 1), "VALID"), (4, 5)),
        (
            "vmapped",
            jax.vmap(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 1), "SAME")),
            (3, 5, 6),
        ),
    ):
        yield Case(group="reduce_window", name=name, call=call, args=(arg("f32", *shape),))


def _selected() -> Iterator[Case]:
    for n, (form, (window, strides, padding, base, dilation)) in enumerate(_WINDOWS.items()):
        kinds = ("f32", ("bf16", "f16", "f64")[n % 3])
        for kind in kinds:
            for name, computation, first in (("max", lax.max, -jnp.inf), ("min", lax.min, jnp.inf)):
                if base or dilation:
                    continue  # JAX has no gradient of these

                def call(x, c=computation, i=first, w=window, s=strides, p=padding):  # type: ignore[no-untyped-def]
                    def loss(y):  # type: ignore[no-untyped-def]
                        z = lax.reduce_window(y, np.asarray(i, y.dtype), c, w, s, p)
                        return (z * jnp.arange(z.size, dtype=z.dtype).reshape(z.shape) / 64).sum()

                    return jax.grad(loss)(x)

                yield Case(
                    group="select_and_scatter",
                    name=f"{name}-{form}-{kind}",
                    call=call,
                    args=(arg(kind, 2, 6, 7, 3),),
                )
    for kind in ("f32", "i32", "u8", "bf16"):
        for padding in ("VALID", "SAME"):
            yield Case(
                group="select_and_scatter",
                name=f"plain-{padding.lower()}-{kind}",
                call=lambda x, y, p=padding: _select_and_scatter(x, y, p),
                args=(arg(kind, 6, 6, low=0), arg(kind, 3, 3, low=0)),
            )
    for kind in ("f32", "f64"):
        yield Case(
            group="select_and_scatter",
            name=f"second_derivative-{kind}",
            call=lambda x: jax.jvp(
                jax.grad(
                    lambda y: (
                        lax.reduce_window(
                            y, np.asarray(-np.inf, y.dtype), lax.max, (2, 2), (1, 1), "VALID"
                        )
                        ** 3
                    ).sum()
                ),
                (x,),
                (jnp.ones_like(x),),
            )[1],
            args=(arg(kind, 5, 5),),
        )
        yield Case(
            group="select_and_scatter",
            name=f"forward-{kind}",
            call=lambda x: jax.jvp(
                lambda y: lax.reduce_window(
                    y, np.asarray(-np.inf, y.dtype), lax.max, (2, 3), (2, 1), "SAME"
                ),
                (x,),
                (x * 2 + 1,),
            ),
            args=(arg(kind, 5, 5),),
        )
        yield Case(
            group="select_and_scatter",
            name=f"vmapped-{kind}",
            call=jax.vmap(
                jax.grad(
                    lambda y: (
                        lax.reduce_window(
                            y, np.asarray(-np.inf, y.dtype), lax.max, (2, 2), (2, 2), "VALID"
                        )
                        ** 2
                    ).sum()
                )
            ),
            args=(arg(kind, 3, 6, 6),),
        )


def _select_and_scatter(x, y, padding):  # type: ignore[no-untyped-def]
    from jax._src.lax import windowed_reductions

    zero = jnp.zeros((), x.dtype)
    return windowed_reductions._select_and_scatter(
        x,
        lax.ge,
        (2, 2),
        (2, 2),
        lax.padtype_to_pads(x.shape, (2, 2), (2, 2), padding),
        y,
        zero,
        lax.add,
    )


def _sorts() -> Iterator[Case]:
    for n, kind in enumerate(FLOATS + INTEGERS + ("bool",)):
        yield Case(
            group="sort",
            name=f"sort-{kind}",
            call=lambda x, a=n % 2: lax.sort(x, dimension=a),
            args=(arg(kind, 5, 7),),
        )
        yield Case(
            group="sort",
            name=f"argsort-{kind}",
            call=lambda x: jnp.argsort(x, axis=1, stable=True),
            args=(arg(kind, 4, 6),),
        )
        yield Case(
            group="sort",
            name=f"keys2-{kind}",
            call=lambda x, y: lax.sort((x, y, x + y if x.dtype != bool else x), num_keys=2),
            args=(arg(kind, 12, low=0, high=3), arg(kind, 12)),
        )
        if kind != "bool":
            yield Case(
                group="sort",
                name=f"top_k-{kind}",
                call=lambda x: lax.top_k(x, 3),
                args=(arg(kind, 4, 9, **_spread(kind)),),
            )
            yield Case(
                group="sort",
                name=f"top_k-axis-{kind}",
                call=lambda x: lax.top_k(x, 2, axis=0),
                args=(arg(kind, 6, 3, **_spread(kind)),),
            )
    forms = {
        "sort-c64": (lax.sort, (arg("c64", 9),)),
        "descending": (lambda x: jnp.sort(x, descending=True), (arg("f32", 3, 8),)),
        "keys3": (
            lambda x, y, z: lax.sort((x, y, z), num_keys=3),
            (arg("i32", 20, low=0, high=2), arg("f32", 20), arg("u8", 20)),
        ),
        "pairs": (lambda x, y: lax.sort((x, y), num_keys=1), (arg("f32", 4, 9), arg("bf16", 4, 9))),
        "lexsort": (
            lambda x, y: jnp.lexsort((x, y)),
            (arg("f32", 15), arg("i32", 15, low=0, high=3)),
        ),
        "vmapped": (jax.vmap(jnp.argsort), (arg("f32", 5, 9),)),
        "sort_grad": (
            lambda x: jax.grad(lambda y: (jnp.sort(y) * jnp.arange(9.0)).sum())(x),
            (arg("f32", 9),),
        ),
        "top_k_grad": (
            lambda x: jax.grad(lambda y: (lax.top_k(y, 3)[0] ** 2).sum())(x),
            (arg("f32", 4, 9),),
        ),
        "searchsorted": (
            lambda x, y: jnp.searchsorted(jnp.sort(x), y),
            (arg("f32", 20), arg("f32", 7)),
        ),
        "searchsorted_u8": (
            lambda x, y: jnp.searchsorted(jnp.sort(x), y),
            (arg("u8", 20), arg("u8", 7)),
        ),
        "unique": (lambda x: jnp.unique(x, size=6, fill_value=0), (arg("i32", 12, low=0, high=5),)),
        "percentile": (lambda x: jnp.percentile(x, 30.0, axis=0), (arg("f32", 9, 3),)),
        "nonzero": (lambda x: jnp.nonzero(x > 0, size=8, fill_value=-1), (arg("f32", 4, 4),)),
        "partition": (lambda x: jnp.sort(jnp.partition(x, 3)[:4]), (arg("f32", 9),)),
        "one": (lambda x: lax.sort(x), (arg("f32", 1),)),
        "top_k_all": (lambda x: lax.top_k(x, 7), (arg("f32", 7),)),
        "top_k_one": (lambda x: lax.top_k(x, 1), (arg("f32", 3, 7),)),
        "top_k_3d": (lambda x: lax.top_k(x, 4), (arg("f32", 2, 3, 9),)),
        "approx_max_k": (lambda x: lax.approx_max_k(x, 3), (arg("f32", 32),)),
    }
    for name, (call, args) in forms.items():
        yield Case(group="sort", name=name, call=call, args=args)


def _spread(kind: str) -> dict[str, int]:
    """A range in which the order as signed and as unsigned numbers differ."""
    if kind in FLOATS:
        return {}
    if kind in ("u8", "u16", "u32", "u64"):
        return {"low": 0, "high": 250}
    return {"low": -120, "high": 120}
