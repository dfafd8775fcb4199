// C = finish(A * B) in f16 by matrix units: sums in f32, 16 x 16 x 16 at a time a subgroup.
//
// As in `product`, but sizes along k and n are multiples of 8. A tile has BM rows and BN columns,
// a subgroup of 32 threads WM x WN of them. What waits in shared memory lies as in the operands.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#pragma use_vulkan_memory_model
#include "storage.glsl"

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { uvec4 a[]; };
layout(binding = 1) readonly buffer B { uvec4 b[]; };
layout(binding = 2) readonly buffer Bias { ROOM bias[]; };
layout(binding = 3) readonly buffer Scale { ROOM scale[]; };
layout(binding = 4) readonly buffer Other { ROOM other[]; };
layout(binding = 5) writeonly buffer C { ROOM c[]; };
layout(binding = 5) writeonly buffer CWide { vec4 c_wide[]; };

#include "numbers.glsl"
#include "finish.glsl"

// Eight elements are one piece; a row has one piece more, so that rows lie in other banks.
const int QK = BK / 8;
const int A_ROW = QK + 1;
const int A_SIZE = BM * A_ROW;
const int A_LOADS = BM * QK / THREADS;
const int QB = BN / 8;
const int B_ROW = QB + 1;
const int B_SIZE = BK * B_ROW;
const int B_LOADS = BN * QK / THREADS;
const int ACROSS = BN / WN;
const int FM = WM / 16;
const int FN = WN / 16;

shared uvec4 a_tile[2 * A_SIZE];
shared uvec4 b_tile[2 * B_SIZE];
shared vec4 patches[THREADS / 32 * 64];

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int tiles_n = (n + BN - 1) / BN;
  int tile = int(gl_WorkGroupID.x);
  int row0 = tile / tiles_n * BM;
  int column0 = tile % tiles_n * BN;
  int part = int(gl_WorkGroupID.y);
  int batch = int(gl_WorkGroupID.z);
  int first = part * k_part;
  int last = min(k, first + k_part);

  int a_inner = thread % QK * 8;
  int a_at[A_LOADS];
#ifdef CONVOLUTION
  int top[A_LOADS];
  int left[A_LOADS];
#endif
  [[unroll]] for (int i = 0; i < A_LOADS; i++) {
    int row = min(row0 + thread / QK + i * (THREADS / QK), m - 1);
#ifdef CONVOLUTION
    int image = row / (out_high * out_wide);
    int place = row - image * (out_high * out_wide);
    int line = place / out_wide;
    top[i] = line * stride_high - pad_high;
    left[i] = (place - line * out_wide) * stride_wide - pad_wide;
    a_at[i] = ((image * high + top[i]) * wide + left[i]) * pixel;
#else
    a_at[i] = batch * a_step + row * k;
#endif
  }
#ifdef CONVOLUTION
  int tap = (first + a_inner) / inputs;
  int channel = first + a_inner - tap * inputs;
  int down = tap / taps_wide;
  int along = tap - down * taps_wide;
  const int b_base = 0;
#else
  int b_base = batch * b_step;
#endif

  uvec4 a_next[A_LOADS];
  uvec4 b_next[B_LOADS];
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> total[FM * FN];
  [[unroll]] for (int i = 0; i < FM * FN; i++) {
    total[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  }
  int group = thread / 32;
  int m0 = group / ACROSS * WM;
  int n0 = group % ACROSS * WN;
  int now = 0;

  for (int start = first - BK; start < last; start += BK) {
    // Ask for the next step's elements, sum those of this one, and put the next into the tiles.
    int next = start + BK;
    if (next < last) {
      bool fits = next + a_inner < last;
#ifdef CONVOLUTION
      int offset = (down * wide + along) * pixel + channel;
#endif
      [[unroll]] for (int i = 0; i < A_LOADS; i++) {
#ifdef CONVOLUTION
        bool there = fits && uint(top[i] + down) < uint(high) && uint(left[i] + along) < uint(wide);
        a_next[i] = there ? a[(a_at[i] + offset) / 8] : uvec4(0);
#else
        a_next[i] = fits ? a[(a_at[i] + next + a_inner) / 8] : uvec4(0);
#endif
      }
#ifdef CONVOLUTION
      channel += BK;
      while (channel >= inputs) {
        channel -= inputs;
        along += 1;
        if (along == taps_wide) {
          along = 0;
          down += 1;
        }
      }
#endif
      [[unroll]] for (int i = 0; i < B_LOADS; i++) {
        int line = thread / QB + i * (THREADS / QB);
        int column = min(column0 + thread % QB * 8, n - 8);
        b_next[i] = next + line < last ? b[(b_base + (next + line) * n + column) / 8] : uvec4(0);
      }
    }
    if (start >= first) {
      [[unroll]] for (int step = 0; step < BK / 16; step++) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows[FM];
        [[unroll]] for (int i = 0; i < FM; i++) {
          int at = now * A_SIZE + (m0 + i * 16) * A_ROW + step * 2;
          coopMatLoad(rows[i], a_tile, at, A_ROW, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (int j = 0; j < FN; j++) {
          coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> columns;
          int at = now * B_SIZE + step * 16 * B_ROW + (n0 + j * 16) / 8;
          coopMatLoad(columns, b_tile, at, B_ROW, gl_CooperativeMatrixLayoutRowMajor);
          [[unroll]] for (int i = 0; i < FM; i++) {
            total[i * FN + j] = coopMatMulAdd(rows[i], columns, total[i * FN + j]);
          }
        }
      }
    }
    if (next < last) {
      now = 1 - now;
      [[unroll]] for (int i = 0; i < A_LOADS; i++) {
        int row = thread / QK + i * (THREADS / QK);
        a_tile[now * A_SIZE + row * A_ROW + thread % QK] = a_next[i];
      }
      [[unroll]] for (int i = 0; i < B_LOADS; i++) {
        int line = thread / QB + i * (THREADS / QB);
        b_tile[now * B_SIZE + line * B_ROW + thread % QB] = b_next[i];
      }
      barrier();
    }
  }

  // A subgroup puts one sum of 16 x 16 at a time into its patch, where each thread finishes two
  // fours of it.
  int base = (batch * int(gl_NumWorkGroups.y) + part) * m;
  int lane = thread % 32;
  [[unroll]] for (int i = 0; i < FM; i++) {
    [[unroll]] for (int j = 0; j < FN; j++) {
      coopMatStore(total[i * FN + j], patches, group * 64, 4, gl_CooperativeMatrixLayoutRowMajor);
      subgroupBarrier();
      [[unroll]] for (int e = 0; e < 2; e++) {
        int row = row0 + m0 + i * 16 + lane / 4 + e * 8;
        int column = (column0 + n0 + j * 16) / 4 + lane % 4;
        if (row < m && column < n / 4) {
          finish(patches[group * 64 + lane + e * 32], (base + row) * (n / 4) + column, column, what);
        }
      }
      subgroupBarrier();
    }
  }
}
