// C = finish(A * B), a convolution of narrow groups: four neighbouring outputs of a pixel a thread.
//
// A is an image [images, high, wide, channels], B [taps, inputs, n]: output o sums `inputs`
// channels, of group o / each. With one input and one output a group, or with groups of a multiple
// of four outputs, the four lie side by side or have one input; others are gathered one by one.
// n is a multiple of 4. Workgroups: (fours of [m, n] by THREADS, 1, 1).
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "storage.glsl"

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { ELEMENT a[]; };
layout(binding = 0) readonly buffer AWide { ROOM a_wide[]; };
layout(binding = 1) readonly buffer B { ROOM b[]; };
layout(binding = 2) readonly buffer Bias { ROOM bias[]; };
layout(binding = 3) readonly buffer Scale { ROOM scale[]; };
layout(binding = 4) readonly buffer Other { ROOM other[]; };
layout(binding = 5) writeonly buffer C { ROOM c[]; };
layout(binding = 5) writeonly buffer CWide { vec4 c_wide[]; };

#include "numbers.glsl"
#include "finish.glsl"

#define ONE(i) float(a[i])

// Beyond the image nothing is read; or, AT_ONCE, the nearest pixel, which counts for nothing: reads
// that depend on no test are all on their way together. That is quicker where many threads wait for
// memory, and slower where what is computed takes the time.
#ifdef AT_ONCE
#define BEYOND(at, size)
#define NEAREST(at, size) clamp(at, 0, size - 1)
#define INSIDE(x) (uint(down) < uint(high) && uint(along) < uint(wide) ? x : vec4(0.0))
#else
#define BEYOND(at, size) if (uint(at) >= uint(size)) continue;
#define NEAREST(at, size) at
#define INSIDE(x) x
#endif

void main() {
  int number = int(gl_GlobalInvocationID.x);
  int fours = n / 4;
  int row = number / fours;
  int column = number - row * fours;
  if (row >= m) return;
  int image = row / (out_high * out_wide);
  int place = row - image * (out_high * out_wide);
  int line = place / out_wide;
  int top = line * stride_high - pad_high;
  int left = (place - line * out_wide) * stride_wide - pad_wide;
  ivec4 group = (column * 4 + ivec4(0, 1, 2, 3)) / each;
  bool single = inputs == 1 && each == 1;
  vec4 total = vec4(0.0);
  [[unroll]] for (int y = 0; y < taps_high; y++) {
    int down = top + y * dilation_high;
    BEYOND(down, high)
    [[unroll]] for (int x = 0; x < taps_wide; x++) {
      int along = left + x * dilation_wide;
      BEYOND(along, wide)
      int pixel = ((image * high + NEAREST(down, high)) * wide + NEAREST(along, wide)) * channels;
      int weights = (y * taps_wide + x) * inputs * fours + column;
      if (single) {
        vec4 values = WIDE(a_wide[pixel / 4 + column]);
        total += INSIDE(values) * WIDE(b[weights]);
        continue;
      }
      ivec4 at = pixel + group * inputs;
      for (int k = 0; k < inputs; k++) {
        vec4 values = vec4(ONE(at.x + k), ONE(at.y + k), ONE(at.z + k), ONE(at.w + k));
        total += INSIDE(values) * WIDE(b[weights + k * fours]);
      }
    }
  }
  finish(total, number, column, what);
}
