// What may follow a sum of products, before it is stored.
//
// By the bits of `what`, in this order: 1 adds `bias` [n], bits 8 to 11 are a gate, 64 multiplies by
// `scale` [n], 2 adds `other` [m, n], 8 takes max(x, 0), 16 clips by the numbers of the call (before
// `other` with 32, too), 4 stores f32.

// 1 is GELU by tanh and 3 SiLU, as x / (1 + exp(-p(x))); 2 GELU by erf, 4 the sigmoid, 5 tanh, 6
// hard swish, 7 hard sigmoid. All are right to 1e-6 of 1 + |x|.
vec4 gate(vec4 x, int kind) {
  if (kind == 2) {
    // x > 0 ? x - x q / 2 : x q / 2, q = erfc(|x| / sqrt 2) by Abramowitz and Stegun 7.1.26.
    vec4 size = abs(x);
    vec4 t = 1.0 / (1.0 + 0.2316418954 * size);
    vec4 q = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return max(x, vec4(0.0)) - 0.5 * size * q * exp(-0.5 * min(size * size, vec4(160.0)));
  }
  if (kind == 5) {
    vec4 size = min(abs(x), vec4(40.0));
    vec4 square = size * size;
    vec4 small = size * (1.0 + square * (-0.3333333333 + square * (0.1333333333 - square * 0.05396825397)));
    return sign(x) * mix(1.0 - 2.0 / (1.0 + exp(2.0 * size)), small, lessThan(size, vec4(0.2)));
  }
  if (kind >= 6) {
    vec4 part = clamp(x / 6.0 + 0.5, vec4(0.0), vec4(1.0));
    return kind == 6 ? x * part : part;
  }
  float a = kind == 1 ? 1.5957691216057308 : 1.0;
  float b = kind == 1 ? 0.07135481282 : 0.0;
  vec4 square = min(x * x, vec4(30.0));
  // Beyond 80 the result is 0 in f32, and exp would leave its range.
  vec4 below = 1.0 + exp(min(-x * (a + square * b), vec4(80.0)));
  return (kind == 4 ? vec4(1.0) : x) / below;
}

vec4 clipped(vec4 x) {
  x = max(x, vec4(0.0)) + intBitsToFloat(clip_slope) * min(x, vec4(0.0));
  return min(max(x, vec4(intBitsToFloat(clip_low))), vec4(intBitsToFloat(clip_high)));
}

// With what is added, multiplied by and added after it; each is read by those alone that have it.
vec4 finished(vec4 total, vec4 added, vec4 factor, vec4 more, int what) {
  if ((what & 1) != 0) total += added;
  int kind = (what >> 8) & 15;
  if (kind != 0) total = gate(total, kind);
  if ((what & 64) != 0) total *= factor;
  if ((what & 48) == 48) total = clipped(total);
  if ((what & 2) != 0) total += more;
  if ((what & 8) != 0) total = max(total, vec4(0.0));
  if ((what & 48) == 16) total = clipped(total);
  return total;
}
