// C = finish(the sum of `parts` products): `a` is f32, [parts, m, n]; four columns a thread.
#version 450
#extension GL_GOOGLE_include_directive : require
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

void main() {
  int at = int(gl_GlobalInvocationID.x);
  int size = m * (n / 4);
  if (at >= size) return;
  vec4 total = vec4(0.0);
  for (int part = 0; part < parts; part++) total += a[part * size + at];
  finish(total, at, at % (n / 4), what);
}
