// C = finish(X W^T) for many rows x [m, INNER] and a matrix W in blocks, TM rows by TN outputs a
// thread, without memory that threads share.
//
// The blocks are those of `block_rows`. A thread turns 16 bytes of codes of each of its outputs into
// f32, four weights at a time, and multiplies them with all its rows; ACROSS neighbours read the
// same rows. Workgroups: (tiles, parts, 1). A part sums `pieces` times 16 bytes of codes; where there
// are several, each stores its sums, [parts, m, n], and `join` does the rest.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = THREADS) in;
layout(binding = X_AT) readonly buffer X { vec4 x[]; };
#ifdef BIAS_AT
layout(binding = BIAS_AT) readonly buffer Bias { float bias[]; };
#endif
#ifdef FACTOR_AT
layout(binding = FACTOR_AT) readonly buffer Factor { float factors[]; };
#endif
#ifdef OTHER_AT
layout(binding = OTHER_AT) readonly buffer Other { float other[]; };
#endif
layout(binding = C_AT) writeonly buffer C { float c[]; };

#include "numbers.glsl"

const int ROOMS = 128 / BITS / 4;  // Fours of a row for 16 bytes of codes.
const int PIECES = INNER / (ROOMS * 4);
const int GROUPS = INNER / GROUP;

#include "finished.glsl"
#include "block_numbers.glsl"
#define SET(name) name##0
#include "block_set.glsl"

// Four codes of a word: of four bits its first or second half.
vec4 four(uint word, int second) {
#if BITS == 8
  return vec4((ivec4(word) << ivec4(24, 16, 8, 0)) >> 24);
#elif SPAN == 2
  return vec4((uvec4(word) >> (uvec4(0, 4, 8, 12) + uint(second) * 16u)) & 15u);
#else
  return vec4((uvec4(word) >> (uvec4(0, 8, 16, 24) + uint(second) * 4u)) & 15u);
#endif
}

// Which four of a piece's rooms they are multiplied with.
int room(int word, int second) {
#if BITS == 8
  return word;
#elif SPAN == 2
  return word * 2 + second;
#else
  const int HALF_SPAN = SPAN / 2;
  return word * 4 / HALF_SPAN * (SPAN / 4) + word * 4 % HALF_SPAN / 4 + second * (HALF_SPAN / 4);
#endif
}

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int tiles_n = (outputs0 + ACROSS * TN - 1) / (ACROSS * TN);
  int tile = int(gl_WorkGroupID.x);
  int row0 = tile / tiles_n * (THREADS / ACROSS * TM) + thread / ACROSS * TM;
  int column0 = tile % tiles_n * (ACROSS * TN) + thread % ACROSS;
  int part = int(gl_WorkGroupID.y);
  // A row or an output that is not there does another's work.
  int from[TM];
  [[unroll]] for (int i = 0; i < TM; i++) from[i] = min(row0 + i, m - 1) * (INNER / 4);
  int own[TN];
  [[unroll]] for (int j = 0; j < TN; j++) own[j] = min(column0 + j * ACROSS, outputs0 - 1);
  float total[TM * TN];
  [[unroll]] for (int i = 0; i < TM * TN; i++) total[i] = 0.0;
  int last = min(PIECES, (part + 1) * pieces);
  uvec4 next[TN];
  [[unroll]] for (int j = 0; j < TN; j++) next[j] = codes0[own[j] * PIECES + part * pieces];
  for (int piece = part * pieces; piece < last; piece++) {
    // The next piece's codes are on their way while this one's are multiplied.
    uvec4 words[TN];
    float by[TN];
    float plus[TN];
    int after = min(piece + 1, PIECES - 1);
    [[unroll]] for (int j = 0; j < TN; j++) {
      words[j] = next[j];
      next[j] = codes0[own[j] * PIECES + after];
      int group = own[j] * GROUPS + piece * (ROOMS * 4) / GROUP;
      by[j] = scaled0(group);
      plus[j] = -intBitsToFloat(ZERO_BITS) * by[j];
#if LEAST_BITS > 0
      plus[j] += lowest0(group);
#endif
    }
    [[unroll]] for (int w = 0; w < 4; w++) {
      [[unroll]] for (int second = 0; second < 8 / BITS; second++) {
        vec4 weights[TN];
        [[unroll]] for (int j = 0; j < TN; j++) {
          weights[j] = four(words[j][w], second) * by[j] + plus[j];
        }
        [[unroll]] for (int i = 0; i < TM; i++) {
          vec4 row = x[from[i] + piece * ROOMS + room(w, second)];
          [[unroll]] for (int j = 0; j < TN; j++) total[i * TN + j] += dot(row, weights[j]);
        }
      }
    }
  }
  [[unroll]] for (int i = 0; i < TM; i++) {
    [[unroll]] for (int j = 0; j < TN; j++) {
      int row = row0 + i;
      int column = column0 + j * ACROSS;
      if (row < m && column < outputs0) {
        int at = (part * m + row) * outputs0 + column;
        float added = 0.0;
        float factor = 1.0;
        float more = 0.0;
#ifdef BIAS_AT
        added = bias[column];
#endif
#ifdef FACTOR_AT
        factor = factors[column];
#endif
#ifdef OTHER_AT
        more = other[at];
#endif
        c[at] = finished(vec4(total[i * TN + j]), vec4(added), vec4(factor), vec4(more), what).x;
      }
    }
  }
}
