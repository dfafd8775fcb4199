/* Floats of 16 bits, and pairs of them, under the names that CUDA gives them: __half and __nv_bfloat16.
 *
 * They are clang's own types: arithmetic rounds each result to 16 bits, and a product and a sum may be
 * one rounding, as elsewhere in CUDA. Elementary functions are those of f32, rounded.
 */
#ifndef EDGEC_CUDA_NARROW_H
#define EDGEC_CUDA_NARROW_H

#include "elementary.h"

#define EDGEC_NARROW(one, two, pair)                                                                 \
  struct alignas(4) two {                                                                            \
    one x, y;                                                                                        \
    two() = default;                                                                                 \
    EDGEC_BOTH constexpr two(one first, one second) : x(first), y(second) {}                         \
  };                                                                                                 \
  typedef one pair __attribute__((ext_vector_type(2)));                                              \
  EDGEC_SHORT pair edgec_of(two a) { return __builtin_bit_cast(pair, a); }                           \
  EDGEC_SHORT two edgec_from(pair a) { return __builtin_bit_cast(two, a); }                          \
  EDGEC_SHORT two operator+(two a, two b) { return edgec_from(edgec_of(a) + edgec_of(b)); }          \
  EDGEC_SHORT two operator-(two a, two b) { return edgec_from(edgec_of(a) - edgec_of(b)); }          \
  EDGEC_SHORT two operator*(two a, two b) { return edgec_from(edgec_of(a) * edgec_of(b)); }          \
  EDGEC_SHORT two operator/(two a, two b) { return {(one)(a.x / b.x), (one)(a.y / b.y)}; }           \
  EDGEC_SHORT two operator-(two a) { return edgec_from(-edgec_of(a)); }                              \
  EDGEC_SHORT two &operator+=(two &a, two b) { return a = a + b; }                                   \
  EDGEC_SHORT two &operator-=(two &a, two b) { return a = a - b; }                                   \
  EDGEC_SHORT two &operator*=(two &a, two b) { return a = a * b; }                                   \
  EDGEC_SHORT two &operator/=(two &a, two b) { return a = a / b; }                                   \
  EDGEC_SHORT bool operator==(two a, two b) { return a.x == b.x && a.y == b.y; }                     \
  EDGEC_SHORT bool operator!=(two a, two b) { return a.x != b.x && a.y != b.y; }                     \
  EDGEC_SHORT one __hadd(one a, one b) { return a + b; }                                             \
  EDGEC_SHORT one __hsub(one a, one b) { return a - b; }                                             \
  EDGEC_SHORT one __hmul(one a, one b) { return a * b; }                                             \
  EDGEC_SHORT one __hdiv(one a, one b) { return a / b; }                                             \
  EDGEC_SHORT one __hneg(one a) { return -a; }                                                       \
  EDGEC_SHORT one __habs(one a) {                                                                    \
    return __builtin_bit_cast(one, (unsigned short)(__builtin_bit_cast(unsigned short, a) & 0x7FFF)); \
  }                                                                                                  \
  EDGEC_SHORT one __hmax(one a, one b) { return (one)fmaxf((float)a, (float)b); }                    \
  EDGEC_SHORT one __hmin(one a, one b) { return (one)fminf((float)a, (float)b); }                    \
  EDGEC_SHORT one max(one a, one b) { return __hmax(a, b); }                                         \
  EDGEC_SHORT one min(one a, one b) { return __hmin(a, b); }                                         \
  EDGEC_SHORT bool __heq(one a, one b) { return a == b; }                                            \
  EDGEC_SHORT bool __hne(one a, one b) { return a < b || a > b; }                                    \
  EDGEC_SHORT bool __hlt(one a, one b) { return a < b; }                                             \
  EDGEC_SHORT bool __hle(one a, one b) { return a <= b; }                                            \
  EDGEC_SHORT bool __hgt(one a, one b) { return a > b; }                                             \
  EDGEC_SHORT bool __hge(one a, one b) { return a >= b; }                                            \
  EDGEC_SHORT bool __hisnan(one a) { return a != a; }                                                \
  EDGEC_SHORT int __hisinf(one a) { return isinf((float)a) ? (signbit((float)a) ? -1 : 1) : 0; }     \
  EDGEC_SHORT two __hadd2(two a, two b) { return a + b; }                                            \
  EDGEC_SHORT two __hsub2(two a, two b) { return a - b; }                                            \
  EDGEC_SHORT two __hmul2(two a, two b) { return a * b; }                                            \
  EDGEC_SHORT two __h2div(two a, two b) { return a / b; }                                            \
  EDGEC_SHORT two __hneg2(two a) { return -a; }                                                      \
  EDGEC_SHORT two __habs2(two a) { return {__habs(a.x), __habs(a.y)}; }                              \
  EDGEC_SHORT two __hmax2(two a, two b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }             \
  EDGEC_SHORT two __hmin2(two a, two b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }             \
  EDGEC_SHORT two __hfma2(two a, two b, two c) {                                                     \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                           \
  }                                                                                                  \
  EDGEC_SHORT one hexp(one a) { return (one)expf((float)a); }                                        \
  EDGEC_SHORT one hexp2(one a) { return (one)exp2f((float)a); }                                      \
  EDGEC_SHORT one hexp10(one a) { return (one)exp10f((float)a); }                                    \
  EDGEC_SHORT one hlog(one a) { return (one)logf((float)a); }                                        \
  EDGEC_SHORT one hlog2(one a) { return (one)log2f((float)a); }                                      \
  EDGEC_SHORT one hlog10(one a) { return (one)log10f((float)a); }                                    \
  EDGEC_SHORT one hsin(one a) { return (one)sinf((float)a); }                                        \
  EDGEC_SHORT one hcos(one a) { return (one)cosf((float)a); }                                        \
  EDGEC_SHORT one htanh(one a) { return (one)tanhf((float)a); }                                      \
  EDGEC_SHORT one hsqrt(one a) { return (one)sqrtf((float)a); }                                      \
  EDGEC_SHORT one hrsqrt(one a) { return (one)rsqrtf((float)a); }                                    \
  EDGEC_SHORT one hrcp(one a) { return (one)(1.0f / (float)a); }                                     \
  EDGEC_SHORT one hfloor(one a) { return (one)floorf((float)a); }                                    \
  EDGEC_SHORT one hceil(one a) { return (one)ceilf((float)a); }                                      \
  EDGEC_SHORT one htrunc(one a) { return (one)truncf((float)a); }                                    \
  EDGEC_SHORT one hrint(one a) { return (one)rintf((float)a); }                                      \
  EDGEC_SHORT two h2exp(two a) { return {hexp(a.x), hexp(a.y)}; }                                    \
  EDGEC_SHORT two h2exp2(two a) { return {hexp2(a.x), hexp2(a.y)}; }                                 \
  EDGEC_SHORT two h2log(two a) { return {hlog(a.x), hlog(a.y)}; }                                    \
  EDGEC_SHORT two h2log2(two a) { return {hlog2(a.x), hlog2(a.y)}; }                                 \
  EDGEC_SHORT two h2sin(two a) { return {hsin(a.x), hsin(a.y)}; }                                    \
  EDGEC_SHORT two h2cos(two a) { return {hcos(a.x), hcos(a.y)}; }                                    \
  EDGEC_SHORT two h2tanh(two a) { return {htanh(a.x), htanh(a.y)}; }                                 \
  EDGEC_SHORT two h2sqrt(two a) { return {hsqrt(a.x), hsqrt(a.y)}; }                                 \
  EDGEC_SHORT two h2rsqrt(two a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }                              \
  EDGEC_SHORT two h2rcp(two a) { return {hrcp(a.x), hrcp(a.y)}; }

#endif
