"""Pallas kernels: exported as what they compute, as PTX where Triton is, refused where neither."""

import importlib.util
import logging
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile_with_report, run_passes
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton

ROOT = Path(__file__).parents[2]


def sample():
    path = ROOT / "samples/pallas_linear/linear.py"
    spec = importlib.util.spec_from_file_location("pallas_linear_sample", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def linear():
    return sample()


@pytest.fixture(scope="module")
def program(linear):
    return export(*linear.reader())


def test_the_sample_reads_digits_as_plain_numpy_does(linear, program):
    made = compile_with_report(program, "cpu")
    assert made.report.check.startswith("checked")
    images, labels = linear.held_out()
    weights, bias = linear.learnt()
    with load(made.module.path) as loaded:
        found = np.asarray(loaded.main(images))
    np.testing.assert_allclose(found, images @ weights + bias, rtol=1e-4, atol=1e-4)
    assert (found[:, :10].argmax(1) == labels).mean() > 0.8


@pytest.mark.skipif(not has_triton(), reason="Triton is not here (edgec[cuda])")
def test_on_cuda_it_is_ptx_without_a_gpu(program):
    assert run_passes(program, "cuda:sm_90").notes == ["kernel pallas_linear: in its place"]
    made = compile_with_report(program, "cuda", CompileOptions(check=False))
    assert "kernel pallas_linear: in its place" in made.report.notes
    # Three products of the matrix units for each, so that f32 keeps its precision.
    assert program.bytecode.count(b"mma.sync") % 3 == 0


def test_without_triton_it_is_what_it_computes_and_that_is_said(linear, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "triton", None)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "triton" else find(name)
    )
    with caplog.at_level(logging.WARNING, logger="edgec.exporters"):
        program = export(*linear.reader())
    assert "pallas_linear has no code for GPUs: Triton is not here" in caplog.text
    assert b"edgec.kernel" not in program.bytecode


def test_jax_refuses_kernels_on_a_cpu_again_afterwards(program, linear):
    weights, bias = linear.learnt()
    with pytest.raises(ValueError, match="Only interpret mode is supported on CPU"):
        jax.block_until_ready(linear.pallas_linear(jnp.ones((64, 64)), weights[:, :16], bias))


@pytest.mark.slow
def test_a_loop_and_memory_that_is_read_again_are_exported():
    def running(x, y):
        def step(i, total):
            total = total + x[i]
            y[i] = total
            return total

        jax.lax.fori_loop(0, x.shape[0], step, jnp.float32(0))

    def cumulated(x):
        return pl.pallas_call(running, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    x = np.linspace(0, 1, 24, dtype=np.float32)
    made = compile_with_report(export(cumulated, (x,)), "cpu")
    with load(made.module.path) as loaded:
        np.testing.assert_allclose(loaded.main(x), np.cumsum(x), rtol=1e-5)
