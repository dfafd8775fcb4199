// A convolution in f16 by matrix units; its rows are windows, as in `product`.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "matrix_tiles.glsl"

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
  int top[A_LOADS];
  int left[A_LOADS];
  [[unroll]] for (int i = 0; i < A_LOADS; i++) {
    int row = min(row0 + thread / QK + i * (THREADS / QK), m - 1);
    int image = row / (out_high * out_wide);
    int place = row - image * (out_high * out_wide);
    int line = place / out_wide;
    top[i] = line * stride_high - pad_high;
    left[i] = (place - line * out_wide) * stride_wide - pad_wide;
    a_at[i] = ((image * high + top[i]) * wide + left[i]) * pixel;
  }
  int tap = (first + a_inner) / inputs;
  int channel = first + a_inner - tap * inputs;
  int down = tap / taps_wide * dilation_high;
  int along = tap % taps_wide * dilation_wide;
  int beyond = taps_wide * dilation_wide;
  const int b_base = 0;

  uvec4 a_next[AHEAD * A_LOADS];
  uvec4 b_next[AHEAD * B_LOADS];
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> total[FM * FN];
  [[unroll]] for (int i = 0; i < FM * FN; i++) {
    total[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  }
  // Where nothing is shared the compiler has to know so: addresses are constants then.
  int group = SPLIT > 1 ? thread / 32 % GROUPS : thread / 32;
  int share = SPLIT > 1 ? thread / 32 / GROUPS : 0;
  int m0 = group / ACROSS * WM;
  int n0 = group % ACROSS * WN;
  int steps = (last - first + BK - 1) / BK;
  int asked = first;

  // Rounds as in `matrix_product`.
  for (int round = -AHEAD; round < steps; round += AHEAD) {
    [[unroll]] for (int turn = 0; turn < AHEAD; turn++) {
      int now = (round + turn) & 1;
      bool sums = round >= 0 && round + turn < steps;
      if (sums) {
#include "matrix_put.glsl"
        barrier();
      }
      if (asked < last) {
        bool fits = asked + a_inner < last;
        int offset = (down * wide + along) * pixel + channel;
        [[unroll]] for (int i = 0; i < A_LOADS; i++) {
          bool there = fits && uint(top[i] + down) < uint(high) && uint(left[i] + along) < uint(wide);
          a_next[turn * A_LOADS + i] = there ? a[(a_at[i] + offset) >> 3] : uvec4(0);
        }
        channel += BK;
        while (channel >= inputs) {
          channel -= inputs;
          along += dilation_wide;
          if (along == beyond) {
            along = 0;
            down += dilation_high;
          }
        }
        [[unroll]] for (int i = 0; i < B_LOADS; i++) {
          int line = asked + thread / QB + i * (THREADS / QB);
          int column = min(column0 + thread % QB * 8, n - 8);
          b_next[turn * B_LOADS + i] = line < last ? b[(b_base + line * n + column) >> 3] : uvec4(0);
        }
        asked += BK;
      }
      if (sums) {
#include "matrix_sums.glsl"
      }
    }
  }

#include "matrix_patches.glsl"
}
