// C = finish(A * B): a tile of BM rows and BN columns a workgroup, TM x TN of them a thread.
//
// A is [m, k], or with CONVOLUTION an image [images, high, wide, pixel] whose windows are the rows:
// a window has `taps` places of `inputs` elements each, `pixel` of them or those of the pixels to
// the right, too. B is [k, n], or [n, k] with TURNED. Sizes along k and n are multiples of 4.
// Workgroups: (tiles, parts, batch). A part sums `k_part` of the inside, a multiple of BK; where
// there are several, each stores its sum as f32, [parts, m, n], and `join` does the rest.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { ROOM a[]; };
layout(binding = 1) readonly buffer B { ROOM b[]; };
layout(binding = 2) readonly buffer Bias { ROOM bias[]; };
layout(binding = 3) readonly buffer Scale { ROOM scale[]; };
layout(binding = 4) readonly buffer Other { ROOM other[]; };
layout(binding = 5) writeonly buffer C { ROOM c[]; };
layout(binding = 5) writeonly buffer CWide { vec4 c_wide[]; };

#include "numbers.glsl"
#include "finish.glsl"

const int QK = BK / 4;
const int QN = BN / 4;
const int A_ROW = QK + 1;  // One more, so that neighbouring rows lie in other banks.
const int A_SIZE = BM * A_ROW;
const int B_SIZE = BK * QN;
const int A_LOADS = BM * QK / THREADS;
const int B_LOADS = BK * QN / THREADS;
const int ACROSS = BN / TN;  // Threads along a row of tiles of 4 columns.
const int DOWN = BM / TM;

shared vec4 a_tile[2 * A_SIZE];
shared vec4 b_tile[2 * B_SIZE];

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

  // Every load of a thread takes the same four of the inside, in other rows.
  int a_inner = thread % QK * 4;
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
  int down = tap / taps_wide * dilation_high;
  int along = tap % taps_wide * dilation_wide;
  int beyond = taps_wide * dilation_wide;
#endif
#ifdef TURNED
  // Neighbouring threads take neighbouring columns, whose elements lie side by side in the tile.
  int b_inner = thread / BN * 4;
  int b_column = min(column0 + thread % BN, n - 1);
  int b_at = batch * b_step + b_column * k;
#else
  int b_column = min(column0 / 4 + thread % QN, n / 4 - 1);
#ifdef CONVOLUTION
  const int b_base = 0;
#else
  int b_base = batch * b_step;
#endif
#endif

  vec4 a_next[A_LOADS];
  vec4 b_next[B_LOADS];
  vec4 total[TM * TN / 4];
  [[unroll]] for (int i = 0; i < TM * TN / 4; i++) total[i] = vec4(0.0);
  int across = thread % ACROSS;
  int under = thread / ACROSS;
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
        a_next[i] = there ? WIDE(a[(a_at[i] + offset) / 4]) : vec4(0.0);
#else
        a_next[i] = fits ? WIDE(a[(a_at[i] + next + a_inner) / 4]) : vec4(0.0);
#endif
      }
#ifdef CONVOLUTION
      channel += BK;
      while (channel >= inputs) {
        channel -= inputs;
        along += dilation_wide;
        if (along == beyond) {
          along = 0;
          down += dilation_high;
        }
      }
#endif
      [[unroll]] for (int i = 0; i < B_LOADS; i++) {
#ifdef TURNED
        int inner = next + b_inner + i * (THREADS / BN) * 4;
        b_next[i] = inner < last ? WIDE(b[(b_at + inner) / 4]) : vec4(0.0);
#else
        int inner = next + thread / QN + i * (THREADS / QN);
        b_next[i] = inner < last ? WIDE(b[(b_base + inner * n) / 4 + b_column]) : vec4(0.0);
#endif
      }
    }
    if (start >= first) {
      [[unroll]] for (int q = 0; q < QK; q++) {
        vec4 rows[TM];
        [[unroll]] for (int i = 0; i < TM; i++) {
          rows[i] = a_tile[now * A_SIZE + (under + i * DOWN) * A_ROW + q];
        }
        [[unroll]] for (int e = 0; e < 4; e++) {
          [[unroll]] for (int j = 0; j < TN / 4; j++) {
            vec4 columns = b_tile[now * B_SIZE + (q * 4 + e) * QN + across + j * ACROSS];
            [[unroll]] for (int i = 0; i < TM; i++) {
              total[i * (TN / 4) + j] += rows[i][e] * columns;
            }
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
#ifdef TURNED
        int inner = thread / BN * 4 + i * (THREADS / BN) * 4;
        int column = thread % BN;
                [[unroll]] for (int e = 0; e < 4; e++) {
          b_tile[now * B_SIZE + (inner + e) * QN + column / 4][column % 4] = b_next[i][e];
        }
#else
        int inner = thread / QN + i * (THREADS / QN);
        b_tile[now * B_SIZE + inner * QN + thread % QN] = b_next[i];
#endif
      }
      barrier();
    }
  }

  int base = (batch * int(gl_NumWorkGroups.y) + part) * m;
  [[unroll]] for (int i = 0; i < TM; i++) {
    int row = row0 + under + i * DOWN;
    [[unroll]] for (int j = 0; j < TN / 4; j++) {
      int column = column0 / 4 + across + j * ACROSS;
      if (row < m && column < n / 4) {
        finish(total[i * (TN / 4) + j], (base + row) * (n / 4) + column, column, what);
      }
    }
  }
}
