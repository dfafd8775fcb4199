// Places of the first `kept` of each part of PART candidates of a row of x, in order, and these.
//
// x is [rows, length], 32 bits each. Candidates are the places of a row one by one, or with
// CANDIDATES those in p [rows, count], of which -1 is none. `at` is [rows, parts, kept], and so is y
// where it is there (LAST); -1 where a part has fewer. Equal numbers keep the order of their places.
// With FLOATS zeros are equal, and NaN is one number after infinity, but for BY_BITS.
//
// A part is sorted in memory that the workgroup shares, by Batcher's network of comparisons.
// Workgroups: (parts, rows, 1).
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = THREADS) in;
layout(binding = X_AT) readonly buffer X { uint x[]; };
#ifdef CANDIDATES
layout(binding = P_AT) readonly buffer P { int p[]; };
#endif
layout(binding = AT_AT) writeonly buffer At { int at[]; };
#ifdef LAST
layout(binding = Y_AT) writeonly buffer Y { uint y[]; };
#endif

#include "numbers.glsl"

const int NONE = 2147483647;
const uint TOP = 0x80000000u;

shared uint keys[PART];
shared int places[PART];

// An unsigned integer that has the number's place in the order.
uint key_of(uint bits) {
#ifdef FLOATS
#ifndef BY_BITS
  uint size = bits & ~TOP;
  if (size > 0x7F800000u) bits = ~TOP;
  if (size == 0u) bits = 0u;
#endif
  bits ^= (bits & TOP) != 0u ? 0xFFFFFFFFu : TOP;
#elif !defined(UNSIGNED)
  bits ^= TOP;
#endif
#ifdef DESCENDING
  bits = ~bits;
#endif
  return bits;
}

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int part = int(gl_WorkGroupID.x);
  int line = int(gl_WorkGroupID.y);
  for (int i = thread; i < PART; i += THREADS) {
    int index = part * PART + i;
    int place = NONE;
#ifdef CANDIDATES
    if (index < count) {
      place = p[line * count + index];
      if (place < 0) place = NONE;
    }
#else
    if (index < length) place = index;
#endif
    keys[i] = place == NONE ? 0xFFFFFFFFu : key_of(x[line * length + place]);
    places[i] = place;
  }
  barrier();
  for (int size = 2; size <= PART; size *= 2) {
    for (int far = size / 2; far > 0; far /= 2) {
      for (int i = thread; i < PART / 2; i += THREADS) {
        int low = 2 * i - (i & (far - 1));
        int high = low + far;
        uint key_low = keys[low];
        uint key_high = keys[high];
        int place_low = places[low];
        int place_high = places[high];
        bool after = key_low > key_high || (key_low == key_high && place_low > place_high);
        if (after == ((low & size) == 0)) {
          keys[low] = key_high;
          keys[high] = key_low;
          places[low] = place_high;
          places[high] = place_low;
        }
      }
      barrier();
    }
  }
  int end = (line * int(gl_NumWorkGroups.x) + part) * kept;
  for (int i = thread; i < kept; i += THREADS) {
    int place = places[i];
    at[end + i] = place == NONE ? -1 : place;
#ifdef LAST
    y[end + i] = place == NONE ? 0u : x[line * length + place];
#endif
  }
}
