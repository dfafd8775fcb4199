"""CUDA C++ by clang and edgec's own headers: what it computes, on what GPUs, what is refused."""

import re
import subprocess
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import kernels
from edgec.exporters import export
from edgec.runtime.errors import CompileError, EdgecError, MissingExtra
from edgec.targets import find
from edgec.toolchain import run_passes
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton
from edgec.toolchain.kernels.own import cuda_compiler
from edgec.toolchain.kernels.own.c_compiler import has_ziglang
from edgec.toolchain.kernels.own.cuda_clang import by_clang
from edgec.toolchain.own_kernels import Code, Language
from tests.kernels.emulated_cuda import run

pytestmark = pytest.mark.skipif(not has_ziglang(), reason="no ziglang (edgec[cuda])")

SOFTMAX = """
template <class T> __device__ __forceinline__ T largest_of_warp(T v) {
  for (int offset = warpSize / 2; offset; offset >>= 1)
    v = max(v, __shfl_xor_sync(0xffffffff, v, offset));
  return v;
}
__device__ float sum_of_warp(float v) {
  for (int offset = 16; offset; offset >>= 1) v += __shfl_down_sync(0xffffffff, v, offset);
  return __shfl_sync(0xffffffff, v, 0);
}
__global__ void __launch_bounds__(128) softmax(const float *__restrict__ x, float *y, int n) {
  extern __shared__ float part[];
  __shared__ float most, total;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += blockIdx.x * n, y += blockIdx.x * n;
  float v = threadIdx.x < n ? x[threadIdx.x] : -INFINITY;
  float m = largest_of_warp(v);
  if (lane == 0) part[warp] = m;
  __syncthreads();
  if (threadIdx.x == 0) {
    most = part[0];
    for (int i = 1; i < blockDim.x / 32; ++i) most = fmaxf(most, part[i]);
    total = 0;
  }
  __syncthreads();
  float e = threadIdx.x < n ? expf(v - most) : 0;
  float s = sum_of_warp(e);
  if (lane == 0) atomicAdd(&total, s);
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = e / total;
}
"""
TURNED = """
#define TILE 8
__global__ void turned(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[TILE][TILE + 1];
  int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();
  dim3 at = blockIdx, of(blockDim);
  uint3 mine = threadIdx;
  if (of.x * of.y != TILE * TILE || mine.x != threadIdx.x) return;
  row = at.x * TILE + threadIdx.y, column = at.y * TILE + threadIdx.x;
  if (row < columns && column < rows) y[row * rows + column] = tile[threadIdx.x][threadIdx.y];
}
"""
COUNTED = """
__global__ void counted(const int *x, int *counts, unsigned *told, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool inside = i < n;
  unsigned lanes = __ballot_sync(~0u, inside && x[i] % 2);
  unsigned alike = __match_any_sync(~0u, inside ? x[i] : -1);
  if (inside) {
    atomicAdd(&counts[x[i]], 1);
    atomicMax(&counts[16], x[i]);
    atomicMin(&counts[17], x[i]);
    int old = counts[18], seen;
    do seen = old, old = atomicCAS(&counts[18], seen, seen + x[i]); while (old != seen);
    told[3 * i] = lanes, told[3 * i + 1] = alike, told[3 * i + 2] = __popc(__activemask());
  }
}
"""
RUNNING = """
#include <cuda_fp16.h>
__global__ void running(const unsigned short *x, float *sums, unsigned short *pairs) {
  float v = __half2float(__ushort_as_half(x[threadIdx.x]));
  for (int by = 1; by < 16; by *= 2) {
    float other = __shfl_up_sync(0xffffffff, v, by, 16);
    if (threadIdx.x % 16 >= by) v += other;
  }
  sums[threadIdx.x] = v;
  half2 two = __halves2half2(__ushort_as_half(x[threadIdx.x]), __float2half(2.0f));
  two = __hfma2(two, two, __float2half2_rn(1.0f));
  pairs[2 * threadIdx.x] = __half_as_ushort(__low2half(two));
  pairs[2 * threadIdx.x + 1] = __half_as_ushort(two.y);
}
"""
ALL = """
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>
#include <cmath>
#include <float.h>
#include <math_constants.h>
#include <stdio.h>
#include <assert.h>
__constant__ float table[4] = {1, 2, 3, 4};
__device__ int calls;
__global__ void all(float *x, float4 *v, int *i, double *d, unsigned long long *l, char *c) {
  int t = blockIdx.y * gridDim.z + threadIdx.z;
  std::uint32_t w = __float_as_uint(x[t]) ^ __brev(i[1]) ^ __byte_perm(i[2], i[3], 0x3210);
  x[1] = expf(x[2]) + exp2f(x[3]) + std::log(x[4]) + sinf(x[5]) + cosf(x[6]) + tanf(x[7]);
  x[2] = tanhf(x[3]) + erff(x[4]) + erfcf(x[5]) + powf(x[6], x[7]) + atan2f(x[8], CUDART_PI_F);
  x[3] = __expf(x[3]) + __logf(x[4]) + __sinf(x[5]) + __cosf(x[6]) + __powf(x[7], rsqrtf(x[9]));
  x[4] = __fdividef(x[3], x[4]) + __frcp_rn(x[5]) + __fsqrt_rz(x[6]) + __fmaf_ru(x[7], x[8], x[9]);
  x[5] = cbrtf(x[5]) + hypotf(x[6], x[7]) + fmodf(x[8], x[9]) + ldexpf(x[1], i[4]) + FLT_MAX;
  x[6] = __float2int_rn(x[6]) + __float2ull_rd(x[7]) + __int2float_rz(i[5]) + table[t & 3];
  d[0] = sqrt(d[1]) + fma(d[2], d[3], d[4]) + __double2ll_rz(d[5]) + exp(-d[6]) + log(d[7]);
  d[2] = fmod(__dadd_ru(d[6], 1), 3.0);
  i[6] = __clz(i[6]) + __ffs(i[7]) + __popc(i[8]) + __dp4a(i[9], i[1], i[2]) + __mulhi(i[3], i[4]);
  v[1] = __ldg(v), __stcs(v + 2, __ldcg(v + 3)), c[1] = __ldca(c), __stwt(c + 2, __ldcv(c + 3));
  x[7] = __shfl_up_sync(~0u, x[7], 1) + __syncthreads_count(t) + __syncthreads_or(t);
  d[1] = __shfl_down_sync(~0u, d[1], 2) + __all_sync(~0u, t) + __any_sync(~0u, t) + w;
  i[8] = __activemask();
  atomicAdd(i, 1), atomicSub(i, 1), atomicMin(i, 1), atomicMax(i, 1), atomicAnd(i, 1);
  atomicOr(i, 1), atomicXor(i, 1), atomicExch(x, 1.0f), atomicAdd(x, 1.0f), atomicAdd(l, 1ull);
  atomicCAS(l, 1ull, 2ull);
  atomicInc((unsigned *)i, 7u), atomicDec((unsigned *)i, 7u), atomicMax((long long *)l, 1ll);
  half h = __float2half(x[8]);
  half2 hh = __half2half2(h);
  hh = __hfma2(hh, __float2half2_rn(x[9]), h2exp(hh)) + __half2half2(h * h);
  x[8] = __half2float(hexp(h) + __hmax(h, hh.x)) + __high2float(hh);
  __nv_bfloat16 b = __float2bfloat16(x[9]);
  __nv_bfloat162 bb = make_bfloat162(b, b);
  x[9] = __bfloat162float(__hfma(b, b, b) + hsqrt(b)) + __low2float(__hmul2(bb, bb));
#if __CUDA_ARCH__ >= 600
  atomicAdd(d, 1.0), atomicAdd(&hh, hh);
#endif
#if __CUDA_ARCH__ >= 700
  atomicAdd(&h, h), __nanosleep(10), i[9] = __match_any_sync(~0u, l[2]), x[8] += __half2float(h);
#endif
#if __CUDA_ARCH__ >= 800
  i[7] = __reduce_add_sync(~0u, i[7]) + __reduce_max_sync(~0u, 3u);
#endif
#if __CUDA_ARCH__ >= 900
  atomicAdd((__nv_bfloat16 *)x, b);
#endif
  __threadfence(), __threadfence_block(), __syncwarp();
  atomicAdd(&calls, 1);
  assert(t >= 0);
  if (t == 0) printf("%d %f at %lld\\n", t, x[1], clock64());
}
"""


def assembled(ptx: str, capability: int, folder: Path) -> None:
    """What NVIDIA's assembler says of PTX."""
    from triton import knobs

    path = folder / "kernel.ptx"
    path.write_text(ptx)
    tool = knobs.nvidia.ptxas if capability < 100 else knobs.nvidia.ptxas_blackwell
    command = [tool.path, f"--gpu-name=sm_{capability}", str(path), "-o", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not has_triton(), reason="no assembler (edgec[cuda])")
@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(
    "capability", [50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121]
)
def test_what_the_headers_give_is_sound_for_each_gpu(capability, tmp_path):
    ptx = by_clang("all", ALL, [], capability)
    assert f".target sm_{capability}\n" in ptx
    assembled(ptx, capability, tmp_path)


def test_a_gpu_that_is_newer_than_clang_gets_ptx_for_the_one_before():
    source = 'extern "C" __global__ void f(float *x) { x[0] = 1; }'
    assert ".target sm_121\n" in by_clang("f", source, [], 999)


def test_products_and_sums_of_a_kernel_are_one_rounding_and_those_of_functions_are_not():
    source = (
        'extern "C" __global__ void f(float *x) { x[0] = x[1] * x[2] + x[3]; x[1] = logf(x[4]); }'
    )
    ptx = by_clang("f", source, [], 80)
    assert "fma.rn.f32" in ptx
    assert "add.rn.f32" in ptx  # an assembler contracts none that say how they round
    assert "add.f32" not in ptx


def test_softmax_by_warps_and_shared_memory():
    x = 4 * np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    y = np.zeros_like(x)
    run(SOFTMAX, "softmax", (3,), (128,), [x, y, 100])
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=3e-6)


def test_blocks_of_two_axes():
    x = np.arange(19 * 13, dtype=np.float32).reshape(19, 13)
    y = np.zeros((13, 19), np.float32)
    run(TURNED, "turned", (2, 3), (8, 8), [x, y, 19, 13])
    np.testing.assert_array_equal(y, x.T)


def test_atomics_and_votes():
    x = np.random.default_rng(0).integers(0, 16, 90).astype(np.int32)
    counts, told = np.zeros(19, np.int32), np.zeros((90, 3), np.uint32)
    counts[17] = 99
    run(COUNTED, "counted", (2,), (64,), [x, counts, told, 90])
    np.testing.assert_array_equal(counts[:16], np.bincount(x, minlength=16))
    assert counts[16:].tolist() == [x.max(), x.min(), x.sum()]
    for i, (lanes, alike, _) in enumerate(told.tolist()):
        warp = x[i // 32 * 32 : i // 32 * 32 + 32]
        assert lanes == sum(1 << j for j, v in enumerate(warp) if v % 2)
        assert alike == sum(1 << j for j, v in enumerate(warp) if v == x[i])


def test_running_sums_and_halves():
    x = np.random.default_rng(0).standard_normal(32).astype(np.float16)
    sums, pairs = np.zeros(32, np.float32), np.zeros((32, 2), np.float16)
    run(RUNNING, "running", (1,), (32,), [x, sums, pairs])
    np.testing.assert_allclose(
        sums, x.astype(np.float32).reshape(2, 16).cumsum(1).ravel(), rtol=1e-5, atol=1e-6
    )
    wide = x.astype(float)
    np.testing.assert_array_equal(pairs[:, 0], (wide * wide + 1).astype(np.float16))
    np.testing.assert_array_equal(pairs[:, 1], np.full(32, 5, np.float16))


BODIES = {
    "x[0] = tgammaf(x[1]);": (
        MissingExtra,
        "tgammaf is in CUDA's own library",
        "nvidia-cuda-nvrtc",
    ),
    "x[0] = tanh(-0.5 * x[1]);": (
        MissingExtra,
        "tanh of f64 is in CUDA's own",
        "nvidia-cuda-nvrtc",
    ),
    "x[0] = pow(x[1], 2.0);": (MissingExtra, "pow of f64 is in CUDA's own", "nvidia-cuda-nvrtc"),
    "x[0] = __reduce_add_sync(~0u, 1);": (CompileError, "compute capability 8.0", "--target="),
    "x[0] = for_host(x[1]);": (CompileError, "for_host", "write __device__"),
    "x[0] = elsewhere(x[1]);": (CompileError, "calls elsewhere, which it does not", "one file"),
    "nvcuda::wmma::fill_fragment(x);": (CompileError, "'nvcuda'", "nvidia-cuda-nvrtc"),
    "x[0] = 1": (CompileError, "expected ';'", "mend its source, and export the model again$"),
    "\n#include <cooperative_groups.h>\n": (MissingExtra, "cooperative_groups.h", "nvidia-cuda"),
}


@pytest.mark.parametrize("body", BODIES)
def test_what_is_refused_names_what_to_do(body):
    kind, said, hint = BODIES[body]
    source = (
        'float for_host(float x) { return x; }\nextern "C" __device__ float elsewhere(float);\n'
        f'extern "C" __global__ void f(float *x) {{\n  {body} }}'
    )
    with pytest.raises(EdgecError, match=said) as refused:
        by_clang("f", f'#line 1 "f.cu"\n{source}', [], 75)
    assert type(refused.value) is kind
    assert re.search(hint, str(refused.value.hint))
    if "elsewhere" not in body:
        assert str(refused.value.where).startswith("f.cu:")


def test_a_compile_says_what_compiled_a_kernel():
    source = (
        "__global__ void halved(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x] / 2; }"
    )
    kernel = kernels.cuda(source, grid=1, block=32, reference=lambda x: x / 2)
    program = export(lambda x: jnp.sin(kernel(x)), (np.ones(32, np.float32),))
    (note,) = run_passes(program, "cuda:sm_80").notes
    by = r"(nvcc|NVRTC|clang of ziglang) \d+\.\d+"
    assert re.match(rf"kernel halved: in its place, by {by}", note)


def test_what_clang_made_is_kept_until_the_headers_change(monkeypatch, tmp_path):
    monkeypatch.setattr(cuda_compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(cuda_compiler.Nvrtc, "find", lambda: None)
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path))
    made = []
    monkeypatch.setattr(
        cuda_compiler, "by_clang", lambda *given: made.append(given) or by_clang(*given)
    )
    code = Code(language=Language.CUDA, text="__global__ void f(int *x) { x[0] = 1; }", entry="f")
    for _ in range(2):
        ptx = cuda_compiler.ptx_of("f", code, {}, "own", find("cuda:sm_80"))
        assert b".entry own(" in ptx.data
    assert len(made) == 1
    monkeypatch.setattr(cuda_compiler, "headers_digest", lambda: "others")
    cuda_compiler.ptx_of("f", code, {}, "own", find("cuda:sm_80"))
    assert len(made) == 2
