#ifndef EDGEC_CUDA_FP16_H
#define EDGEC_CUDA_FP16_H

#include "narrow.h"

typedef _Float16 __half;
typedef __half half;
EDGEC_SHORT __half __hfma(__half a, __half b, __half c) {
#if __CUDA_ARCH__ >= 530
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(a) : "h"(a), "h"(b), "h"(c));
  return a;
#else
  return (__half)((double)a * (double)b + (double)c);
#endif
}
EDGEC_NARROW(__half, __half2, edgec_halves)
typedef __half2 half2;

EDGEC_SHORT __half __float2half(float x) { return (__half)x; }
EDGEC_SHORT __half __float2half_rn(float x) { return (__half)x; }
EDGEC_SHORT __half __double2half(double x) { return (__half)x; }
EDGEC_SHORT float __half2float(__half x) { return (float)x; }
EDGEC_SHORT __half __int2half_rn(int x) { return (__half)x; }
EDGEC_SHORT __half __uint2half_rn(unsigned x) { return (__half)x; }
EDGEC_SHORT int __half2int_rn(__half x) { return __float2int_rn((float)x); }
EDGEC_SHORT int __half2int_rz(__half x) { return __float2int_rz((float)x); }
EDGEC_SHORT int __half2int_ru(__half x) { return __float2int_ru((float)x); }
EDGEC_SHORT int __half2int_rd(__half x) { return __float2int_rd((float)x); }
EDGEC_SHORT unsigned __half2uint_rn(__half x) { return __float2uint_rn((float)x); }
EDGEC_SHORT unsigned __half2uint_rz(__half x) { return __float2uint_rz((float)x); }
EDGEC_SHORT unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }
EDGEC_SHORT short __half_as_short(__half x) { return __builtin_bit_cast(short, x); }
EDGEC_SHORT __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
EDGEC_SHORT __half __short_as_half(short x) { return __builtin_bit_cast(__half, x); }
EDGEC_SHORT __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
EDGEC_SHORT __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
EDGEC_SHORT __half2 __float22half2_rn(float2 x) { return {(__half)x.x, (__half)x.y}; }
EDGEC_SHORT float2 __half22float2(__half2 x) { return {(float)x.x, (float)x.y}; }
EDGEC_SHORT __half2 __half2half2(__half x) { return {x, x}; }
EDGEC_SHORT __half2 __halves2half2(__half x, __half y) { return {x, y}; }
EDGEC_SHORT __half2 make_half2(__half x, __half y) { return {x, y}; }
EDGEC_SHORT __half __low2half(__half2 x) { return x.x; }
EDGEC_SHORT __half __high2half(__half2 x) { return x.y; }
EDGEC_SHORT float __low2float(__half2 x) { return (float)x.x; }
EDGEC_SHORT float __high2float(__half2 x) { return (float)x.y; }
EDGEC_SHORT __half2 __low2half2(__half2 x) { return {x.x, x.x}; }
EDGEC_SHORT __half2 __high2half2(__half2 x) { return {x.y, x.y}; }
EDGEC_SHORT __half2 __lowhigh2highlow(__half2 x) { return {x.y, x.x}; }
EDGEC_SHORT __half2 __lows2half2(__half2 x, __half2 y) { return {x.x, y.x}; }
EDGEC_SHORT __half2 __highs2half2(__half2 x, __half2 y) { return {x.y, y.y}; }

#if __CUDA_ARCH__ >= 600 || defined(EDGEC_EMULATED)
EDGEC_SHORT __half2 atomicAdd(__half2 *at, __half2 value) {
  return __builtin_bit_cast(__half2, edgec_add_f16x2(at, __builtin_bit_cast(unsigned, value)));
}
#endif
#if __CUDA_ARCH__ >= 700 || defined(EDGEC_EMULATED)
EDGEC_SHORT __half atomicAdd(__half *at, __half value) {
  return __ushort_as_half(edgec_add_f16(at, __half_as_ushort(value)));
}
#endif

#endif
