/* Functions whose results are exact: of integers, of bits, and of floats by rounding alone. */
#ifndef EDGEC_CUDA_EXACT_H
#define EDGEC_CUDA_EXACT_H

#include "device.h"

#pragma clang fp contract(off)

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF (__builtin_inff())
#define HUGE_VAL (__builtin_inf())
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif

/* Bits. */
EDGEC_SHORT unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
EDGEC_SHORT int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
EDGEC_SHORT float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
EDGEC_SHORT float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
EDGEC_SHORT long long __double_as_longlong(double value) { return __builtin_bit_cast(long long, value); }
EDGEC_SHORT double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
EDGEC_SHORT int __double2hiint(double value) { return (int)(__double_as_longlong(value) >> 32); }
EDGEC_SHORT int __double2loint(double value) { return (int)__double_as_longlong(value); }
EDGEC_SHORT double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

EDGEC_SHORT int __clz(int value) { return value ? __builtin_clz((unsigned)value) : 32; }
EDGEC_SHORT int __clzll(long long value) { return value ? __builtin_clzll((unsigned long long)value) : 64; }
EDGEC_SHORT int __ffs(int value) { return value ? __builtin_ctz((unsigned)value) + 1 : 0; }
EDGEC_SHORT int __ffsll(long long value) { return value ? __builtin_ctzll((unsigned long long)value) + 1 : 0; }
EDGEC_SHORT int __popc(unsigned value) { return __builtin_popcount(value); }
EDGEC_SHORT int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
EDGEC_SHORT unsigned __brev(unsigned value) { return __builtin_bitreverse32(value); }
EDGEC_SHORT unsigned long long __brevll(unsigned long long value) { return __builtin_bitreverse64(value); }
EDGEC_SHORT unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  unsigned long long both = (unsigned long long)high << 32 | low;
  unsigned found = 0;
  for (unsigned i = 0; i < 4; ++i) found |= (unsigned)(both >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
  return found;
}
EDGEC_SHORT unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
EDGEC_SHORT unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
EDGEC_SHORT unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
  return by >= 32 ? low : __funnelshift_l(low, high, by);
}
EDGEC_SHORT unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
  return by >= 32 ? high : __funnelshift_r(low, high, by);
}

/* Integers. */
EDGEC_SHORT int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
EDGEC_SHORT unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
EDGEC_SHORT long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
EDGEC_SHORT unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
EDGEC_SHORT int __mul24(int a, int b) {
  return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8));
}
EDGEC_SHORT unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
EDGEC_SHORT unsigned __sad(int a, int b, unsigned more) {
  return more + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a);
}
EDGEC_SHORT unsigned __usad(unsigned a, unsigned b, unsigned more) { return more + (a > b ? a - b : b - a); }
EDGEC_SHORT int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
EDGEC_SHORT int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
EDGEC_SHORT unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
EDGEC_SHORT unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
EDGEC_SHORT int __dp4a(int a, int b, int sum) {
#if __CUDA_ARCH__ >= 610
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
#else
  for (int i = 0; i < 32; i += 8) sum += (signed char)(a >> i) * (signed char)(b >> i);
#endif
  return sum;
}
EDGEC_SHORT unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
#if __CUDA_ARCH__ >= 610
  asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
#else
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
#endif
  return sum;
}
EDGEC_SHORT int abs(int value) { return value < 0 ? -value : value; }
EDGEC_SHORT long abs(long value) { return value < 0 ? -value : value; }
EDGEC_SHORT long long abs(long long value) { return value < 0 ? -value : value; }
EDGEC_SHORT long labs(long value) { return abs(value); }
EDGEC_SHORT long long llabs(long long value) { return abs(value); }

#define EDGEC_LESS_AND_MORE(type, a_type, b_type)                                          \
  EDGEC_SHORT type min(a_type a, b_type b) { return (type)a < (type)b ? (type)a : (type)b; } \
  EDGEC_SHORT type max(a_type a, b_type b) { return (type)a > (type)b ? (type)a : (type)b; }
EDGEC_LESS_AND_MORE(int, int, int)
EDGEC_LESS_AND_MORE(unsigned, unsigned, unsigned)
EDGEC_LESS_AND_MORE(unsigned, int, unsigned)
EDGEC_LESS_AND_MORE(unsigned, unsigned, int)
EDGEC_LESS_AND_MORE(long, long, long)
EDGEC_LESS_AND_MORE(unsigned long, unsigned long, unsigned long)
EDGEC_LESS_AND_MORE(unsigned long, long, unsigned long)
EDGEC_LESS_AND_MORE(unsigned long, unsigned long, long)
EDGEC_LESS_AND_MORE(long long, long long, long long)
EDGEC_LESS_AND_MORE(unsigned long long, unsigned long long, unsigned long long)
EDGEC_LESS_AND_MORE(unsigned long long, long long, unsigned long long)
EDGEC_LESS_AND_MORE(unsigned long long, unsigned long long, long long)
EDGEC_SHORT unsigned umin(unsigned a, unsigned b) { return min(a, b); }
EDGEC_SHORT unsigned umax(unsigned a, unsigned b) { return max(a, b); }

/* Floats: of f32 and f64. */
#define EDGEC_EXACT(type, end, bits, sign, fraction, bias)                                           \
  EDGEC_SHORT type fabs##end(type x) { return __builtin_fabs##end(x); }                              \
  EDGEC_SHORT type sqrt##end(type x) { return __builtin_sqrt##end(x); }                              \
  EDGEC_SHORT type fma##end(type x, type y, type z) { return __builtin_fma##end(x, y, z); }          \
  EDGEC_SHORT type fmin##end(type x, type y) { return __builtin_fmin##end(x, y); }                   \
  EDGEC_SHORT type fmax##end(type x, type y) { return __builtin_fmax##end(x, y); }                   \
  EDGEC_SHORT type floor##end(type x) { return __builtin_floor##end(x); }                            \
  EDGEC_SHORT type ceil##end(type x) { return __builtin_ceil##end(x); }                              \
  EDGEC_SHORT type trunc##end(type x) { return __builtin_trunc##end(x); }                            \
  EDGEC_SHORT type rint##end(type x) { return __builtin_rint##end(x); }                              \
  EDGEC_SHORT type nearbyint##end(type x) { return __builtin_rint##end(x); }                         \
  EDGEC_SHORT type copysign##end(type x, type y) { return __builtin_copysign##end(x, y); }           \
  EDGEC_SHORT type nan##end(const char *) { return (type)__builtin_nan(""); }                        \
  EDGEC_SHORT bool isnan(type x) { return x != x; }                                                  \
  EDGEC_SHORT bool isinf(type x) { return fabs##end(x) == (type)__builtin_inf(); }                   \
  EDGEC_SHORT bool isfinite(type x) { return fabs##end(x) < (type)__builtin_inf(); }                 \
  EDGEC_SHORT bool isnormal(type x) {                                                                \
    return isfinite(x) && (__builtin_bit_cast(bits, x) & ~sign) >> fraction != 0;                    \
  }                                                                                                  \
  EDGEC_SHORT bool signbit(type x) { return (__builtin_bit_cast(bits, x) & sign) != 0; }             \
  /* Halves away from zero. */                                                                       \
  EDGEC_SHORT type round##end(type x) {                                                              \
    type whole = trunc##end(x);                                                                      \
    type rounded = fabs##end(x - whole) >= (type)0.5 ? whole + copysign##end((type)1, x) : whole;    \
    return copysign##end(rounded, x);                                                                \
  }                                                                                                  \
  EDGEC_SHORT long lrint##end(type x) { return (long)edgec_near_whole(x); }                          \
  EDGEC_SHORT long long llrint##end(type x) { return edgec_near_whole(x); }                          \
  EDGEC_SHORT long lround##end(type x) { return (long)edgec_whole(round##end(x)); }                  \
  EDGEC_SHORT long long llround##end(type x) { return edgec_whole(round##end(x)); }                  \
  EDGEC_SHORT type fdim##end(type x, type y) { return x <= y ? (type)0 : x - y; }                    \
  EDGEC_SHORT type modf##end(type x, type *whole) {                                                  \
    *whole = trunc##end(x);                                                                          \
    return isinf(x) ? copysign##end((type)0, x) : copysign##end(x - *whole, x);                      \
  }                                                                                                  \
  /* The exponent of a number that is neither 0 nor infinite nor none. */                            \
  EDGEC_SHORT int edgec_exponent(type x) {                                                           \
    bits word = __builtin_bit_cast(bits, x) & ~sign;                                                 \
    int shift = 0;                                                                                   \
    if (word >> fraction == 0) {                                                                     \
      word = __builtin_bit_cast(bits, __builtin_bit_cast(type, word) * (type)((bits)1 << fraction)); \
      shift = fraction;                                                                              \
    }                                                                                                \
    return (int)(word >> fraction) - bias - shift;                                                   \
  }                                                                                                  \
  EDGEC_SHORT type edgec_power_of_2(int k, type) {                                                   \
    return __builtin_bit_cast(type, (bits)(k + bias) << fraction);                                   \
  }                                                                                                  \
  /* Times a power of 2, rounded once. */                                                            \
  EDGEC_HERE type ldexp##end(type x, int k) {                                                        \
    if (x == 0 || !isfinite(x)) return x;                                                            \
    k = k < -3 * bias ? -3 * bias : k > 3 * bias ? 3 * bias : k;                                     \
    int e = edgec_exponent(x);                                                                       \
    type m = __builtin_bit_cast(type, (__builtin_bit_cast(bits, x * edgec_power_of_2(                \
                 e < 1 - bias ? bias : 0, x)) & (sign | (((bits)1 << fraction) - 1))) |              \
                 (bits)bias << fraction);                                                            \
    int to = e + k;                                                                                  \
    if (to > bias) return copysign##end((type)__builtin_inf(), x);                                   \
    if (to >= 1 - bias) return m * edgec_power_of_2(to, x);                                          \
    if (to < -bias - fraction) return copysign##end((type)0, x);                                     \
    return m * edgec_power_of_2(to + bias - 1, x) * edgec_power_of_2(1 - bias, x);                   \
  }                                                                                                  \
  EDGEC_SHORT type scalbn##end(type x, int k) { return ldexp##end(x, k); }                           \
  EDGEC_SHORT type scalbln##end(type x, long k) {                                                    \
    return ldexp##end(x, (int)(k > 9999 ? 9999 : k < -9999 ? -9999 : k));                            \
  }                                                                                                  \
  EDGEC_HERE type frexp##end(type x, int *k) {                                                       \
    *k = 0;                                                                                          \
    if (x == 0 || !isfinite(x)) return x;                                                            \
    *k = edgec_exponent(x) + 1;                                                                      \
    return ldexp##end(x, -*k);                                                                       \
  }                                                                                                  \
  EDGEC_HERE int ilogb##end(type x) {                                                                \
    if (x == 0 || isnan(x)) return -0x7FFFFFFF - 1;                                                  \
    return isinf(x) ? 0x7FFFFFFF : edgec_exponent(x);                                                \
  }                                                                                                  \
  EDGEC_HERE type logb##end(type x) {                                                                \
    if (x == 0) return -(type)__builtin_inf();                                                       \
    return isfinite(x) ? (type)edgec_exponent(x) : x * x;                                            \
  }                                                                                                  \
  EDGEC_HERE type nextafter##end(type x, type y) {                                                   \
    if (isnan(x) || isnan(y)) return x + y;                                                          \
    if (x == y) return y;                                                                            \
    if (x == 0) return copysign##end(__builtin_bit_cast(type, (bits)1), y);                          \
    bits word = __builtin_bit_cast(bits, x);                                                         \
    return __builtin_bit_cast(type, (x < y) == (x > 0) ? word + 1 : word - 1);                       \
  }                                                                                                  \
  /* What is left of x when y is taken from it as often as it goes, and the last bits of how often   \
   * that is. */                                                                                     \
  EDGEC_HERE type edgec_left(type x, type y, unsigned *often) {                                      \
    *often = 0;                                                                                      \
    if (isnan(x) || isnan(y) || isinf(x) || y == 0) return (type)__builtin_nan("");                  \
    type left = fabs##end(x), by = fabs##end(y);                                                     \
    if (left < by) return x;                                                                         \
    int steps = edgec_exponent(left) - edgec_exponent(by);                                           \
    type most = ldexp##end(by, steps);                                                               \
    if (!(most <= left)) --steps, most = ldexp##end(by, steps);                                      \
    for (;; --steps) {                                                                               \
      *often <<= 1;                                                                                  \
      if (left >= most) left -= most, *often |= 1;                                                   \
      if (steps == 0) break;                                                                         \
      most *= (type)0.5;                                                                             \
    }                                                                                                \
    return copysign##end(left, x);                                                                   \
  }                                                                                                  \
  EDGEC_HERE type fmod##end(type x, type y) {                                                        \
    unsigned often;                                                                                  \
    return edgec_left(x, y, &often);                                                                 \
  }                                                                                                  \
  /* The remainder nearest to 0; of two the one that goes an even number of times. */                \
  EDGEC_HERE type remquo##end(type x, type y, int *quotient) {                                       \
    unsigned often;                                                                                  \
    type left = fabs##end(edgec_left(x, y, &often)), by = fabs##end(y);                              \
    type rest = by - left;                                                                           \
    bool more = left > rest || (left == rest && (often & 1));                                        \
    if (isinf(by)) more = false;                                                                     \
    often = (often + more) & 0x7FFFFFF;                                                              \
    *quotient = signbit(x) != signbit(y) ? -(int)often : (int)often;                                 \
    left = more ? left - by : left;                                                                  \
    return signbit(x) ? -left : left;                                                                \
  }                                                                                                  \
  EDGEC_HERE type remainder##end(type x, type y) {                                                   \
    int often;                                                                                       \
    return remquo##end(x, y, &often);                                                                \
  }                                                                                                  \
  EDGEC_SHORT type min(type a, type b) { return fmin##end(a, b); }                                   \
  EDGEC_SHORT type max(type a, type b) { return fmax##end(a, b); }

EDGEC_SHORT long long edgec_near_whole(float x) { return __float2ll_rn(x); }
EDGEC_SHORT long long edgec_near_whole(double x) { return __double2ll_rn(x); }
EDGEC_SHORT long long edgec_whole(float x) { return __float2ll_rz(x); }
EDGEC_SHORT long long edgec_whole(double x) { return __double2ll_rz(x); }
EDGEC_EXACT(float, f, unsigned, 0x80000000u, 23, 127)
EDGEC_EXACT(double, , unsigned long long, 0x8000000000000000ull, 52, 1023)

EDGEC_SHORT double min(float a, double b) { return fmin(a, b); }
EDGEC_SHORT double min(double a, float b) { return fmin(a, b); }
EDGEC_SHORT double max(float a, double b) { return fmax(a, b); }
EDGEC_SHORT double max(double a, float b) { return fmax(a, b); }
EDGEC_SHORT float abs(float x) { return fabsf(x); }
EDGEC_SHORT double abs(double x) { return fabs(x); }
EDGEC_SHORT float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }

#pragma clang fp contract(fast)

#endif
