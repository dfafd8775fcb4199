/* Prints what the functions give that LLVM calls in code for 32-bit Arm; on other machines, what
 * their own C library and instructions give. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void say(const char *name, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x)
    printf("%s nan\n", name);
  else
    printf("%s %016" PRIx64 "\n", name, bits);
}

int main(void) {
  static volatile float floats[] = {0.0f,  -0.0f, 0.3f,   -0.5f,       0.5f,    1.5f,     2.5f,
                                    -2.5f, 3.7f,  -7.0f,  8388607.5f,  8388609, 1e-30f,   -3e38f,
                                    5e-45f, 1e20f, -1e9f, INFINITY,    -INFINITY, NAN,    -0.49999997f};
  static volatile int64_t wholes[] = {0,  1,  -1, 2,  3,  -7, 10, 1000003, -2147483647, 2147483647,
                                      4294967295, 4294967296, -9007199254740993, 1234567890123456789,
                                      -9223372036854775807, 9223372036854775807, 36028799166447617};
  size_t count = sizeof floats / sizeof *floats, many = sizeof wholes / sizeof *wholes;
  for (size_t i = 0; i < count; ++i) {
    float x = floats[i];
    say("trunc", truncf(x));
    say("floor", floorf(x));
    say("ceil", ceilf(x));
    say("round", roundf(x));
    say("rint", rintf(x));
    say("nearbyint", nearbyintf(x));
    if (fabsf(x) < 1e18f) {
      printf("f2l %" PRId64 "\n", (int64_t)x);
      printf("d2l %" PRId64 "\n", (int64_t)((double)x * 1.0000001));
      if (x > 0) printf("f2ul %" PRIu64 "\n", (uint64_t)x);
    }
    for (size_t j = 0; j < count; ++j) {
      float y = floats[j];
      say("fmod", fmodf(x, y));
      if (x == 0 && y == 0) continue; /* which zero is the larger is nobody's */
      say("max", fmaxf(x, y));
      say("min", fminf(x, y));
    }
  }
  for (size_t i = 0; i < many; ++i) {
    int64_t x = wholes[i];
    say("l2f", (float)x);
    say("l2d", (double)x);
    say("ul2f", (float)(uint64_t)x);
    say("ul2d", (double)(uint64_t)x);
    for (size_t j = 1; j < many; ++j) {
      int64_t y = wholes[j];
      printf("l %" PRId64 " %" PRId64 "\n", x / y, x % y);
      printf("ul %" PRIu64 " %" PRIu64 "\n", (uint64_t)x / (uint64_t)y, (uint64_t)x % (uint64_t)y);
      int32_t a = (int32_t)x, b = (int32_t)y;
      if (b == 0 || (a == INT32_MIN && b == -1)) continue;
      printf("i %" PRId32 " %" PRId32 "\n", a / b, a % b);
      printf("u %" PRIu32 " %" PRIu32 "\n", (uint32_t)a / (uint32_t)b, (uint32_t)a % (uint32_t)b);
    }
  }
  return 0;
}
