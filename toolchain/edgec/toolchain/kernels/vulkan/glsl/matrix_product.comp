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
  int group = thread / 32;
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
        [[unroll]] for (int i = 0; i < A_LOADS; i++) {
          int row = thread / QK + i * (THREADS / QK);
          a_tile[now * A_SIZE + row * A_ROW + thread % QK] = a_next[turn * A_LOADS + i];
        }
        [[unroll]] for (int i = 0; i < B_LOADS; i++) {
          int line = thread / QB + i * (THREADS / QB);
          b_tile[now * B_SIZE + line * B_ROW + thread % QB] = b_next[turn * B_LOADS + i];
        }
        barrier();
      }
      if (asked < last) {
        bool fits = asked + a_inner < last;
        [[unroll]] for (int i = 0; i < A_LOADS; i++) {
          a_next[turn * A_LOADS + i] = fits ? a[(a_at[i] + asked + a_inner) / 8] : uvec4(0);
        }
        [[unroll]] for (int i = 0; i < B_LOADS; i++) {
          int line = asked + thread / QB + i * (THREADS / QB);
          int column = min(column0 + thread % QB * 8, n - 8);
          b_next[turn * B_LOADS + i] = line < last ? b[(b_base + line * n + column) / 8] : uvec4(0);
        }
        asked += BK;
      }
      if (sums) {
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
    }
  }

#include "matrix_patches.glsl"
}
