/* What CUDA has and this folder has not, refused by name where it is called. */
#ifndef EDGEC_CUDA_MISSING_H
#define EDGEC_CUDA_MISSING_H

#include "elementary.h"

#define EDGEC_NEEDS(why, name) \
  template <class... T> __device__ void name(T...) = delete("edgec: " why);
#define EDGEC_NEEDS_F64(name)                                                     \
  __device__ double name(double) = delete("edgec: " #name " of f64 is in CUDA's own library alone"); \
  __device__ double name(int) = delete("edgec: " #name " of f64 is in CUDA's own library alone");
#define EDGEC_NEEDS_F64_2(name)                                                                        \
  __device__ double name(double, double) = delete("edgec: " #name " of f64 is in CUDA's own library alone"); \
  __device__ double name(float, double) = delete("edgec: " #name " of f64 is in CUDA's own library alone"); \
  __device__ double name(double, float) = delete("edgec: " #name " of f64 is in CUDA's own library alone");

EDGEC_NEEDS_F64(exp2) EDGEC_NEEDS_F64(exp10) EDGEC_NEEDS_F64(expm1)
EDGEC_NEEDS_F64(log2) EDGEC_NEEDS_F64(log10) EDGEC_NEEDS_F64(log1p)
EDGEC_NEEDS_F64(sin) EDGEC_NEEDS_F64(cos) EDGEC_NEEDS_F64(tan) EDGEC_NEEDS_F64(asin)
EDGEC_NEEDS_F64(acos) EDGEC_NEEDS_F64(atan) EDGEC_NEEDS_F64(sinh) EDGEC_NEEDS_F64(cosh)
EDGEC_NEEDS_F64(tanh) EDGEC_NEEDS_F64(asinh) EDGEC_NEEDS_F64(acosh) EDGEC_NEEDS_F64(atanh)
EDGEC_NEEDS_F64(cbrt) EDGEC_NEEDS_F64(rcbrt) EDGEC_NEEDS_F64(erf) EDGEC_NEEDS_F64(erfc)
EDGEC_NEEDS_F64(erfcx) EDGEC_NEEDS_F64(sinpi) EDGEC_NEEDS_F64(cospi) EDGEC_NEEDS_F64(normcdf)
EDGEC_NEEDS_F64_2(pow) EDGEC_NEEDS_F64_2(atan2) EDGEC_NEEDS_F64_2(hypot)
__device__ double pow(double, int) = delete("edgec: pow of f64 is in CUDA's own library alone");
__device__ void sincos(double, double *, double *) =
    delete("edgec: sincos of f64 is in CUDA's own library alone");

#define EDGEC_IN_CUDA_ALONE(name) EDGEC_NEEDS(#name " is in CUDA's own library alone", name)
EDGEC_IN_CUDA_ALONE(lgammaf) EDGEC_IN_CUDA_ALONE(lgamma) EDGEC_IN_CUDA_ALONE(tgammaf)
EDGEC_IN_CUDA_ALONE(tgamma) EDGEC_IN_CUDA_ALONE(erfinvf) EDGEC_IN_CUDA_ALONE(erfinv)
EDGEC_IN_CUDA_ALONE(erfcinvf) EDGEC_IN_CUDA_ALONE(erfcinv) EDGEC_IN_CUDA_ALONE(normcdfinvf)
EDGEC_IN_CUDA_ALONE(normcdfinv) EDGEC_IN_CUDA_ALONE(cyl_bessel_i0f) EDGEC_IN_CUDA_ALONE(cyl_bessel_i0)
EDGEC_IN_CUDA_ALONE(cyl_bessel_i1f) EDGEC_IN_CUDA_ALONE(cyl_bessel_i1) EDGEC_IN_CUDA_ALONE(j0f)
EDGEC_IN_CUDA_ALONE(j1f) EDGEC_IN_CUDA_ALONE(jnf) EDGEC_IN_CUDA_ALONE(y0f) EDGEC_IN_CUDA_ALONE(y1f)
EDGEC_IN_CUDA_ALONE(ynf) EDGEC_IN_CUDA_ALONE(j0) EDGEC_IN_CUDA_ALONE(j1) EDGEC_IN_CUDA_ALONE(jn)
EDGEC_IN_CUDA_ALONE(y0) EDGEC_IN_CUDA_ALONE(y1) EDGEC_IN_CUDA_ALONE(yn) EDGEC_IN_CUDA_ALONE(normf)
EDGEC_IN_CUDA_ALONE(rnormf) EDGEC_IN_CUDA_ALONE(norm) EDGEC_IN_CUDA_ALONE(rnorm)
EDGEC_IN_CUDA_ALONE(malloc) EDGEC_IN_CUDA_ALONE(free)

#ifndef EDGEC_EMULATED
#if __CUDA_ARCH__ < 600
__device__ double atomicAdd(double *, double) = delete("edgec: atomicAdd of f64 needs compute capability 6.0");
#endif
#if __CUDA_ARCH__ < 700
EDGEC_NEEDS("__match_any_sync needs compute capability 7.0", __match_any_sync)
EDGEC_NEEDS("__match_all_sync needs compute capability 7.0", __match_all_sync)
EDGEC_NEEDS("__nanosleep needs compute capability 7.0", __nanosleep)
#endif
#if __CUDA_ARCH__ < 750
EDGEC_NEEDS("__tanhf needs compute capability 7.5", __tanhf)
#endif
#if __CUDA_ARCH__ < 800
EDGEC_NEEDS("__reduce_add_sync needs compute capability 8.0", __reduce_add_sync)
EDGEC_NEEDS("__reduce_min_sync needs compute capability 8.0", __reduce_min_sync)
EDGEC_NEEDS("__reduce_max_sync needs compute capability 8.0", __reduce_max_sync)
EDGEC_NEEDS("__reduce_and_sync needs compute capability 8.0", __reduce_and_sync)
EDGEC_NEEDS("__reduce_or_sync needs compute capability 8.0", __reduce_or_sync)
EDGEC_NEEDS("__reduce_xor_sync needs compute capability 8.0", __reduce_xor_sync)
#endif
#endif

#endif
