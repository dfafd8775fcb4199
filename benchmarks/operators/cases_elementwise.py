"""One value at a time: arithmetic, functions, bits, comparisons and conversions of each type."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.operators.case import (
    COMPLEX,
    DTYPES,
    FLOATS,
    INTEGERS,
    SIGNED,
    UNSIGNED,
    Case,
    arg,
)

__all__ = ["cases"]

# Function, types and range of arguments.
_UNARY = {
    "abs": (lax.abs, FLOATS + SIGNED + COMPLEX, -3, 3),
    "acos": (lax.acos, (*FLOATS, "c64"), -0.95, 0.95),
    "acosh": (lax.acosh, (*FLOATS, "c64"), 1.1, 6),
    "asin": (lax.asin, (*FLOATS, "c64"), -0.95, 0.95),
    "asinh": (lax.asinh, (*FLOATS, "c64"), -4, 4),
    "atan": (lax.atan, (*FLOATS, "c64"), -3, 3),
    "atanh": (lax.atanh, (*FLOATS, "c64"), -0.9, 0.9),
    "cbrt": (lax.cbrt, FLOATS, -8, 8),
    "ceil": (lax.ceil, FLOATS, -5, 5),
    "conj": (jnp.conj, COMPLEX, -2, 2),
    "cos": (lax.cos, FLOATS + COMPLEX, -6, 6),
    "cosh": (lax.cosh, (*FLOATS, "c64"), -3, 3),
    "exp": (lax.exp, FLOATS + COMPLEX, -3, 3),
    "exp2": (lax.exp2, FLOATS, -3, 3),
    "expm1": (lax.expm1, (*FLOATS, "c64"), -2, 2),
    "floor": (lax.floor, FLOATS, -5, 5),
    "imag": (lax.imag, COMPLEX, -2, 2),
    "integer_pow2": (lambda x: lax.integer_pow(x, 2), FLOATS + INTEGERS + COMPLEX, -3, 3),
    "integer_pow7": (lambda x: lax.integer_pow(x, 7), (*FLOATS, "i32", "u32", "i64"), -2, 2),
    "integer_pow-3": (lambda x: lax.integer_pow(x, -3), (*FLOATS, "c64"), 0.5, 2),
    "is_finite": (lax.is_finite, FLOATS, -2, 2),
    "log": (lax.log, FLOATS + COMPLEX, 0.1, 9),
    "log1p": (lax.log1p, (*FLOATS, "c64"), -0.8, 4),
    "logistic": (lax.logistic, (*FLOATS, "c64"), -4, 4),
    "neg": (lax.neg, FLOATS + INTEGERS + COMPLEX, -3, 3),
    "real": (lax.real, COMPLEX, -2, 2),
    "round": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), FLOATS, -5, 5),
    "round_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS, -5, 5),
    "rsqrt": (lax.rsqrt, (*FLOATS, "c64"), 0.1, 9),
    "sign": (lax.sign, FLOATS + INTEGERS + ("c64",), -3, 3),
    "sin": (lax.sin, FLOATS + COMPLEX, -6, 6),
    "sinh": (lax.sinh, (*FLOATS, "c64"), -3, 3),
    "sqrt": (lax.sqrt, FLOATS + COMPLEX, 0.1, 9),
    "square": (lax.square, FLOATS + INTEGERS, -3, 3),
    "tan": (lax.tan, (*FLOATS, "c64"), -1.3, 1.3),
    "tanh": (lax.tanh, FLOATS + COMPLEX, -2, 2),
    "not": (lax.bitwise_not, (*INTEGERS, "bool"), -100, 100),
    "clz": (lax.clz, INTEGERS, 0, 100),
    "population_count": (lax.population_count, INTEGERS, 0, 100),
    "relu": (jax.nn.relu, (*FLOATS, "i32", "i8"), -3, 3),
    "gelu": (jax.nn.gelu, FLOATS, -3, 3),
    "gelu_erf": (lambda x: jax.nn.gelu(x, approximate=False), FLOATS, -3, 3),
    "silu": (jax.nn.silu, FLOATS, -3, 3),
    "softplus": (jax.nn.softplus, FLOATS, -3, 3),
    "mish": (jax.nn.mish, ("f32", "bf16"), -3, 3),
    "hard_swish": (jax.nn.hard_swish, ("f32", "f16"), -4, 4),
    "sinc": (jnp.sinc, ("f32", "f16"), -3, 3),
    "nan_to_num": (jnp.nan_to_num, ("f32", "bf16"), -3, 3),
    "signbit": (jnp.signbit, ("f32", "f16", "bf16"), -3, 3),
    "angle": (jnp.angle, ("c64",), -3, 3),
    "abs_bits": (lambda x: lax.bitcast_convert_type(x, jnp.uint32), ("f32", "i32"), -9, 9),
}
_ARITHMETIC = {
    "add": (lax.add, FLOATS + INTEGERS + COMPLEX),
    "sub": (lax.sub, FLOATS + INTEGERS + COMPLEX),
    "mul": (lax.mul, FLOATS + INTEGERS + COMPLEX),
    "max": (lax.max, FLOATS + INTEGERS + ("bool",)),
    "min": (lax.min, FLOATS + INTEGERS + ("bool",)),
    "and": (lax.bitwise_and, (*INTEGERS, "bool")),
    "or": (lax.bitwise_or, (*INTEGERS, "bool")),
    "xor": (lax.bitwise_xor, (*INTEGERS, "bool")),
    "eq": (lax.eq, FLOATS + INTEGERS + ("bool", "c64")),
    "ne": (lax.ne, ("f32", "i32", "u8", "bool", "c64")),
    "lt": (lax.lt, FLOATS + INTEGERS + ("bool",)),
    "ge": (lax.ge, ("f32", "bf16", "i8", "u8", "u32", "u64")),
    "atan2": (lax.atan2, FLOATS),
    "nextafter": (lax.nextafter, ("f32", "f64")),
    "complex": (lax.complex, ("f32", "f64")),
    "logaddexp": (jnp.logaddexp, ("f32", "bf16")),
    "hypot": (jnp.hypot, ("f32", "f16")),
    "copysign": (jnp.copysign, ("f32", "f16", "bf16")),
    "float_power_x64": (jnp.float_power, ("f32",)),
    "heaviside": (jnp.heaviside, ("f32",)),
    "gcd": (jnp.gcd, ("i32", "i8", "u32")),
    "lcm": (jnp.lcm, ("i32",)),
}
# With second arguments that are not zero.
_DIVISIONS = {
    "div": (lax.div, FLOATS + INTEGERS + COMPLEX),
    "rem": (lax.rem, FLOATS + INTEGERS),
    "mod": (jnp.mod, ("f32", "f16", "bf16", "i8", "i32", "u8", "u32", "i64")),
    "floor_divide": (jnp.floor_divide, ("f32", "bf16", "i8", "i32", "u8", "u32", "u64")),
    "divmod": (jnp.divmod, ("f32", "i32", "u16")),
    "fmod": (jnp.fmod, ("f32", "i32")),
}
_POWERS = {
    "pow": (lax.pow, (*FLOATS, "c64")),
    "power": (jnp.power, ("f32", "bf16", "i32", "u32", "u8", "i64")),
}
_SHIFTS = {
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
}


def cases() -> Iterator[Case]:
    """About five hundred."""
    for name, (call, kinds, low, high) in _UNARY.items():
        for kind in kinds:
            bounds = (0 if kind in UNSIGNED else low, high * 4 if kind in INTEGERS else high)
            given = arg(kind, 4, 7, low=bounds[0], high=bounds[1])
            yield Case(group="elementwise", name=f"{name}-{kind}", call=call, args=(given,))
    for name, (call, kinds) in _ARITHMETIC.items():
        for kind in kinds:
            yield Case(
                group="elementwise",
                name=f"{name}-{kind}",
                call=call,
                args=(arg(kind, 3, 5), arg(kind, 3, 5)),
            )
    for name, (call, kinds) in _DIVISIONS.items():
        for kind in kinds:
            low, high = (1, 9) if kind in INTEGERS else (0.5, 3)
            yield Case(
                group="elementwise",
                name=f"{name}-{kind}",
                call=call,
                args=(arg(kind, 3, 5), arg(kind, 3, 5, low=low, high=high)),
            )
    for name, (call, kinds) in _POWERS.items():
        for kind in kinds:
            low, high = (0, 4) if kind in INTEGERS else (0.2, 3)
            first, second = (arg(kind, 3, 5, low=low, high=high) for _ in range(2))
            yield Case(group="elementwise", name=f"{name}-{kind}", call=call, args=(first, second))
    for name, shift in _SHIFTS.items():
        for kind in INTEGERS:
            yield Case(
                group="elementwise",
                name=f"{name}-{kind}",
                call=shift,
                args=(arg(kind, 3, 5, high=100), arg(kind, 3, 5, low=0, high=8)),
            )
    yield from _clamped()
    yield from _converted()


def _clamped() -> Iterator[Case]:
    for kind in FLOATS + INTEGERS:
        low, high = (2, 7) if kind in INTEGERS else (-0.5, 0.5)
        bounds = arg(kind, values=low), arg(kind, values=high)
        yield Case(
            group="elementwise",
            name=f"clamp-{kind}",
            call=lax.clamp,
            args=(bounds[0], arg(kind, 4, 5), bounds[1]),
        )
        yield Case(
            group="elementwise",
            name=f"select-{kind}",
            call=lax.select,
            args=(arg("bool", 4, 5), arg(kind, 4, 5), arg(kind, 4, 5)),
        )
    yield Case(
        group="elementwise",
        name="select_n-i32",
        call=lax.select_n,
        args=(arg("i32", 6, low=0, high=3), *(arg("f32", 6) for _ in range(3))),
    )
    for kind in ("f32", "u8", "c64"):
        yield Case(
            group="elementwise",
            name=f"where-{kind}",
            call=lambda x: jnp.where(x == x[:1], x, jnp.zeros_like(x)),
            args=(arg(kind, 4, 3),),
        )
    for kind, exponent, mantissa in (("f32", 5, 10), ("f32", 8, 7), ("f32", 4, 3), ("f16", 4, 3)):
        yield Case(
            group="elementwise",
            name=f"reduce_precision-{kind}-e{exponent}m{mantissa}",
            call=lambda x, e=exponent, m=mantissa: lax.reduce_precision(x, e, m),
            args=(arg(kind, 4, 7),),
        )


def _converted() -> Iterator[Case]:
    kinds = ("f32", "f16", "bf16", "i8", "i32", "u8", "u32", "bool", "f64", "i64", "u64", "i16")
    for source in kinds:
        for target in kinds:
            if source == target:
                continue
            # Negative floats have no defined value as unsigned.
            low = 0 if target in UNSIGNED and source in FLOATS else None
            yield Case(
                group="convert",
                name=f"{source}-to-{target}" + ("-x64" if "64" in target else ""),
                call=lambda x, t=target: lax.convert_element_type(x, DTYPES[t]),
                args=(arg(source, 4, 5, low=low, high=9),),
            )
    for source, target in (("f32", "c64"), ("c64", "c128"), ("i32", "c64")):
        yield Case(
            group="convert",
            name=f"{source}-to-{target}-x64",
            call=lambda x, t=target: lax.convert_element_type(x, DTYPES[t]),
            args=(arg(source, 4, 5),),
        )
    bitcasts = {
        ("f32", "i32"): (4, 5),
        ("u32", "f32"): (4, 5),
        ("bf16", "u16"): (4, 5),
        ("f16", "i16"): (4, 5),
        ("f32", "u8"): (4, 5),
        ("u8", "f32"): (4, 5, 4),
        ("u32", "u16"): (4, 5),
        ("i16", "i32"): (4, 5, 2),
        ("f64", "u64"): (4, 5),
        ("u64", "u32"): (4, 5),
        ("i8", "u8"): (4, 5),
    }
    for (source, target), shape in bitcasts.items():
        yield Case(
            group="convert",
            name=f"bitcast-{source}-{target}" + ("-x64" if "64" in target else ""),
            call=lambda x, t=target: lax.bitcast_convert_type(x, DTYPES[t]),
            args=(arg(source, *shape),),
        )
