/* Rows by weights in blocks, of which a multiprocessor has many outputs: each warp reads on and on.
 *
 * As `block_digits.c`, but a group has one tile of 16 outputs after the other, and no warp waits for
 * another's weights: it has stages of its own, 128 bytes of each output, of which STAGES less one are
 * on their way while it multiplies. Warps meet once a tile, to add their sums.
 */
#define LINES (rows > 1 ? 2 : 1) /* rows of x at a time: the digits of two are 8 columns */
#include "digits.h"

#define WIDTH 128 /* bytes of an output in a stage */
#define DEEP (WIDTH / PIECE) /* blocks of a stage */
#define UNITS (BLOCKS / DEEP)
#define OF_TILE ((UNITS + WARPS - 1) / WARPS) /* stages of a warp for a matrix of a tile */
#define OF_ALL (OF_TILE * MATRICES)
#define STRIDE (WIDTH + 16) /* rows that are read together lie in different banks */
#define GROUPS (DEEP * BLOCK / GROUP) /* of a stage */
#define SCALE_BYTES (GROUPS * (int)sizeof(scale0_t))
#define LEAST_BYTES (HAS_least0 ? GROUPS * (int)sizeof(least0_t) : 0)

/* What a warp multiplies at a time, of 16 outputs. */
typedef struct {
  u8 codes[TILE * STRIDE] __attribute__((aligned(16)));
  u8 scales[TILE * SCALE_BYTES] __attribute__((aligned(16)));
#if HAS_least0
  u8 leasts[TILE * LEAST_BYTES] __attribute__((aligned(16)));
#endif
} stage;

struct memory {
  stage stages[WARPS][STAGES];
  struct row row;
  float sums[2][WARPS][MATRICES][LINES][TILE];
  float squares[WARPS][LINES];
};

/* Where a tile is: the matrices, its number among those of its set, outputs, and the result. */
typedef struct {
  matrix from[MATRICES];
  u32 tile, outputs;
  GLOBAL float *c;
} place;

/* Puts so many bytes of each output on their way, which begin `at` in a row of `pitch`; of an output
 * beyond the last, that one's. */
ALWAYS void bring_rows(SHARED u8 *to, u32 stride, const GLOBAL u8 *from, u32 pitch, u32 at,
                       u32 bytes, u32 piece, const place *here) {
  u32 lane = thread() % WARP, each = bytes / piece, last = here->outputs - 1;
  UNROLLED for (u32 k = 0; k < (TILE * each + WARP - 1) / WARP; ++k) {
    u32 i = k * WARP + lane, row = i / each, begin = i % each * piece;
    if (TILE * each % WARP && i >= TILE * each) continue;
    u32 output = here->tile * TILE + row < last ? here->tile * TILE + row : last;
    copy(to + row * stride + begin, from + (u64)output * pitch + at + begin, piece);
  }
}

/* Puts a stage of a tile on its way, number `r` of this warp's. */
ALWAYS void bring(SHARED stage *to, const place *here, u32 r) {
  const matrix *from = &here->from[r % MATRICES];
  u32 unit = r / MATRICES * WARPS + thread() / WARP;
  if (UNITS % WARPS && unit >= UNITS) return;
  bring_rows(to->codes, STRIDE, (const GLOBAL u8 *)from->codes, UNITS * WIDTH,
             unit * WIDTH, WIDTH, 16, here);
  bring_rows(to->scales, SCALE_BYTES, (const GLOBAL u8 *)from->scale,
             UNITS * SCALE_BYTES, unit * SCALE_BYTES, SCALE_BYTES, PIECE_OF(SCALE_BYTES),
             here);
#if HAS_least0
  bring_rows(to->leasts, LEAST_BYTES, (const GLOBAL u8 *)from->least,
             UNITS * LEAST_BYTES, unit * LEAST_BYTES, LEAST_BYTES, PIECE_OF(LEAST_BYTES),
             here);
#endif
}

/* What a lane has of a block before it multiplies, so that all it waits for is on its way together:
 * of outputs lane / 4 and 8 beyond. */
typedef struct {
  scale0_t scale[EACH][2];
#if HAS_least0
  least0_t least[EACH][2];
#endif
  u32 code[UNIT * (HALVES ? 2 : 4)];
} part;

/* What lies at block `i` of a stage, and with PAIRED at the next; this lane's numbers at `own`. */
ALWAYS part part_of(const SHARED stage *from, u32 i, u32 own) {
  u32 lane = thread() % WARP, g = lane / 4;
  const SHARED u8 *codes = from->codes + lane % 16 * STRIDE + i * PIECE;
  part found;
  if (PAIRED) {
    load_matrices_4(found.code, codes + lane / 16 * PIECE);
    if (!HALVES) load_matrices_4(found.code + UNIT * 2, codes + lane / 16 * PIECE + 16);
  } else if (HALVES) {
    load_matrices_2(found.code, codes);
  } else {
    load_matrices_4(found.code, codes + lane / 16 * 16);
  }
  UNROLLED for (u32 e = 0; e < EACH; ++e) {
    u32 group = (own * EACH + e) * (BLOCK / EACH) / GROUP;
    UNROLLED for (u32 half = 0; half < 2; ++half) {
      found.scale[e][half] =
          ((const SHARED scale0_t *)(from->scales + (g + 8 * half) * SCALE_BYTES))[group];
#if HAS_least0
      found.least[e][half] =
          ((const SHARED least0_t *)(from->leasts + (g + 8 * half) * LEAST_BYTES))[group];
#endif
    }
  }
  return found;
}

/* Adds the products of a stage, number `r` of this warp's for a tile. */
ALWAYS void add(const SHARED stage *from, const SHARED struct row *row, float total[2], u32 r) {
  u32 lane = thread() % WARP, g = lane / 4, t = lane % 4;
  u32 unit = r / MATRICES * WARPS + thread() / WARP;
  if (UNITS % WARPS && unit >= UNITS) return;
  u32 digit[DEEP / UNIT][2];
  facts fact[DEEP / UNIT];
  part parts[DEEP / UNIT];
  UNROLLED for (u32 k = 0; k < DEEP / UNIT; ++k) {
    u32 i = k * UNIT, own = i + (PAIRED && t >= 2), first = unit * DEEP;
    u64 both = *(const SHARED u64 *)&row->digits[first + i + (PAIRED && g >= DIGITS)]
                                                [g % (LINES * DIGITS)][t * 2];
    digit[k][0] = (u32)both, digit[k][1] = (u32)(both >> 32);
    fact[k] = row->lines[first + own][t % (LINES * 2)];
    parts[k] = part_of(from, i, own);
  }
  all_on_their_way();
  UNROLLED for (u32 k = 0; k < DEEP / UNIT; ++k)
    UNROLLED for (u32 e = 0; e < EACH; ++e) {
      int sums[4];
      multiply(sums, parts[k].code, digit[k], e);
      float low = (float)(sums[0] * 256 + sums[1]), high = (float)(sums[2] * 256 + sums[3]);
      total[0] += (float)parts[k].scale[e][0] * (low * fact[k].unit + fact[k].zero[e]);
      total[1] += (float)parts[k].scale[e][1] * (high * fact[k].unit + fact[k].zero[e]);
#if HAS_least0
      total[0] += (float)parts[k].least[e][0] * fact[k].sum[e];
      total[1] += (float)parts[k].least[e][1] * fact[k].sum[e];
#endif
    }
}

/* C = finish(X W^T) as `block_digits.c` says it, of weights that have no numbers in two levels, each
 * row's in whole stages. Grid: (groups of threads, 1, 1), no more than the tiles of all sets. */
KERNEL(block_stream, x, norm, bias, factor, other,
       codes0, scale0, scale_by0, least0, least_by0, c0,
       codes1, scale1, scale_by1, least1, least_by1, c1,
       codes2, scale2, scale_by2, least2, least_by2, c2,
       rows, inner, outputs0, outputs1, outputs2, eps_bits, what, clip_slope, clip_low, clip_high,
       WARPS, STAGES, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, SETS, GATED, NORMED,
       EARLY) {
  SHARED struct memory *here = &ROOM(struct memory);
  u32 tiles0 = (outputs0 + TILE - 1) / TILE, tiles1 = (outputs1 + TILE - 1) / TILE;
  u32 tiles2 = (outputs2 + TILE - 1) / TILE;
  u32 tiles = tiles0 + (SETS > 1 && !GATED ? tiles1 : 0) + (SETS > 2 && !GATED ? tiles2 : 0);
  u32 mine = (tiles - group_x() + groups_x() - 1) / groups_x();
  u32 warp = thread() / WARP, lane = thread() % WARP, g = lane / 4, t = lane % 4;
#define PLACE(which)                                                                        \
  ({                                                                                        \
    place at_ = {{MATRIX(0)}, group_x() + (which)*groups_x(), outputs0, c0};                \
    if (GATED) at_.from[MATRICES - 1] = MATRIX(1);                                          \
    if (SETS > 1 && !GATED && at_.tile >= tiles0) {                                         \
      if (SETS == 2 || at_.tile < tiles0 + tiles1)                                          \
        at_ = (place){{MATRIX(1)}, at_.tile - tiles0, outputs1, (GLOBAL float *)c1};        \
      else                                                                                  \
        at_ = (place){{MATRIX(2)}, at_.tile - tiles0 - tiles1, outputs2, (GLOBAL float *)c2}; \
    }                                                                                       \
    at_;                                                                                    \
  })
/* Stage `ahead` of this warp, counted from a tile's first. */
#define BRING_AHEAD(from_tile, ahead, slot)                                                 \
  do {                                                                                      \
    if ((from_tile) + (ahead) / OF_ALL < mine) {                                            \
      place to_ = PLACE((from_tile) + (ahead) / OF_ALL);                                    \
      bring(&here->stages[warp][slot], &to_, (ahead) % OF_ALL);                             \
    }                                                                                       \
    copies_end();                                                                           \
  } while (0)
  if (EARLY == 1) let_next_begin(), wait_for_earlier();
  UNROLLED for (u32 ahead = 0; ahead < STAGES - 1; ++ahead) BRING_AHEAD(0, ahead, ahead);
  float factors[PIECES][8];
#if NORMED == 1
  read_factors(factors, norm);
#endif
  if (EARLY == 2) let_next_begin(), wait_for_earlier();
  u32 ended = 0;
  for (u32 line = 0; line < rows; line += LINES) {
    u32 many = rows - line < LINES ? rows - line : LINES, slot = 0;
    if (line) {
      meet();
      UNROLLED for (u32 ahead = 0; ahead < STAGES - 1; ++ahead) BRING_AHEAD(0, ahead, ahead);
    }
    for (u32 l = 0; l < many; ++l) {
      float squares = digits_of(&here->row, x + (u64)(line + l) * inner, factors, l);
      if (NORMED) {
        UNROLLED for (u32 across = 16; across; across /= 2) squares += other_lanes(squares, across);
        if (lane == 0) here->squares[warp][l] = squares;
      }
    }
    meet();
    for (u32 tile = 0; tile < mine; ++tile, ++ended) {
      float total[MATRICES][2];
      UNROLLED for (u32 m = 0; m < MATRICES; ++m) total[m][0] = total[m][1] = 0.0f;
      UNROLLED for (u32 r = 0; r < OF_ALL; ++r) {
        wait_for_copies(STAGES - 2);
        meet_in_warp(); /* all lanes' copies are there, and nobody reads the stage before */
        BRING_AHEAD(tile, r + STAGES - 1, slot ? slot - 1 : STAGES - 1);
        add(&here->stages[warp][slot], &here->row, total[r % MATRICES], r);
        slot = slot + 1 < STAGES ? slot + 1 : 0;
      }
      /* What two tiles ago was written there has been read by all who come here. */
      u32 side = ended % 2, finisher = tile % WARPS;
      UNROLLED for (u32 m = 0; m < MATRICES; ++m)
        UNROLLED for (u32 half = 0; half < 2; ++half) {
          float sum = total[m][half] + other_lanes(total[m][half], 1);
          if (PAIRED) sum += other_lanes(sum, 2);
          if (t % 2 || t / 2 >= LINES) continue;
          here->sums[side][warp][m][t / 2][g + 8 * half] = sum;
        }
      meet();
      place at = PLACE(tile);
      u32 l = lane / TILE, output = at.tile * TILE + lane % TILE;
      if (warp != finisher || l >= many || output >= at.outputs) continue;
      float result[MATRICES], root = 1.0f;
      UNROLLED for (u32 m = 0; m < MATRICES; ++m) {
        result[m] = 0.0f;
        UNROLLED for (u32 w = 0; w < WARPS; ++w)
          result[m] += here->sums[side][w][m][l][lane % TILE];
      }
      if (NORMED) {
        float squares = 0.0f;
        UNROLLED for (u32 w = 0; w < WARPS; ++w) squares += here->squares[w][l];
        root = one_by_root(squares / (float)inner + float_of(eps_bits));
      }
      u64 to = (u64)(line + l) * at.outputs + output;
      float value = result[0] * root;
      if (GATED)
        value = gate(value, GATED) * (result[MATRICES - 1] * root);
      else if (SETS == 1)
        value = FINISHED(value, output, to);
      at.c[to] = value;
    }
  }
}
