// O = what `attention` found of PARTS parts of the keys, together; BM rows of each head.
//
// A part has, for each row, sums by column, then its largest score and the total of its powers. With
// SEEN a part without any key that is seen has a total of 0; where no part has one, all values count
// alike; with KEPT these are halves. Workgroups: (elements of a head by THREADS, middle and inner heads, outer heads).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"

layout(local_size_x = THREADS) in;
#include "attention_numbers.glsl"
layout(binding = 1) readonly buffer Work { float work[]; };
#ifdef KEPT
#define VALUE(at) unpackHalf2x16(v[(at) / 2] >> ((at) % 2 * 16)).x
layout(binding = 2) readonly buffer V { uint v[]; };
#else
#define VALUE(at) float(v[at])
layout(binding = 2) readonly buffer V { ELEMENT v[]; };
#endif
layout(binding = 3) writeonly buffer O { ELEMENT o[]; };

void main() {
  int at = int(gl_GlobalInvocationID.x);
  int depth = n[DEPTH];
  if (at >= n[QUERIES] * depth) return;
  int row = at / depth;
  int column = at % depth;
  int room = depth + 2;
  int head = int(gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y);
  int base = (head * PARTS * BM + row) * room;
  float most = LEAST;
  for (int part = 0; part < PARTS; part++) most = max(most, work[base + part * BM * room + depth]);
  float total = 0.0;
  float sum = 0.0;
  for (int part = 0; part < PARTS; part++) {
    int there = base + part * BM * room;
    float fade = exp(work[there + depth] - most);
    total += fade * work[there + depth + 1];
    sum += fade * work[there + column];
  }
#ifdef SEEN
  if (total == 0.0 && intBitsToFloat(n[TERMS_AT + BITS]) >= LEAST) {
    int values = BASE(V_AT) + column * n[V_AT + COLUMN];
    for (int key = 0; key < n[KEYS]; key++) sum += VALUE(values + key * n[V_AT + ROW]);
    total = float(n[KEYS]);
  }
#endif
  float result = sum * (total == 0.0 && n[SAFE] != 0 ? 0.0 : 1.0 / total);
  o[BASE(O_AT) + row * n[O_AT + ROW] + column * n[O_AT + COLUMN]] = ELEMENT(result);
}
