// C's rows are those of A and B beside each other, whatever they hold, 16 bytes a thread.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { uvec4 a[]; };
layout(binding = 1) readonly buffer B { uvec4 b[]; };
layout(binding = 2) writeonly buffer C { uvec4 c[]; };

#include "numbers.glsl"

void main() {
  int at = int(gl_GlobalInvocationID.x);
  int wide = first + second;
  if (at >= rows * wide) return;
  int row = at / wide;
  int column = at - row * wide;
  c[at] = column < first ? a[row * first + column] : b[row * second + column - first];
}
