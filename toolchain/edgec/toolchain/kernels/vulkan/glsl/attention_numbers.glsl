// What kernels of attention are told, and what a score is changed to.
//
// Element (outer, middle, inner, row, i) of q lies at start + each index times its step; likewise k
// and v, whose rows are keys, o, and the terms, whose columns are keys. `n` holds all numbers, in
// the order of `kernels/vulkan/attentions.py`, and is compiled in where it can be. A term adds a bias
// times a factor (1), or gives a score another number where a truth value is 0 (2) or is not (3).
#ifdef TABLE
const int n[56] = int[56](TABLE);
#else
layout(binding = 0) readonly buffer Numbers { int n[56]; };
#endif
layout(binding = 4) readonly buffer Term0 { float term0[]; };
layout(binding = 5) readonly buffer Term1 { float term1[]; };
layout(binding = 6) readonly buffer Term2 { float term2[]; };

const int QUERIES = 0, KEYS = 1, WIDTH = 2, DEPTH = 3, SCALE = 4, CAP = 5, SAFE = 6, INNERS = 7;
const int Q_AT = 8, K_AT = 14, V_AT = 20, O_AT = 26, TERMS_AT = 32;
const int TERM = 8;             // Numbers of a term: a view's six, its kind, its bits.
const int ROW = 4, COLUMN = 5;  // In a view's numbers, after its start and its three heads.
const int KIND = 6, BITS = 7;

const float LEAST = -3.402823466e38;

// Macros, so that an array that is compiled in is read by the compiler.
#define INNER (int(gl_WorkGroupID.y) % n[INNERS])
#define MIDDLE (int(gl_WorkGroupID.y) / n[INNERS])
#define BASE(at) \
  (n[at] + int(gl_WorkGroupID.z) * n[(at) + 1] + MIDDLE * n[(at) + 2] + INNER * n[(at) + 3])

#define CHANGE(terms, base, at) \
  if (n[(at) + KIND] != 0) { \
    float seen = terms[base + row * n[(at) + ROW] + key * n[(at) + COLUMN]]; \
    float number = intBitsToFloat(n[(at) + BITS]); \
    score = n[(at) + KIND] == 1 ? score + number * seen \
        : (seen != 0.0) == (n[(at) + KIND] == 2) ? score : number; \
  }

float changed(float score, int row, int key, ivec3 bases) {
  if (n[CAP] != 0) {
    float cap = intBitsToFloat(n[CAP]);
    score = cap * tanh(clamp(score, -20.0, 20.0));
  }
  CHANGE(term0, bases.x, TERMS_AT)
  CHANGE(term1, bases.y, TERMS_AT + TERM)
  CHANGE(term2, bases.z, TERMS_AT + 2 * TERM)
  return score;
}
