// C = finish(x W^T) for rows x [rows, INNER] and SETS matrices W in blocks of one kind.
//
// A matrix has codes of BITS bits as `match/blocks.py` says, a scale for each GROUP of neighbours and
// perhaps a least value; integers among these have a factor for each SCALE_SHARED, or LEAST_SHARED,
// groups. LANES threads do OUTS outputs together: each turns 16 bytes of codes of an output at a
// time, so neighbours read what lies side by side, and reads a piece of the row once for all its
// outputs. With NORM_AT, or NORMED alone, rows are first divided by the root of their mean square,
// epsilon added, and multiplied by `norm` [INNER]. With GATED, the kind of a `gate`, the result is
// that of the first product times the second. What else follows is done of a single matrix alone.
// Workgroups: (tiles of all matrices; of one with GATED, rows, 1).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = THREADS) in;
layout(binding = X_AT) readonly buffer X { vec4 x[]; };
#ifdef NORM_AT
layout(binding = NORM_AT) readonly buffer Norm { vec4 norm[]; };
#endif
#ifdef BIAS_AT
layout(binding = BIAS_AT) readonly buffer Bias { float bias[]; };
#endif
#ifdef FACTOR_AT
layout(binding = FACTOR_AT) readonly buffer Factor { float factors[]; };
#endif
#ifdef OTHER_AT
layout(binding = OTHER_AT) readonly buffer Other { float other[]; };
#endif

#include "numbers.glsl"

const int ROOMS = 128 / BITS / 4;        // Fours of the row for 16 bytes of codes.
const int PIECES = INNER / (ROOMS * 4);
const int GROUPS = INNER / GROUP;
const int OWN = THREADS / LANES * OUTS;  // Outputs of a workgroup.

#include "finished.glsl"
#include "block_numbers.glsl"

#if GATED > 0
const int SUMS = 2;
#else
const int SUMS = 1;
#endif
shared float parts[THREADS * OUTS * SUMS];
#ifdef NORMED
shared float squares[THREADS];
#endif

layout(binding = C_AT0) writeonly buffer C0 { float c0[]; };
#if GATED == 0 && SETS > 1
layout(binding = C_AT1) writeonly buffer C1 { float c1[]; };
#endif
#if GATED == 0 && SETS > 2
layout(binding = C_AT2) writeonly buffer C2 { float c2[]; };
#endif

// What 16 bytes of codes are multiplied by: a piece of the row, and its sum.
struct Piece {
  vec4 row[ROOMS];
  float plain;
};

// The sum of squares of a piece is added to `square`.
Piece piece_of(int line, int piece, inout float square) {
  Piece found;
  found.plain = 0.0;
  [[unroll]] for (int i = 0; i < ROOMS; i++) {
    vec4 value = x[line * (INNER / 4) + piece * ROOMS + i];
#ifdef NORMED
    square += dot(value, value);
#endif
#ifdef NORM_AT
    value *= norm[piece * ROOMS + i];
#endif
    found.row[i] = value;
    found.plain += dot(value, vec4(1.0));
  }
  return found;
}

// The sum of codes times a piece of the row. To put codes among the bits of 2^23, as CUDA's kernel
// does to turn no integers, takes as long on an H200, and with codes of 8 bits a tenth longer.
float dotted(uvec4 codes, Piece piece) {
  float total = 0.0;
  [[unroll]] for (int w = 0; w < 4; w++) {
    uint bits = codes[w];
#if BITS == 8
    vec4 bytes = vec4((ivec4(bits) << ivec4(24, 16, 8, 0)) >> 24);
    total += dot(bytes, piece.row[w]);
#else
    vec4 low = vec4((uvec4(bits) >> uvec4(0, 8, 16, 24)) & 15u);
    vec4 high = vec4((uvec4(bits) >> uvec4(4, 12, 20, 28)) & 15u);
#if SPAN == 2
    vec4 a = piece.row[w * 2];
    vec4 b = piece.row[w * 2 + 1];
    total += dot(low, vec4(a.xz, b.xz)) + dot(high, vec4(a.yw, b.yw));
#else
    const int HALF_SPAN = SPAN / 2;
    int first = w * 4 / HALF_SPAN * (SPAN / 4) + w * 4 % HALF_SPAN / 4;
    total += dot(low, piece.row[first]) + dot(high, piece.row[first + HALF_SPAN / 4]);
#endif
#endif
  }
  return total;
}

#define SET(name) name##0
#include "block_set.glsl"
#include "block_dot.glsl"
#undef SET
#if SETS > 1
#define SET(name) name##1
#include "block_set.glsl"
#include "block_dot.glsl"
#undef SET
#endif
#if SETS > 2
#define SET(name) name##2
#include "block_set.glsl"
#include "block_dot.glsl"
#undef SET
#endif

// The sum of what the lanes of an output found; `which` of two products.
float total_of(int output_, int which) {
  int at = (output_ / OUTS * LANES * SUMS + which) * OUTS + output_ % OUTS;
  float total = 0.0;
  [[unroll]] for (int lane = 0; lane < LANES; lane++) total += parts[at + lane * SUMS * OUTS];
  return total;
}

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int lane = thread % LANES;
  int mine = thread / LANES * OUTS;
  int line = int(gl_WorkGroupID.y);
  int tile = int(gl_WorkGroupID.x);
  int which = 0;
#if GATED == 0 && SETS > 1
  int tiles = (outputs0 + OWN - 1) / OWN;
  if (tile >= tiles) {
    which = 1;
    tile -= tiles;
#if SETS > 2
    tiles = (outputs1 + OWN - 1) / OWN;
    if (tile >= tiles) {
      which = 2;
      tile -= tiles;
    }
#endif
  }
#endif
  int first = tile * OWN + mine;
  float sums[OUTS * SUMS];
  [[unroll]] for (int i = 0; i < OUTS * SUMS; i++) sums[i] = 0.0;
  float square = 0.0;
  for (int at = lane; at < PIECES; at += LANES) {
    Piece piece = piece_of(line, at, square);
    if (which == 0) {
      [[unroll]] for (int i = 0; i < OUTS; i++) sums[i] += product0(first + i, at, piece);
    }
#if GATED > 0
    [[unroll]] for (int i = 0; i < OUTS; i++) sums[OUTS + i] += product1(first + i, at, piece);
#elif SETS > 1
    if (which == 1) {
      [[unroll]] for (int i = 0; i < OUTS; i++) sums[i] += product1(first + i, at, piece);
    }
#if SETS > 2
    if (which == 2) {
      [[unroll]] for (int i = 0; i < OUTS; i++) sums[i] += product2(first + i, at, piece);
    }
#endif
#endif
  }
  [[unroll]] for (int i = 0; i < OUTS * SUMS; i++) parts[thread * OUTS * SUMS + i] = sums[i];
#ifdef NORMED
  squares[thread] = square;
#endif
  barrier();
  if (thread >= OWN) return;
  int own = tile * OWN + thread;
  float total = total_of(thread, 0);
#ifdef NORMED
  float mean = 0.0;
  int from = thread / OUTS * LANES;
  [[unroll]] for (int i = 0; i < LANES; i++) mean += squares[from + i];
  float root = inversesqrt(mean / float(INNER) + intBitsToFloat(eps_bits));
  total *= root;
#endif
#if GATED > 0
  float second = total_of(thread, 1);
#ifdef NORMED
  second *= root;
#endif
  total = gate(vec4(total), GATED).x * second;
  if (own < outputs0) c0[line * outputs0 + own] = total;
#elif SETS == 1
  if (own >= outputs0) return;
  int at = line * outputs0 + own;
  float added = 0.0;
  float factor = 1.0;
  float more = 0.0;
#ifdef BIAS_AT
  added = bias[own];
#endif
#ifdef FACTOR_AT
  factor = factors[own];
#endif
#ifdef OTHER_AT
  more = other[at];
#endif
  c0[at] = finished(vec4(total), vec4(added), vec4(factor), vec4(more), what).x;
#else
  if (which == 0 && own < outputs0) c0[line * outputs0 + own] = total;
  if (which == 1 && own < outputs1) c1[line * outputs1 + own] = total;
#if SETS > 2
  if (which == 2 && own < outputs2) c2[line * outputs2 + own] = total;
#endif
#endif
}
