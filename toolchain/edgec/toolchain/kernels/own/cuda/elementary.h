/* Functions of f32: exponentials, logarithms, sines, powers, errors and their like.
 *
 * All are written in operations that round once (+, -, *, /, fma, sqrt) and on bits, and nothing is
 * contracted, so a processor gives each bit of what a GPU gives: tests measure each here, and how far
 * off it is stands beside it, in units of the last place from the result that is rounded right (as
 * CUDA's manual counts). Polynomials are minimax ones, fitted to the functions by Lawson's algorithm
 * and rounded to f32 one by one. Those with `__` in front are what a GPU's tables give.
 */
#ifndef EDGEC_CUDA_ELEMENTARY_H
#define EDGEC_CUDA_ELEMENTARY_H

#include "exact.h"

#pragma clang fp contract(off)

/* The nearest integer of a number of less than 2^22, and the same as an int. */
EDGEC_SHORT float edgec_nearest(float x, int *whole) {
  float shifted = x + 0x1.8p23f;
  *whole = __float_as_int(shifted) - 0x4B400000;
  return shifted - 0x1.8p23f;
}

/* x 2^k for k from -300 to 252; what has fewer bits than 24 in the end is rounded once. */
EDGEC_SHORT float edgec_scaled(float x, int k) {
  int half = k >> 1;
  float first = x * __int_as_float((half + 127) << 23);
  return first * __int_as_float((k - half + 127) << 23);
}

/* A number as a sum of two, the second what the first lacks. */
struct edgec_pair { float high, low; };

/* Exact: a sum of which the first is the larger, and a product. */
EDGEC_SHORT edgec_pair edgec_sum(float a, float b) {
  float high = a + b;
  return {high, b - (high - a)};
}
EDGEC_SHORT edgec_pair edgec_product(float a, float b) {
  float high = a * b;
  return {high, fmaf(a, b, -high)};
}

/* e^(r + low) - 1 - r for r between -0.35 and 0.35, to 2^-31 of e^r. */
EDGEC_SHORT float edgec_exp_rest(float r, float low) {
  float p = fmaf(0x1.9e145ep-13f, r, 0x1.6d4f5ap-10f);
  p = fmaf(p, r, 0x1.111304p-7f);
  p = fmaf(p, r, 0x1.5554e6p-5f);
  p = fmaf(p, r, 0x1.555554p-3f);
  p = fmaf(p, r, 0x1p-1f);
  return fmaf(r * r, p, low);
}

/* e^x, and e^(x + low), as y 2^k for x between -110 and 110. */
EDGEC_SHORT float edgec_exp_left(float x, int *k) {
  float t = edgec_nearest(x * 0x1.715476p+0f, k);
  return fmaf(t, 0x1.05c61p-29f, fmaf(t, -0x1.62e43p-1f, x));
}
EDGEC_SHORT float edgec_exp_parts(float x, int *k) {
  float r = edgec_exp_left(x, k);
  return 1.0f + (r + edgec_exp_rest(r, 0.0f));
}
EDGEC_SHORT float edgec_exp_parts(float x, float low, int *k) {
  edgec_pair r = edgec_sum(edgec_exp_left(x, k), low);
  return 1.0f + (r.high + edgec_exp_rest(r.high, r.low));
}

EDGEC_SHORT float edgec_limited(float x, float least, float most) { return fminf(fmaxf(x, least), most); }

/* 1 */
EDGEC_HERE float expf(float x) {
  int k;
  float y = edgec_exp_parts(edgec_limited(x, -105.0f, 90.0f), &k);
  return isnan(x) ? x : edgec_scaled(y, k);
}

/* 1 */
EDGEC_HERE float exp2f(float x) {
  int k;
  float in = edgec_limited(x, -152.0f, 130.0f);
  float r = in - edgec_nearest(in, &k);
  edgec_pair a = edgec_product(r, 0x1.62e43p-1f);
  float y = 1.0f + (a.high + edgec_exp_rest(a.high, fmaf(r, -0x1.05c61p-29f, a.low)));
  return isnan(x) ? x : edgec_scaled(y, k);
}

/* 1 */
EDGEC_HERE float exp10f(float x) {
  int k;
  float in = edgec_limited(x, -46.0f, 39.0f);
  float t = edgec_nearest(in * 0x1.a934fp+1f, &k);
  float r = fmaf(t, -0x1.344136p-2f, in);
  r = fmaf(t, 0x1.ec10cp-27f, r);
  edgec_pair a = edgec_product(r, 0x1.26bb1cp+1f);
  float y = 1.0f + (a.high + edgec_exp_rest(a.high, fmaf(r, -0x1.12aabap-25f, a.low)));
  return isnan(x) ? x : edgec_scaled(y, k);
}

/* 1 */
EDGEC_HERE float expm1f(float x) {
  int k;
  float in = edgec_limited(x, -20.0f, 88.9f);
  float t = edgec_nearest(in * 0x1.715476p+0f, &k);
  float r = fmaf(t, -0x1.62e43p-1f, in);
  edgec_pair a = edgec_sum(r, t * 0x1.05c61p-29f);
  float rest = edgec_exp_rest(a.high, a.low);
  if (k == 0) return isnan(x) || x == 0 ? x : a.high + rest;
  /* All of it at 2^(k - 1), so that 2^128 is none of the steps. */
  float scale = __int_as_float((k - 1 + 127) << 23);
  edgec_pair whole = k > 0 ? edgec_sum(scale, -0.5f) : edgec_sum(-0.5f, scale);
  float high = whole.high + scale * a.high;
  float low = scale * a.high - (high - whole.high);
  float y = 2.0f * (high + fmaf(scale, rest, low + whole.low));
  return isnan(x) ? x : y;
}

/* x = 2^k (1 + f), f between sqrt(1/2) - 1 and sqrt(2) - 1, for x above 0. */
EDGEC_SHORT float edgec_log_parts(float x, int *k) {
  int more = 0;
  if (x < 0x1p-126f) x *= 0x1p24f, more = 24;
  int bits = __float_as_int(x), from_root = bits - 0x3F3504F3;
  *k = (from_root >> 23) - more;
  return __int_as_float(bits - (from_root & (int)0xFF800000)) - 1.0f;
}

/* log(1 + f) - f, to 2^-32 of log(1 + f). */
EDGEC_SHORT float edgec_log_rest(float f) {
  float p = fmaf(-0x1.e2c73p-5f, f, 0x1.afe4ecp-4f);
  p = fmaf(p, f, -0x1.bb0902p-4f);
  p = fmaf(p, f, 0x1.c4d9bep-4f);
  p = fmaf(p, f, -0x1.fd078ap-4f);
  p = fmaf(p, f, 0x1.248672p-3f);
  p = fmaf(p, f, -0x1.556254p-3f);
  p = fmaf(p, f, 0x1.999a6ap-3f);
  p = fmaf(p, f, -0x1.ffffdcp-3f);
  p = fmaf(p, f, 0x1.555554p-2f);
  float square = f * f;
  return fmaf(square * f, p, -0.5f * square);
}

/* log(2^k (1 + f) + ...) by a factor given as a pair, where k by the logarithm of 2 is exact in its
 * first part; `low` is what 1 + f lacks. */
EDGEC_SHORT float edgec_log_by(float k, float f, edgec_pair factor, edgec_pair of_2) {
  edgec_pair first = edgec_product(f, factor.high);
  float rest = fmaf(edgec_log_rest(f), factor.high, fmaf(f, factor.low, first.low));
  edgec_pair sum = k == 0 ? first : edgec_sum(k * of_2.high, first.high);
  rest = fmaf(k, of_2.low, rest);
  return k == 0 ? first.high + rest : sum.high + (sum.low + rest);
}

EDGEC_SHORT bool edgec_no_log(float x, float *y) {
  if (x > 0 && x < INFINITY) return false;
  *y = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return true;
}

/* 1 */
EDGEC_HERE float logf(float x) {
  int k;
  float y;
  if (edgec_no_log(x, &y)) return y;
  float f = edgec_log_parts(x, &k);
  return edgec_log_by((float)k, f, {1.0f, 0.0f}, {0x1.62e4p-1f, 0x1.7f7d1cp-20f});
}

/* 1 */
EDGEC_HERE float log2f(float x) {
  int k;
  float y;
  if (edgec_no_log(x, &y)) return y;
  float f = edgec_log_parts(x, &k);
  return edgec_log_by((float)k, f, {0x1.715476p+0f, 0x1.4ae0cp-26f}, {1.0f, 0.0f});
}

/* 1 */
EDGEC_HERE float log10f(float x) {
  int k;
  float y;
  if (edgec_no_log(x, &y)) return y;
  float f = edgec_log_parts(x, &k);
  return edgec_log_by((float)k, f, {0x1.bcb7b2p-2f, -0x1.5b235ep-27f}, {0x1.344p-2f, 0x1.3509f8p-18f});
}

/* 1 */
EDGEC_HERE float log1pf(float x) {
  int k;
  float y;
  if (edgec_no_log(x + 1.0f, &y)) return y;
  edgec_log_parts(x + 1.0f, &k);
  float scale = edgec_scaled(1.0f, -k);
  float f = fmaf(scale, x, scale - 1.0f);
  if (k == 0) return x == 0 ? x : x + edgec_log_rest(x);
  return edgec_log_by((float)k, f, {1.0f, 0.0f}, {0x1.62e4p-1f, 0x1.7f7d1cp-20f});
}

/* What is left of x by multiples of pi/2, and of how many, but for multiples of 4. */
EDGEC_HERE float edgec_far_turns(unsigned bits, int *turns) {
  constexpr unsigned two_by_pi[9] = {0,           0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u,
                                     0xDB629599u, 0x3C439041u, 0xFE5163ABu, 0xDEBBC561u};
  unsigned long long whole = (bits & 0x7FFFFF) | 0x800000;
  int from = (int)(bits >> 23 & 255) - 127 - 25 + 32, word = from >> 5, by = from & 31;
  unsigned words[4];
  for (int i = 0; i < 4; ++i) {
    words[i] = 0;
    for (int j = 0; j < 9; ++j) words[i] = j == word + i ? two_by_pi[j] : words[i];
  }
  unsigned long long sum = whole * __funnelshift_l(words[1], words[0], (unsigned)by) << 32;
  sum += whole * __funnelshift_l(words[2], words[1], (unsigned)by);
  sum += whole * __funnelshift_l(words[3], words[2], (unsigned)by) >> 32;
  long long part = (long long)(sum << 2);
  *turns = (int)(sum >> 62) + (part < 0);
  return (float)((double)part * 0x1.921fb54442d18p-64);
}

EDGEC_SHORT float edgec_turned(float x, int *turns) {
  if (fabsf(x) < 100000.0f) {
    float t = edgec_nearest(x * 0x1.45f306p-1f, turns);
    float r = fmaf(t, -0x1.921fb6p+0f, x);
    r = fmaf(t, 0x1.777a5cp-25f, r);
    return fmaf(t, 0x1.ee59dap-50f, r);
  }
  if (!isfinite(x)) return *turns = 0, x - x;
  float r = edgec_far_turns(__float_as_uint(x), turns);
  if (x < 0) r = -r, *turns = -*turns;
  return r;
}

EDGEC_SHORT float edgec_near_sin(float r) {
  float u = r * r;
  float p = fmaf(0x1.7c1118p-19f, u, -0x1.a0591ep-13f);
  p = fmaf(p, u, 0x1.111174p-7f);
  p = fmaf(p, u, -0x1.555556p-3f);
  return fmaf(u * r, p, r);
}
EDGEC_SHORT float edgec_near_cos(float r) {
  float u = r * r;
  float p = fmaf(0x1.99e0ecp-16f, u, -0x1.6c0c1ap-10f);
  p = fmaf(p, u, 0x1.55554ap-5f);
  return 1.0f + fmaf(p, u * u, -0.5f * u);
}

/* 1 */
EDGEC_HERE float sinf(float x) {
  int turns;
  float r = edgec_turned(x, &turns);
  if (x == 0) return x;
  float y = turns & 1 ? edgec_near_cos(r) : edgec_near_sin(r);
  return turns & 2 ? -y : y;
}
/* 1 */
EDGEC_HERE float cosf(float x) {
  int turns;
  float r = edgec_turned(x, &turns);
  float y = turns & 1 ? edgec_near_sin(r) : edgec_near_cos(r);
  return (turns + 1) & 2 ? -y : y;
}
EDGEC_HERE void sincosf(float x, float *sine, float *cosine) {
  int turns;
  float r = edgec_turned(x, &turns), s = edgec_near_sin(r), c = edgec_near_cos(r);
  float y = turns & 1 ? c : s, z = turns & 1 ? s : c;
  *sine = x == 0 ? x : turns & 2 ? -y : y;
  *cosine = (turns + 1) & 2 ? -z : z;
}
/* 3 */
EDGEC_HERE float tanf(float x) {
  int turns;
  float r = edgec_turned(x, &turns), u = r * r;
  if (x == 0) return x;
  float p = fmaf(0x1.249f5ap-8f, u, -0x1.71005p-14f);
  p = fmaf(p, u, 0x1.679684p-7f);
  p = fmaf(p, u, 0x1.5bd45ap-6f);
  p = fmaf(p, u, 0x1.baf0c2p-5f);
  p = fmaf(p, u, 0x1.110d1ap-3f);
  p = fmaf(p, u, 0x1.555562p-2f);
  float y = fmaf(u * r, p, r);
  return turns & 1 ? -1.0f / y : y;
}

/* Of x by pi. Beyond 2^24 every number is even. */
EDGEC_SHORT float edgec_half_turns(float x, int *turns) {
  x = fabsf(x) < 0x1p24f ? x : isfinite(x) ? copysignf(0.0f, x) : x - x;
  float two = 2.0f * (x - 2.0f * rintf(0.5f * x));
  float t = edgec_nearest(two, turns);
  return 0.5f * (two - t);
}
EDGEC_SHORT float edgec_near_sinpi(float r) {
  float u = r * r;
  float p = fmaf(0x1.443bdap-4f, u, -0x1.32adacp-1f);
  p = fmaf(p, u, 0x1.466b78p+1f);
  p = fmaf(p, u, -0x1.4abbcep+2f);
  edgec_pair first = edgec_product(r, 0x1.921fb6p+1f);
  return first.high + fmaf(u * r, p, fmaf(r, -0x1.777a5cp-24f, first.low));
}
EDGEC_SHORT float edgec_near_cospi(float r) {
  float u = r * r;
  float p = fmaf(0x1.d46d9ap-3f, u, -0x1.55b132p+0f);
  p = fmaf(p, u, 0x1.03c1aep+2f);
  p = fmaf(p, u, -0x1.3bd3ccp+2f);
  return fmaf(p, u, 1.0f);
}
/* 1 */
EDGEC_HERE float sinpif(float x) {
  int turns;
  float r = edgec_half_turns(x, &turns);
  float y = turns & 1 ? edgec_near_cospi(r) : edgec_near_sinpi(r);
  y = turns & 2 ? -y : y;
  return y == 0 ? copysignf(0.0f, x) : y;
}
/* 1 */
EDGEC_HERE float cospif(float x) {
  int turns;
  float r = edgec_half_turns(x, &turns);
  float y = turns & 1 ? edgec_near_sinpi(r) : edgec_near_cospi(r);
  y = (turns + 1) & 2 ? -y : y;
  return y == 0 ? 0.0f : y;
}
EDGEC_HERE void sincospif(float x, float *sine, float *cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}

/* asin(x) - x for x up to 1/2, of its square. */
EDGEC_SHORT float edgec_asin_rest(float x, float u) {
  float p = fmaf(0x1.345ebep-5f, u, 0x1.d62333p-7f);
  p = fmaf(p, u, 0x1.04c514p-5f);
  p = fmaf(p, u, 0x1.6ca882p-5f);
  p = fmaf(p, u, 0x1.3338a8p-4f);
  p = fmaf(p, u, 0x1.55554cp-3f);
  return u * x * p;
}
/* 1 */
EDGEC_HERE float asinf(float x) {
  float a = fabsf(x);
  if (a <= 0.5f) return x + edgec_asin_rest(x, x * x);
  float u = fmaf(-0.5f, a, 0.5f), s = sqrtf(u);
  float low = s == 0 ? 0 : fmaf(-s, s, u) / (2.0f * s);
  float y = 0x1.921fb6p+0f - 2.0f * (s + (low + edgec_asin_rest(s, u) + 0x1.777a5cp-27f));
  return copysignf(y, x);
}
/* 1 */
EDGEC_HERE float acosf(float x) {
  float a = fabsf(x);
  if (a <= 0.5f) {
    float rest = edgec_asin_rest(x, x * x);
    edgec_pair sum = edgec_sum(0x1.921fb6p+0f, -x);
    return sum.high + (sum.low - rest - 0x1.777a5cp-25f);
  }
  float u = fmaf(-0.5f, a, 0.5f), s = sqrtf(u);
  float low = s == 0 ? 0 : fmaf(-s, s, u) / (2.0f * s);
  float rest = low + edgec_asin_rest(s, u);
  if (x > 0) return 2.0f * (s + rest);
  edgec_pair sum = edgec_sum(0x1.921fb6p+1f, -2.0f * s);
  return sum.high + (sum.low - (2.0f * rest + 0x1.777a5cp-24f));
}

/* atan(x) - x for x up to 1. */
EDGEC_SHORT float edgec_atan_rest(float x) {
  float u = x * x;
  float p = fmaf(-0x1.d4984ap-10f, u, 0x1.64c1cep-7f);
  p = fmaf(p, u, -0x1.fdfc1cp-6f);
  p = fmaf(p, u, 0x1.da5ed4p-5f);
  p = fmaf(p, u, -0x1.58155ep-4f);
  p = fmaf(p, u, 0x1.c08f64p-4f);
  p = fmaf(p, u, -0x1.2420b6p-3f);
  p = fmaf(p, u, 0x1.9991e6p-3f);
  p = fmaf(p, u, -0x1.55553ep-2f);
  return u * x * p;
}
/* 1 */
EDGEC_HERE float atanf(float x) {
  float a = fabsf(x);
  if (a <= 1.0f) return x == 0 ? x : x + edgec_atan_rest(x);
  float q = 1.0f / a;
  edgec_pair sum = edgec_sum(0x1.921fb6p+0f, -q);
  return isnan(x) ? x : copysignf(sum.high + (sum.low - (edgec_atan_rest(q) + 0x1.777a5cp-25f)), x);
}
/* 2 */
EDGEC_HERE float atan2f(float y, float x) {
  if (isnan(x) || isnan(y)) return x + y;
  float a = fabsf(x), b = fabsf(y), more = fmaxf(a, b), less = fminf(a, b);
  float q = more == 0 ? 0.0f : less == INFINITY ? 1.0f : less / more;
  float low = 0;
  if (q > 0x1p-60f && q < 1.0f) low = fmaf(-q, more > 0x1p60f ? more * 0x1p-64f : more * 0x1p64f,
                                          more > 0x1p60f ? less * 0x1p-64f : less * 0x1p64f) /
                                     (more > 0x1p60f ? more * 0x1p-64f : more * 0x1p64f);
  float rest = edgec_atan_rest(q) + low / fmaf(q, q, 1.0f);
  bool steep = b > a, back = signbit(x);
  float from = steep ? 0x1.921fb6p+0f : back ? 0x1.921fb6p+1f : 0.0f;
  float from_low = steep ? -0x1.777a5cp-25f : back ? -0x1.777a5cp-24f : 0.0f;
  float sign = steep != back ? -1.0f : 1.0f;
  if (from == 0) return copysignf(q + rest, y);
  edgec_pair sum = edgec_sum(from, sign * q);
  return copysignf(sum.high + (sum.low + (sign * rest + from_low)), y);
}

/* 2 */
EDGEC_HERE float sinhf(float x) {
  float a = fabsf(x);
  if (a < 1.0f) {
    float u = x * x;
    float p = fmaf(0x1.756df8p-19f, u, 0x1.a022b6p-13f);
    p = fmaf(p, u, 0x1.1110ep-7f);
    p = fmaf(p, u, 0x1.555556p-3f);
    return fmaf(u * x, p, x);
  }
  int k;
  float half = edgec_exp_parts(edgec_limited(a, 0.0f, 91.0f), &k);
  half = edgec_scaled(half, k - 1);
  return isnan(x) ? x : copysignf(half - 0.25f / half, x);
}
/* 1 */
EDGEC_HERE float coshf(float x) {
  int k;
  float half = edgec_exp_parts(edgec_limited(fabsf(x), 0.0f, 91.0f), &k);
  half = edgec_scaled(half, k - 1);
  return isnan(x) ? x : half + 0.25f / half;
}
/* 1 */
EDGEC_HERE float tanhf(float x) {
  float a = fabsf(x);
  if (a < 0.55f) {
    float u = x * x;
    float p = fmaf(0x1.1fc462p-9f, u, -0x1.0db2cep-7f);
    p = fmaf(p, u, 0x1.63de6cp-6f);
    p = fmaf(p, u, -0x1.b9f58p-5f);
    p = fmaf(p, u, 0x1.111086p-3f);
    p = fmaf(p, u, -0x1.555554p-2f);
    return x == 0 ? x : fmaf(u * x, p, x);
  }
  int k;
  float e = edgec_exp_parts(2.0f * fminf(a, 10.0f), &k);
  e = edgec_scaled(e, k);
  return isnan(x) ? x : copysignf(1.0f - 2.0f / (e + 1.0f), x);
}
/* 2 */
EDGEC_HERE float asinhf(float x) {
  float a = fabsf(x);
  float y = a > 4096.0f ? logf(a) + 0x1.62e43p-1f
                        : log1pf(a + a * a / (1.0f + sqrtf(fmaf(a, a, 1.0f))));
  return a == INFINITY || x == 0 ? x : copysignf(y, x);
}
/* 2 */
EDGEC_HERE float acoshf(float x) {
  float t = x - 1.0f;
  if (x < 1) return NAN;
  return x > 4096.0f ? logf(x) + 0x1.62e43p-1f : log1pf(t + sqrtf(fmaf(t, t, 2.0f * t)));
}
/* 2 */
EDGEC_HERE float atanhf(float x) {
  float a = fabsf(x);
  return x == 0 ? x : copysignf(0.5f * log1pf(2.0f * a / (1.0f - a)), x);
}

/* x = m 2^(3 third) with the root of m, and how much too large it is. */
EDGEC_SHORT edgec_pair edgec_cube_root(float x, int *third) {
  int e = edgec_exponent(x);
  *third = (e + 300) / 3 - 100;
  float m = ldexpf(x, -3 * *third);
  float y = __int_as_float(__float_as_int(m) / 3 + 709958130);
  for (int i = 0; i < 2; ++i) {
    float cube = y * y * y;
    y = y * ((cube + 2.0f * m) / (2.0f * cube + m));
  }
  edgec_pair square = edgec_product(y, y);
  float more = fmaf(square.low, y, fmaf(square.high, y, -m));
  return {y, more / (3.0f * square.high)};
}
/* 1 */
EDGEC_HERE float cbrtf(float x) {
  if (x == 0 || !isfinite(x)) return x;
  int third;
  edgec_pair root = edgec_cube_root(fabsf(x), &third);
  return copysignf(ldexpf(root.high - root.low, third), x);
}
/* 1 */
EDGEC_HERE float rcbrtf(float x) {
  if (x == 0 || !isfinite(x)) return 1.0f / x;
  int third;
  edgec_pair root = edgec_cube_root(fabsf(x), &third);
  float z = 1.0f / root.high;
  z = fmaf(z, fmaf(-root.high, z, 1.0f) + root.low * z, z);
  return copysignf(ldexpf(z, -third), x);
}

/* Lengths of vectors, and one by them. */
EDGEC_HERE float edgec_length(float a, float b, float c, float d, bool inverse) {
  a = fabsf(a), b = fabsf(b), c = fabsf(c), d = fabsf(d);
  float most = fmaxf(fmaxf(a, b), fmaxf(c, d));
  if (most == INFINITY) return inverse ? 0.0f : most;
  float all = a + b + c + d;
  if (isnan(all)) return all;
  if (most == 0) return inverse ? INFINITY : 0.0f;
  int k = edgec_exponent(most);
  a = ldexpf(a, -k), b = ldexpf(b, -k), c = ldexpf(c, -k), d = ldexpf(d, -k);
  float squares = fmaf(a, a, fmaf(b, b, fmaf(c, c, d * d)));
  return inverse ? ldexpf(1.0f / sqrtf(squares), -k) : ldexpf(sqrtf(squares), k);
}
/* 1, 1, 1, and of one by them 2, 2, 2 */
EDGEC_HERE float hypotf(float a, float b) { return edgec_length(a, b, 0, 0, false); }
EDGEC_HERE float norm3df(float a, float b, float c) { return edgec_length(a, b, c, 0, false); }
EDGEC_HERE float norm4df(float a, float b, float c, float d) { return edgec_length(a, b, c, d, false); }
EDGEC_HERE float rhypotf(float a, float b) { return edgec_length(a, b, 0, 0, true); }
EDGEC_HERE float rnorm3df(float a, float b, float c) { return edgec_length(a, b, c, 0, true); }
EDGEC_HERE float rnorm4df(float a, float b, float c, float d) { return edgec_length(a, b, c, d, true); }

/* e^(x x) erfc(x) for x from 1/2 on. */
EDGEC_SHORT edgec_pair edgec_erfc_tail(float x) {
  float t = x > 0x1p100f ? 1.0f : (x - 4.0f) / (x + 4.0f);
  float p = fmaf(0x1.5ed0a6p-13f, t, -0x1.f707fep-13f);
  p = fmaf(p, t, -0x1.ca7138p-11f);
  p = fmaf(p, t, 0x1.4ba8aep-8f);
  p = fmaf(p, t, -0x1.06bebp-6f);
  p = fmaf(p, t, 0x1.306988p-5f);
  p = fmaf(p, t, -0x1.1012c6p-4f);
  p = fmaf(p, t, 0x1.7fee24p-4f);
  p = fmaf(p, t, -0x1.9dc1eep-4f);
  p = fmaf(p, t, 0x1.16ed1cp-4f);
  p = fmaf(p, t, 0x1.f7e31ep-7f);
  p = fmaf(p, t, -0x1.1df1aep-3f);
  edgec_pair last = edgec_product(p, t), sum = edgec_sum(0x1.3ba592p+0f, last.high);
  /* By 1 + 2 x. */
  edgec_pair by = edgec_sum(2.0f * x, 1.0f);
  float q = sum.high / by.high;
  return {q, (fmaf(-q, by.high, sum.high) + (sum.low + last.low - q * by.low)) / by.high};
}
/* erfc(x + low) by a power of 2, for x from 1/2 on. */
EDGEC_SHORT float edgec_far_erfc(float x, float low, int by) {
  x = fminf(x, 10.5f);
  edgec_pair square = edgec_product(x, x);
  int k;
  float y = edgec_exp_parts(-square.high, -fmaf(2.0f * x, low, square.low), &k);
  edgec_pair tail = edgec_erfc_tail(x);
  return edgec_scaled(fmaf(y, tail.low, y * tail.high), k + by);
}
/* 1 */
EDGEC_HERE float erff(float x) {
  float a = fabsf(x);
  if (a <= 1.0f) {
    float u = x * x;
    float p = fmaf(0x1.4771fcp-14f, u, -0x1.a3515ep-11f);
    p = fmaf(p, u, 0x1.53f224p-8f);
    p = fmaf(p, u, -0x1.b7f71ap-6f);
    p = fmaf(p, u, 0x1.ce2ce6p-4f);
    p = fmaf(p, u, -0x1.81273ep-2f);
    p = fmaf(p, u, 0x1.06eba8p-3f);
    return fmaf(p, x, x);
  }
  float y = 1.0f - edgec_far_erfc(fminf(a, 4.0f), 0.0f, 0);
  return isnan(x) ? x : copysignf(y, x);
}
/* 2 */
EDGEC_HERE float erfcf(float x) {
  if (isnan(x)) return x;
  if (fabsf(x) < 0.5f) return 1.0f - erff(x);
  return x > 0 ? edgec_far_erfc(x, 0.0f, 0) : 2.0f - edgec_far_erfc(-x, 0.0f, 0);
}
/* 3 */
EDGEC_HERE float erfcxf(float x) {
  if (x > 0x1p60f) return 0x1.20dd76p-1f / x;
  if (fabsf(x) < 0.5f) return expf(x * x) * (1.0f - erff(x));
  edgec_pair tail = edgec_erfc_tail(fminf(fabsf(x), 0x1p60f));
  if (x >= 0) return tail.high + tail.low;
  float a = fminf(-x, 10.0f);
  edgec_pair square = edgec_product(a, a);
  int k;
  float y = edgec_exp_parts(square.high, square.low, &k);
  return isnan(x) ? x : edgec_scaled(y, k + 1) - tail.high;
}
/* 3 */
EDGEC_HERE float normcdff(float x) {
  if (isnan(x)) return x;
  float in = edgec_limited(x, -15.0f, 15.0f);
  edgec_pair a = edgec_product(-in, 0x1.6a09e6p-1f);
  float low = fmaf(-in, 0x1.9fcef4p-27f, a.low);
  if (fabsf(a.high) < 0.5f) return 0.5f - 0.5f * erff(a.high);
  if (a.high < 0) return 1.0f - edgec_far_erfc(-a.high, -low, -1);
  return edgec_far_erfc(a.high, low, -1);
}

/* log2(x) as a pair, to 2^-33 of it, for x above 0 and finite. */
EDGEC_SHORT edgec_pair edgec_log2_pair(float x) {
  int exponent;
  float f = edgec_log_parts(x, &exponent), k = (float)exponent;
  /* log(1 + f) = 2 atanh(s), s = f / (2 + f). */
  float by = 1.0f / (2.0f + f), s = f * by;
  float s_low = fmaf(-s, f, fmaf(-2.0f, s, f)) * by;
  edgec_pair u = edgec_product(s, s), cube = edgec_product(u.high, s);
  float p = fmaf(0x1.2586cep-2f, u.high, 0x1.8ea866p-4f);
  p = fmaf(p, u.high, 0x1.2543e4p-3f);
  p = fmaf(p, u.high, 0x1.9997ep-3f);
  edgec_pair third = edgec_product(cube.high, 0x1.555556p-2f);
  float rest = fmaf(fmaf(u.low, s, cube.low), 0x1.555556p-2f, third.low);
  rest = fmaf(cube.high * u.high, p, rest);
  edgec_pair half = edgec_sum(s, third.high);
  half = edgec_sum(half.high, half.low + (rest + fmaf(s_low, u.high, s_low)));
  edgec_pair log = edgec_product(2.0f * half.high, 0x1.715476p+0f);
  float low = fmaf(2.0f * half.low, 0x1.715476p+0f, fmaf(2.0f * half.high, 0x1.4ae0cp-26f, log.low));
  edgec_pair sum = k == 0 ? log : edgec_sum(k, log.high);
  return edgec_sum(sum.high, k == 0 ? low : sum.low + low);
}
/* 1 */
EDGEC_HERE float powf(float x, float y) {
  if (x == 1 || y == 0) return 1.0f;
  if (isnan(x) || isnan(y)) return x + y;
  float a = fabsf(x);
  bool whole = y == truncf(y), odd = whole && fabsf(y) < 0x1p24f && ((int)y & 1);
  float sign = odd && signbit(x) ? -1.0f : 1.0f;
  if (fabsf(y) == INFINITY) return a == 1 ? 1.0f : (a > 1) == (y > 0) ? INFINITY : 0.0f;
  if (a == 0) return y < 0 ? sign * INFINITY : sign * 0.0f;
  if (a == INFINITY) return y < 0 ? sign * 0.0f : sign * INFINITY;
  if (x < 0 && !whole) return NAN;
  edgec_pair log = edgec_log2_pair(a);
  float in = edgec_limited(y * log.high, -160.0f, 140.0f);
  if (in == -160.0f || in == 140.0f) return sign * edgec_scaled(1.0f, (int)in);
  float low = fmaf(y, log.low, fmaf(y, log.high, -in));
  int k;
  float r = in - edgec_nearest(in, &k);
  edgec_pair b = edgec_product(r, 0x1.62e43p-1f);
  low = fmaf(low, 0x1.62e43p-1f, fmaf(r, -0x1.05c61p-29f, b.low));
  edgec_pair sum = edgec_sum(1.0f, b.high);
  float rest = edgec_exp_rest(b.high, 0.0f);
  low = fmaf(low, 1.0f + b.high + rest, sum.low);
  return sign * edgec_scaled(sum.high + (rest + low), k);
}

/* Of f64, of its series: 1 and 1. */
EDGEC_HERE double exp(double x) {
  double in = fmin(fmax(x, -746.0), 710.0), t = rint(in * 0x1.71547652b82fep+0);
  double r = fma(t, -0x1.a39ef35793c76p-33, fma(t, -0x1.62e42fee00000p-1, in));
  double p = 0x1.6124613a86d09p-33;
  p = fma(p, r, 0x1.1eed8eff8d898p-29);
  p = fma(p, r, 0x1.ae64567f544e4p-26);
  p = fma(p, r, 0x1.27e4fb7789f5cp-22);
  p = fma(p, r, 0x1.71de3a556c734p-19);
  p = fma(p, r, 0x1.a01a01a01a01ap-16);
  p = fma(p, r, 0x1.a01a01a01a01ap-13);
  p = fma(p, r, 0x1.6c16c16c16c17p-10);
  p = fma(p, r, 0x1.1111111111111p-7);
  p = fma(p, r, 0x1.5555555555555p-5);
  p = fma(p, r, 0x1.5555555555555p-3);
  p = fma(p, r, 0x1.0000000000000p-1);
  double y = 1.0 + fma(r * r, p, r);
  int k = (int)t, half = k >> 1;
  y = y * edgec_power_of_2(half, y) * edgec_power_of_2(k - half, y);
  return isnan(x) ? x : y;
}
EDGEC_HERE double log(double x) {
  if (!(x > 0 && isfinite(x))) return x == 0 ? -HUGE_VAL : x < 0 ? __builtin_nan("") : x;
  int k = edgec_exponent(x);
  double m = ldexp(x, -k);
  if (m > 0x1.6a09e667f3bcdp+0) m *= 0.5, ++k;
  /* log(1 + f) = 2 atanh(s) = f - s (f - R(s)), s = f / (2 + f). */
  double f = m - 1.0, s = f / (2.0 + f), u = s * s;
  double p = 0x1.642c8590b2164p-4;
  p = fma(p, u, 0x1.8618618618618p-4);
  p = fma(p, u, 0x1.af286bca1af28p-4);
  p = fma(p, u, 0x1.e1e1e1e1e1e1ep-4);
  p = fma(p, u, 0x1.1111111111111p-3);
  p = fma(p, u, 0x1.3b13b13b13b14p-3);
  p = fma(p, u, 0x1.745d1745d1746p-3);
  p = fma(p, u, 0x1.c71c71c71c71cp-3);
  p = fma(p, u, 0x1.2492492492492p-2);
  p = fma(p, u, 0x1.999999999999ap-2);
  p = fma(p, u, 0x1.5555555555555p-1);
  double rest = fma(-s, fma(-u, p, f), k * 0x1.a39ef35793c76p-33);
  return k * 0x1.62e42fee00000p-1 + (f + rest);
}
EDGEC_SHORT double exp(int x) { return exp((double)x); }
EDGEC_SHORT double log(int x) { return log((double)x); }

/* 0: 1 / sqrt(x), rounded right. */
EDGEC_SHORT float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }

#pragma clang fp contract(fast)

/* Of f32 by a GPU's tables. rsqrtf: 2 units; the others as CUDA's manual says of the same names. */
EDGEC_SHORT float rsqrtf(float x) { return edgec_near_reciprocal_root(x); }
EDGEC_SHORT float __expf(float x) { return edgec_near_power_of_2(x * 0x1.715476p+0f); }
EDGEC_SHORT float __exp10f(float x) { return edgec_near_power_of_2(x * 0x1.a934fp+1f); }
EDGEC_SHORT float __log2f(float x) { return edgec_near_log2(x); }
EDGEC_SHORT float __logf(float x) { return edgec_near_log2(x) * 0x1.62e43p-1f; }
EDGEC_SHORT float __log10f(float x) { return edgec_near_log2(x) * 0x1.344136p-2f; }
EDGEC_SHORT float __powf(float x, float y) { return edgec_near_power_of_2(y * edgec_near_log2(x)); }
EDGEC_SHORT float __sinf(float x) { return edgec_near_sine(x); }
EDGEC_SHORT float __cosf(float x) { return edgec_near_cosine(x); }
EDGEC_SHORT float __fdividef(float x, float y) { return edgec_near_quotient(x, y); }
EDGEC_SHORT float fdividef(float x, float y) { return x / y; }
EDGEC_SHORT float __tanf(float x) { return edgec_near_quotient(edgec_near_sine(x), edgec_near_cosine(x)); }
EDGEC_SHORT void __sincosf(float x, float *sine, float *cosine) {
  *sine = edgec_near_sine(x);
  *cosine = edgec_near_cosine(x);
}
EDGEC_SHORT double rsqrt(double x) { return 1.0 / sqrt(x); }
#if __CUDA_ARCH__ >= 750 || defined(EDGEC_EMULATED)
EDGEC_SHORT float __tanhf(float x) { return edgec_near_tanh(x); }
#endif

/* The names without an f take f32, too. */
#define EDGEC_ALSO_1(name) EDGEC_SHORT float name(float x) { return name##f(x); }
#define EDGEC_ALSO_2(name) EDGEC_SHORT float name(float x, float y) { return name##f(x, y); }
EDGEC_ALSO_1(fabs) EDGEC_ALSO_1(sqrt) EDGEC_ALSO_1(floor) EDGEC_ALSO_1(ceil) EDGEC_ALSO_1(trunc)
EDGEC_ALSO_1(rint) EDGEC_ALSO_1(nearbyint) EDGEC_ALSO_1(round) EDGEC_ALSO_1(logb)
EDGEC_ALSO_1(exp) EDGEC_ALSO_1(exp2) EDGEC_ALSO_1(exp10) EDGEC_ALSO_1(expm1) EDGEC_ALSO_1(log)
EDGEC_ALSO_1(log2) EDGEC_ALSO_1(log10) EDGEC_ALSO_1(log1p) EDGEC_ALSO_1(sin) EDGEC_ALSO_1(cos)
EDGEC_ALSO_1(tan) EDGEC_ALSO_1(asin) EDGEC_ALSO_1(acos) EDGEC_ALSO_1(atan) EDGEC_ALSO_1(sinh)
EDGEC_ALSO_1(cosh) EDGEC_ALSO_1(tanh) EDGEC_ALSO_1(asinh) EDGEC_ALSO_1(acosh) EDGEC_ALSO_1(atanh)
EDGEC_ALSO_1(cbrt) EDGEC_ALSO_1(rcbrt) EDGEC_ALSO_1(erf) EDGEC_ALSO_1(erfc) EDGEC_ALSO_1(erfcx)
EDGEC_ALSO_1(rsqrt) EDGEC_ALSO_1(sinpi) EDGEC_ALSO_1(cospi) EDGEC_ALSO_1(normcdf)
EDGEC_ALSO_2(fmin) EDGEC_ALSO_2(fmax) EDGEC_ALSO_2(fmod) EDGEC_ALSO_2(remainder) EDGEC_ALSO_2(fdim)
EDGEC_ALSO_2(copysign) EDGEC_ALSO_2(nextafter) EDGEC_ALSO_2(pow) EDGEC_ALSO_2(atan2)
EDGEC_ALSO_2(hypot)
EDGEC_SHORT float fma(float x, float y, float z) { return fmaf(x, y, z); }
EDGEC_SHORT float ldexp(float x, int k) { return ldexpf(x, k); }
EDGEC_SHORT float scalbn(float x, int k) { return ldexpf(x, k); }
EDGEC_SHORT float frexp(float x, int *k) { return frexpf(x, k); }
EDGEC_SHORT float modf(float x, float *whole) { return modff(x, whole); }
EDGEC_SHORT int ilogb(float x) { return ilogbf(x); }
EDGEC_SHORT long lrint(float x) { return lrintf(x); }
EDGEC_SHORT long lround(float x) { return lroundf(x); }
EDGEC_SHORT long long llrint(float x) { return llrintf(x); }
EDGEC_SHORT long long llround(float x) { return llroundf(x); }
EDGEC_SHORT void sincos(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }
/* An int may have more bits than f32 has. */
EDGEC_HERE float pow(float x, int y) {
  int low = y % 256;
  return y - low == 0 || abs(y / 256) < 0x8000 ? powf(x, (float)y)
                                              : powf(x, (float)(y - low)) * powf(x, (float)low);
}

#endif
