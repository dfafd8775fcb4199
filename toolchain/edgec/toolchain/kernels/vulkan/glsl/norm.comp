// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, over rows that lie in any way.
//
// LANES threads do a row together, and THREADS / LANES rows are a workgroup's. A room of memory
// holds four elements of a row, or with BESIDE the elements of four rows that lie side by side, or
// with SINGLE one element. Room c of row r lies at
//
//   (r / beside) * row_far + (r % beside) * row_near + (c / run) * room_far + (c % run) * room_near
//
// and what a row is multiplied with (a_) and shifted by (b_) in the same way, by steps of its own;
// the elements of a room are a_each and b_each apart there. A thread keeps KEEP rooms in registers;
// with KEEP = 0 it reads them three times. With SUBGROUPS the LANES threads of a row are a subgroup
// on the device that it is made for, and what a row is multiplied with and shifted by is asked for
// together with the row. By the bits of `what`: 1 has a scale, 2 has a shift, 4 stores f32, 8 takes
// 0 for the mean. Workgroups: (rows by THREADS / LANES, 1, 1).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

#ifdef SINGLE
#define HELD ELEMENT
#define WIDENED float
#define COLUMN(of, at, each) of[at]
#else
#define HELD ROOM
#define WIDENED vec4
#define COLUMN(of, at, each) \
  vec4(of[at], of[(at) + (each)], of[(at) + 2 * (each)], of[(at) + 3 * (each)])
#endif

// What a row, or each of the rows of a room, is summed to.
#if defined(BESIDE) && !defined(SINGLE)
#define TOTAL vec4
#define SUMMED(room) (room)
#else
#define TOTAL float
#ifdef SINGLE
#define SUMMED(room) (room)
#else
#define SUMMED(room) dot(room, vec4(1.0))
#endif
#endif

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer X { HELD x[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) writeonly buffer Y { HELD y[]; };
layout(binding = 3) writeonly buffer YWide { WIDENED y_wide[]; };

#include "numbers.glsl"

const int ROWS = THREADS / LANES;

// Neighbouring threads read neighbouring memory.
#ifdef BESIDE
const int NEXT = ROWS;  // From the thread of a lane to that of the next.
#define LANE(thread) ((thread) / ROWS)
#define ROW(thread) ((thread) % ROWS)
#else
const int NEXT = 1;
#define LANE(thread) ((thread) % LANES)
#define ROW(thread) ((thread) / LANES)
#endif

shared TOTAL parts[THREADS];

// The sum over the lanes of a row.
TOTAL joined(TOTAL part, int thread) {
#ifdef SUBGROUPS
  if (gl_SubgroupSize == LANES) return subgroupAdd(part);
#endif
  parts[thread] = part;
  barrier();
  [[unroll]] for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {
    if (LANE(thread) < half_) parts[thread] += parts[thread + half_ * NEXT];
    barrier();
  }
  TOTAL total = parts[thread - LANE(thread) * NEXT];
  barrier();
  return total;
}

#define AT(room) ((room) / run * room_far + (room) % run * room_near)
#define READ(room) WIDENED(x[start + AT(room)])
#define FACTOR(room) COLUMN(a, a_start + (room) / run * a_room_far + (room) % run * a_room_near, a_each)
#define SHIFT(room) COLUMN(b, b_start + (room) / run * b_room_far + (room) % run * b_room_near, b_each)

#if KEEP > 0
#define EACH(body) \
  [[unroll]] for (int i = 0; i < KEEP; i++) { \
    int room = lane + i * LANES; \
    if (room < n) { WIDENED value = held[i]; body } \
  }
#else
#define EACH(body) \
  for (int room = lane; room < n; room += LANES) { WIDENED value = READ(room); body }
#endif

#ifdef SUBGROUPS
#define FINISH(value, room) value = value * factors[i] + shifts[i];
#else
#define FINISH(value, room) \
  if ((what & 1) != 0) value *= FACTOR(room); \
  if ((what & 2) != 0) value += SHIFT(room);
#endif

void store(int at, WIDENED value) {
#ifdef HALF
  if ((what & 4) == 0) {
    y[at] = HELD(value);
    return;
  }
#endif
  y_wide[at] = value;
}

void main() {
  int thread = int(gl_LocalInvocationIndex);
  int lane = LANE(thread);
  int number = int(gl_WorkGroupID.x) * ROWS + ROW(thread);
  int row = min(number, m - 1);  // One that is not there does another's work and stores nothing.
  int far = row / beside;
  int near = row % beside;
  int start = far * row_far + near * row_near;
  int a_start = far * a_row_far + near * a_row_near;
  int b_start = far * b_row_far + near * b_row_near;
#if KEEP > 0
  WIDENED held[KEEP];
  [[unroll]] for (int i = 0; i < KEEP; i++) {
    int room = lane + i * LANES;
    held[i] = WIDENED(0.0);
    if (room < n) held[i] = READ(room);
  }
#endif
#ifdef SUBGROUPS
  WIDENED factors[KEEP];
  WIDENED shifts[KEEP];
  [[unroll]] for (int i = 0; i < KEEP; i++) {
    int room = lane + i * LANES;
    factors[i] = WIDENED(1.0);
    shifts[i] = WIDENED(0.0);
    if (room < n && (what & 1) != 0) factors[i] = FACTOR(room);
    if (room < n && (what & 2) != 0) shifts[i] = SHIFT(room);
  }
#endif
  float share = intBitsToFloat(share_bits);  // One element's of the sum.
  TOTAL mean = TOTAL(0.0);
  if ((what & 8) == 0) {
    TOTAL sum = TOTAL(0.0);
    EACH(sum += SUMMED(value);)
    mean = joined(sum, thread) * share;
  }
  TOTAL squares = TOTAL(0.0);
  EACH(value -= mean; squares += SUMMED(value * value);)
  TOTAL factor = inversesqrt(joined(squares, thread) * share + intBitsToFloat(epsilon_bits));
  if (number >= m) return;
  EACH(
    value = (value - mean) * factor;
    FINISH(value, room)
    store(start + AT(room), value);
  )
}
