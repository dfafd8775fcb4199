#ifndef EDGEC_CUDA_BF16_H
#define EDGEC_CUDA_BF16_H

#include "narrow.h"

typedef __bf16 __nv_bfloat16;
typedef __nv_bfloat16 nv_bfloat16;
EDGEC_SHORT __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
#if __CUDA_ARCH__ >= 800
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(a) : "h"(a), "h"(b), "h"(c));
  return a;
#else
  return (__nv_bfloat16)((double)(float)a * (float)b + (float)c);
#endif
}
EDGEC_NARROW(__nv_bfloat16, __nv_bfloat162, edgec_bfloats)
typedef __nv_bfloat162 nv_bfloat162;

EDGEC_SHORT __nv_bfloat16 __float2bfloat16(float x) { return (__nv_bfloat16)x; }
EDGEC_SHORT __nv_bfloat16 __float2bfloat16_rn(float x) { return (__nv_bfloat16)x; }
EDGEC_SHORT float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
EDGEC_SHORT __nv_bfloat16 __int2bfloat16_rn(int x) { return (__nv_bfloat16)x; }
EDGEC_SHORT int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn((float)x); }
EDGEC_SHORT int __bfloat162int_rz(__nv_bfloat16 x) { return __float2int_rz((float)x); }
EDGEC_SHORT unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return __builtin_bit_cast(unsigned short, x); }
EDGEC_SHORT short __bfloat16_as_short(__nv_bfloat16 x) { return __builtin_bit_cast(short, x); }
EDGEC_SHORT __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __builtin_bit_cast(__nv_bfloat16, x); }
EDGEC_SHORT __nv_bfloat16 __short_as_bfloat16(short x) { return __builtin_bit_cast(__nv_bfloat16, x); }
EDGEC_SHORT __nv_bfloat162 __float2bfloat162_rn(float x) { return {(__nv_bfloat16)x, (__nv_bfloat16)x}; }
EDGEC_SHORT __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {(__nv_bfloat16)x, (__nv_bfloat16)y};
}
EDGEC_SHORT __nv_bfloat162 __float22bfloat162_rn(float2 x) { return {(__nv_bfloat16)x.x, (__nv_bfloat16)x.y}; }
EDGEC_SHORT float2 __bfloat1622float2(__nv_bfloat162 x) { return {(float)x.x, (float)x.y}; }
EDGEC_SHORT __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
EDGEC_SHORT __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
EDGEC_SHORT __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
EDGEC_SHORT __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) { return x.x; }
EDGEC_SHORT __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) { return x.y; }
EDGEC_SHORT float __low2float(__nv_bfloat162 x) { return (float)x.x; }
EDGEC_SHORT float __high2float(__nv_bfloat162 x) { return (float)x.y; }

#if __CUDA_ARCH__ >= 900 || defined(EDGEC_EMULATED)
EDGEC_SHORT __nv_bfloat16 atomicAdd(__nv_bfloat16 *at, __nv_bfloat16 value) {
  return __ushort_as_bfloat16(edgec_add_bf16(at, __bfloat16_as_ushort(value)));
}
EDGEC_SHORT __nv_bfloat162 atomicAdd(__nv_bfloat162 *at, __nv_bfloat162 value) {
  return __builtin_bit_cast(__nv_bfloat162, edgec_add_bf16x2(at, __builtin_bit_cast(unsigned, value)));
}
#endif

#endif
