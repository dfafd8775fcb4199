/* Rows by weights in blocks on the matrix units' integers: blocks are read as they lie.
 *
 * A model that writes reads all of its weights for each token. A group of threads has 16 outputs at a
 * time (of each matrix, with a gate), and puts all of their blocks on their way to its own memory
 * before it waits for the kernels that compute the row. The row then becomes integers (`digits.h`).
 */
#define ROWS (TILES * TILE) /* outputs that a group has at a time */
#define PACE 4 /* times AHEAD pieces are on their way at a time */

/* Bytes of a row in pieces that are copied at once, an odd number of them: rows that are read
 * together lie in different banks. */
#define STRIDE_OF(bytes) \
  (PIECE_OF(bytes) == 1 ? ((bytes) + 7) / 4 * 4 : (((bytes) / PIECE_OF(bytes)) | 1) * PIECE_OF(bytes))

#define STRIDE STRIDE_OF(CHUNK * PIECE)
#define SCALE_BYTES (inner / GROUP * (int)sizeof(scale0_t))
#define FACTOR_BYTES (HAS_scale_by0 ? inner / GROUP / SCALES * (int)sizeof(scale_by0_t) : 0)
#define LEAST_BYTES (HAS_least0 ? inner / GROUP * (int)sizeof(least0_t) : 0)
#define LEAST_FACTOR_BYTES (HAS_least_by0 ? inner / GROUP / LEASTS * (int)sizeof(least_by0_t) : 0)
#define NUMBER_BYTES                                                                          \
  (ROWS * (STRIDE_OF(SCALE_BYTES) + (HAS_scale_by0 ? STRIDE_OF(FACTOR_BYTES) : 0) +           \
           (HAS_least0 ? STRIDE_OF(LEAST_BYTES) : 0) +                                        \
           (HAS_least_by0 ? STRIDE_OF(LEAST_FACTOR_BYTES) : 0)))

/* Rows of x at a time: the digits of two are 8 columns, if they leave room for weights. */
#define OF_LINE (DIGITS * 32 + 2 * (HAS_least0 || EACH > 1 ? EACH * 16 : 8))
#define LINES (rows > 1 && BLOCKS * 2 * OF_LINE <= SHARED_BYTES / 2 ? 2 : 1)
#define OF_REST \
  (BLOCKS * LINES * OF_LINE + WARPS * (MATRICES + 1) * LINES * TILE * 4 + MATRICES * ROWS * 64 + 64)

/* A chunk is all blocks of an output, or what fits twice beside what is there once. */
#define WHOLE (MATRICES * (ROWS * BLOCKS * PIECE + NUMBER_BYTES))
#define CHUNK                                                                                  \
  ((MANY ? 2 : 1) * WHOLE + OF_REST <= SHARED_BYTES                                            \
       ? BLOCKS                                                                                \
       : (SHARED_BYTES - OF_REST - 2 * MATRICES * NUMBER_BYTES) / (2 * MATRICES * ROWS * PIECE) / 4 * 4)
#define PARTS ((BLOCKS + CHUNK - 1) / CHUNK)
#define BUFFERS (PARTS > 1 || MANY ? 2 : 1)

#define SLICES (WARPS / TILES) /* warps that share a tile's units */
#define OF_WARP ((CHUNK + SLICES * UNIT - 1) / (SLICES * UNIT)) /* units of a chunk */
#define TOGETHER (OF_WARP < 4 / MATRICES ? OF_WARP : 4 / MATRICES) /* that it reads before it needs them */

#include "digits.h"

/* What a matrix has beside its codes, of a tile. */
struct numbers {
  u8 scales[ROWS * STRIDE_OF(SCALE_BYTES)] __attribute__((aligned(16)));
#if HAS_scale_by0
  u8 factors[ROWS * STRIDE_OF(FACTOR_BYTES)] __attribute__((aligned(16)));
#endif
#if HAS_least0
  u8 leasts[ROWS * STRIDE_OF(LEAST_BYTES)] __attribute__((aligned(16)));
#endif
#if HAS_least_by0
  u8 least_factors[ROWS * STRIDE_OF(LEAST_FACTOR_BYTES)] __attribute__((aligned(16)));
#endif
};

struct memory {
  u8 codes[BUFFERS][MATRICES][ROWS * STRIDE] __attribute__((aligned(16)));
  struct numbers numbers[BUFFERS][MATRICES];
  struct row row;
  float sums[SLICES][MATRICES][LINES][ROWS];
  float squares[WARPS][LINES];
};

/* Where a tile is: the matrices, its number among those of its set, outputs, and the result. */
typedef struct {
  matrix from[MATRICES];
  u32 tile, outputs;
  GLOBAL float *c;
} place;

/* Puts rows of a tile on their way; one beyond the last is that.
 *
 * What is paced is AHEAD pieces behind those of which PACE times as many are on their way: as much
 * as keeps memory busy, and what earlier kernels wait for is not behind all of it. */
ALWAYS void bring_rows(SHARED u8 *to, u32 stride, const GLOBAL u8 *from, u64 pitch, u32 bytes,
                       u32 piece, const place *here, int paced) {
  u32 own = here->tile * ROWS, last = here->outputs - 1, each = bytes / piece;
  u32 threads = paced && AHEAD < THREADS ? AHEAD : THREADS, pace = AHEAD / threads;
  if (threads < THREADS && thread() >= threads) return;
  UNROLLED for (u32 k = 0; k < (ROWS * each + threads - 1) / threads; ++k) {
    u32 i = k * threads + thread();
    if (paced && k && k % pace == 0) copies_end(), wait_for_copies(PACE - 1);
    if (ROWS * each % threads && i >= ROWS * each) continue;
    u32 row = i / each, at = i % each * piece, output = own + row < last ? own + row : last;
    if (piece > 1)
      copy(to + row * stride + at, from + (u64)output * pitch + at, piece);
    else
      to[row * stride + at] = from[(u64)output * pitch + at];
  }
}

#define BRING(field, of, bytes)                                                              \
  bring_rows(here->numbers[tiled][m].field, STRIDE_OF(bytes), (const GLOBAL u8 *)from->of, bytes, \
             bytes, PIECE_OF(bytes), at, 0)

/* Puts a chunk of a tile on its way, and with the first the numbers of its groups. */
ALWAYS void bring(SHARED struct memory *here, const place *at, u32 part, u32 buffer, u32 tiled,
                  int paced) {
  UNROLLED for (u32 m = 0; m < MATRICES; ++m) {
    const matrix *from = &at->from[m];
    u32 first = part * CHUNK, count = BLOCKS - first < CHUNK ? BLOCKS - first : CHUNK;
    bring_rows(here->codes[buffer][m], STRIDE, (const GLOBAL u8 *)from->codes + first * PIECE,
               BLOCKS * PIECE, (PARTS > 1 ? count : BLOCKS) * PIECE, 16, at, paced);
    if (part) continue;
    BRING(scales, scale, SCALE_BYTES);
#if HAS_scale_by0
    BRING(factors, scale_by, FACTOR_BYTES);
#endif
#if HAS_least0
    BRING(leasts, least, LEAST_BYTES);
#endif
#if HAS_least_by0
    BRING(least_factors, least_by, LEAST_FACTOR_BYTES);
#endif
  }
  copies_end();
}

/* What a lane has of a block before it multiplies, so that all it waits for is on its way together:
 * of outputs lane / 4 and 8 beyond. */
typedef struct {
  scale0_t scale[EACH][2];
#if HAS_scale_by0
  scale_by0_t factor[EACH][2];
#endif
#if HAS_least0
  least0_t least[EACH][2];
#endif
#if HAS_least_by0
  least_by0_t least_factor[EACH][2];
#endif
  u32 code[UNIT * (HALVES ? 2 : 4)];
} share;

/* The number of a group, of one of 16 outputs. */
#define NUMBER(field, of, bytes, row, group) \
  (((const SHARED of##_t *)(numbers->field + (row)*STRIDE_OF(bytes)))[group])

/* What lies at block `i` of a chunk, and with PAIRED at the next. */
ALWAYS share share_of(const SHARED u8 *codes, const SHARED struct numbers *numbers, u32 first,
                      u32 i, u32 own) {
  u32 lane = thread() % WARP, tile = thread() / WARP % TILES * TILE, g = tile + lane / 4;
  share found;
  codes += (tile + lane % 16) * STRIDE + i * PIECE;
  if (PAIRED) {
    /* Lanes name a row of the first block's bytes, then of the second's. */
    if (HALVES) {
      load_matrices_4(found.code, codes + lane / 16 * PIECE);
    } else {
      load_matrices_4(found.code, codes + lane / 16 * PIECE);
      load_matrices_4(found.code + 4, codes + lane / 16 * PIECE + 16);
    }
  } else if (HALVES) {
    load_matrices_2(found.code, codes);
  } else {
    load_matrices_4(found.code, codes + lane / 16 * 16);
  }
  UNROLLED for (u32 e = 0; e < EACH; ++e) {
    u32 group = ((first + own) * EACH + e) * (BLOCK / EACH) / GROUP;
    UNROLLED for (u32 half = 0; half < 2; ++half) {
      found.scale[e][half] = NUMBER(scales, scale0, SCALE_BYTES, g + 8 * half, group);
#if HAS_scale_by0
      found.factor[e][half] = NUMBER(factors, scale_by0, FACTOR_BYTES, g + 8 * half, group / SCALES);
#endif
#if HAS_least0
      found.least[e][half] = NUMBER(leasts, least0, LEAST_BYTES, g + 8 * half, group);
#endif
#if HAS_least_by0
      found.least_factor[e][half] =
          NUMBER(least_factors, least_by0, LEAST_FACTOR_BYTES, g + 8 * half, group / LEASTS);
#endif
    }
  }
  return found;
}

ALWAYS float scale_of(const share *from, u32 e, u32 half) {
#if HAS_scale_by0
  return (float)from->scale[e][half] * (float)from->factor[e][half];
#else
  return (float)from->scale[e][half];
#endif
}

#if HAS_least0
ALWAYS float least_of(const share *from, u32 e, u32 half) {
#if HAS_least_by0
  return (float)from->least[e][half] * (float)from->least_factor[e][half];
#else
  return (float)from->least[e][half];
#endif
}
#endif

/* Adds the products of this warp's blocks of a chunk. */
ALWAYS void add(SHARED struct memory *here, float total[MATRICES][2], u32 part, u32 buffer,
                u32 tiled) {
  u32 slice = thread() / WARP / TILES, lane = thread() % WARP, g = lane / 4, t = lane % 4;
  u32 first = part * CHUNK;
  u32 count = PARTS > 1 && BLOCKS - first < CHUNK ? BLOCKS - first : CHUNK;
  for (u32 start = 0; start < OF_WARP; start += TOGETHER) {
    u32 digit[TOGETHER][2];
    facts fact[TOGETHER];
    share shares[TOGETHER][MATRICES];
    UNROLLED for (u32 k = 0; k < TOGETHER; ++k) {
      u32 i = ((start + k) * SLICES + slice) * UNIT, next = PAIRED && g >= DIGITS, own = i + (PAIRED && t >= 2);
      /* What lies beyond the last block is not added. */
      if (i >= count) i = next = 0, own = 0;
      if (BLOCKS % UNIT && i + next >= count) next = 0;
      if (BLOCKS % UNIT && own >= count) own = i;
      u64 both = *(SHARED u64 *)&here->row.digits[first + i + next][g % (LINES * DIGITS)][t * 2];
      digit[k][0] = (u32)both, digit[k][1] = (u32)(both >> 32);
      fact[k] = here->row.lines[first + own][t % (LINES * 2)];
      UNROLLED for (u32 m = 0; m < MATRICES; ++m)
        shares[k][m] = share_of(here->codes[buffer][m], &here->numbers[tiled][m], first, i, own);
    }
    all_on_their_way();
    UNROLLED for (u32 k = 0; k < TOGETHER; ++k) {
      u32 i = ((start + k) * SLICES + slice) * UNIT;
      int is_there = i + (BLOCKS % UNIT && t >= 2) < count;
      UNROLLED for (u32 m = 0; m < MATRICES; ++m)
        UNROLLED for (u32 e = 0; e < EACH; ++e) {
          int sums[4];
          const share *own = &shares[k][m];
          multiply(sums, own->code, digit[k], e);
          if ((PARTS > 1 || OF_WARP * SLICES * UNIT != CHUNK || OF_WARP % TOGETHER) && !is_there) continue;
          float low = (float)(sums[0] * 256 + sums[1]), high = (float)(sums[2] * 256 + sums[3]);
          total[m][0] += scale_of(own, e, 0) * (low * fact[k].unit + fact[k].zero[e]);
          total[m][1] += scale_of(own, e, 1) * (high * fact[k].unit + fact[k].zero[e]);
#if HAS_least0
          total[m][0] += least_of(own, e, 0) * fact[k].sum[e];
          total[m][1] += least_of(own, e, 1) * fact[k].sum[e];
#endif
        }
    }
  }
}

/* C = finish(X W^T) for `SETS` matrices W in blocks of one kind, 16 outputs at a time.
 *
 * `x` is [rows, inner]; a set has `codes` (bytes, `match/blocks.py` says how they lie), a `scale`
 * for each GROUP of neighbours and perhaps a `least` value; integers among these have a factor
 * (`scale_by`) for each SCALES, or LEASTS, groups. With NORMED (1; 2 without factors) rows are
 * first divided by the root of their mean square, `eps_bits` added, and multiplied by `norm`
 * [inner]. With GATED, the number of a `gate`, `c0` is that of the first product times the second.
 * What else follows a product is done of a single set alone: see FINISHED.
 * Grid: (groups of threads, 1, 1), with MANY fewer than the tiles of all sets (of one with GATED).
 */
KERNEL(block_digits, x, norm, bias, factor, other,
       codes0, scale0, scale_by0, least0, least_by0, c0,
       codes1, scale1, scale_by1, least1, least_by1, c1,
       codes2, scale2, scale_by2, least2, least_by2, c2,
       rows, inner, outputs0, outputs1, outputs2, eps_bits, what, clip_slope, clip_low, clip_high,
       SHARED_BYTES, WARPS, TILES, AHEAD, MANY, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, SETS, GATED, NORMED,
       EARLY) {
  SHARED struct memory *here = &ROOM(struct memory);
  u32 tiles0 = (outputs0 + ROWS - 1) / ROWS, tiles1 = (outputs1 + ROWS - 1) / ROWS;
  u32 tiles2 = (outputs2 + ROWS - 1) / ROWS;
  u32 tiles = tiles0 + (SETS > 1 && !GATED ? tiles1 : 0) + (SETS > 2 && !GATED ? tiles2 : 0);
  u32 steps = MANY ? (tiles - group_x() + groups_x() - 1) / groups_x() * PARTS : PARTS;
#define PLACE(step)                                                                         \
  ({                                                                                        \
    place at_ = {{MATRIX(0)}, group_x() + (step) / PARTS * groups_x(), outputs0, c0};       \
    if (GATED) at_.from[MATRICES - 1] = MATRIX(1);                                          \
    if (SETS > 1 && !GATED && at_.tile >= tiles0) {                                         \
      if (SETS == 2 || at_.tile < tiles0 + tiles1)                                          \
        at_ = (place){{MATRIX(1)}, at_.tile - tiles0, outputs1, (GLOBAL float *)c1};        \
      else                                                                                  \
        at_ = (place){{MATRIX(2)}, at_.tile - tiles0 - tiles1, outputs2, (GLOBAL float *)c2}; \
    }                                                                                       \
    at_;                                                                                    \
  })
#define BRING_STEP(step, paced)                                                                    \
  do {                                                                                      \
    place to_ = PLACE(step);                                                                \
    bring(here, &to_, (step) % PARTS, (step) % BUFFERS, (step) / PARTS % BUFFERS, paced);   \
  } while (0)
  if (EARLY == 1) let_next_begin(), wait_for_earlier();
  BRING_STEP(0, EARLY == 2);
  if (BUFFERS > 1 && steps > 1) BRING_STEP(1, 0);
  float factors[PIECES][8];
#if NORMED == 1
  read_factors(factors, norm);
#endif
  if (EARLY == 2) let_next_begin(), wait_for_earlier();
  u32 warp = thread() / WARP, lane = thread() % WARP, g = lane / 4, t = lane % 4;
  for (u32 line = 0; line < rows; line += LINES) {
    u32 many = rows - line < LINES ? rows - line : LINES;
    if (line && BUFFERS > 1) {
      BRING_STEP(0, 0);
      if (steps > 1) BRING_STEP(1, 0);
    }
    for (u32 l = 0; l < many; ++l) {
      float squares = digits_of(&here->row, x + (u64)(line + l) * inner, factors, l);
      if (NORMED) {
        UNROLLED for (u32 across = 16; across; across /= 2) squares += other_lanes(squares, across);
        if (lane == 0) here->squares[warp][l] = squares;
      }
    }
    float total[MATRICES][2];
    for (u32 step = 0; step < (BUFFERS > 1 ? steps : 1); ++step) {
      wait_for_copies(BUFFERS > 1 && step + 1 < steps);
      meet();
      if (step % PARTS == 0)
        UNROLLED for (u32 m = 0; m < MATRICES; ++m) total[m][0] = total[m][1] = 0.0f;
      add(here, total, step % PARTS, step % BUFFERS, step / PARTS % BUFFERS);
      u32 ends = step % PARTS == PARTS - 1;
      if (ends)
        UNROLLED for (u32 m = 0; m < MATRICES; ++m)
          UNROLLED for (u32 half = 0; half < 2; ++half) {
            float sum = total[m][half] + other_lanes(total[m][half], 1);
            if (PAIRED) sum += other_lanes(sum, 2);
            if (t % 2 == 0 && t / 2 < LINES) here->sums[warp / TILES][m][t / 2][warp % TILES * TILE + g + 8 * half] = sum;
          }
      meet();
      if (BUFFERS > 1 && step + 2 < steps) BRING_STEP(step + 2, 0);
      place at = PLACE(step);
      u32 own = thread() % ROWS, l = thread() / ROWS, output = at.tile * ROWS + own;
      if (ends && l < many && output < at.outputs) {
        float result[MATRICES], root = 1.0f;
        UNROLLED for (u32 m = 0; m < MATRICES; ++m) {
          result[m] = 0.0f;
          UNROLLED for (u32 w = 0; w < SLICES; ++w) result[m] += here->sums[w][m][l][own];
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
    if (line + LINES < rows) meet();
  }
}
