// C = finish(four by four results of 36 sums), [images, out_high, out_wide, n], by Winograd.
//
// A is [36, tiles, n] in f32. A thread does four channels of every other line of a tile. n is a
// multiple of 4. Workgroups: (fours of channels of all tiles by THREADS, 2 for the lines, 1).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { vec4 a[]; };
layout(binding = 1) readonly buffer Bias { ROOM bias[]; };
layout(binding = 2) readonly buffer Scale { ROOM scale[]; };
layout(binding = 3) readonly buffer Other { ROOM other[]; };
layout(binding = 4) writeonly buffer C { ROOM c[]; };
layout(binding = 4) writeonly buffer CWide { vec4 c_wide[]; };

#include "numbers.glsl"
#include "finish.glsl"
#include "winograd.glsl"

const float TURN[4][6] = {
  {1.0, 1.0, 1.0, 1.0, 1.0, 0.0},
  {0.0, NEAR, -NEAR, FAR, -FAR, 0.0},
  {0.0, 0.5, 0.5, 2.0, 2.0, 0.0},
  {0.0, 0.5 * NEAR, -0.5 * NEAR, 2.0 * FAR, -2.0 * FAR, 1.0},
};

void main() {
  int number = int(gl_GlobalInvocationID.x);
  int odd = int(gl_WorkGroupID.y);
  int fours = n / 4;
  int tile = number / fours;
  if (tile >= tiles) return;
  int column = number - tile * fours;
  tile += first_tile;
  int step = tiles * fours;
  vec4 first[4];
  vec4 second[4];
  [[unroll]] for (int i = 0; i < 4; i++) first[i] = second[i] = vec4(0.0);
  // Lines 0 and 2 are of sums of opposite points, 1 and 3 of their differences.
  float sign_ = odd == 0 ? 1.0 : -1.0;
  int last = odd == 0 ? 0 : 5;
  float near = odd == 0 ? 1.0 : NEAR;
  float far = odd == 0 ? 1.0 : FAR;
  float alone = odd == 0 ? 1.0 : 0.0;
  [[unroll]] for (int x = 0; x < 6; x++) {
    vec4 m = a[(last * 6 + x) * step + number];
    vec4 s = near * (a[(6 + x) * step + number] + sign_ * a[(12 + x) * step + number]);
    vec4 t = far * (a[(18 + x) * step + number] + sign_ * a[(24 + x) * step + number]);
    vec4 one = s + t + alone * m;
    vec4 two = 0.5 * s + 2.0 * t + (1.0 - alone) * m;
    [[unroll]] for (int i = 0; i < 4; i++) {
      if (TURN[i][x] != 0.0) {
        first[i] += TURN[i][x] * one;
        second[i] += TURN[i][x] * two;
      }
    }
  }
  int image = tile / (down * across);
  int place = tile - image * (down * across);
  int line = place / across;
  int left = (place - line * across) * 4;
  [[unroll]] for (int half_ = 0; half_ < 2; half_++) {
    int y = line * 4 + odd + half_ * 2;
    [[unroll]] for (int i = 0; i < 4; i++) {
      if (y < out_high && left + i < out_wide) {
        int at = ((image * out_high + y) * out_wide + left + i) * fours + column;
        finish(half_ == 0 ? first[i] : second[i], at, column, what);
      }
    }
  }
}
