/* What may follow a sum of products in the same kernel; `triton/finish.py` has the same for tiles. */
#ifndef EDGEC_FINISH_H
#define EDGEC_FINISH_H

#include "gpu.h"

/* An activation by its number, right to 1e-6 of 1 + |x|: 1 is GELU by tanh, 2 GELU by erf, 3 SiLU,
 * 4 the sigmoid, 5 tanh, 6 hard swish, 7 hard sigmoid. */
ALWAYS float gate(float x, int kind) {
  if (kind == 2) {
    /* x > 0 ? x - x q / 2 : x q / 2, q = erfc(|x| / sqrt 2) by Abramowitz and Stegun 7.1.26. */
    float size = __builtin_fabsf(x), t = 1.0f / (1.0f + 0.2316418954f * size);
    float q = 1.421413741f + t * (-1.453152027f + t * 1.061405429f);
    q = t * (0.254829592f + t * (-0.284496736f + t * q));
    return larger(x, 0.0f) - 0.5f * size * q * exponential(-0.5f * smaller(size * size, 160.0f));
  }
  if (kind == 5) {
    float size = smaller(__builtin_fabsf(x), 40.0f), square = size * size;
    float series = square * (0.1333333333f - square * 0.05396825397f);
    float near = size * (1.0f + square * -0.3333333333f + square * series);
    float far = 1.0f - 2.0f / (1.0f + exponential(2.0f * size));
    float value = size < 0.2f ? near : far;
    return x < 0 ? -value : value;
  }
  if (kind >= 6) {
    float share = smaller(larger(x / 6.0f + 0.5f, 0.0f), 1.0f);
    return kind == 6 ? x * share : share;
  }
  if (kind) {
    float a = kind == 1 ? 1.5957691216057308f : 1.0f, b = kind == 1 ? 0.07135481282f : 0.0f;
    float square = smaller(x * x, 30.0f);
    /* Beyond 80 the result is 0 in f32, and the exponential would leave its range. */
    float below = 1.0f + exponential(smaller(-x * (a + square * b), 80.0f));
    return (kind == 4 ? 1.0f : x) / below;
  }
  return x;
}

/* min(max(x if x > 0 else slope * x, low), high); the numbers are the bits of f32. */
ALWAYS float clipped(float x, u32 slope, u32 low, u32 high) {
  x = larger(x, 0.0f) + float_of(slope) * smaller(x, 0.0f);
  return smaller(larger(x, float_of(low)), float_of(high));
}

/* A sum with what follows it, by the bits of `what`, in this order: 1 adds `bias`, bits 8 to 11 are
 * a `gate`, 64 multiplies by `factor`, 2 adds `other`, 8 takes max(x, 0), 16 clips (before `other`
 * with 32, too). */
#define FINISHED(total, column, at)                                        \
  ({                                                                       \
    float value_ = (total);                                                \
    if (what & 1) value_ += (float)bias[column];                           \
    value_ = gate(value_, what >> 8 & 15);                                 \
    if (what & 64) value_ *= (float)factor[column];                        \
    if ((what & 48) == 48) value_ = clipped(value_, clip_slope, clip_low, clip_high); \
    if (what & 2) value_ += (float)other[at];                              \
    if (what & 8) value_ = larger(value_, 0.0f);                           \
    if ((what & 48) == 16) value_ = clipped(value_, clip_slope, clip_low, clip_high); \
    value_;                                                                \
  })

#endif /* EDGEC_FINISH_H */
