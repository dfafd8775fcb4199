// O = softmax(scores) V in f16 by matrix units: `attention`, otherwise, and with the same numbers.
//
// A workgroup has BM queries of a head and BN keys at a time. Its subgroups of 32 threads share the
// keys of scores, and then the columns of sums; every 16 x 16 x 16 is summed in f32. Values are asked
// for while scores are found, and the next block's keys while values are summed. THREADS / BM threads
// do a row of scores together; a row's sums fade by a tile of the same number in each column.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma use_vulkan_memory_model

layout(local_size_x = THREADS) in;
#include "attention_numbers.glsl"
layout(binding = 1) readonly buffer Q { float16_t q[]; };
layout(binding = 1) readonly buffer QWide { uvec4 q_wide[]; };
layout(binding = 2) readonly buffer K { float16_t k[]; };
layout(binding = 2) readonly buffer KWide { uvec4 k_wide[]; };
layout(binding = 3) readonly buffer V { float16_t v[]; };
layout(binding = 3) readonly buffer VWide { uvec4 v_wide[]; };
layout(binding = 7) writeonly buffer O { float16_t o[]; };
layout(binding = 7) writeonly buffer OWide { uvec4 o_wide[]; };

// Eight halves are one piece; a row has one piece more, so that rows lie in other banks.
const int QD = D / 8;
const int D_ROW = QD + 1;
const int P_ROW = BN / 8 + 1;
const int S_ROW = (BN > D ? BN : D) / 4 + 2;  // In fours of f32; sums wait there at the end, too.
const int GROUPS = THREADS / 32;
const int FM = BM / 16;
const int KN = BN / 16 / GROUPS;  // A subgroup's tiles along the keys of scores,
const int DN = D / 16 / GROUPS;   // and along the columns of sums.
const int LOADS = BN * QD / THREADS;
const int PARTS = THREADS / BM;  // Threads of a row of scores.
const int SHARE = BN / 8 / PARTS;

#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>

shared uvec4 q_tile[BM * D_ROW];
shared uvec4 kv_tile[BN * D_ROW];
shared vec4 scores[BM * S_ROW];
shared uvec4 powers[BM * P_ROW];
shared vec4 fades[BM * 4];

// Whether rows of a view lie in whole pieces, `size` elements of them.
#define WHOLE(at, size) \
  (n[(at) + COLUMN] == 1 && \
   ((n[at] | n[(at) + 1] | n[(at) + 2] | n[(at) + 3] | n[(at) + ROW] | (size)) & 7) == 0)

// Eight elements from a column on, with zeros behind `size`.
#define TAKE(piece, from, from_wide, at, base, row, column, size) \
  { \
    int step = n[(at) + COLUMN]; \
    int place = base + (row) * n[(at) + ROW] + (column) * step; \
    if (WHOLE(at, size)) { \
      piece = (column) < (size) ? from_wide[place >> 3] : uvec4(0); \
    } else { \
      [[unroll]] for (int e = 0; e < 4; e++) { \
        f16vec2 two = f16vec2(0.0); \
        if ((column) + 2 * e < (size)) two.x = from[place + 2 * e * step]; \
        if ((column) + 2 * e + 1 < (size)) two.y = from[place + (2 * e + 1) * step]; \
        piece[e] = packFloat2x16(two); \
      } \
    } \
  }

// A block of keys or values: one that is not there is the last one, which nothing is multiplied by.
#define ASK(from, from_wide, at, base, start, size) \
  [[unroll]] for (int i = 0; i < LOADS; i++) { \
    int line = min((start) + (thread + i * THREADS) / QD, keys - 1); \
    int column = (thread + i * THREADS) % QD * 8; \
    TAKE(held[i], from, from_wide, at, base, line, column, size) \
  }

void put(uvec4 held[LOADS], int thread) {
  [[unroll]] for (int i = 0; i < LOADS; i++) {
    int at = thread + i * THREADS;
    kv_tile[at / QD * D_ROW + at % QD] = held[i];
  }
}

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int group = thread / 32;
  int row0 = int(gl_WorkGroupID.x) * BM;
  int keys = n[KEYS];
  int width = n[WIDTH];
  int depth = n[DEPTH];
  float scale = intBitsToFloat(n[SCALE]);
  float infinity = uintBitsToFloat(0x7f800000u);
  int q_base = BASE(Q_AT);
  int k_base = BASE(K_AT);
  int v_base = BASE(V_AT);
  ivec3 bases = ivec3(BASE(TERMS_AT), BASE(TERMS_AT + TERM), BASE(TERMS_AT + 2 * TERM));

  uvec4 held[LOADS];
  ASK(k, k_wide, K_AT, k_base, 0, width)
  for (int i = thread; i < BM * QD; i += THREADS) {
    uvec4 piece;
    int line = min(row0 + i / QD, n[QUERIES] - 1);
    TAKE(piece, q, q_wide, Q_AT, q_base, line, i % QD * 8, width)
    q_tile[i / QD * D_ROW + i % QD] = piece;
  }
  put(held, thread);
  barrier();

  int mine = thread / PARTS;  // The row of scores that this thread helps with.
  int part = thread % PARTS;
  int row = min(row0 + mine, n[QUERIES] - 1);
  float most = LEAST;
  float total = 0.0;
  SUMS sums[FM * DN];
  [[unroll]] for (int i = 0; i < FM * DN; i++) sums[i] = SUMS(0.0);

  for (int start = 0; start < keys; start += BN) {
    ASK(v, v_wide, V_AT, v_base, start, depth)
    {
      SUMS found[FM * KN];
      [[unroll]] for (int i = 0; i < FM * KN; i++) found[i] = SUMS(0.0);
      [[unroll]] for (int c = 0; c < D / 16; c++) {
        LEFT asked[FM];
        [[unroll]] for (int i = 0; i < FM; i++) {
          coopMatLoad(asked[i], q_tile, i * 16 * D_ROW + c * 2, D_ROW, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (int j = 0; j < KN; j++) {
          RIGHT columns;
          int at = (group * KN + j) * 16 * D_ROW + c * 2;
          coopMatLoad(columns, kv_tile, at, D_ROW, gl_CooperativeMatrixLayoutColumnMajor);
          [[unroll]] for (int i = 0; i < FM; i++) {
            found[i * KN + j] = coopMatMulAdd(asked[i], columns, found[i * KN + j]);
          }
        }
      }
      [[unroll]] for (int i = 0; i < FM; i++) {
        [[unroll]] for (int j = 0; j < KN; j++) {
          int at = i * 16 * S_ROW + (group * KN + j) * 4;
          coopMatStore(found[i * KN + j], scores, at, S_ROW, gl_CooperativeMatrixLayoutRowMajor);
        }
      }
    }
    barrier();
    put(held, thread);
    if (start + BN < keys) {
      ASK(k, k_wide, K_AT, k_base, start + BN, width)
    }
    vec4 held_scores[2 * SHARE];
    float more = most;
    [[unroll]] for (int i = 0; i < SHARE; i++) {
      [[unroll]] for (int h = 0; h < 2; h++) {
        int four = (part + i * PARTS) * 2 + h;
        vec4 four_scores = scores[mine * S_ROW + four];
        [[unroll]] for (int e = 0; e < 4; e++) {
          int key = start + four * 4 + e;
          float score = -infinity;
          if (key < keys) score = changed(four_scores[e] * scale, row, key, bases);
          four_scores[e] = score;
          more = max(more, score);
        }
        held_scores[i * 2 + h] = four_scores;
      }
    }
    [[unroll]] for (int step = 1; step < PARTS; step *= 2) {
      more = max(more, subgroupShuffleXor(more, step));
    }
    float fade = exp(most - more);
    total *= fade;  // Each thread's own share; they are added at the end.
    most = more;
    [[unroll]] for (int i = 0; i < SHARE; i++) {
      uvec4 piece;
      [[unroll]] for (int h = 0; h < 2; h++) {
        vec4 power = exp(held_scores[i * 2 + h] - more);
        total += dot(power, vec4(1.0));
        f16vec4 narrow = f16vec4(power);
        piece[h * 2] = packFloat2x16(narrow.xy);
        piece[h * 2 + 1] = packFloat2x16(narrow.zw);
      }
      powers[mine * P_ROW + part + i * PARTS] = piece;
    }
    for (int i = part; i < 4; i += PARTS) fades[mine * 4 + i] = vec4(fade);
    barrier();
    if (start > 0) {
      [[unroll]] for (int i = 0; i < FM; i++) {
        SUMS fading;
        coopMatLoad(fading, fades, i * 64, 4, gl_CooperativeMatrixLayoutRowMajor);
        // SPIRV-Tools of 2023 fall over a product of two such matrices as a whole.
        [[unroll]] for (int j = 0; j < DN; j++) {
          for (int e = 0; e < fading.length(); e++) sums[i * DN + j][e] *= fading[e];
        }
      }
    }
    [[unroll]] for (int c = 0; c < BN / 16; c++) {
      LEFT taken[FM];
      [[unroll]] for (int i = 0; i < FM; i++) {
        coopMatLoad(taken[i], powers, i * 16 * P_ROW + c * 2, P_ROW, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (int j = 0; j < DN; j++) {
        RIGHT columns;
        int at = c * 16 * D_ROW + (group * DN + j) * 2;
        coopMatLoad(columns, kv_tile, at, D_ROW, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (int i = 0; i < FM; i++) {
          sums[i * DN + j] = coopMatMulAdd(taken[i], columns, sums[i * DN + j]);
        }
      }
    }
    if (start + BN < keys) {
      barrier();
      put(held, thread);
      barrier();
    }
  }

  // Rows are divided by their totals where they wait to be stored.
  [[unroll]] for (int i = 0; i < FM; i++) {
    [[unroll]] for (int j = 0; j < DN; j++) {
      int at = i * 16 * S_ROW + (group * DN + j) * 4;
      coopMatStore(sums[i * DN + j], scores, at, S_ROW, gl_CooperativeMatrixLayoutRowMajor);
    }
  }
  [[unroll]] for (int step = 1; step < PARTS; step *= 2) total += subgroupShuffleXor(total, step);
  float share = total == 0.0 && n[SAFE] != 0 ? 0.0 : 1.0 / total;
  barrier();
  if (row0 + mine >= n[QUERIES]) return;
  int step = n[O_AT + COLUMN];
  int o_base = BASE(O_AT) + (row0 + mine) * n[O_AT + ROW];
  for (int piece = part; piece * 8 < depth; piece += PARTS) {
    f16vec4 low = f16vec4(scores[mine * S_ROW + piece * 2] * share);
    f16vec4 high = f16vec4(scores[mine * S_ROW + piece * 2 + 1] * share);
    int place = o_base + piece * 8 * step;
    if (WHOLE(O_AT, depth)) {
      o_wide[place >> 3] = uvec4(packFloat2x16(low.xy), packFloat2x16(low.zw),
                                 packFloat2x16(high.xy), packFloat2x16(high.zw));
    } else {
      [[unroll]] for (int e = 0; e < 4; e++) {
        if (piece * 8 + e < depth) o[place + e * step] = low[e];
        if (piece * 8 + 4 + e < depth) o[place + (4 + e) * step] = high[e];
      }
    }
  }
}
