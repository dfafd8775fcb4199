"""Functions of edgec's own headers of CUDA are as near to NumPy's in f64 as CUDA's are."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from edgec.toolchain.kernels.own.c_compiler import has_ziglang
from tests.kernels.emulated_cuda import functions

pytestmark = pytest.mark.skipif(not has_ziglang(), reason="no ziglang (edgec[cuda])")

Reference = Callable[..., np.ndarray]

SPECIAL = np.array(
    [
        *(0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 4, 1.5, 2.5, 89, 88.8, -104, 128, -150),
        *(1e-45, -1e-45, 1e-38, 3e38, -3e38, 2**24, 2**24 + 2, np.inf, -np.inf, np.nan),
    ],
    np.float32,
)


def of_half_turns(x: np.ndarray, first: int) -> np.ndarray:
    """The sine of `pi x`, or of `pi x + pi / 2`; a zero of sines has the sign of x."""
    left = x - 2 * np.rint(x / 2)
    turns = np.rint(2 * left)
    angle = (left - turns / 2) * np.pi
    ways = [np.sin(angle), np.cos(angle), -np.sin(angle), -np.cos(angle)]
    found = np.choose((np.nan_to_num(turns).astype(int) + first) % 4, ways)
    return np.where(found == 0, 0.0 if first else np.copysign(0, x), found)


# How far off each may be: in units of the last place from what is rounded right, as CUDA's manual
# counts (C++ Programming Guide, mathematical functions, f32), and as measured of one float in 13.
ONE: dict[str, tuple[int, int, Reference]] = {
    "expf": (2, 1, np.exp),
    "exp2f": (2, 1, np.exp2),
    "exp10f": (2, 1, lambda x: np.power(10.0, x)),
    "expm1f": (1, 1, np.expm1),
    "logf": (1, 1, np.log),
    "log2f": (1, 1, np.log2),
    "log10f": (2, 1, np.log10),
    "log1pf": (1, 1, np.log1p),
    "sinf": (2, 1, np.sin),
    "cosf": (2, 1, np.cos),
    "tanf": (4, 3, np.tan),
    "sinpif": (1, 1, lambda x: of_half_turns(x, 0)),
    "cospif": (1, 1, lambda x: of_half_turns(x, 1)),
    "asinf": (2, 1, np.arcsin),
    "acosf": (2, 1, np.arccos),
    "atanf": (2, 1, np.arctan),
    "sinhf": (3, 2, np.sinh),
    "coshf": (2, 1, np.cosh),
    "tanhf": (2, 1, np.tanh),
    "asinhf": (3, 2, np.arcsinh),
    "acoshf": (4, 2, np.arccosh),
    "atanhf": (3, 2, np.arctanh),
    "cbrtf": (1, 1, np.cbrt),
    "rcbrtf": (1, 1, lambda x: 1 / np.cbrt(x)),
    "erff": (2, 1, special.erf),
    "erfcf": (4, 2, special.erfc),
    "erfcxf": (4, 3, special.erfcx),
    "normcdff": (5, 3, special.ndtr),
    "sqrtf": (0, 0, np.sqrt),
    "__frsqrt_rn": (0, 0, lambda x: 1 / np.sqrt(x)),
    "floorf": (0, 0, np.floor),
    "ceilf": (0, 0, np.ceil),
    "truncf": (0, 0, np.trunc),
    "rintf": (0, 0, np.rint),
}
TWO: dict[str, tuple[int, int, Reference]] = {
    "powf": (4, 1, lambda x, y: np.power(x.astype(np.longdouble), y)),
    "atan2f": (3, 2, np.arctan2),
    "hypotf": (3, 1, np.hypot),
    "rhypotf": (2, 2, lambda x, y: 1 / np.hypot(x, y)),
    "fmodf": (0, 0, np.fmod),
    "fdimf": (0, 0, lambda x, y: np.where(x <= y, 0.0, x - y)),
    "copysignf": (0, 0, np.copysign),
    "__fdiv_rn": (0, 0, np.divide),
}


def units(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How many floats lie between; very many between a number and none, and zeros of two signs."""
    right = wanted.astype(np.float32)

    def placed(x: np.ndarray) -> np.ndarray:
        bits = x.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    off = np.abs(placed(found) - placed(right))
    off = np.where((found == 0) & (np.signbit(found) != np.signbit(right)), 1 << 40, off)
    return np.where(
        np.isnan(found) | np.isnan(right), (np.isnan(found) != np.isnan(right)) << 40, off
    )


def drawn(step: int) -> np.ndarray:
    """Floats by their bits, one of every so many, and special ones."""
    bits = np.arange(np.random.default_rng(step).integers(step), 1 << 32, step, dtype=np.int64)
    return np.concatenate([SPECIAL, bits.astype(np.uint32).view(np.float32)])


@pytest.mark.parametrize("step", [50021, pytest.param(1009, marks=pytest.mark.slow)])
def test_functions_are_as_near_as_cudas(step: int) -> None:
    made = functions([f"{name}(x)" for name in ONE])
    x = drawn(step)
    far = {}
    with np.errstate(all="ignore"):
        for name, (cudas, most, reference) in ONE.items():
            off = units(made[f"{name}(x)"](x), reference(x.astype(np.float64)))
            assert most <= cudas
            if off.max() > most:
                far[name] = (int(off.max()), float(x[off.argmax()]))
    assert not far


@pytest.mark.parametrize("count", [4000, pytest.param(400_000, marks=pytest.mark.slow)])
def test_functions_of_two_are_as_near_as_cudas(count: int) -> None:
    made = functions([f"{name}(x, y)" for name in TWO])
    random = np.random.default_rng(count)
    kinds = [
        random.integers(0, 1 << 32, count, dtype=np.int64).astype(np.uint32).view(np.float32),
        (10 * random.standard_normal(count) * np.exp(random.uniform(0, 9, count))),
        np.exp(random.uniform(-3, 3, count)),
        1 + random.uniform(-1e-3, 1e-3, count),
        random.integers(-40, 41, count),
        random.choice(SPECIAL, count),
    ]
    pairs = [(a.astype(np.float32), b.astype(np.float32)) for a in kinds for b in kinds]
    x, y = (np.concatenate(each) for each in zip(*pairs, strict=True))
    far = {}
    with np.errstate(all="ignore"):
        for name, (cudas, most, reference) in TWO.items():
            off = units(made[f"{name}(x, y)"](x, y), reference(x.astype(np.float64), y))
            assert most <= cudas
            if off.max() > most:
                at = off.argmax()
                far[name] = (int(off.max()), float(x[at]), float(y[at]))
    assert not far


@pytest.mark.parametrize("count", [3000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_exponentials_and_logarithms_of_f64_are_as_near_as_cudas(count: int) -> None:
    made = functions(["exp(x)", "log(x)"], np.float64)
    random = np.random.default_rng(count)
    sizes = np.concatenate([random.uniform(-760, 760, count), random.standard_normal(count)])
    special = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-310, 2.2e-308, 1.7e308, np.inf, -np.inf, np.nan]
    x = np.concatenate([special, sizes, np.exp(sizes.clip(-700, 700)), 1 + 1e-3 * sizes[count:]])
    with np.errstate(all="ignore"):
        for text, reference in (("exp(x)", np.exp), ("log(x)", np.log)):
            right = reference(x.astype(np.longdouble)).astype(np.float64)
            found = made[text](x)
            off = np.abs(found.view(np.int64) - right.view(np.int64))
            both = np.isnan(found) & np.isnan(right)
            assert off[~both].max() <= 1, text
            assert (np.isnan(found) == np.isnan(right)).all()


def test_what_is_exact_is_what_python_says() -> None:
    more = """
    static float part(float x, int which) {
      int k; float w;
      float f = which < 2 ? frexpf(x, &k) : modff(x, &w);
      return which == 0 ? f : which == 1 ? k : which == 2 ? f : w;
    }
    static float often(float x, float y) {
      int q;
      remquof(x, y, &q);
      return q < 0 ? -(-q & 7) : q & 7;
    }
    """
    texts = ["part(x, 0)", "part(x, 1)", "part(x, 2)", "part(x, 3)", "remainderf(x, y)"]
    texts += ["ldexpf(x, (int)y)", "nextafterf(x, y)", "roundf(x)", "ilogbf(x)", "logbf(x)"]
    texts += [
        "often(x, y)",
        "llrintf(x)",
        "llroundf(x)",
        "fmaf(x, y, z)",
        "fminf(x, y)",
        "fmaxf(x, y)",
    ]
    made = functions(texts, more=more)
    random = np.random.default_rng(0)
    x = np.concatenate(
        [drawn(20_000_003), (1000 * random.standard_normal(3000)).astype(np.float32)]
    )
    x = x[np.isfinite(x) & (x != 0)]
    y, z = (
        random.choice([-3.0, 0.5, 2.0, 7.0, 40.0, -20.0], x.size).astype(np.float32) for _ in "yz"
    )
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    times = [round(Fraction(a) / Fraction(b)) for a, b in pairs]
    with np.errstate(all="ignore"):
        wanted = {
            "part(x, 0)": [math.frexp(a)[0] for a in x.tolist()],
            "part(x, 1)": [math.frexp(a)[1] for a in x.tolist()],
            "part(x, 2)": [math.modf(a)[0] for a in x.tolist()],
            "part(x, 3)": [math.modf(a)[1] for a in x.tolist()],
            "remainderf(x, y)": [math.remainder(a, b) for a, b in pairs],
            "often(x, y)": [math.copysign(abs(q) & 7, q) for q in times],
            "ldexpf(x, (int)y)": np.ldexp(x, y.astype(int)),
            "nextafterf(x, y)": np.nextafter(x, y),
            "roundf(x)": [math.copysign(math.floor(abs(a) + 0.5), a) for a in x.tolist()],
            "ilogbf(x)": [math.frexp(a)[1] - 1 for a in x.tolist()],
            "logbf(x)": [math.frexp(a)[1] - 1 for a in x.tolist()],
            "fminf(x, y)": np.minimum(x, y),
            "fmaxf(x, y)": np.maximum(x, y),
        }
    for text, values in wanted.items():
        with np.errstate(all="ignore"):
            right = np.asarray(values).astype(np.float32)
        np.testing.assert_array_equal(made[text](x, y, z), right, err_msg=text)
    small = np.abs(x) < 1e6
    x, y, z = x[small], y[small], z[small]
    fused = (x.astype(np.longdouble) * y + z).astype(np.float32)
    np.testing.assert_array_equal(made["fmaf(x, y, z)"](x, y, z), fused)
    whole = np.array([round(a) for a in x.tolist()], np.float32)
    np.testing.assert_array_equal(made["llrintf(x)"](x), whole)


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "__clz(x)": lambda x, y: 32 - (x & 0xFFFFFFFF).bit_length(),
    "__ffs(x)": lambda x, y: (x & -x).bit_length(),
    "__popc(x)": lambda x, y: (x & 0xFFFFFFFF).bit_count(),
    "__brev(x)": lambda x, y: int(f"{x & 0xFFFFFFFF:032b}"[::-1], 2),
    "__byte_perm(x, y, 0x3715)": lambda x, y: int.from_bytes(
        bytes(
            (x & 0xFFFFFFFF | (y & 0xFFFFFFFF) << 32).to_bytes(8, "little")[i] for i in (5, 1, 7, 3)
        ),
        "little",
    ),
    "__funnelshift_l(x, y, 7)": lambda x, y: (x & 0xFFFFFFFF | (y & 0xFFFFFFFF) << 32) << 7 >> 32,
    "__funnelshift_r(x, y, 7)": lambda x, y: (x & 0xFFFFFFFF | (y & 0xFFFFFFFF) << 32) >> 7,
    "__mulhi(x, y)": lambda x, y: x * y >> 32,
    "__umulhi(x, y)": lambda x, y: (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF) >> 32,
    "__mul24(x, y)": lambda x, y: ((x + 2**23) % 2**24 - 2**23) * ((y + 2**23) % 2**24 - 2**23),
    "__sad(x, y, 3)": lambda x, y: abs(x - y) + 3,
    "__hadd(x, y)": lambda x, y: (x + y) >> 1,
    "__rhadd(x, y)": lambda x, y: (x + y + 1) >> 1,
    "__dp4a(x, y, 5)": lambda x, y: (
        5
        + sum(
            a * b
            for a, b in zip(
                np.array([x], np.int32).view(np.int8).tolist(),
                np.array([y], np.int32).view(np.int8).tolist(),
                strict=True,
            )
        )
    ),
    "min(x, y)": min,
    "max(x, y)": max,
    "abs(x)": lambda x, y: abs(x),
}


def test_integers_are_what_python_says() -> None:
    made = functions(list(INTEGERS), np.int32)
    random = np.random.default_rng(0)
    x, y = (random.integers(-(2**31), 2**31, 500, dtype=np.int64).astype(np.int32) for _ in "xy")
    x[:4], y[:4] = [0, 1, -1, 2**31 - 1], [1, 0, -1, -5]
    for text, reference in INTEGERS.items():
        wanted = [
            (reference(a, b) + 2**31) % 2**32 - 2**31
            for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(made[text](x, y), wanted, err_msg=text)


def test_narrow_floats_are_numpys() -> None:
    more = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    texts = {
        "__half2float(__float2half(x))": lambda x, y: x.astype(np.float16),
        "__half2float(__hfma(__float2half(x), __float2half(y), __half(1)))": lambda x, y: (
            x.astype(np.float16).astype(float) * y.astype(np.float16) + 1
        ).astype(np.float16),
        "__high2float(__hmul2(__floats2half2_rn(y, x), __float2half2_rn(y)))": lambda x, y: (
            x.astype(np.float16) * y.astype(np.float16)
        ),
        "__half2float(hexp(__float2half(x)))": lambda x, y: np.exp(
            x.astype(np.float16).astype(float)
        ).astype(np.float16),
        "__bfloat162float(__float2bfloat16(x))": lambda x, y: bf16(x),
        "__bfloat162float(__hadd(__float2bfloat16(x), __float2bfloat16(y)))": lambda x, y: bf16(
            bf16(x) + bf16(y)
        ),
    }
    made = functions(list(texts), more=more)
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(2000).astype(np.float32) for _ in "xy")
    for text, reference in texts.items():
        np.testing.assert_array_equal(
            made[text](x, y), reference(x, y).astype(np.float32), err_msg=text
        )


def bf16(x: np.ndarray) -> np.ndarray:
    """To the nearest of 8 bits, of two the even one."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
