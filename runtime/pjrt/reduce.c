/* Reductions: the first array's elements, with each other array's applied one after the other.
 *
 * Integers wrap. Of two floats of which one is NaN, NaN is the larger and the smaller. 16-bit floats
 * are reduced in f32, and rounded once.
 */
#include "reduce.h"

#include <string.h>

/* --- 16-bit floats ---------------------------------------------------------------------------- */

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float from_bf16(uint16_t half) { return float_of_bits((uint32_t)half << 16); }

static uint16_t to_bf16(float value) {
  uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float from_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return float_of_bits(sign | ((magnitude << 13) + (112u << 23)));
  float small = (float)magnitude * 0x1p-24f;
  return sign ? -small : small;
}

static uint16_t to_f16(float value) {
  uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more */
  if (magnitude >= 0x38800000u) {
    uint32_t rounded = magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
  }
  /* Below 2^-14: adding 1/2 leaves the 10 bits that stay, rounded to even. */
  uint32_t shifted = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
  return (uint16_t)(sign | shifted);
}

/* --- what is applied -------------------------------------------------------------------------- */

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define BOTH(a, b) ((a) & (b))
#define EITHER(a, b) ((a) | (b))
#define ONE(a, b) ((a) ^ (b))
/* `a != a` is NaN's own mark, and false of integers. */
#define LARGER(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))

#define REDUCE_SOME 256 /* elements that are computed at a time, in memory that is near */

/* Loops for each type and operation. `READ` and `WRITE` go between memory and what is computed in. */
#define APPLY(TYPE, WIDE, READ, WRITE, WITH)                                                \
  do {                                                                                      \
    WIDE totals[REDUCE_SOME];                                                               \
    for (size_t at = 0, some; at < size / sizeof(TYPE); at += some) {                       \
      some = size / sizeof(TYPE) - at < REDUCE_SOME ? size / sizeof(TYPE) - at : REDUCE_SOME; \
      const TYPE *from = (const TYPE *)first + at;                                          \
      for (size_t i = 0; i < some; ++i) totals[i] = READ(from[i]);                          \
      for (size_t j = 1; j < count; ++j) {                                                  \
        from = (const TYPE *)((const char *)arrays[j] + begin) + at;                        \
        for (size_t i = 0; i < some; ++i) {                                                 \
          WIDE other = READ(from[i]);                                                       \
          totals[i] = (WIDE)WITH(totals[i], other);                                         \
        }                                                                                   \
      }                                                                                     \
      for (size_t i = 0; i < some; ++i) ((TYPE *)out)[at + i] = WRITE(totals[i]);           \
    }                                                                                       \
    return true;                                                                            \
  } while (0)

#define PLAIN(value) (value)

#define REDUCER(name) \
  static bool name(pjrt_reduction reduction, const void *const *arrays, size_t count, size_t begin, \
                   size_t size, void *out)

/* Sums and products of integers are those of unsigned ones, which wrap. */
#define INTEGERS(name, SIGNED, UNSIGNED, WIDE)                                  \
  REDUCER(name) {                                                               \
    const char *first = (const char *)arrays[0] + begin;                        \
    switch (reduction) {                                                        \
      case REDUCE_ADD: APPLY(UNSIGNED, WIDE, (WIDE), (UNSIGNED), SUM);          \
      case REDUCE_MULTIPLY: APPLY(UNSIGNED, WIDE, (WIDE), (UNSIGNED), PRODUCT); \
      case REDUCE_MAXIMUM: APPLY(SIGNED, SIGNED, PLAIN, PLAIN, LARGER);         \
      case REDUCE_MINIMUM: APPLY(SIGNED, SIGNED, PLAIN, PLAIN, SMALLER);        \
      case REDUCE_AND: APPLY(SIGNED, SIGNED, PLAIN, PLAIN, BOTH);               \
      case REDUCE_OR: APPLY(SIGNED, SIGNED, PLAIN, PLAIN, EITHER);              \
      case REDUCE_XOR: APPLY(SIGNED, SIGNED, PLAIN, PLAIN, ONE);                \
      default: return false;                                                    \
    }                                                                           \
  }

#define FLOATS(name, TYPE, WIDE, READ, WRITE)                        \
  REDUCER(name) {                                                    \
    const char *first = (const char *)arrays[0] + begin;             \
    switch (reduction) {                                             \
      case REDUCE_ADD: APPLY(TYPE, WIDE, READ, WRITE, SUM);          \
      case REDUCE_MULTIPLY: APPLY(TYPE, WIDE, READ, WRITE, PRODUCT); \
      case REDUCE_MAXIMUM: APPLY(TYPE, WIDE, READ, WRITE, LARGER);   \
      case REDUCE_MINIMUM: APPLY(TYPE, WIDE, READ, WRITE, SMALLER);  \
      default: return false;                                         \
    }                                                                \
  }

INTEGERS(reduce_i8, int8_t, uint8_t, uint32_t)
INTEGERS(reduce_i16, int16_t, uint16_t, uint32_t)
INTEGERS(reduce_i32, int32_t, uint32_t, uint32_t)
INTEGERS(reduce_i64, int64_t, uint64_t, uint64_t)
INTEGERS(reduce_u8, uint8_t, uint8_t, uint32_t)
INTEGERS(reduce_u16, uint16_t, uint16_t, uint32_t)
INTEGERS(reduce_u32, uint32_t, uint32_t, uint32_t)
INTEGERS(reduce_u64, uint64_t, uint64_t, uint64_t)
FLOATS(reduce_f16, uint16_t, float, from_f16, to_f16)
FLOATS(reduce_bf16, uint16_t, float, from_bf16, to_bf16)
FLOATS(reduce_f32, float, float, PLAIN, PLAIN)
FLOATS(reduce_f64, double, double, PLAIN, PLAIN)

/* A byte that is 0 or 1: a sum is whether any is, a product whether all are. */
REDUCER(reduce_bool) {
  const char *first = (const char *)arrays[0] + begin;
  switch (reduction) {
    case REDUCE_ADD:
    case REDUCE_MAXIMUM:
    case REDUCE_OR:
      APPLY(uint8_t, uint8_t, PLAIN, PLAIN, EITHER);
    case REDUCE_MULTIPLY:
    case REDUCE_MINIMUM:
    case REDUCE_AND:
      APPLY(uint8_t, uint8_t, PLAIN, PLAIN, BOTH);
    case REDUCE_XOR:
      APPLY(uint8_t, uint8_t, PLAIN, PLAIN, ONE);
    default:
      return false;
  }
}

/* Of complex numbers sums: their parts' own. */
static bool reduce_complex(uint32_t type, pjrt_reduction reduction, const void *const *arrays,
                           size_t count, size_t begin, size_t size, void *out) {
  if (reduction != REDUCE_ADD) return false;
  return type == EDGERT_C64 ? reduce_f32(reduction, arrays, count, begin, size, out)
                            : reduce_f64(reduction, arrays, count, begin, size, out);
}

bool pjrt_reduce(pjrt_reduction reduction, uint32_t type, const void *const *arrays, size_t count,
                 size_t begin, size_t size, void *out) {
  switch (type) {
    case EDGERT_BOOL: return reduce_bool(reduction, arrays, count, begin, size, out);
    case EDGERT_I8: return reduce_i8(reduction, arrays, count, begin, size, out);
    case EDGERT_I16: return reduce_i16(reduction, arrays, count, begin, size, out);
    case EDGERT_I32: return reduce_i32(reduction, arrays, count, begin, size, out);
    case EDGERT_I64: return reduce_i64(reduction, arrays, count, begin, size, out);
    case EDGERT_U8: return reduce_u8(reduction, arrays, count, begin, size, out);
    case EDGERT_U16: return reduce_u16(reduction, arrays, count, begin, size, out);
    case EDGERT_U32: return reduce_u32(reduction, arrays, count, begin, size, out);
    case EDGERT_U64: return reduce_u64(reduction, arrays, count, begin, size, out);
    case EDGERT_F16: return reduce_f16(reduction, arrays, count, begin, size, out);
    case EDGERT_BF16: return reduce_bf16(reduction, arrays, count, begin, size, out);
    case EDGERT_F32: return reduce_f32(reduction, arrays, count, begin, size, out);
    case EDGERT_F64: return reduce_f64(reduction, arrays, count, begin, size, out);
    case EDGERT_C64:
    case EDGERT_C128:
      return reduce_complex(type, reduction, arrays, count, begin, size, out);
    default: return false;
  }
}
