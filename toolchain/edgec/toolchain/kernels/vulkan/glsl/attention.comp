// O = softmax(scores) V, scores = scale * Q K^T changed by terms: BM queries of a head a workgroup.
//
// Blocks of BN keys come one after the other: products to scores in shared memory, these to powers
// of e, and powers times values to sums in registers, which fade by what the next block's largest
// score exceeds the last. Workgroups: (tiles of queries, or of keys, middle and inner heads, outer
// heads).
//
// With PART a workgroup has one tile of queries and so many of their keys, and leaves their sums,
// their largest scores and the powers' totals for `attention_join`. With SEEN the one term is a mask of
// all queries alike whose other scores count for nothing: blocks of which none is seen are not read.
// With HIDES the first term is a mask whose other scores count for nothing: a tile reads the keys from
// the first to the last that any of its queries sees; all where one of them sees none, to which all
// count alike. With FOURS rows lie in whole fours, and are read so;
// with KEPT, too, keys and values are halves beside queries of f32.
//
// What a call is told is in `attention_numbers`. D is at least the width of a query and the depth of
// a value; both may be any number.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"

layout(local_size_x = THREADS) in;
#include "attention_numbers.glsl"
#ifdef FOURS
#define READ ROOM
#else
#define READ ELEMENT
#endif
layout(binding = 1) readonly buffer Q { READ q[]; };
#ifdef KEPT
#define OF_CACHE(words) vec4(unpackHalf2x16((words).x), unpackHalf2x16((words).y))
layout(binding = 2) readonly buffer K { uvec2 k[]; };
layout(binding = 3) readonly buffer V { uvec2 v[]; };
#else
#define OF_CACHE vec4
layout(binding = 2) readonly buffer K { READ k[]; };
layout(binding = 3) readonly buffer V { READ v[]; };
#endif
#ifdef PART
layout(binding = 7) writeonly buffer Work { float work[]; };
#else
layout(binding = 7) writeonly buffer O { ELEMENT o[]; };
#endif

const int ROOMS = D / 4;
const int D_ROW = ROOMS + 1;  // One more, so that neighbouring rows lie in other banks.
const int S_ROW = BN / 4 + 1;
const int KEYS_WIDE = BN / SN;               // Threads along the keys of scores, SN keys each.
const int ROWS_HIGH = THREADS / KEYS_WIDE;   // Threads along their rows.
const int SM = BM / ROWS_HIGH;
const int DOWN = THREADS / ROOMS;            // Threads along the rows of sums, 4 columns each.
const int TM = BM / DOWN;
const int PARTS = THREADS / BM;              // Threads that find one row's largest score.
const int SHARE = BN / PARTS;

shared vec4 q_tile[BM * D_ROW];
shared vec4 kv_tile[BN * D_ROW];
shared vec4 scores[BM * S_ROW];
shared float parts[BM * PARTS];
shared float fades[BM];

#ifdef HIDES
#define WHERE_SEEN if (is_seen)
#else
#define WHERE_SEEN
#endif

// Rows of `of` from number `first` up to `last` to a tile, with zeros behind these and behind their
// `size` elements. They lie at `base` by the numbers at `at`.
#ifdef FOURS
#define LOAD(tile, of, wide, rows, base, at, first, last, size) \
  for (int i = thread; i < (rows) * ROOMS; i += THREADS) { \
    int row = (first) + i / ROOMS; \
    int column = i % ROOMS; \
    vec4 x = vec4(0.0); \
    if (column * 4 < (size) && row < (last)) { \
      x = wide(of[((base) + row * n[(at) + ROW]) / 4 + column]); \
    } \
    tile[i / ROOMS * D_ROW + column] = x; \
  }
#else
#define LOAD(tile, of, wide, rows, base, at, first, last, size) \
  for (int i = thread; i < (rows) * D; i += THREADS) { \
    int row = (first) + i / D; \
    int column = i % D; \
    float x = 0.0; \
    if (column < (size) && row < (last)) { \
      x = float(of[(base) + row * n[(at) + ROW] + column * n[(at) + COLUMN]]); \
    } \
    tile[i / D * D_ROW + column / 4][column % 4] = x; \
  }
#endif

void main() {
  int thread = int(gl_LocalInvocationIndex);
#ifdef PART
  int row0 = 0;
  int first = int(gl_WorkGroupID.x) * PART;
  int keys = min(first + PART, n[KEYS]);
#else
  int row0 = int(gl_WorkGroupID.x) * BM;
  int first = 0;
  int keys = n[KEYS];
#endif
  int width = n[WIDTH];
  int depth = n[DEPTH];
  float scale = intBitsToFloat(n[SCALE]);
  int fours = (width + 3) / 4;
  float infinity = uintBitsToFloat(0x7f800000u);

  int q_base = BASE(Q_AT);
  LOAD(q_tile, q, vec4, BM, q_base, Q_AT, row0, n[QUERIES], width)

  int k_base = BASE(K_AT);
  int v_base = BASE(V_AT);
  ivec3 bases = ivec3(BASE(TERMS_AT), BASE(TERMS_AT + TERM), BASE(TERMS_AT + 2 * TERM));
  int mine = thread / PARTS;  // The row whose largest score this thread helps to find.
  int part = thread % PARTS;
  float most = LEAST;
  float total = 0.0;
  vec4 sums[TM];
  [[unroll]] for (int i = 0; i < TM; i++) sums[i] = vec4(0.0);

#ifdef HIDES
  // What a thread finds: the first key that is seen, the one behind the last, and by which queries, a
  // bit each. All of it goes through the tile of keys, as numbers that floats hold.
  int low = keys;
  int high = 0;
  int rows = 0;
  for (int key = thread; key < keys; key += THREADS) {
    int here = 0;
    [[unroll]] for (int i = 0; i < BM; i++) {
      int row = min(row0 + i, n[QUERIES] - 1);
      bool truth = term0[bases.x + row * n[TERMS_AT + ROW] + key * n[TERMS_AT + COLUMN]] != 0.0;
      here |= int(truth == (n[TERMS_AT + KIND] == 2)) << i;
    }
    if (here != 0) low = min(low, key);
    if (here != 0) high = key + 1;
    rows |= here;
  }
  kv_tile[thread] = vec4(float(low), float(high), float(rows & 65535), float(rows >> 16 & 65535));
  barrier();
  ivec2 halves = ivec2(0);
  for (int i = 0; i < THREADS; i++) {
    vec4 other = kv_tile[i];
    low = min(low, int(other.x));
    high = max(high, int(other.y));
    halves |= ivec2(other.zw);
  }
  bool are_some = halves == ivec2((1 << min(BM, 16)) - 1, (1 << max(BM - 16, 0)) - 1);
#endif
  for (int start = first; start < keys; start += BN) {
#ifdef SEEN
    // All are read at once: `||` would wait for each before the next.
    int seen = 0;
    [[unroll]] for (int i = 0; i < BN; i++) {
      int key = min(start + i, keys - 1);
      bool truth = term0[bases.x + key * n[TERMS_AT + COLUMN]] != 0.0;
      seen |= int(truth == (n[TERMS_AT + KIND] == 2));
    }
    if (seen == 0) continue;
#endif
#ifdef HIDES
    // All threads come to all barriers, as WebGPU wants it.
    bool is_seen = !are_some || (start < high && start + BN > low);
#endif
    barrier();
    WHERE_SEEN {
      LOAD(kv_tile, k, OF_CACHE, BN, k_base, K_AT, start, keys, width)
    }
    barrier();
    WHERE_SEEN {
      int along = thread % KEYS_WIDE;
      int under = thread / KEYS_WIDE;
      float products[SM * SN];
      [[unroll]] for (int i = 0; i < SM * SN; i++) products[i] = 0.0;
      for (int c = 0; c < fours; c++) {
        vec4 held[SN];
        [[unroll]] for (int j = 0; j < SN; j++) {
          held[j] = kv_tile[(along + j * KEYS_WIDE) * D_ROW + c];
        }
        [[unroll]] for (int i = 0; i < SM; i++) {
          vec4 asked = q_tile[(under + i * ROWS_HIGH) * D_ROW + c];
          [[unroll]] for (int j = 0; j < SN; j++) products[i * SN + j] += dot(asked, held[j]);
        }
      }
      [[unroll]] for (int i = 0; i < SM; i++) {
        [[unroll]] for (int j = 0; j < SN; j++) {
          int row = under + i * ROWS_HIGH;
          int key = along + j * KEYS_WIDE;
          float score = -infinity;
          if (start + key < keys) {
            score = products[i * SN + j] * scale;
            score = changed(score, min(row0 + row, n[QUERIES] - 1), start + key, bases);
          }
          scores[row * S_ROW + key / 4][key % 4] = score;
        }
      }
    }
    barrier();
    WHERE_SEEN {
      LOAD(kv_tile, v, OF_CACHE, BN, v_base, V_AT, start, keys, depth)
      float largest = LEAST;
      for (int i = 0; i < SHARE; i++) {
        int key = part + i * PARTS;
        largest = max(largest, scores[mine * S_ROW + key / 4][key % 4]);
      }
      parts[mine * PARTS + part] = largest;
    }
    barrier();
    float more = most;
    WHERE_SEEN {
      [[unroll]] for (int i = 0; i < PARTS; i++) more = max(more, parts[mine * PARTS + i]);
    }
    barrier();
    WHERE_SEEN {
      float added = 0.0;
      for (int i = 0; i < SHARE; i++) {
        int key = part + i * PARTS;
        float power = exp(scores[mine * S_ROW + key / 4][key % 4] - more);
        scores[mine * S_ROW + key / 4][key % 4] = power;
        added += power;
      }
      parts[mine * PARTS + part] = added;
      float fade = exp(most - more);
      if (part == 0) fades[mine] = fade;
      most = more;
      total *= fade;
    }
    barrier();
    WHERE_SEEN {
      [[unroll]] for (int i = 0; i < PARTS; i++) total += parts[mine * PARTS + i];
      int across = thread % ROOMS;
      int down = thread / ROOMS;
      [[unroll]] for (int i = 0; i < TM; i++) sums[i] *= fades[down + i * DOWN];
      for (int c = 0; c < BN / 4; c++) {
        vec4 powers[TM];
        [[unroll]] for (int i = 0; i < TM; i++) powers[i] = scores[(down + i * DOWN) * S_ROW + c];
        [[unroll]] for (int e = 0; e < 4; e++) {
          vec4 values = kv_tile[(c * 4 + e) * D_ROW + across];
          [[unroll]] for (int i = 0; i < TM; i++) sums[i] += powers[i][e] * values;
        }
      }
    }
  }

#ifdef PART
  int room = depth + 2;
  int head = int(gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y);
  int base = (head * int(gl_NumWorkGroups.x) + int(gl_WorkGroupID.x)) * BM * room;
  if (part == 0) {
    work[base + mine * room + depth] = most;
    work[base + mine * room + depth + 1] = total;
  }
  [[unroll]] for (int i = 0; i < TM; i++) {
    int row = thread / ROOMS + i * DOWN;
    [[unroll]] for (int e = 0; e < 4; e++) {
      int column = thread % ROOMS * 4 + e;
      if (column < depth) work[base + row * room + column] = sums[i][e];
    }
  }
#else
  barrier();
  if (part == 0) fades[mine] = total == 0.0 && n[SAFE] != 0 ? 0.0 : 1.0 / total;
  barrier();
  int o_base = BASE(O_AT);
  [[unroll]] for (int i = 0; i < TM; i++) {
    int row = thread / ROOMS + i * DOWN;
    vec4 result = sums[i] * fades[row];
    [[unroll]] for (int e = 0; e < 4; e++) {
      int column = thread % ROOMS * 4 + e;
      if (row0 + row < n[QUERIES] && column < depth) {
        o[o_base + (row0 + row) * n[O_AT + ROW] + column * n[O_AT + COLUMN]] = ELEMENT(result[e]);
      }
    }
  }
#endif
}
