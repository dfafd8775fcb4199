// C = finish(x B) for one row x [k] and a matrix B [k, n], or (without VECTOR) the sums of B's
// columns times a factor.
//
// A thread sums four columns over every LANES-th row, neighbouring threads read neighbouring memory.
// Workgroups: (fours of columns by THREADS / LANES, 1, as many such rows and matrices).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer B { ROOM b[]; };
#ifdef VECTOR
layout(binding = 1) readonly buffer A { ELEMENT a[]; };
layout(binding = 2) readonly buffer Bias { ROOM bias[]; };
layout(binding = 3) readonly buffer Scale { ROOM scale[]; };
layout(binding = 4) readonly buffer Other { ROOM other[]; };
const int LAST = 5;
#else
const int LAST = 1;
#endif
layout(binding = LAST) writeonly buffer C { ROOM c[]; };
layout(binding = LAST) writeonly buffer CWide { vec4 c_wide[]; };

#include "numbers.glsl"
#ifdef VECTOR
#include "finish.glsl"
#endif

const int ROOMS = THREADS / LANES;

shared vec4 parts[THREADS];

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int lane = thread / ROOMS;
  int rooms = n / 4;
  int room = int(gl_WorkGroupID.x) * ROOMS + thread % ROOMS;
  int batch = int(gl_WorkGroupID.z);
  int at = batch * k * rooms + min(room, rooms - 1);
  vec4 total = vec4(0.0);
  for (int row = lane; row < k; row += LANES) {
#ifdef VECTOR
    total += float(a[batch * k + row]) * WIDE(b[at + row * rooms]);
#else
    total += WIDE(b[at + row * rooms]);
#endif
  }
  parts[thread] = total;
  barrier();
  [[unroll]] for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
    if (lane < half_) parts[thread] += parts[thread + half_ * ROOMS];
    barrier();
  }
  if (lane > 0 || room >= rooms) return;
  total = parts[thread];
  at = batch * rooms + room;
#ifdef VECTOR
  finish(total, at, room, what);
#else
  total *= intBitsToFloat(factor_bits);
#ifdef HALF
  if ((what & 4) == 0) {
    c[at] = f16vec4(total);
    return;
  }
#endif
  c_wide[at] = total;
#endif
}
