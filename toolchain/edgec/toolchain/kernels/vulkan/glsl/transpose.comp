// B = the first n columns of A, turned: A is [batch, m, room], B [batch, n, m]; m a multiple of 4.
//
// Four rows of a column a thread, neighbouring threads write neighbouring memory.
// Workgroups: (fours of rows of all columns by THREADS, 1, batch).
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) writeonly buffer B { vec4 b[]; };

#include "numbers.glsl"

void main() {
  int number = int(gl_GlobalInvocationID.x);
  int fours = m / 4;
  int column = number / fours;
  if (column >= n) return;
  int batch = int(gl_WorkGroupID.z);
  int at = (batch * m + (number - column * fours) * 4) * room + column;
  b[batch * n * fours + number] = vec4(a[at], a[at + room], a[at + 2 * room], a[at + 3 * room]);
}
