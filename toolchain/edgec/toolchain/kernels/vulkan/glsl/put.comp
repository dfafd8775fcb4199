// COUNT elements of x0 into y0, and of x1 into y1 if there is one; the rest of these stays.
//
// Where they lie is said in `moved`. If there is an x2, WHOLE elements of it become all of y2. What
// is read are rows that `put_part` turns where it has a width. With NARROW y0 and y1 keep halves of
// what is f32. Workgroups: (elements by THREADS,
// arrays from number FIRST on, 1).
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = THREADS) in;
#include "moved.glsl"

#ifdef NARROW
#define WRITTEN float16_t
#define KEPT float16_t
#else
#define WRITTEN ELEMENT
#define KEPT
#endif
#ifdef X_AT0
#define SET(name) name##0
#define WIDTH WIDTH0
#include "put_part.glsl"
#undef WIDTH
#undef SET
#endif
#ifdef X_AT1
#define SET(name) name##1
#define WIDTH WIDTH1
#include "put_part.glsl"
#undef WIDTH
#undef SET
#endif
#undef WRITTEN
#define WRITTEN ELEMENT
#ifdef X_AT2
#define SET(name) name##2
#define WIDTH WIDTH2
#include "put_part.glsl"
#undef WIDTH
#undef SET
#endif

void main() {
  int index = int(gl_GlobalInvocationID.x);
  int array = int(gl_WorkGroupID.y) + FIRST;
#ifdef X_AT0
  if (array == 0 && index < COUNT) y0[place_of(index)] = KEPT(part0(index));
#endif
#ifdef X_AT1
  if (array == 1 && index < COUNT) y1[place_of(index)] = KEPT(part1(index));
#endif
#ifdef X_AT2
  if (array == 2 && index < WHOLE) y2[index] = part2(index);
#endif
}
