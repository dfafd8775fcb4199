// B = A with an edge around it. B has four axes, w the innermost; along each A begins at `low` and
// has `inner` elements, `step` apart where it lies.
//
// Workgroups: (some, the rest, 1), an element a thread.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define ELEMENT float16_t
#else
#define ELEMENT uint
#endif

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { ELEMENT a[]; };
layout(binding = 1) writeonly buffer B { ELEMENT b[]; };

#include "numbers.glsl"

#ifdef HALF
#define EDGE float16_t(intBitsToFloat(edge_bits))
#else
#define EDGE uint(edge_bits)
#endif

int place = 0;
bool inside = true;

void along(int index, int low, int inner, int step) {
  inside = inside && uint(index - low) < uint(inner);
  place += (index - low) * step;
}

void main() {
  int group = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
  int at = group * THREADS + int(gl_LocalInvocationIndex);
  if (at >= many) return;
  place = start;
  along(at % size_w, low_w, inner_w, step_w);
  int rest = at / size_w;
  along(rest % size_z, low_z, inner_z, step_z);
  rest /= size_z;
  along(rest % size_y, low_y, inner_y, step_y);
  along(rest / size_y, low_x, inner_x, step_x);
  b[at] = inside ? a[place] : EDGE;
}
