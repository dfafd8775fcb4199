/* Rows as integers, and what matrix units make of these and of weights in blocks.
 *
 * Of 32 neighbours of a row each is four signed digits of 8 bits, less than 2^30 parts of the power of
 * two above the largest of them, so that what is lost is less than f32 loses in a sum. Matrix units
 * multiply codes by digits exactly.
 *
 * Whoever includes this says how many LINES of x there are at a time, and THREADS.
 */
#ifndef EDGEC_DIGITS_H
#define EDGEC_DIGITS_H

#include "finish.h"

#define BLOCK 32 /* neighbours that are digits of one scale, and multiplied at once */
#define TILE 16 /* outputs of a tile, the rows of a matrix unit's */
#define DIGITS 4
#define MATRICES (GATED > 0 ? 2 : 1)
#define THREADS (WARPS * WARP)
#define BLOCKS (inner / BLOCK)
#define EACH (GROUP < BLOCK ? BLOCK / GROUP : 1) /* groups of a block */
#define HALVES (BITS == 4)
#define PIECE (BLOCK * BITS / 8) /* bytes of a block */
#define AT_ONCE 2 /* pieces of x, of eight elements, that a thread reads before it needs the first */
#define PIECES ((inner / 8 + THREADS - 1) / THREADS) /* that it reads in all */

/* Bytes that are copied at once of so many. */
#define PIECE_OF(bytes) ((bytes) % 16 == 0 ? 16 : (bytes) % 8 == 0 ? 8 : (bytes) % 4 == 0 ? 4 : 1)

/* The columns of a matrix unit that the digits of one line leave free are those of the next block. */
#define PAIRED (LINES == 1 && EACH == 1)
#define UNIT (PAIRED ? 2 : 1) /* blocks that a warp multiplies at once */

/* A line's block: what integers are multiplied by for the digits of each parity, what is taken away
 * for codes' zero, and the sum for least values; of these two with two groups in a block. */
typedef struct __attribute__((aligned(HAS_least0 || EACH > 1 ? 16 : 8))) {
  float unit, zero[EACH];
#if HAS_least0
  float sum[EACH];
#endif
} facts;

/* Lines of x as digits. */
struct row {
  u32 digits[BLOCKS][LINES * DIGITS][8] __attribute__((aligned(16)));
  facts lines[BLOCKS][LINES * 2];
};

typedef struct {
  const GLOBAL i8 *codes;
  const GLOBAL scale0_t *scale;
  const GLOBAL scale_by0_t *scale_by;
  const GLOBAL least0_t *least;
  const GLOBAL least_by0_t *least_by;
} matrix;

#define MATRIX(n)                                                                          \
  (matrix) {                                                                               \
    (const GLOBAL i8 *)codes##n, (const GLOBAL scale0_t *)scale##n,                        \
        (const GLOBAL scale_by0_t *)scale_by##n, (const GLOBAL least0_t *)least##n,        \
        (const GLOBAL least_by0_t *)least_by##n                                            \
  }

/* Where the element that meets a byte's low (slot < 16) or high half lies in its block. */
ALWAYS u32 element_of(u32 slot) {
  u32 byte = slot % 16, half = SPAN / 2;
  return HALVES ? byte / half * SPAN + byte % half + slot / 16 * half : slot;
}

/* The elements of a vector that meet four neighbouring bytes: their low halves, then their high. */
ALWAYS void read_eight(float found[8], const GLOBAL float *from, u32 piece) {
  u32 slot = piece % 4 * 4;
  from += piece / 4 * BLOCK;
  UNROLLED for (u32 half = 0; half < 2; ++half) {
    if (!HALVES || SPAN == BLOCK) {
      four near = *(const GLOBAL four *)(from + half * 16 + slot);
      found[half * 4] = near.x, found[half * 4 + 1] = near.y;
      found[half * 4 + 2] = near.z, found[half * 4 + 3] = near.w;
    } else {
      UNROLLED for (u32 i = 0; i < 4; ++i)
        found[half * 4 + i] = from[element_of(half * 16 + slot + i)];
    }
  }
}

/* The digits of four elements that lie in a byte each, the first of all four first. */
ALWAYS void split(u32 digit[4], const float value[4], float up) {
  u32 word[4];
  UNROLLED for (u32 i = 0; i < 4; ++i)
    word[i] = ((u32)to_nearest(value[i] * up) + 0x80808080u) ^ 0x80808080u;
  u32 a = bytes_of(word[0], word[1], 0x5140), b = bytes_of(word[0], word[1], 0x7362);
  u32 c = bytes_of(word[2], word[3], 0x5140), d = bytes_of(word[2], word[3], 0x7362);
  digit[0] = bytes_of(b, d, 0x7632), digit[1] = bytes_of(b, d, 0x5410);
  digit[2] = bytes_of(a, c, 0x7632), digit[3] = bytes_of(a, c, 0x5410);
}

/* Turns eight elements into digits; four neighbouring lanes have a block. */
ALWAYS void put_digits(SHARED struct row *here, const float value[8], u32 piece, u32 line,
                       int is_there) {
  u32 largest = 0; /* as bits, among which what is no number is the largest */
  float sum[2] = {0.0f, 0.0f};
  UNROLLED for (u32 i = 0; i < 8; ++i) {
    u32 size = bits_of(value[i]) & 0x7FFFFFFF;
    largest = size > largest ? size : largest;
    sum[i / 4] += value[i];
  }
  UNROLLED for (u32 across = 1; across < 4; across *= 2) {
    u32 size = bits_of(other_lanes(float_of(largest), across));
    largest = size > largest ? size : largest;
  }
  if (EACH == 1) sum[0] += sum[1];
  UNROLLED for (u32 e = 0; e < EACH; ++e) {
    sum[e] += other_lanes(sum[e], 1);
    sum[e] += other_lanes(sum[e], 2);
  }
  /* 2^29 <= largest * up < 2^30; what is below 2^-87 has fewer digits. */
  int exponent = (int)(largest >> 23), is_finite = exponent < 255;
  exponent = exponent < 40 ? 40 : is_finite ? exponent : 254;
  float up = float_of((u32)(283 - exponent) << 23);
  u32 low[4], high[4];
  split(low, value, up);
  /* High halves are multiplied where they are, as 16 times what they say. */
  split(high, value + 4, HALVES ? up * 0.0625f : up);
  if (!is_there) return;
  u32 block = piece / 4, slot = piece % 4;
  UNROLLED for (u32 d = 0; d < DIGITS; ++d)
    *(SHARED u64 *)&here->digits[block][line * DIGITS + d][slot * 2] = low[d] | (u64)high[d] << 32;
  /* Even columns have the first two digits, odd ones the last two, which are 2^16 apart. */
  if (slot < 2) {
    float unit = float_of(is_finite ? (u32)(exponent - 29) << 23 : 0x7FC00000);
    facts fact = {slot ? unit : unit * 65536.0f};
    UNROLLED for (u32 e = 0; e < EACH; ++e) {
      fact.zero[e] = slot ? 0.0f : -(float)(ZERO) * sum[e];
#if HAS_least0
      fact.sum[e] = slot ? 0.0f : sum[e];
#endif
    }
    here->lines[block][line * 2 + slot] = fact;
  }
}

/* The factors of a norm that this thread's elements meet. */
ALWAYS void read_factors(float factors[PIECES][8], const GLOBAL float *by) {
  UNROLLED for (u32 k = 0; k < PIECES; ++k) {
    u32 piece = k * THREADS + thread();
    UNROLLED for (u32 i = 0; i < 8; ++i) factors[k][i] = 0.0f;
    if (inner / 8 % THREADS == 0 || piece < inner / 8) read_eight(factors[k], by, piece);
  }
}

/* Turns a line of x into digits; the sum of the squares that this thread read. */
ALWAYS float digits_of(SHARED struct row *here, const GLOBAL float *from,
                       float factors[PIECES][8], u32 line) {
  float squares = 0.0f;
  UNROLLED for (u32 first = 0; first < inner / 8; first += THREADS * AT_ONCE) {
    float value[AT_ONCE][8];
    UNROLLED for (u32 k = 0; k < AT_ONCE; ++k) {
      u32 piece = first + k * THREADS + thread();
      UNROLLED for (u32 i = 0; i < 8; ++i) value[k][i] = 0.0f;
      if (first + k * THREADS >= inner / 8 || (inner / 8 % THREADS && piece >= inner / 8)) continue;
      read_eight(value[k], from, piece);
    }
    UNROLLED for (u32 k = 0; k < AT_ONCE; ++k) {
      u32 piece = first + k * THREADS + thread();
      if (first + k * THREADS >= inner / 8) continue;
      UNROLLED for (u32 i = 0; i < 8; ++i) {
        squares += value[k][i] * value[k][i];
        if (NORMED == 1) value[k][i] *= factors[first / THREADS + k][i];
      }
      put_digits(here, value[k], piece, line, piece < inner / 8);
    }
  }
  return squares;
}

/* Sums of codes by digits: of group `e`, or with PAIRED of two blocks. */
ALWAYS void multiply(int sums[4], const u32 *word, const u32 digit[2], u32 e) {
  u32 low = HALVES ? 0x0F0F0F0F : 0xFFFFFFFF, high = HALVES ? 0xF0F0F0F0 : 0xFFFFFFFF;
  if (PAIRED) {
    /* Half of a block in the first four columns, of the next in the others: the other half of each
     * column is zeros. */
    const u32 *second = HALVES ? word : word + 4;
    u32 near = thread() % WARP / 4 < DIGITS ? 0xFFFFFFFF : 0;
    u32 near_half[4] = {word[0] & low, word[1] & low, word[2] & low, word[3] & low};
    u32 far_half[4] = {second[0] & high, second[1] & high, second[2] & high, second[3] & high};
    u32 digits0[2] = {digit[0] & near, digit[0] & ~near};
    u32 digits1[2] = {digit[1] & near, digit[1] & ~near};
    int none[4] = {0, 0, 0, 0};
    multiply_32(sums, near_half, digits0, none, !HALVES);
    multiply_32(sums, far_half, digits1, sums, !HALVES);
    return;
  }
  u32 code[4] = {word[0] & low, word[1] & low, HALVES ? word[0] & high : word[2],
                 HALVES ? word[1] & high : word[3]};
  int none[4] = {0, 0, 0, 0};
  if (EACH > 1)
    multiply_16(sums, code + 2 * e, digit[e]);
  else
    multiply_32(sums, code, digit, none, !HALVES);
}

#endif
