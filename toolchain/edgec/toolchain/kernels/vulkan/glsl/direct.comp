// C = finish(A * B) without memory that threads share: TM x TN of a tile of BM x BN a thread.
//
// For GPUs whose shared memory lies in their caches anyway, where a tile in it is copied for
// nothing and every barrier is waited for. A thread reads what it multiplies: fours of TM rows,
// which its neighbours read, too, and fours of TN columns, beside those of its neighbours.
//
// Operands, sizes and parts are those of `product`; a part of the inside is a multiple of 4.
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

const int FOURS = TN / 4;
const int ACROSS = BN / TN;  // Threads along a row of tiles of 4 columns.

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int columns = n / 4;
  int tiles_n = (n + BN - 1) / BN;
  int tile = int(gl_WorkGroupID.x);
  int row0 = tile / tiles_n * BM + thread / ACROSS * TM;
  int column0 = tile % tiles_n * (BN / 4) + thread % ACROSS;
  int part = int(gl_WorkGroupID.y);
  int batch = int(gl_WorkGroupID.z);
  // Everything along the inside by fours from here on, with nothing to divide or multiply in the
  // innermost loop. A row or column that is not there does another's work.
  int inside = k / 4;
  int at = part * k_part / 4;
  int last = min(inside, at + k_part / 4);
  int a_at[TM];
#ifdef CONVOLUTION
  int top[TM];
  int left[TM];
#endif
  [[unroll]] for (int i = 0; i < TM; i++) {
    int row = min(row0 + i, m - 1);
#ifdef CONVOLUTION
    int image = row / (out_high * out_wide);
    int place = row - image * (out_high * out_wide);
    int line = place / out_wide;
    top[i] = line * stride_high - pad_high;
    left[i] = (place - line * out_wide) * stride_wide - pad_wide;
    a_at[i] = ((image * high + top[i]) * wide + left[i]) * (pixel / 4);
#else
    a_at[i] = batch * a_step / 4 + row * inside;
#endif
  }
#ifdef TURNED
  int b_at[TN];
  [[unroll]] for (int j = 0; j < TN; j++) {
    int column = min(column0 + j / 4 * ACROSS, columns - 1) * 4 + j % 4;
    b_at[j] = batch * b_step / 4 + column * inside;
  }
#else
  int b_at[FOURS];
  [[unroll]] for (int j = 0; j < FOURS; j++) {
    b_at[j] = min(column0 + j * ACROSS, columns - 1) + at * 4 * columns;
#ifndef CONVOLUTION
    b_at[j] += batch * b_step / 4;
#endif
  }
#endif

  vec4 total[TM * FOURS];
  [[unroll]] for (int i = 0; i < TM * FOURS; i++) total[i] = vec4(0.0);

  while (at < last) {
    int from[TM];
#ifdef CONVOLUTION
    // As much as lies in one tap: its pixels are in the image or are not.
    int fours = inputs / 4;
    int tap = at / fours;
    int channel = at - tap * fours;
    int line = tap / taps_wide;
    int along = (tap - line * taps_wide) * dilation_wide;
    int down = line * dilation_high;
    int upto = min(last, at + fours - channel);
    int offset = (down * wide + along) * (pixel / 4) + channel;
    bool there[TM];
    [[unroll]] for (int i = 0; i < TM; i++) {
      there[i] = uint(top[i] + down) < uint(high) && uint(left[i] + along) < uint(wide);
      from[i] = there[i] ? a_at[i] + offset : 0;
    }
#else
    int upto = last;
    [[unroll]] for (int i = 0; i < TM; i++) from[i] = a_at[i] + at;
#endif
    for (; at < upto; at++) {
      vec4 rows[TM];
      [[unroll]] for (int i = 0; i < TM; i++) {
        rows[i] = WIDE(a[from[i]++]);
#ifdef CONVOLUTION
        rows[i] = mix(vec4(0.0), rows[i], bvec4(there[i]));
#endif
      }
#ifdef TURNED
      [[unroll]] for (int j = 0; j < TN; j++) {
        vec4 column = WIDE(b[b_at[j] + at]);
        [[unroll]] for (int i = 0; i < TM; i++) {
          total[i * FOURS + j / 4][j % 4] += dot(rows[i], column);
        }
      }
#else
      [[unroll]] for (int e = 0; e < 4; e++) {
        [[unroll]] for (int j = 0; j < FOURS; j++) {
          vec4 column = WIDE(b[b_at[j]]);
          b_at[j] += columns;
          [[unroll]] for (int i = 0; i < TM; i++) total[i * FOURS + j] += rows[i][e] * column;
        }
      }
#endif
    }
  }

  // One after the other, so that what follows a sum is in the kernel once.
  int base = (batch * int(gl_NumWorkGroups.y) + part) * m;
  [[dont_unroll]] for (int each = 0; each < TM * FOURS; each++) {
    vec4 result = total[0];
    [[unroll]] for (int i = 1; i < TM * FOURS; i++) {
      result = mix(result, total[i], bvec4(each == i));
    }
    int row = row0 + each / FOURS;
    int column = column0 + each % FOURS * ACROSS;
    if (row < m && column < columns) finish(result, (base + row) * columns + column, column, what);
  }
}
