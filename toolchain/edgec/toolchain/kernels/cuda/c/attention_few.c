/* Attention of few queries over a cache, as a model that writes has it in each layer.
 *
 * What counts is how many steps wait for each other. A group of threads looks once which keys are
 * seen, has all keys and the first values on their way together, and shares nothing with other groups
 * unless there are more keys than one of them reads quickly.
 */
#include "gpu.h"

#define THREADS (WARPS * WARP)
#define LANES 4 /* that share a key */
#define KEYS (THREADS / LANES) /* that a group multiplies at a time */
#define FOURS ((width + 4 * LANES - 1) / (4 * LANES)) /* of a key that a lane has */
#define RUN 16 /* keys that lie together of those that a group of a cluster has */
#define KEYS_AHEAD (FOURS > 4 ? 1 : 2)
#define SPREAD (depth > 128 ? 64 : depth > 64 ? 32 : depth > 32 ? 16 : 8) /* threads of a value */
#define SUBSETS (THREADS / SPREAD)
#define VALUES_AHEAD 8
#define EXPECTED 128 /* keys of a group that are likely to be read */
#define OF_PART ((keys + parts - 1) / parts > LEAST ? (keys + parts - 1) / parts : LEAST)
#define SLICE ((OF_PART + RUN * CLUSTER - 1) / (RUN * CLUSTER) * RUN)
#define NONE (-__builtin_inff())

typedef struct __attribute__((aligned(4 * sizeof(q_t)))) { q_t x, y, z, w; } of_query;
typedef struct __attribute__((aligned(4 * sizeof(k_t)))) { k_t x, y, z, w; } of_cache;

struct memory {
  float query[ROWS][FOURS * LANES * 4] __attribute__((aligned(16)));
  float score[ROWS][SLICE];
  float sum[SUBSETS][ROWS][SPREAD * 4] __attribute__((aligned(16)));
  float total[SUBSETS][ROWS], all[ROWS];
  u32 first[WARPS], last[WARPS], number;
  float of_cluster[CLUSTER][ROWS * (SPREAD * 4 + 2)];
};

/* Four neighbours of a query; of a key or a value, which may have another type. */
ALWAYS four read_query(const GLOBAL q_t *from) {
  of_query found = *(const GLOBAL of_query *)from;
  return (four){(float)found.x, (float)found.y, (float)found.z, (float)found.w};
}

ALWAYS four read_kept(const GLOBAL k_t *from) {
  of_cache found = *(const GLOBAL of_cache *)from;
  return (four){(float)found.x, (float)found.y, (float)found.z, (float)found.w};
}

ALWAYS float dot(four a, four b) { return a.x * b.x + a.y * b.y + (a.z * b.z + a.w * b.w); }

ALWAYS four plus(four sum, float factor, four value) {
  return (four){sum.x + factor * value.x, sum.y + factor * value.y, sum.z + factor * value.z,
                sum.w + factor * value.w};
}

/* A score after a term whose number for it is `value`: see `kind_of`. */
ALWAYS float changed(float score, float value, int kind, u32 bits) {
  float number = float_of(bits);
  return kind == 1 ? score + number * value
                   : (kind == 2) == (value != 0.0f) ? score : number;
}

#define TERM(n, row, key)                                                                          \
  score = changed(score, (float)t##n[t##n##_place + (row) * t##n##_row + (key) * t##n##_column],   \
                  T##n, t##n##_bits)
/* The key that is number `own` of those that this group of a cluster has. */
#define KEY(own) (first + ((own) / RUN * CLUSTER + rank) * RUN + (own) % RUN)

/* As many keys as a group multiplies without waiting, from number `start` of its own on. */
#define READ_KEYS(start)                                                                         \
  UNROLLED for (int i = 0; i < KEYS_AHEAD; ++i) {                                                \
    int key = (start) + i * KEYS + (int)(me / LANES);                                            \
    UNROLLED for (int j = 0; j < FOURS; ++j) {                                                   \
      int at = (j * LANES + (int)(me % LANES)) * 4;                                              \
      held[i][j] = (four){0.0f, 0.0f, 0.0f, 0.0f};                                               \
      if (KEY(key) < end && at < width) held[i][j] = read_kept(k + k_head + KEY(key) * k_row + at); \
    }                                                                                            \
  }
#define READ_VALUES(start, low, high)                                                            \
  UNROLLED for (int i = low; i < high; ++i) {                                                    \
    int key = (start) + i * SUBSETS + subset;                                                    \
    value[i] = (four){0.0f, 0.0f, 0.0f, 0.0f};                                                   \
    if (KEY(key) < end && column < depth)                                                        \
      value[i] = read_kept(v + v_head + KEY(key) * v_row + column);                              \
  }

#define TERM_PLACE(n) \
  (t##n##_at + outer * t##n##_outer + middle * t##n##_middle + inner * t##n##_inner)

/* O = softmax(scale * Q K^T, changed by terms) V, ROWS queries of a head in a group of threads.
 *
 * Element (outer, middle, inner, row, i) of q is q[q_at + outer * q_outer + middle * q_middle +
 * inner * q_inner + row * q_row + i]; likewise k and v, whose rows are keys, and o. With CAPPED
 * scores become cap * tanh(scores). Then up to three terms follow, by T0 to T2: at 1 a bias times a
 * factor is added, at 2 a score whose byte is 0 becomes another number, at 3 one whose byte is not;
 * 0 is no term. Factor and number are the bits of an f32, as are scale and cap. With SAFE a row whose
 * scores are all minus infinity gives zeros. With SEEN t0 is a mask of all queries alike, and what it
 * hides counts for nothing, unless it hides all.
 * Grid: (CLUSTER times parts of the keys times groups of queries, middle and `inners` inner heads,
 * outer heads); CLUSTER groups run together and share a part's keys.
 *
 * As many parts work as have LEAST keys each. Where these are several each leaves its largest score,
 * sum and weighted values in `work`, and the last one to come (by `counters` from `slot` on, which it
 * sets back to 0) puts them together in order.
 */
KERNEL(attention_few,
       q, k, v, t0, t1, t2, o, work, counters, queries, keys, width, depth, scale_bits, cap_bits,
       q_at, q_outer, q_middle, q_inner, q_row,
       k_at, k_outer, k_middle, k_inner, k_row,
       v_at, v_outer, v_middle, v_inner, v_row,
       o_outer, o_middle, o_inner, o_row,
       t0_at, t0_outer, t0_middle, t0_inner, t0_row, t0_column, t0_bits,
       t1_at, t1_outer, t1_middle, t1_inner, t1_row, t1_column, t1_bits,
       t2_at, t2_outer, t2_middle, t2_inner, t2_row, t2_column, t2_bits,
       inners, slot, parts, ROWS, LEAST, WARPS, CLUSTER, T0, T1, T2, CAPPED, SAFE, SEEN, EARLY) {
  SHARED struct memory *here = &ROOM(struct memory);
  u32 me = thread(), warp = me / WARP, lane = me % WARP;
  if (CLUSTER > 1) arrive_in_cluster();
  int outer = (int)group_z(), middle = (int)group_y() / inners, inner = (int)group_y() % inners;
  int rank = CLUSTER > 1 ? (int)rank_in_cluster() : 0, number = (int)group_x() / CLUSTER;
  int part = number % parts, row0 = number / parts * ROWS;
  int rows = queries - row0 < ROWS ? queries - row0 : ROWS;
  int q_head = q_at + outer * q_outer + middle * q_middle + inner * q_inner;
  int k_head = k_at + outer * k_outer + middle * k_middle + inner * k_inner;
  int v_head = v_at + outer * v_outer + middle * v_middle + inner * v_inner;
  int o_head = outer * o_outer + middle * o_middle + inner * o_inner;
#if T0
  int t0_place = TERM_PLACE(0);
#endif
#if T1
  int t1_place = TERM_PLACE(1);
#endif
#if T2
  int t2_place = TERM_PLACE(2);
#endif
  int first = 0, last = keys;
  if (EARLY) {
    let_next_begin();
    /* Keys are nearer when they are read. Which are seen is no more than likely until earlier
     * kernels have ended. */
    int own = (int)me, is_seen = part == 0 && KEY(own) < keys && own < EXPECTED;
#if SEEN
    if (is_seen) is_seen = (t0[t0_place + KEY(own) * t0_column] != 0) == (T0 == 2);
#endif
    if (is_seen) {
      UNROLLED for (int at = 0; at < width * (int)sizeof(k_t); at += 128)
        expect((const GLOBAL u8 *)(k + k_head + KEY(own) * k_row) + at);
      UNROLLED for (int at = 0; at < depth * (int)sizeof(v_t); at += 128)
        expect((const GLOBAL u8 *)(v + v_head + KEY(own) * v_row) + at);
    }
    wait_for_earlier();
  }
#if SEEN
  u32 low = (u32)keys, high = 0;
  UNROLLED for (int i = 0; i < (keys + THREADS - 1) / THREADS; ++i) {
    int key = i * THREADS + (int)me;
    int mark = key < keys ? t0[t0_place + key * t0_column] != 0 : T0 != 2;
    if (mark == (T0 == 2)) {
      low = low < (u32)key ? low : (u32)key;
      high = high > (u32)key + 1 ? high : (u32)key + 1;
    }
  }
#endif
  four asked[(ROWS * FOURS * LANES + THREADS - 1) / THREADS];
  UNROLLED for (int i = 0; i < (ROWS * FOURS * LANES + THREADS - 1) / THREADS; ++i) {
    int number_ = i * THREADS + (int)me, row = number_ / (FOURS * LANES);
    int at = number_ % (FOURS * LANES) * 4;
    asked[i] = (four){0.0f, 0.0f, 0.0f, 0.0f};
    if (row < rows && at < width) asked[i] = read_query(q + q_head + (row0 + row) * q_row + at);
  }
  /* Most caches are seen from their first key on: these are on their way while it is looked. */
  four held[KEYS_AHEAD][FOURS];
  int end = part ? 0 : keys;
  READ_KEYS(0);
  UNROLLED for (int i = 0; i < (ROWS * FOURS * LANES + THREADS - 1) / THREADS; ++i) {
    int number_ = i * THREADS + (int)me;
    if (number_ < ROWS * FOURS * LANES)
      *(SHARED four *)&here->query[number_ / (FOURS * LANES)][number_ % (FOURS * LANES) * 4] = asked[i];
  }
#if SEEN
  low = least_of_lanes(low), high = most_of_lanes(high);
  if (lane == 0) here->first[warp] = low, here->last[warp] = high;
#endif
  meet();
#if SEEN
  low = (u32)keys, high = 0;
  UNROLLED for (u32 w = 0; w < WARPS; ++w) {
    low = here->first[w] < low ? here->first[w] : low;
    high = here->last[w] > high ? here->last[w] : high;
  }
  if (high) first = (int)low, last = (int)high;
#endif
  int used = (last - first + LEAST - 1) / LEAST;
  used = used < 1 ? 1 : used < parts ? used : parts;
  if (part >= used) {
    if (CLUSTER > 1) wait_for_cluster();
    return;
  }
  int each = (last - first + used - 1) / used, is_elsewhere = part || first;
  first += part * each;
  end = first + each < last ? first + each : last;
  /* All of a run may be beyond the last. */
  int count = end > first ? (end - first + RUN * CLUSTER - 1) / (RUN * CLUSTER) * RUN : 0;

  /* The first values are on their way while scores are computed. */
  int column = (int)(me % SPREAD) * 4, subset = (int)(me / SPREAD);
  four value[VALUES_AHEAD] = {{0.0f, 0.0f, 0.0f, 0.0f}};
  for (int start = 0; start < count; start += KEYS * KEYS_AHEAD) {
    if (start || is_elsewhere) READ_KEYS(start);
    if (!start) READ_VALUES(0, 0, VALUES_AHEAD / 2);
    UNROLLED for (int i = 0; i < KEYS_AHEAD; ++i) {
      int key = start + i * KEYS + (int)(me / LANES);
      if (start + i * KEYS >= count) continue;
      for (int row = 0; row < ROWS; ++row) {
        float score = 0.0f;
        UNROLLED for (int j = 0; j < FOURS; ++j)
          score += dot(held[i][j], *(SHARED four *)&here->query[row][(j * LANES + (int)(me % LANES)) * 4]);
        score += other_lanes(score, 1);
        score += other_lanes(score, 2);
        if (me % LANES || key >= count || row >= rows) continue;
        if (KEY(key) >= end) {
          here->score[row][key] = NONE;
          continue;
        }
        score *= float_of(scale_bits);
        if (CAPPED) {
          float cap = float_of(cap_bits);
          score = cap * (1.0f - 2.0f / (exponential(2.0f * score) + 1.0f));
        }
#if T0
        TERM(0, row0 + row, KEY(key));
#endif
#if T1
        TERM(1, row0 + row, KEY(key));
#endif
#if T2
        TERM(2, row0 + row, KEY(key));
#endif
        here->score[row][key] = score;
      }
    }
  }
  READ_VALUES(0, VALUES_AHEAD / 2, VALUES_AHEAD);
  meet();
  /* Each warp looks for the largest score of all itself, sooner than they would tell one another. */
  float most[ROWS], level[ROWS], share[ROWS];
  four sum[ROWS];
  UNROLLED for (int row = 0; row < ROWS; ++row) {
    most[row] = NONE, share[row] = 0.0f, sum[row] = (four){0.0f, 0.0f, 0.0f, 0.0f};
    if (row >= rows) continue;
    for (int key = (int)lane; key < count; key += WARP)
      most[row] = larger(most[row], here->score[row][key]);
    UNROLLED for (u32 across = 16; across; across /= 2)
      most[row] = larger(most[row], other_lanes(most[row], across));
    /* Where all are minus infinity, differences to it would be no numbers. */
    level[row] = most[row] == NONE ? 0.0f : most[row];
  }
  for (int start = 0; start < count; start += VALUES_AHEAD * SUBSETS) {
    if (start) READ_VALUES(start, 0, VALUES_AHEAD);
    UNROLLED for (int i = 0; i < VALUES_AHEAD; ++i) {
      int key = start + i * SUBSETS + subset;
      if (key >= count) continue;
      UNROLLED for (int row = 0; row < ROWS; ++row) {
        if (row >= rows) continue;
        float by = exponential(here->score[row][key] - level[row]);
        sum[row] = plus(sum[row], by, value[i]);
        share[row] += by;
      }
    }
  }
  UNROLLED for (int row = 0; row < ROWS; ++row) *(SHARED four *)&here->sum[subset][row][column] = sum[row];
  UNROLLED for (int row = 0; row < ROWS; ++row)
    if (column == 0) here->total[subset][row] = share[row];
  meet();
  float result[(ROWS * SPREAD * 4 + THREADS - 1) / THREADS];
  UNROLLED for (int i = 0; i < (ROWS * SPREAD * 4 + THREADS - 1) / THREADS; ++i) {
    int at = i * THREADS + (int)me, row = at / (SPREAD * 4);
    result[i] = 0.0f;
    if (row < rows)
      UNROLLED for (int s = 0; s < SUBSETS; ++s) result[i] += here->sum[s][row][at % (SPREAD * 4)];
  }
  float total[ROWS];
  UNROLLED for (int row = 0; row < ROWS; ++row) {
    total[row] = 0.0f;
    UNROLLED for (int s = 0; s < SUBSETS; ++s) total[row] += here->total[s][row];
  }
#if CLUSTER > 1
  /* Each group leaves its sums, then the largest score and the sum of shares of each row. */
  wait_for_cluster();
  SHARED float *own_ = here->of_cluster[rank];
  UNROLLED for (int i = 0; i < (ROWS * SPREAD * 4 + THREADS - 1) / THREADS; ++i) {
    int at = i * THREADS + (int)me;
    if (at < ROWS * SPREAD * 4) write_to_first(own_ + at, result[i]);
  }
  UNROLLED for (int row = 0; row < ROWS; ++row)
    if ((int)me == row) {
      write_to_first(own_ + ROWS * SPREAD * 4 + row, most[row]);
      write_to_first(own_ + ROWS * (SPREAD * 4 + 1) + row, total[row]);
    }
  arrive_in_cluster();
  wait_for_cluster();
  if (rank) return;
  float factor[ROWS][CLUSTER];
  UNROLLED for (int row = 0; row < ROWS; ++row) {
    most[row] = NONE, total[row] = 0.0f;
    UNROLLED for (int c = 0; c < CLUSTER; ++c)
      most[row] = larger(most[row], here->of_cluster[c][ROWS * SPREAD * 4 + row]);
    float level = most[row] == NONE ? 0.0f : most[row];
    UNROLLED for (int c = 0; c < CLUSTER; ++c) {
      factor[row][c] = exponential(here->of_cluster[c][ROWS * SPREAD * 4 + row] - level);
      total[row] += factor[row][c] * here->of_cluster[c][ROWS * (SPREAD * 4 + 1) + row];
    }
  }
  UNROLLED for (int i = 0; i < (ROWS * SPREAD * 4 + THREADS - 1) / THREADS; ++i) {
    int at = i * THREADS + (int)me, row = at / (SPREAD * 4);
    result[i] = 0.0f;
    if (row >= rows) continue;
    UNROLLED for (int c = 0; c < CLUSTER; ++c) {
      float by = factor[0][c];
      UNROLLED for (int r = 1; r < ROWS; ++r) by = r == row ? factor[r][c] : by;
      result[i] += by * here->of_cluster[c][at];
    }
  }
#endif
  int head = ((int)group_z() * (int)groups_y() + (int)group_y()) * ((queries + ROWS - 1) / ROWS) +
             number / parts;
#if HAS_work
  if (used > 1) {
    /* A part leaves its sums, then the largest score and the sum of shares of each row. */
    u64 size = ROWS * (SPREAD * 4 + 2), from = (u64)head * parts * size;
    GLOBAL float *own = work + from + (u64)part * size;
    UNROLLED for (int i = 0; i < (ROWS * SPREAD * 4 + THREADS - 1) / THREADS; ++i) {
      int at = i * THREADS + (int)me;
      if (at < ROWS * SPREAD * 4) own[at] = result[i];
    }
    UNROLLED for (int row = 0; row < ROWS; ++row)
      if ((int)me == row) {
        own[ROWS * SPREAD * 4 + row] = most[row];
        own[ROWS * (SPREAD * 4 + 1) + row] = total[row];
      }
    meet();
    if (me == 0) here->number = take_number(counters + slot + head);
    meet();
    if ((int)here->number != used - 1) return;
    if (me == 0) counters[slot + head] = 0;
    UNROLLED for (int i = 0; i < (ROWS * SPREAD * 4 + THREADS - 1) / THREADS; ++i) {
      int at = i * THREADS + (int)me, row = at / (SPREAD * 4);
      if (row >= rows) continue;
      float most_ = NONE, total_ = 0.0f, all = 0.0f;
      for (int p = 0; p < used; ++p) {
        const GLOBAL float *one = work + from + (u64)p * size;
        float score = one[ROWS * SPREAD * 4 + row], count_ = one[ROWS * (SPREAD * 4 + 1) + row];
        float more = larger(most_, score), level = more == NONE ? 0.0f : more;
        float old = exponential(most_ - level), new = exponential(score - level);
        total_ = total_ * old + count_ * new, all = all * old + one[at] * new, most_ = more;
      }
      result[i] = all;
      here->all[row] = total_;
    }
    meet();
    UNROLLED for (int row = 0; row < ROWS; ++row) total[row] = here->all[row];
  }
#endif
  UNROLLED for (int i = 0; i < (ROWS * SPREAD * 4 + THREADS - 1) / THREADS; ++i) {
    int at = i * THREADS + (int)me, row = at / (SPREAD * 4), to = at % (SPREAD * 4);
    if (row >= rows || to >= depth) continue;
    float by = total[0];
    UNROLLED for (int r = 1; r < ROWS; ++r) by = r == row ? total[r] : by;
    float value_ = SAFE && by == 0.0f ? 0.0f : result[i] / by;
    o[o_head + (row0 + row) * o_row + to] = (o_t)value_;
  }
}
