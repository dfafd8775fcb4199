/* What LLVM calls in code for 32-bit Arm: roundings and maxima, divisions, wide conversions.
 *
 * The linker takes from here what kernels need; `scripts/armv7_functions.py` compiles this file.
 * Names and calling conventions are those of the C library and of Arm's run-time ABI (IHI 0043).
 * Division by 0 gives 0, as Arm's own instruction does. */
#include <stdint.h>

#define SIGN 0x80000000u
#define WHOLE 8388608.0f /* from 2^23 on every float is a whole number */

static uint32_t bits(float x) {
  union { float value; uint32_t bits; } as = {.value = x};
  return as.bits;
}

static float from_bits(uint32_t x) {
  union { uint32_t bits; float value; } as = {.bits = x};
  return as.value;
}

static float magnitude(float x) { return from_bits(bits(x) & ~SIGN); }

static float with_sign(float x, float of) {
  return from_bits((bits(x) & ~SIGN) | (bits(of) & SIGN));
}

/* Roundings: whole numbers, infinities and NaN stay what they are. */

float truncf(float x) {
  if (!(magnitude(x) < WHOLE)) return x;
  return with_sign((float)(int32_t)x, x);
}

float floorf(float x) {
  float whole = truncf(x);
  return whole > x ? whole - 1.0f : whole;
}

float ceilf(float x) {
  float whole = truncf(x);
  return whole < x ? with_sign(whole + 1.0f, x) : whole;
}

float roundf(float x) {
  float whole = truncf(x);
  return magnitude(x - whole) >= 0.5f ? whole + with_sign(1.0f, x) : whole;
}

float roundevenf(float x) {
  if (!(magnitude(x) < WHOLE)) return x;
  float shifted = magnitude(x) + WHOLE;
  return with_sign(shifted - WHOLE, x);
}

float rintf(float x) { return roundevenf(x); }

float nearbyintf(float x) { return roundevenf(x); }

/* Extremes: of a NaN and a number, the number; +0 is more than -0. */

float fmaxf(float x, float y) {
  if (x != x) return y;
  if (y != y) return x;
  if (x == y) return bits(x) & SIGN ? y : x;
  return x > y ? x : y;
}

float fminf(float x, float y) {
  if (x != x) return y;
  if (y != y) return x;
  if (x == y) return bits(x) & SIGN ? x : y;
  return x < y ? x : y;
}

double fmax(double x, double y) {
  if (x != x) return y;
  if (y != y) return x;
  return x > y ? x : y;
}

double fmin(double x, double y) {
  if (x != x) return y;
  if (y != y) return x;
  return x < y ? x : y;
}

/* By steps of long division in f64, where every remainder is exact. */
float fmodf(float x, float y) {
  double rest = magnitude(x), divisor = magnitude(y);
  if (x != x || y != y || divisor == 0.0 || rest - rest != 0.0) return (x * y) / (x * y);
  if (divisor - divisor != 0.0) return x;
  double step = divisor;
  while (step <= rest * 0.5) step += step;
  for (; step >= divisor; step *= 0.5)
    if (rest >= step) rest -= step;
  return with_sign((float)rest, x);
}

/* Divisions: quotients of 32 bits are exact in f64 once they are cut off. */

uint32_t __aeabi_uidiv(uint32_t x, uint32_t y) {
  return y == 0 ? 0 : (uint32_t)((double)x / (double)y);
}

int32_t __aeabi_idiv(int32_t x, int32_t y) {
  if (y == 0) return 0;
  uint32_t left = x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
  uint32_t right = y < 0 ? 0u - (uint32_t)y : (uint32_t)y;
  uint32_t quotient = __aeabi_uidiv(left, right);
  return (int32_t)((x < 0) != (y < 0) ? 0u - quotient : quotient);
}

/* Quotient and remainder in two registers, as one number of 64 bits comes back. */

uint64_t __aeabi_uidivmod(uint32_t x, uint32_t y) {
  uint32_t quotient = __aeabi_uidiv(x, y);
  return (uint64_t)(x - quotient * y) << 32 | quotient;
}

uint64_t __aeabi_idivmod(int32_t x, int32_t y) {
  uint32_t quotient = (uint32_t)__aeabi_idiv(x, y);
  return (uint64_t)((uint32_t)x - quotient * (uint32_t)y) << 32 | quotient;
}

/* Conversions of 64 bits, by halves in f64; what does not fit becomes the nearest that does. */

#define HALF 4294967296.0

/* Arm's own helpers take and give floats in the registers of integers. */
#define HELPER __attribute__((pcs("aapcs")))

HELPER double __aeabi_ul2d(uint64_t x) {
  return (double)(uint32_t)(x >> 32) * HALF + (double)(uint32_t)x;
}

HELPER double __aeabi_l2d(int64_t x) {
  return (double)(int32_t)(x >> 32) * HALF + (double)(uint32_t)x;
}

/* Rounded once: what f64 would drop only has to be known not to be 0. */
HELPER float __aeabi_ul2f(uint64_t x) {
  if (x >> 53) x = (x & ~(uint64_t)0x7ff) | (uint64_t)((x & 0x7ff) != 0) << 11;
  return (float)__aeabi_ul2d(x);
}

HELPER float __aeabi_l2f(int64_t x) {
  return x < 0 ? -__aeabi_ul2f(0u - (uint64_t)x) : __aeabi_ul2f((uint64_t)x);
}

HELPER uint64_t __aeabi_d2ulz(double x) {
  if (!(x > 0.0)) return 0;
  if (x >= HALF * HALF) return UINT64_MAX;
  uint32_t high = (uint32_t)(x * (1.0 / HALF));
  return (uint64_t)high << 32 | (uint32_t)(x - (double)high * HALF);
}

HELPER int64_t __aeabi_d2lz(double x) {
  if (x >= HALF * HALF * 0.5) return INT64_MAX;
  if (x <= HALF * HALF * -0.5) return INT64_MIN;
  return x < 0.0 ? -(int64_t)__aeabi_d2ulz(-x) : (int64_t)__aeabi_d2ulz(x);
}

HELPER uint64_t __aeabi_f2ulz(float x) { return __aeabi_d2ulz((double)x); }

HELPER int64_t __aeabi_f2lz(float x) { return __aeabi_d2lz((double)x); }

/* Quotient and remainder of 64 bits: four registers, which C cannot give back by itself. */
typedef struct pair {
  uint64_t quotient, remainder;
} pair;

__attribute__((used, visibility("hidden"))) void edgec_divide_unsigned(uint64_t x, uint64_t y,
                                                                       pair *out) {
  pair found = {0, x};
  if (y != 0 && (x | y) >> 32 == 0) {
    found.quotient = __aeabi_uidiv((uint32_t)x, (uint32_t)y);
    found.remainder = (uint32_t)x - (uint32_t)found.quotient * (uint32_t)y;
  } else if (y != 0 && x >= y) {
    int shift = __builtin_clzll(y) - __builtin_clzll(x);
    for (uint64_t step = y << shift; shift >= 0; --shift, step >>= 1) {
      if (found.remainder < step) continue;
      found.remainder -= step;
      found.quotient |= (uint64_t)1 << shift;
    }
  }
  *out = found;
}

__attribute__((used, visibility("hidden"))) void edgec_divide_signed(int64_t x, int64_t y,
                                                                     pair *out) {
  uint64_t left = x < 0 ? 0u - (uint64_t)x : (uint64_t)x;
  uint64_t right = y < 0 ? 0u - (uint64_t)y : (uint64_t)y;
  edgec_divide_unsigned(left, right, out);
  if ((x < 0) != (y < 0)) out->quotient = 0u - out->quotient;
  if (x < 0) out->remainder = 0u - out->remainder;
}

#define FOUR_REGISTERS(name, function)                                  \
  __attribute__((naked)) void name(void) {                              \
    __asm__("push {r4, lr}\n sub sp, sp, #24\n add r4, sp, #8\n"        \
            "str r4, [sp]\n bl " #function "\n"                         \
            "ldrd r0, r1, [sp, #8]\n ldrd r2, r3, [sp, #16]\n"          \
            "add sp, sp, #24\n pop {r4, pc}\n");                        \
  }

FOUR_REGISTERS(__aeabi_uldivmod, edgec_divide_unsigned)
FOUR_REGISTERS(__aeabi_ldivmod, edgec_divide_signed)
