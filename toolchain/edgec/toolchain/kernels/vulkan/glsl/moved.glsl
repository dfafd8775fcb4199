// Where the elements of a slice lie in its array, and what they are while they are only moved.
//
// Elements lie in four axes, SIZE0 the innermost; neighbours along one are HOP apart in the array.
// The first lies at `base` and, for each of the numbers that there are at AT_AT0 to AT_AT2, that
// times its STEP, after it is brought into 0 to its ROOM.
#if defined(HALF) || defined(NARROW)
#extension GL_EXT_shader_16bit_storage : require
#endif
#if defined(HALF)
#define ELEMENT float16_t
#elif defined(PAIRS)
#define ELEMENT uvec2
#elif defined(TURNED) || defined(NARROW)
#define ELEMENT float
#else
#define ELEMENT uint
#endif

#ifdef AT_AT0
layout(binding = AT_AT0) readonly buffer At0 { int at0[]; };
#endif
#ifdef AT_AT1
layout(binding = AT_AT1) readonly buffer At1 { int at1[]; };
#endif
#ifdef AT_AT2
layout(binding = AT_AT2) readonly buffer At2 { int at2[]; };
#endif

#include "numbers.glsl"

// A number of 64 bits is brought into those of 32, of `words` words that it has.
int number_of(int low, int high, int words) {
  if (words == 1 || high == low >> 31) return low;
  return high < 0 ? -2147483647 : 2147483647;
}

#define STARTED(at, words, step, room) \
  clamp(number_of(at[0], at[(words) - 1], words), 0, room) * (step)

int place_of(int index) {
  int rest = index / SIZE0;
  int place = base + index % SIZE0 * HOP0 + rest % SIZE1 * HOP1;
  rest /= SIZE1;
  place += rest % SIZE2 * HOP2 + rest / SIZE2 * HOP3;
#ifdef AT_AT0
  place += STARTED(at0, WORDS0, STEP0, ROOM0);
#endif
#ifdef AT_AT1
  place += STARTED(at1, WORDS1, STEP1, ROOM1);
#endif
#ifdef AT_AT2
  place += STARTED(at2, WORDS2, STEP2, ROOM2);
#endif
  return place;
}
