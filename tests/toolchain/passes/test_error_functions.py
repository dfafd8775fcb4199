"""Error functions that JAX writes out, against SciPy in 64 bits, and what becomes of them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.error_functions import ErrorFunctions
from edgec.toolchain.stablehlo import parse_stablehlo


def gelu(x):
    return jax.nn.gelu(x * 1.5, approximate=False)


def tail(x):
    return jax.scipy.special.erfc(x)


def nearly(x):
    """Another function of as many operations, off by a thousandth."""
    return jax.nn.gelu(x, approximate=False) * 1.001


def rewritten(function, kind=jnp.float32) -> tuple[str, int]:
    program = export(function, (jnp.zeros((3, 40), kind),))
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        count = ErrorFunctions().run(module)
        module.operation.verify()
        return str(module), count


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_a_gelu_written_out_becomes_an_erf(kind):
    after, count = rewritten(gelu, kind)
    assert count == 1
    assert len(re.findall(r"chlo.erf ", after)) == 1
    assert "stablehlo.exponential" not in after
    assert len(re.findall(r"= stablehlo.multiply", after)) == 4


def test_an_erfc_of_its_own_stays():
    after, count = rewritten(tail)
    assert count == 0
    assert "stablehlo.exponential" in after


def test_what_is_only_near_is_found_inside_of_it():
    after, count = rewritten(nearly)
    assert count == 1
    assert "1.001" in after


def test_a_bound_far_out_stays():
    after, count = rewritten(lambda x: jax.lax.clamp(-5000.0, gelu(x), 5000.0))
    assert count == 1
    assert "stablehlo.clamp" in after


def test_a_corner_between_points_stays():
    def bumped(x):
        y = jax.nn.gelu(x, approximate=False)
        near = jax.lax.select(x < 0.5004, 1.5 * y, y)
        return jax.lax.select(x > 0.50001, near, y)

    after, count = rewritten(bumped)
    assert count == 1
    assert "5.004000e-01" in after


def model(x):
    w = (np.random.default_rng(0).standard_normal((24, 40)) / 5).astype(np.float32)
    return jax.nn.gelu(x @ w, approximate=False), tail(x), jax.lax.erf(3 * x @ w)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_answers_are_right(target, tmp_path):
    x = np.random.default_rng(1).standard_normal((50, 24)).astype(np.float32) * 4
    x[0], x[1] = 30, -1e-3
    program = export(model, (x,))
    assert run_passes(program, target).changes["error-functions"] == 1  # an erf is one already
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    w = (np.random.default_rng(0).standard_normal((24, 40)) / 5).astype(np.float32)
    y = x.astype(np.float64) @ w
    with load(module) as loaded:
        first, second, third = (np.asarray(a) for a in loaded.main(x))
    np.testing.assert_allclose(first, y * scipy.special.ndtr(y), 1e-5, 1e-5)
    np.testing.assert_allclose(second, scipy.special.erfc(x), 1e-5, 1e-30)
    np.testing.assert_allclose(third, scipy.special.erf(3 * y), 1e-5, 1e-5)


def quotient(x):
    """erf as a quotient of polynomials up to 4, where it is 1 in f32."""
    x = jax.lax.clamp(-4.0, x, 4.0)
    square = x * x
    above, below = jnp.float32(-2.72614225801306e-10), jnp.float32(-1.45660718464996e-05)
    for number in (
        *(2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
        *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
    ):
        above = above * square + number
    for number in (
        *(-2.13374055278905e-04, -1.68282697438203e-03),
        *(-7.37332916720468e-03, -1.42647390514189e-02),
    ):
        below = below * square + number
    return x * above / below


def test_a_clamp_before_the_polynomials_goes_with_them():
    after, count = rewritten(quotient)
    assert count == 1
    assert "chlo.erf" in after
    assert "stablehlo.clamp" not in after
    assert "stablehlo.maximum" not in after


@pytest.mark.parametrize(("bound", "stays"), [(1.0, False), (1.5, False), (0.9, True)])
def test_a_clamp_behind_it_goes_too_where_the_function_keeps_its_bounds(bound, stays):
    """As PyTorch's GELU is lowered; without this no kernel takes it along."""
    after, count = rewritten(lambda x: jax.lax.clamp(-bound, quotient(x), bound))
    assert count == 1
    assert "chlo.erf" in after
    assert ("stablehlo.clamp" in after) == stays
