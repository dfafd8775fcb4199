// COUNT elements of x into y; where they lie is said in `moved`.
//
// Workgroups: (elements by THREADS, 1, 1).
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = THREADS) in;
#include "moved.glsl"
layout(binding = X_AT) readonly buffer X { ELEMENT x[]; };
layout(binding = Y_AT) writeonly buffer Y { ELEMENT y[]; };

void main() {
  int index = int(gl_GlobalInvocationID.x);
  if (index < COUNT) y[index] = x[place_of(index)];
}
