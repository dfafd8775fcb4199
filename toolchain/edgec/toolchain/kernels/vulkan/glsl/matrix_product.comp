// C = finish(A * B) in f16 by matrix units; as `product`, otherwise. A thread holds what it has asked
// for AHEAD steps ahead.
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
  [[unroll]] for (int i = 0; i < A_LOADS; i++) {
    int row = min(row0 + thread / QK + i * (THREADS / QK), m - 1);
    a_at[i] = batch * a_step + row * k;
  }
  int b_base = batch * b_step;

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

  // A round puts what was asked for AHEAD steps ago into the tiles, asks for as many steps ahead,
  // and sums. Tiles take turns, so that one barrier a step is enough. The first round only asks.
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
        [[unroll]] for (int i = 0; i < A_LOADS; i++) {
          a_next[turn * A_LOADS + i] = fits ? a[(a_at[i] + asked + a_inner) >> 3] : uvec4(0);
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
