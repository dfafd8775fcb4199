/* The words of CUDA C++: where functions and variables live, types of several numbers, who a thread is. */
#ifndef EDGEC_CUDA_LANGUAGE_H
#define EDGEC_CUDA_LANGUAGE_H

#ifdef EDGEC_EMULATED
#define EDGEC_ATTRIBUTE(...)
#define __shared__ static
#else
#define EDGEC_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#define __shared__ __attribute__((shared))
#endif

#define __global__ EDGEC_ATTRIBUTE(global)
#define __device__ EDGEC_ATTRIBUTE(device)
#define __host__ EDGEC_ATTRIBUTE(host)
#define __constant__ EDGEC_ATTRIBUTE(constant)
#define __launch_bounds__(...) EDGEC_ATTRIBUTE(launch_bounds(__VA_ARGS__))
#define __grid_constant__ EDGEC_ATTRIBUTE(grid_constant)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif

#define EDGEC_BOTH __host__ __device__
#define EDGEC_HERE static inline __device__
#define EDGEC_SHORT static inline __attribute__((always_inline)) __device__

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

/* Types of one to four numbers, aligned as CUDA aligns them: to their size, of three to one number. */
#define EDGEC_VECTORS(name, type)                                                                 \
  struct name##1 { type x; };                                                                     \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                        \
  struct name##3 { type x, y, z; };                                                               \
  struct alignas(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 { type x, y, z, w; };     \
  EDGEC_BOTH constexpr inline name##1 make_##name##1(type x) { return {x}; }                      \
  EDGEC_BOTH constexpr inline name##2 make_##name##2(type x, type y) { return {x, y}; }           \
  EDGEC_BOTH constexpr inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  EDGEC_BOTH constexpr inline name##4 make_##name##4(type x, type y, type z, type w) {            \
    return {x, y, z, w};                                                                          \
  }
EDGEC_VECTORS(char, signed char)
EDGEC_VECTORS(uchar, unsigned char)
EDGEC_VECTORS(short, short)
EDGEC_VECTORS(ushort, unsigned short)
EDGEC_VECTORS(int, int)
EDGEC_VECTORS(uint, unsigned int)
EDGEC_VECTORS(long, long)
EDGEC_VECTORS(ulong, unsigned long)
EDGEC_VECTORS(longlong, long long)
EDGEC_VECTORS(ulonglong, unsigned long long)
EDGEC_VECTORS(float, float)
EDGEC_VECTORS(double, double)

struct dim3 {
  unsigned int x, y, z;
  EDGEC_BOTH constexpr dim3(unsigned int across = 1, unsigned int down = 1, unsigned int deep = 1)
      : x(across), y(down), z(deep) {}
  EDGEC_BOTH constexpr dim3(uint3 sizes) : x(sizes.x), y(sizes.y), z(sizes.z) {}
  /* Of threadIdx and its like. */
  template <class Told, class = typename Told::edgec_told>
  EDGEC_BOTH dim3(const Told &told) : x(told.x), y(told.y), z(told.z) {}
  EDGEC_BOTH constexpr operator uint3() const { return {x, y, z}; }
};

/* What is asked of the GPU each time it is read. */
#define EDGEC_TOLD(name, register)                                              \
  struct edgec_##name {                                                         \
    typedef void edgec_told;                                                    \
    EDGEC_SHORT unsigned int in_x() { return edgec_told_##register##_x(); }     \
    EDGEC_SHORT unsigned int in_y() { return edgec_told_##register##_y(); }     \
    EDGEC_SHORT unsigned int in_z() { return edgec_told_##register##_z(); }     \
    __declspec(property(get = in_x)) unsigned int x;                            \
    __declspec(property(get = in_y)) unsigned int y;                            \
    __declspec(property(get = in_z)) unsigned int z;                            \
    __device__ operator uint3() const { return {in_x(), in_y(), in_z()}; }      \
  };                                                                            \
  extern const __device__ edgec_##name name;

#endif
