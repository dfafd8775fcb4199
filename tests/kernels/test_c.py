"""Kernels in C inside JAX and PyTorch functions: exported, proved, run, refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from edgec import kernels
from edgec.exporters import export
from edgec.runtime import load
from edgec.runtime.errors import CompileError, SourceError, UsageError, WrongAnswer
from edgec.toolchain import CompileOptions, compile_with_report, run_passes

SOURCE = """
static float twice(float x) { return 2 * x; }
void mixed(const float *x, const float *w, float *sum, signed char *sign, int shift, int group) {
  const int part = IN0_SIZE / 4;
  for (int i = group * part; i < (group + 1) * part; i++) {
    sum[i] = twice(x[i]) * w[i % IN1_SIZE] + shift;
    sign[i] = sum[i] < 0 ? -1 : 1;
  }
}
"""
X = np.random.default_rng(0).standard_normal((8, 12)).astype(np.float32)
W = np.linspace(-1, 1, 12, dtype=np.float32)


def reference(x, w):
    total = 2 * x * w + 3
    return total, jnp.where(total < 0, -1, 1).astype(jnp.int8)


def torch_reference(x, w):
    total = 2 * x * w + 3
    return total, torch.where(total < 0, -1, 1).to(torch.int8)


def mixed(how=reference, source=SOURCE, **more):
    return kernels.c(source, reference=how, entry="mixed", groups=4, numbers=(3,), **more)


def model(x, w):
    total, sign = mixed()(jnp.sin(x), w)
    return jnp.tanh(total) * sign.astype(jnp.float32), sign


def expected(x, w):
    total = 2 * np.sin(x) * w + 3
    sign = np.where(total < 0, -1, 1)
    return np.tanh(total) * sign, sign


@pytest.fixture(scope="module")
def program():
    return export(model, (X, W))


@pytest.fixture(scope="module")
def compiled(program, tmp_path_factory):
    output = tmp_path_factory.mktemp("own") / "own.vmfb"
    return compile_with_report(program, "cpu", CompileOptions(output=output))


def test_a_kernel_is_in_the_program_with_its_source_and_its_reference(program):
    assert b"static float twice" in program.bytecode
    assert b"edgec.kernel" in program.bytecode


def test_the_module_computes_the_kernel_and_is_proved(compiled):
    assert compiled.report.check.startswith("checked")
    assert "kernel mixed: in its place" in compiled.report.notes
    with load(compiled.module.path) as loaded:
        for found, wanted in zip(loaded.main(X, W), expected(X, W), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_device_without_code_computes_the_reference(program):
    report = run_passes(program, "vulkan")
    assert report.notes == ["kernel mixed: not used: code in c alone, so its reference is computed"]


def test_a_kernel_that_differs_is_refused_with_how_much(tmp_path):
    wrong = SOURCE.replace("2 * x;", "2.001f * x;")
    program = export(lambda x, w: mixed(source=wrong)(x, w)[1], (X, W))
    with pytest.raises(WrongAnswer, match=r"kernel mixed .* than its reference: .*max abs err"):
        compile_with_report(program, "cpu", CompileOptions(output=tmp_path / "wrong.vmfb"))
    assert not (tmp_path / "wrong.vmfb").exists()


def test_what_the_compiler_refuses_is_said_with_the_line():
    program = export(
        lambda x, w: mixed(source=SOURCE.replace("twice(x[i])", "thrice(x)"))(x, w), (X, W)
    )
    with pytest.raises(CompileError, match=r"refuses the kernel mixed: .*thrice") as caught:
        run_passes(program, "cpu")
    assert caught.value.where.startswith("mixed.c:6")


@pytest.mark.slow
def test_a_function_of_the_c_library_is_named():
    calling = "float expf(float);" + SOURCE.replace("twice(x[i])", "expf(x[i])")
    with pytest.raises(CompileError, match="kernel mixed calls expf, and modules have no C lib"):
        run_passes(export(lambda x, w: mixed(source=calling)(x, w), (X, W)), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu:arm64-v8.2", "cpu:armv7", "cpu:riscv64"])
def test_other_processors_have_objects_of_their_own(target, program):
    assert run_passes(program, target).notes == ["kernel mixed: in its place"]


def test_pytorch_calls_the_same_code(compiled):
    def torch_model(x, w):
        total, sign = mixed(torch_reference)(torch.sin(x), w)
        return torch.tanh(total) * sign.to(torch.float32), sign

    program = export(torch_model, (torch.tensor(X), torch.tensor(W)))
    made = compile_with_report(program, "cpu")
    assert "kernel mixed: in its place" in made.report.notes
    with load(made.module.path) as loaded:
        for found, wanted in zip(loaded.main(X, W), expected(X, W), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_gradients_are_the_references_and_mapped_arrays_go_one_by_one():
    kernel = mixed()
    slope = jax.grad(lambda x: kernel(x, W)[0].sum())(X)
    np.testing.assert_allclose(slope, np.broadcast_to(2 * W, X.shape), rtol=1e-6)
    many = np.stack([X, 2 * X])
    found = jax.jit(jax.vmap(lambda x: kernel(x, W)[0]))(many)
    np.testing.assert_allclose(found, 2 * many * W + 3, rtol=1e-5, atol=1e-6)
    traced = str(jax.make_jaxpr(jax.vmap(lambda x: kernel(x, W)[0]))(many))
    assert "edgec.kernel" in traced


def test_a_kernel_needs_a_reference_and_one_entry():
    with pytest.raises(UsageError, match="the kernel mixed has no reference"):
        kernels.c(SOURCE, entry="mixed")(X, W)
    with pytest.raises(SourceError, match="no function"):
        kernels.c("int x;")
    with pytest.raises(SourceError, match="2 functions that could be called: a, b"):
        kernels.c("void a(float *x) {} void b(float *x) {}")
    assert kernels.c(SOURCE).name == "mixed"


def test_what_is_joined_has_code_for_both_and_one_reference():
    shader = kernels.glsl("#version 450\nvoid main() {}", grid=lambda x, w: x.size)
    both = mixed() | shader
    described = json.loads(both.described((X, W), reference(X, W)).to_json())
    assert [code["language"] for code in described["codes"]] == ["c", "glsl"]
    assert described["codes"][1]["grid"] == [96, 1, 1]
    with pytest.raises(UsageError, match="both have a reference"):
        mixed() | mixed()


def test_a_language_that_is_not_here_says_what_there_is_instead():
    with pytest.raises(AttributeError, match=r"has no hip: .* kernels\.glsl through Vulkan"):
        kernels.hip  # noqa: B018 - looking it up is what fails
    assert not hasattr(kernels, "fortran")
