"""Kernels for GPUs: shaders proved on what Vulkan there is, PTX from Triton and CUDA C++."""

import json
import re
import shutil
import struct

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import kernels
from edgec.exporters import export
from edgec.runtime import load
from edgec.runtime.errors import CompileError, MissingExtra, UsageError, WrongAnswer
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile_with_report, run_passes
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton
from edgec.toolchain.kernels.own import cuda_compiler, glsl_compiler
from edgec.toolchain.kernels.own.c_compiler import has_ziglang
from edgec.toolchain.kernels.own.nvrtc import Nvrtc
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.own_kernels import Code, Language

needs_glslang = pytest.mark.skipif(tools() is None, reason="glslang is not here (edgec[vulkan])")
needs_triton = pytest.mark.skipif(not has_triton(), reason="Triton is not here (edgec[cuda])")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the path")
needs_nvrtc = pytest.mark.skipif(Nvrtc.find() is None, reason="no NVRTC (nvidia-cuda-nvrtc)")
needs_ziglang = pytest.mark.skipif(not has_ziglang(), reason="no ziglang (edgec[cuda])")

SHADER = """
#version 450
layout(local_size_x = 8, local_size_y = 4) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer W { float w[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Numbers { int shift; };
void main() {
  uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
  if (row < IN0_DIM0 && column < IN0_DIM1)
    y[row * IN0_DIM1 + column] = FACTOR * x[row * IN0_DIM1 + column] * w[column] + shift;
}
"""
CUDA = """
__global__ void scaled(const float *x, const float *w, float *y, int shift) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < IN0_SIZE) y[i] = 2 * x[i] * w[i % IN0_DIM1] + shift;
}
"""
PTX = (
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry copy(.param .u64 a) { ret; }\n"
)
SM_90 = find("cuda:sm_90")
X = np.random.default_rng(0).standard_normal((6, 20)).astype(np.float32)
W = np.linspace(-1, 1, 20, dtype=np.float32)


def reference(x, w):
    return 2 * x * w + 3


def tiles(x, w):
    return (-(-x.shape[1] // 8), -(-x.shape[0] // 4))


def shader(factor):
    return kernels.glsl(
        SHADER, reference=reference, grid=tiles, numbers=(3,), defines={"FACTOR": factor}
    )


def traced(kernel):
    return export(lambda x, w: jnp.tanh(kernel(jnp.sin(x), w)), (X, W))


@needs_glslang
@pytest.mark.vulkan
def test_a_shader_is_proved_and_computes_its_part(tmp_path):
    made = compile_with_report(traced(shader("2.0")), "vulkan")
    assert made.report.notes == ("kernel shader: in its place",)
    with load(made.module.path, device="vulkan") as loaded:
        np.testing.assert_allclose(
            loaded.main(X, W), np.tanh(2 * np.sin(X) * W + 3), rtol=1e-5, atol=1e-6
        )


@needs_glslang
@pytest.mark.vulkan
def test_a_shader_that_differs_is_refused():
    with pytest.raises(WrongAnswer, match="kernel shader computes something else"):
        compile_with_report(traced(shader("2.1")), "vulkan")


@needs_glslang
def test_what_glslang_refuses_is_said():
    with pytest.raises(CompileError, match=r"glslang refuses the kernel shader: .*FACTOR"):
        run_passes(traced(kernels.glsl(SHADER, reference=reference, grid=1)), "vulkan")


def test_spirv_keeps_its_code_and_gets_the_modules_name():
    def words(text):
        data = text.encode() + b"\0"
        data += b"\0" * (-len(data) % 4)
        return list(struct.unpack(f"<{len(data) // 4}I", data))

    def entry(name):
        body = [5, 7, *words(name), 9]
        return [15 | (len(body) + 1) << 16, *body]

    head = [0x07230203, 0x10300, 0, 20, 0]
    mode = [16 | 6 << 16, 7, 17, 8, 4, 1]
    made, size = glsl_compiler.renamed(
        struct.pack(f"<{len(head) + len(entry('main')) + 6}I", *head, *entry("main"), *mode),
        "main",
        "edgec_own_shader",
        "shader",
    )
    wanted = [*head, *entry("edgec_own_shader"), *mode]
    assert list(struct.unpack(f"<{len(made) // 4}I", made)) == wanted
    assert size == (8, 4, 1)


@pytest.mark.parametrize(
    "compiler",
    [
        pytest.param("nvcc", marks=needs_nvcc),
        pytest.param("NVRTC", marks=needs_nvrtc),
        pytest.param("clang", marks=needs_ziglang),
    ],
)
def test_cuda_is_compiled_for_the_targets_gpu(compiler, monkeypatch):
    if compiler != "nvcc":
        monkeypatch.setattr(cuda_compiler.shutil, "which", lambda name: None)
    if compiler == "clang":
        monkeypatch.setattr(cuda_compiler.Nvrtc, "find", lambda: None)
    kernel = kernels.cuda(CUDA, grid=lambda x, w: -(-x.size // 64), block=64, reference=reference)
    (code,) = kernel.described((X, W), (X,)).codes
    made = cuda_compiler.ptx_of("scaled", code, {"IN0_SIZE": "120", "IN0_DIM1": "20"}, "own", SM_90)
    assert b".visible .entry own(" in made.data
    assert b".target sm_90" in made.data
    assert re.match(rf"{compiler}( of ziglang)? \d+\.\d+", made.by)
    code = Code(language=Language.CUDA, text="__global__ void f() { g(); }", entry="f")
    said = rf"{compiler} refuses the kernel f: .*identifier ['\"]g['\"]"
    with pytest.raises(CompileError, match=said) as refused:
        cuda_compiler.ptx_of("f", code, {}, "own", SM_90)
    assert refused.value.where == "f.cu:1"


def test_ptx_says_what_gpus_it_is_for():
    kernel = kernels.ptx(PTX, grid=1, reference=lambda x: x)
    report = run_passes(export(lambda x: kernel(x), (X,)), "cuda:sm_60")
    assert report.notes[0].startswith(
        "kernel copy: not used: code for compute capability 70 and above"
    )
    assert run_passes(export(lambda x: kernel(x), (X,)), "cuda").notes == [
        "kernel copy: in its place"
    ]


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr(cuda_compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(cuda_compiler.Nvrtc, "find", lambda: None)
    monkeypatch.setattr(cuda_compiler, "has_ziglang", lambda: False)
    code = Code(language=Language.CUDA, text=CUDA, entry="scaled")
    with pytest.raises(MissingExtra, match="kernel scaled is in CUDA C"):
        cuda_compiler.ptx_of("scaled", code, {}, "own", SM_90)


@needs_triton
def test_a_triton_kernel_travels_as_ptx_for_each_capability():
    from tests.kernels import triton_kernel

    kernel = kernels.triton(
        triton_kernel.scaled,
        grid=lambda x, w: -(-x.size // 64),
        numbers=lambda x, w: {"size": x.size},
        constants=lambda x, w: {"width": x.shape[1], "block": 64},
        reference=reference,
    )
    program = traced(kernel)
    described = json.loads(kernel.described((X, W), (X,)).to_json())
    assert [code["capability"] for code in described["codes"]] == [80, 90]
    assert described["codes"][0]["numbers"] == [120]
    assert described["codes"][0]["grid"] == [2, 1, 1]
    assert compile_with_report(program, "cuda:sm_90", CompileOptions(check=False)).report.notes == (
        "kernel scaled: in its place",
    )
    with pytest.raises(UsageError, match="4 parameters that are neither"):
        kernels.triton(
            triton_kernel.scaled, grid=1, constants={"width": 20, "block": 64}, reference=reference
        )(X, W)
