// Weights of 3 x 3 taps to the 36 sums that Winograd's convolution multiplies pixels' with.
//
// A has a step for each row and column of taps, each channel and each output; B is
// [36, channels, outputs]. With SCALED each output has a factor. One output of a channel a thread.
// Workgroups: (some, enough for all outputs of all channels by THREADS, 1).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { float a[]; };
#ifdef SCALED
layout(binding = 1) readonly buffer F { float factor[]; };
layout(binding = 2) writeonly buffer B { float b[]; };
#else
layout(binding = 1) writeonly buffer B { float b[]; };
#endif

#include "numbers.glsl"
#include "winograd.glsl"

// A polynomial's values at the points, each over its distances to all others.
void values(vec3 g, out float points[6]) {
  float even = (g.x + 0.5 * g.z) / -1.5;
  float odd = NEAR * g.y / -1.5;
  float even_far = (g.x + 2.0 * g.z) / 6.0;
  float odd_far = FAR * g.y / 6.0;
  points[0] = g.x;
  points[1] = even + odd;
  points[2] = even - odd;
  points[3] = even_far + odd_far;
  points[4] = even_far - odd_far;
  points[5] = g.z;
}

void main() {
  int group = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
  int number = group * THREADS + int(gl_LocalInvocationID.x);
  if (number >= many) return;
  int channel = number / size_w;
  int column = number - channel * size_w;
  int at = start + channel * step_z + column * step_w;
  float each = 1.0;
#ifdef SCALED
  each = factor[scale_start + channel * scale_z + column * scale_w];
#endif
  float rows[3][6];
  [[unroll]] for (int y = 0; y < 3; y++) {
    int row = at + y * step_x;
    values(each * vec3(a[row], a[row + step_y], a[row + 2 * step_y]), rows[y]);
  }
  [[unroll]] for (int x = 0; x < 6; x++) {
    float points[6];
    values(vec3(rows[0][x], rows[1][x], rows[2][x]), points);
    [[unroll]] for (int y = 0; y < 6; y++) b[(y * 6 + x) * many + number] = points[y];
  }
}
