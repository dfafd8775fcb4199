// What may follow a sum of products, before it is stored.
//
// By the bits of `what`, in this order: 1 adds `bias` [n], bits 8 to 11 are a gate, 2 adds `other`
// [m, n], 8 takes max(x, 0), 4 stores f32.

// x / (1 + exp(-p(x))): 1 is GELU by tanh, 2 GELU by erf (off by at most 3e-5), 3 SiLU.
vec4 gate(vec4 x, int kind) {
  float a = kind == 1 ? 1.5957691216057308 : (kind == 2 ? 1.59496522 : 1.0);
  float b = kind == 1 ? 0.07135481282 : (kind == 2 ? 0.0740572074 : 0.0);
  float c = kind == 2 ? -0.000710478817 : 0.0;
  vec4 square = min(x * x, vec4(30.0));
  // Beyond 80 the result is 0 in f32, and exp would leave its range.
  return x / (1.0 + exp(min(-x * (a + square * (b + square * c)), vec4(80.0))));
}

// `at` counts fours in [m, n]; `column` fours in a row.
void finish(vec4 total, int at, int column, int what) {
  if ((what & 1) != 0) total += WIDE(bias[column]);
  int kind = (what >> 8) & 15;
  if (kind != 0) total = gate(total, kind);
  if ((what & 2) != 0) total += WIDE(other[at]);
  if ((what & 8) != 0) total = max(total, vec4(0.0));
#ifdef HALF
  if ((what & 4) == 0) {
    c[at] = f16vec4(total);
    return;
  }
#endif
  c_wide[at] = total;
}
