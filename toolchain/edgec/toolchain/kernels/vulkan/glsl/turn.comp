// B = elements of A by up to four steps each; with SCALED each times a factor that has steps, too.
//
// B is dense, [.., size_y, size_z, size_w] with `many` elements in all, and a step in A of each.
// One element a thread, neighbouring threads write neighbouring memory.
// Workgroups: (some, enough for all of them by THREADS, 1).
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { float a[]; };
#ifdef SCALED
layout(binding = 1) readonly buffer F { float factor[]; };
layout(binding = 2) writeonly buffer B { float b[]; };
#else
layout(binding = 1) writeonly buffer B { float b[]; };
#endif

#include "numbers.glsl"

void main() {
  int group = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
  int number = group * THREADS + int(gl_LocalInvocationID.x);
  if (number >= many) return;
  int rest = number / size_w;
  int w = number - rest * size_w;
  int outer = rest / size_z;
  int z = rest - outer * size_z;
  int x = outer / size_y;
  int y = outer - x * size_y;
  float element = a[start + x * step_x + y * step_y + z * step_z + w * step_w];
#ifdef SCALED
  element *= factor[scale_start + x * scale_x + y * scale_y + z * scale_z + w * scale_w];
#endif
  b[number] = element;
}
