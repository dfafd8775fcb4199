// Six by six pixels of a channel to the 36 sums that Winograd's convolution multiplies.
//
// A is [images, high, wide, inputs]; B [36, tiles, inputs] in f32, of so many tiles from `first_tile`
// on: 4 x 4 results whose pixels begin `pad_high` and `pad_wide` before them. One channel a thread, which holds 36 numbers.
// Workgroups: (channels of all tiles by THREADS, 1, 1).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) writeonly buffer B { float b[]; };

#include "numbers.glsl"
#include "winograd.glsl"

// Twice an even and an odd part: what points of the same size have but for its sign.
void turn(inout float d[6]) {
  float even = d[4] - 2.0 * d[2];
  float odd = NEAR * (d[3] - 2.0 * d[1]);
  float even_far = d[4] - 0.5 * d[2];
  float odd_far = FAR * (d[3] - 0.5 * d[1]);
  d[0] = d[0] - 2.5 * d[2] + d[4];
  d[5] = d[1] - 2.5 * d[3] + d[5];
  d[1] = even + odd;
  d[2] = even - odd;
  d[3] = even_far + odd_far;
  d[4] = even_far - odd_far;
}

void main() {
  int number = int(gl_GlobalInvocationID.x);
  int tile = number / inputs;
  if (tile >= tiles) return;
  int channel = number - tile * inputs;
  tile += first_tile;
  int image = tile / (down * across);
  int place = tile - image * (down * across);
  int line = place / across;
  int top = line * 4 - pad_high;
  int left = (place - line * across) * 4 - pad_wide;
  int start = image * high * wide;
  float d[6][6];
  [[unroll]] for (int x = 0; x < 6; x++) {
    bool within = uint(left + x) < uint(wide);
    float column[6];
    [[unroll]] for (int y = 0; y < 6; y++) {
      bool there = within && uint(top + y) < uint(high);
      int pixel = there ? start + (top + y) * wide + left + x : start;
      column[y] = mix(0.0, a[pixel * inputs + channel], there);
    }
    turn(column);
    [[unroll]] for (int y = 0; y < 6; y++) d[y][x] = column[y];
  }
  int step = tiles * inputs;
  [[unroll]] for (int y = 0; y < 6; y++) {
    turn(d[y]);
    [[unroll]] for (int x = 0; x < 6; x++) b[(y * 6 + x) * step + number] = d[y][x];
  }
}
