"""Special functions, random numbers, control flow, and derivatives of plain functions."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from benchmarks.operators.case import DTYPES, FLOATS, Case, arg

__all__ = ["cases"]

# Function and range of arguments, of the first and of the others.
_SPECIAL = {
    "erf": (lax.erf, ((-3, 3),)),
    "erfc": (lax.erfc, ((-3, 3),)),
    "erf_inv": (lax.erf_inv, ((-0.95, 0.95),)),
    "digamma": (lax.digamma, ((0.2, 6),)),
    "digamma_negative": (lax.digamma, ((-2.8, -2.2),)),
    "lgamma": (lax.lgamma, ((0.2, 6),)),
    "lgamma_negative": (lax.lgamma, ((-2.8, -2.2),)),
    "bessel_i0e": (lax.bessel_i0e, ((-5, 12),)),
    "bessel_i1e": (lax.bessel_i1e, ((-5, 12),)),
    "igamma": (lax.igamma, ((0.5, 4), (0.2, 6))),
    "igammac": (lax.igammac, ((0.5, 4), (0.2, 6))),
    "igamma_grad_a": (lax.igamma_grad_a, ((0.5, 4), (0.2, 6))),
    "random_gamma_grad": (lax.random_gamma_grad, ((0.5, 4), (0.2, 6))),
    "betainc": (lax.betainc, ((0.5, 4), (0.5, 4), (0.05, 0.95))),
    "zeta": (lax.zeta, ((1.5, 6), (0.5, 4))),
    "polygamma": (lambda x: lax.polygamma(jnp.full_like(x, 2), x), ((0.5, 5),)),
    "ndtri": (jsp.special.ndtri, ((0.03, 0.97),)),
    "log_ndtr": (jsp.special.log_ndtr, ((-3, 3),)),
    "expit": (jsp.special.expit, ((-4, 4),)),
    "logit": (jsp.special.logit, ((0.05, 0.95),)),
    "xlogy": (jsp.special.xlogy, ((0.1, 3), (0.1, 3))),
    "entr": (jsp.special.entr, ((0.1, 3),)),
    "gammaln_grad": (lambda x: jax.vmap(jax.grad(jsp.special.gammaln))(x), ((0.3, 5),)),
    "erf_grad": (lambda x: jax.vmap(jax.grad(lax.erf))(x), ((-2, 2),)),
    "i0": (jsp.special.i0, ((-3, 3),)),
    "i1": (jsp.special.i1, ((-3, 3),)),
    "beta": (jsp.special.beta, ((0.5, 3), (0.5, 3))),
    "gamma": (jsp.special.gamma, ((0.5, 4),)),
    "factorial": (jsp.special.factorial, ((0.5, 5),)),
    "spence": (jsp.special.spence, ((0.2, 3),)),
    "expi": (jsp.special.expi, ((0.3, 4),)),
    "exp1": (jsp.special.exp1, ((0.3, 4),)),
    "kl_div": (jsp.special.kl_div, ((0.1, 3), (0.1, 3))),
    "rel_entr": (jsp.special.rel_entr, ((0.1, 3), (0.1, 3))),
    "multigammaln": (lambda x: jsp.special.multigammaln(x, 3), ((2, 6),)),
    "hyp1f1": (lambda x: jsp.special.hyp1f1(1.5, 2.5, x), ((-2, 2),)),
    "sph_harm_like": (lambda x: jnp.cos(3 * x) * jnp.sqrt(1 - x * x), ((-0.9, 0.9),)),
}


_WIDE = ("hyp1f1", "expi", "exp1", "spence", "ndtri", "log_ndtr")
"""What JAX itself has in 32 and 64 bits only."""


def cases() -> Iterator[Case]:
    """About four hundred."""
    for name, (call, ranges) in _SPECIAL.items():
        for kind in FLOATS:
            if kind in ("f16", "bf16") and name in _WIDE:
                continue
            yield Case(
                group="special",
                name=f"{name}-{kind}",
                call=call,
                args=tuple(arg(kind, 11, low=low, high=high) for low, high in ranges),
                slack=3,
            )
    yield from _random()
    yield from _control()
    yield from _derivatives()


def _random() -> Iterator[Case]:
    def drawn(f):  # type: ignore[no-untyped-def]
        return lambda seed: f(jax.random.key(seed.reshape(())))

    forms = {
        "bits8": lambda k: jax.random.bits(k, (5,), jnp.uint8),
        "bits16": lambda k: jax.random.bits(k, (5,), jnp.uint16),
        "bits32": lambda k: jax.random.bits(k, (4, 5), jnp.uint32),
        "bits64_x64": lambda k: jax.random.bits(k, (5,), jnp.uint64),
        "odd": lambda k: jax.random.bits(k, (7,), jnp.uint32),
        "one": lambda k: jax.random.bits(k, (), jnp.uint32),
        "fold_in": lambda k: jax.random.key_data(jax.random.fold_in(k, 7)),
        "split": lambda k: jax.random.key_data(jax.random.split(k, 5)),
        "normal": lambda k: jax.random.normal(k, (4, 6)),
        "normal_bf16": lambda k: jax.random.normal(k, (4, 6), jnp.bfloat16),
        "normal_f16": lambda k: jax.random.normal(k, (4, 6), jnp.float16),
        "normal_x64": lambda k: jax.random.normal(k, (4, 6), jnp.float64),
        "normal_c64": lambda k: jax.random.normal(k, (4, 6), jnp.complex64),
        "uniform": lambda k: jax.random.uniform(k, (4, 6)),
        "uniform_bf16": lambda k: jax.random.uniform(k, (4, 6), jnp.bfloat16),
        "uniform_f16": lambda k: jax.random.uniform(k, (4, 6), jnp.float16),
        "uniform_x64": lambda k: jax.random.uniform(k, (4, 6), jnp.float64),
        "randint": lambda k: jax.random.randint(k, (9,), 3, 90),
        "randint_i8": lambda k: jax.random.randint(k, (9,), -3, 90, jnp.int8),
        "randint_u8": lambda k: jax.random.randint(k, (9,), 3, 90, jnp.uint8),
        "randint_u32": lambda k: jax.random.randint(k, (9,), 3, 90, jnp.uint32),
        "randint_x64": lambda k: jax.random.randint(k, (9,), 3, 90, jnp.int64),
        "gamma": lambda k: jax.random.gamma(k, jnp.array([0.5, 1.5, 3.0])),
        "gamma_many": lambda k: jax.random.gamma(k, 2.0, (3, 4)),
        "beta": lambda k: jax.random.beta(k, 2.0, 3.0, (5,)),
        "dirichlet": lambda k: jax.random.dirichlet(k, jnp.ones(4)),
        "poisson": lambda k: jax.random.poisson(k, 3.0, (6,)),
        "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (9,)),
        "binomial": lambda k: jax.random.binomial(k, 9.0, 0.4, (5,)),
        "categorical": lambda k: jax.random.categorical(k, jnp.arange(6.0), shape=(9,)),
        "cauchy": lambda k: jax.random.cauchy(k, (6,)),
        "choice": lambda k: jax.random.choice(k, 12, (5,), replace=False),
        "choice_p": lambda k: jax.random.choice(k, 5, (7,), p=jnp.array([0.1, 0.2, 0.3, 0.2, 0.2])),
        "exponential": lambda k: jax.random.exponential(k, (6,)),
        "gumbel": lambda k: jax.random.gumbel(k, (6,)),
        "laplace": lambda k: jax.random.laplace(k, (6,)),
        "logistic": lambda k: jax.random.logistic(k, (6,)),
        "loggamma": lambda k: jax.random.loggamma(k, 1.5, (5,)),
        "maxwell": lambda k: jax.random.maxwell(k, (6,)),
        "multivariate_normal": lambda k: jax.random.multivariate_normal(
            k, jnp.zeros(3), jnp.eye(3) + 0.2, (4,)
        ),
        "orthogonal": lambda k: jnp.abs(jax.random.orthogonal(k, 3)),
        "pareto": lambda k: jax.random.pareto(k, 3.0, (6,)),
        "permutation": lambda k: jax.random.permutation(k, 12),
        "rademacher": lambda k: jax.random.rademacher(k, (9,)),
        "rayleigh": lambda k: jax.random.rayleigh(k, 2.0, (6,)),
        "t": lambda k: jax.random.t(k, 4.0, (6,)),
        "triangular": lambda k: jax.random.triangular(k, 0.0, 0.3, 1.0, (6,)),
        "truncated_normal": lambda k: jax.random.truncated_normal(k, -1.0, 2.0, (9,)),
        "wald": lambda k: jax.random.wald(k, 2.0, (6,)),
        "weibull": lambda k: jax.random.weibull_min(k, 1.0, 2.0, (6,)),
        "vmapped": lambda k: jax.vmap(lambda q: jax.random.normal(q, (3,)))(jax.random.split(k, 4)),
        "ball": lambda k: jax.random.ball(k, 3, shape=(2,)),
        "gamma_grad": lambda k: jax.grad(lambda a: jax.random.gamma(k, a))(1.7),
    }
    for name, call in forms.items():
        yield Case(
            group="random", name=name, call=drawn(call), args=(arg("u32", values=[42]),), slack=3
        )
    for algorithm, words in (("rbg", 4), ("unsafe_rbg", 4)):
        for draw in ("bits32", "normal", "uniform", "randint"):
            yield Case(
                group="random",
                name=f"{algorithm}-{draw}",
                call=lambda k, f=forms[draw], a=algorithm: f(jax.random.wrap_key_data(k, impl=a)),
                args=(arg("u32", words, high=2**31),),
            )
    for algorithm in ("RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT"):
        for kind in ("u8", "u32", "u64"):
            yield Case(
                group="random",
                name=f"generator-{algorithm.lower()}-{kind}",
                call=lambda k, a=algorithm, t=kind: lax.rng_bit_generator(
                    k, (3, 4), DTYPES[t], getattr(lax.RandomAlgorithm, a)
                ),
                args=(arg("u64", 2, high=2**31),),
            )


def _control() -> Iterator[Case]:
    forms = {
        "while": lambda x: lax.while_loop(
            lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2 - c[1] // 3), (0, x)
        )[1],
        "while_data": lambda x: lax.while_loop(
            lambda c: c.sum() < 100, lambda c: c + jnp.ones_like(c), x
        ),
        "fori": lambda x: lax.fori_loop(0, 4, lambda i, c: c.at[i].add(c[i + 1]), x),
        "scan": lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros_like(x[0]), x),
        "scan_reverse": lambda x: lax.scan(
            lambda c, y: (c + y, c), jnp.zeros_like(x[0]), x, reverse=True
        ),
        "scan_unroll": lambda x: lax.scan(
            lambda c, y: (c + y, c), jnp.zeros_like(x[0]), x, unroll=2
        ),
        "scan_no_input": lambda x: lax.scan(lambda c, _: (c + c, c[0]), x, None, length=3),
        "cond": lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - y, x),
        "switch": lambda x: lax.switch(
            (x[0, 0] > 0).astype(jnp.int32) + 1, [lambda y: y, lambda y: y + y, lambda y: y * y], x
        ),
        "map": lambda x: lax.map(lambda y: y * y.sum(), x),
        "vmapped_while": lambda x: jax.vmap(
            lambda y: lax.while_loop(lambda c: c[0] < 7, lambda c: c + jnp.ones_like(c), y)
        )(x),
        "vmapped_cond": lambda x: jax.vmap(
            lambda y: lax.cond(y[0] > 1, lambda z: z * z, lambda z: z + z, y)
        )(x),
        "nested": lambda x: lax.fori_loop(
            0, 3, lambda i, c: lax.fori_loop(0, 2, lambda j, d: d + c[0, 0] // 2 + 1, c), x
        ),
        "nested_scan": lambda x: lax.scan(
            lambda c, y: (c, lax.scan(lambda d, z: (d + z, d), y[0], y)[1]), x[0], x
        )[1],
    }
    for name, call in forms.items():
        kinds = ("i32", "u32", "f32", "u8", "bf16")
        for kind in kinds:
            if name in ("while_data", "vmapped_while") and kind == "u8":
                continue
            yield Case(
                group="control",
                name=f"{name}-{kind}",
                call=call,
                args=(arg(kind, 6, 4, low=0, high=3),),
            )
    for name, call in {
        "scan_grad": jax.grad(
            lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c), jnp.zeros(4), x)[0].sum()
        ),
        "checkpoint": jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(y) ** 2)(x).sum()),
        "custom_vjp": jax.grad(lambda x: jax.nn.relu6(x).sum()),
        "cond_grad": jax.grad(lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x).sum()),
        "jacobian": jax.jacrev(lambda x: (x**2).sum(0)),
        "hessian": jax.hessian(lambda x: (jnp.sin(x) * x[::-1]).sum()),
        "lstm": lambda x: lax.scan(
            lambda c, y: ((jax.nn.sigmoid(y) * c[0] + jnp.tanh(y + c[1]), jnp.tanh(c[0])), c[1]),
            (jnp.zeros(4), jnp.zeros(4)),
            x,
        ),
        "iota": lambda x: x + lax.broadcasted_iota(jnp.float32, (6, 4), 1),
        "linspace": lambda x: x[:, 0] + jnp.linspace(0, 1, 6),
        "eye": lambda x: x @ jnp.eye(4, 5, 1),
        "meshgrid": lambda x: jnp.meshgrid(x[0], x[:, 0]),
        "interp": lambda x: jnp.interp(x.ravel(), jnp.arange(4.0), jnp.arange(4.0) ** 2),
        "polyval": lambda x: jnp.polyval(x[0], x),
        "trapezoid": lambda x: jnp.trapezoid(x, axis=0),
        "gradient": lambda x: jnp.gradient(x, axis=0),
        "diff": lambda x: jnp.diff(x, axis=0),
        "cov": jnp.cov,
        "corrcoef": jnp.corrcoef,
        "one_hot": lambda x: jax.nn.one_hot(x[:, 0].astype(jnp.int32), 4),
        "packbits": lambda x: jnp.packbits(x > 0),
        "unpackbits": lambda x: jnp.unpackbits(x.astype(jnp.uint8)),
        "barrier": lambda x: lax.optimization_barrier(x) * 2,
        "map_coordinates": lambda x: jsp.ndimage.map_coordinates(x, [x[0], x[1]], 1),
    }.items():
        low = 0 if name == "unpackbits" else -2  # negative floats have no defined value as bytes
        yield Case(
            group="control", name=name, call=call, args=(arg("f32", 6, 4, low=low),), slack=2
        )


def _derivatives() -> Iterator[Case]:
    functions = {
        "sin": jnp.sin,
        "tan": jnp.tan,
        "tanh": jnp.tanh,
        "asin": lambda x: jnp.arcsin(x / 4),
        "acosh": lambda x: jnp.arccosh(x + 4),
        "cbrt": lambda x: jnp.cbrt(x + 3),
        "log1p": lambda x: jnp.log1p(x + 3),
        "logistic": jax.nn.sigmoid,
        "erf": lax.erf,
        "erf_inv": lambda x: lax.erf_inv(x / 4),
        "lgamma": lambda x: lax.lgamma(x + 3),
        "digamma": lambda x: lax.digamma(x + 3),
        "exp2": jnp.exp2,
        "sinc": jnp.sinc,
        "i0e": lax.bessel_i0e,
        "i1e": lax.bessel_i1e,
        "pow": lambda x: (x + 3) ** 2.5,
        "atan2": lambda x: jnp.arctan2(x, x + 5),
        "softmax": jax.nn.softmax,
        "sort": jnp.sort,
        "cumprod": lambda x: jnp.cumprod(x + 3) / 1000,
        "prod": lambda x: jnp.prod(x + 3) / 100,
        "max": jnp.max,
        "norm": jnp.linalg.norm,
        "roll": lambda x: jnp.roll(x, 2) * x,
        "logsumexp": jax.nn.logsumexp,
        "gelu": jax.nn.gelu,
        "var": jnp.var,
        "clip": lambda x: jnp.clip(x, -1, 1) * x,
        "where": lambda x: jnp.where(x > 0, x * x, -x),
        "dynamic_update": lambda x: lax.dynamic_update_slice(x, x[:2] * 3, (1,)) * x,
        "pad": lambda x: jnp.pad(x, 2) ** 2,
    }
    for name, function in functions.items():
        for kind in ("f32", "bf16", "f16"):
            yield Case(
                group="derivative",
                name=f"{name}-{kind}",
                call=lambda x, f=function: jax.grad(lambda y: f(y).sum().astype(y.dtype))(x),
                args=(arg(kind, 7),),
                slack=3,
            )
        yield Case(
            group="derivative",
            name=f"{name}-forward-vmapped",
            call=lambda x, f=function: jax.vmap(lambda y: jax.jvp(f, (y,), (y + 1,)))(x),
            args=(arg("f32", 2, 7),),
            slack=3,
        )
