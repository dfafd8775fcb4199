/* The C library's functions of floats for WebAssembly, where they are part of what a page loads:
 * those that are large, or the twin in f32 of another, are had from the rest. Each is within two
 * units in the last place. Elsewhere the system's own are used.
 *
 * The file's name is the first, and so has to be its object: zig's linker looks into the C library
 * before it has seen all objects. */
#if defined(__wasm__)

#include <math.h>

/* In f32 through f64, which is the better answer of the two. */
float atanf(float x) { return (float)atan((double)x); }
float atan2f(float y, float x) { return (float)atan2((double)y, (double)x); }
float cbrtf(float x) { return (float)cbrt((double)x); }
float cosf(float x) { return (float)cos((double)x); }
float erff(float x) { return (float)erf((double)x); }
float exp2f(float x) { return (float)exp2((double)x); }
float expf(float x) { return (float)exp((double)x); }
float expm1f(float x) { return (float)expm1((double)x); }
float log10f(float x) { return (float)log10((double)x); }
float log1pf(float x) { return (float)log1p((double)x); }
float log2f(float x) { return (float)log2((double)x); }
float logf(float x) { return (float)log((double)x); }
float powf(float x, float y) { return (float)pow((double)x, (double)y); }
float sinf(float x) { return (float)sin((double)x); }
float tanf(float x) { return (float)tan((double)x); }
float tanhf(float x) { return (float)tanh((double)x); }

/* Exact in f64, too, which compilers know: without `volatile` this would call itself. */
float fmodf(float x, float y) {
  volatile double wide = x;
  return (float)fmod(wide, (double)y);
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + r)), where s = f / (2 + f), z = s^2 and
 * r = 2 z/3 + 2 z^2/5 + ...: nothing large is taken from anything large. */
double log(double x) {
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (x == INFINITY) return x;
  int exponent;
  double m = frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) m *= 2, exponent -= 1;
  double f = m - 1, s = f / (2 + f), z = s * s, half = f * f / 2, r = 0;
  for (int n = 23; n >= 3; n -= 2) r = (r + 2.0 / n) * z;
  double high = exponent * 0x1.62e42fee00000p-1, low = exponent * 0x1.a39ef35793c76p-33;
  return high - ((half - (s * (half + r) + low)) - f);
}

/* What 1 + x loses of x is had back. */
double log1p(double x) {
  double sum = 1 + x;
  if (x == 0 || !(sum < INFINITY)) return x;
  return log(sum) + (sum > 0 ? (x - (sum - 1)) / sum : 0);
}

/* What exp(x) - 1 loses, the logarithm of exp(x) loses, too. */
double expm1(double x) {
  double power = exp(x);
  if (power == 1 || x != x) return x;
  if (!(fabs(x) < 40)) return power - 1;
  return (power - 1) * x / log(power);
}

/* 2 to the power of high + low, where low is small beside one. */
static double math_exp2(double high, double low) {
  if (!(high > -1200)) return high != high ? high : 0;
  if (high > 1100) return INFINITY;
  double whole = nearbyint(high);
  return ldexp(exp((high - whole + low) * 0x1.62e42fefa39efp-1), (int)whole);
}

double exp2(double x) { return math_exp2(x, 0); }

/* A number as the sum of two, which together hold twice the bits of one. */
typedef struct math_pair {
  double high;
  double low;
} math_pair;

static math_pair math_sum(double a, double b) {
  double sum = a + b, part = sum - a;
  return (math_pair){sum, (a - (sum - part)) + (b - part)};
}

static double math_upper(double a) {
  double scaled = a * 134217729.0; /* 2^27 + 1: the upper half of the bits stays */
  return scaled - (scaled - a);
}

static math_pair math_product(double a, double b) {
  double product = a * b;
  double a1 = math_upper(a), a2 = a - a1, b1 = math_upper(b), b2 = b - b1;
  return (math_pair){product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

static math_pair math_multiply(math_pair a, math_pair b) {
  math_pair product = math_product(a.high, b.high);
  return math_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

/* The logarithm to base 2 of a positive number, by the series of the inverse hyperbolic tangent. */
static math_pair math_log2(double x) {
  static const math_pair third = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
  static const math_pair two_log2_e = {0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55};
  int exponent;
  double m = frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) m *= 2, exponent -= 1;
  /* s = (m - 1) / (m + 1); what the division leaves over gives the lower part. */
  double above = m - 1;
  math_pair below = math_sum(m, 1);
  math_pair s = {above / below.high, 0};
  math_pair back = math_product(s.high, below.high);
  s.low = ((above - back.high) - back.low - s.high * below.low) / below.high;
  /* log(m) = 2 s (1 + z/3 + z^2/5 + ...), where z = s^2 is 0.03 at most. */
  math_pair z = math_multiply(s, s);
  double rest = 0;
  for (int n = 27; n >= 5; n -= 2) rest = rest * z.high + 1.0 / n;
  math_pair series = math_multiply(z, third);
  series = math_sum(series.high, series.low + rest * z.high * z.high);
  math_pair factor = math_sum(1, series.high);
  factor.low += series.low;
  math_pair result = math_multiply(math_multiply(s, factor), two_log2_e);
  math_pair sum = math_sum(exponent, result.high);
  return math_sum(sum.high, sum.low + result.low);
}

double log2(double x) {
  if (!(x > 0) || x == INFINITY) return log(x);
  math_pair result = math_log2(x);
  return result.high + result.low;
}

double log10(double x) {
  static const math_pair log10_2 = {0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59};
  if (!(x > 0) || x == INFINITY) return log(x);
  math_pair result = math_multiply(math_log2(x), log10_2);
  return result.high + result.low;
}

double tanh(double x) {
  double size = fabs(x), t;
  if (size > 20) return copysign(1, x);
  t = expm1(size < 1 ? -2 * size : 2 * size);
  t = size < 1 ? -t / (t + 2) : 1 - 2 / (t + 2);
  return x != x ? x : copysign(t, x);
}

/* x less the multiple of y that is nearest, the even one of two: exact. */
double remainder(double x, double y) {
  double size = fabs(x), by = fabs(y);
  if (!(by > 0) || !(size < INFINITY) || by != by) return (x * y) / (x * y);
  if (by <= 0x1p1022) size = fmod(size, by + by);
  /* Now at most twice `by`. Half of the least numbers is none, twice the largest neither. */
  for (int i = 0; i < 2; ++i) {
    int is_over = by < 1 ? size + size > by : size > by / 2;
    int is_half = by < 1 ? size + size == by : size == by / 2;
    if (is_over || (i == 1 && is_half)) size -= by;
    if (!is_over) break;
  }
  return signbit(x) ? -size : size;
}

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  int is_whole = fabs(y) >= 0x1p53 || y == floor(y);
  int is_odd = is_whole && fabs(y) < 0x1p53 && fmod(y, 2) != 0;
  double size = fabs(x), result;
  if (x < 0 && !is_whole && size < INFINITY) return NAN;
  if (size == 1) {
    result = 1;
  } else if (size == 0 || size == INFINITY || fabs(y) == INFINITY) {
    result = (size > 1) == (y > 0) ? INFINITY : 0;
  } else {
    if (fabs(y) > 0x1p64) y = copysign(0x1p64, y); /* as large or small as it gets */
    math_pair power = math_log2(size);
    math_pair product = math_product(y, power.high);
    product = math_sum(product.high, product.low + y * power.low);
    result = math_exp2(product.high, product.low);
  }
  return signbit(x) && is_odd ? -result : result;
}

double atan2(double y, double x) {
  double up = fabs(y), over = fabs(x), angle = 0;
  if (x != x || y != y) return x + y;
  if (up == over)
    angle = up > 0 ? 0x1.921fb54442d18p-1 : 0;
  else
    angle = atan(up / over);
  if (signbit(x)) angle = 0x1.921fb54442d18p+1 - (angle - 0x1.1a62633145c07p-53);
  return copysign(angle, y);
}

/* A power that is nearly right, and a step of Newton's. */
double cbrt(double x) {
  double size = fabs(x);
  if (!(size > 0) || !(size < INFINITY)) return x;
  double root = pow(size, 1.0 / 3);
  return copysign(root - (root - size / (root * root)) / 3, x);
}

#endif

/* No file may be empty in standard C. */
typedef int edgert_wasm_math_is_here;
