/* The instructions of an NVIDIA GPU that C++ has no words for.
 *
 * Nothing else of this folder is PTX: EDGEC_EMULATED stands for the same on a processor, for tests
 * without a GPU.
 */
#ifndef EDGEC_CUDA_DEVICE_H
#define EDGEC_CUDA_DEVICE_H

#include "language.h"

#ifdef EDGEC_EMULATED
#include "emulated_device.h"
#else

#define EDGEC_REGISTER(name, type, text)     \
  EDGEC_SHORT type name() {                  \
    type value;                              \
    asm("mov.u32 %0, " text ";" : "=r"(value)); \
    return value;                            \
  }
EDGEC_REGISTER(edgec_told_tid_x, unsigned, "%%tid.x")
EDGEC_REGISTER(edgec_told_tid_y, unsigned, "%%tid.y")
EDGEC_REGISTER(edgec_told_tid_z, unsigned, "%%tid.z")
EDGEC_REGISTER(edgec_told_ntid_x, unsigned, "%%ntid.x")
EDGEC_REGISTER(edgec_told_ntid_y, unsigned, "%%ntid.y")
EDGEC_REGISTER(edgec_told_ntid_z, unsigned, "%%ntid.z")
EDGEC_REGISTER(edgec_told_ctaid_x, unsigned, "%%ctaid.x")
EDGEC_REGISTER(edgec_told_ctaid_y, unsigned, "%%ctaid.y")
EDGEC_REGISTER(edgec_told_ctaid_z, unsigned, "%%ctaid.z")
EDGEC_REGISTER(edgec_told_nctaid_x, unsigned, "%%nctaid.x")
EDGEC_REGISTER(edgec_told_nctaid_y, unsigned, "%%nctaid.y")
EDGEC_REGISTER(edgec_told_nctaid_z, unsigned, "%%nctaid.z")

/* Instructions of one to three operands of one type, by the letters of their registers. */
#define EDGEC_OF_1(name, to, from, text, out, in)       \
  EDGEC_SHORT to name(from a) {                         \
    to value;                                           \
    asm(text " %0, %1;" : "=" out(value) : in(a));      \
    return value;                                       \
  }
#define EDGEC_OF_2(name, type, text, letter)                                \
  EDGEC_SHORT type name(type a, type b) {                                   \
    type value;                                                             \
    asm(text " %0, %1, %2;" : "=" letter(value) : letter(a), letter(b));    \
    return value;                                                           \
  }
#define EDGEC_OF_3(name, type, text, letter)                                                \
  EDGEC_SHORT type name(type a, type b, type c) {                                           \
    type value;                                                                             \
    asm(text " %0, %1, %2, %3;" : "=" letter(value) : letter(a), letter(b), letter(c));     \
    return value;                                                                           \
  }

/* All threads of a block have come here, and see what the others wrote (so does clang's own
 * __syncthreads); how many of them have a condition, whether all or any. */
EDGEC_SHORT int __syncthreads_count(int condition) {
  int count;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }"
               : "=r"(count) : "r"(condition) : "memory");
  return count;
}
EDGEC_SHORT int __syncthreads_and(int condition) {
  int all;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, 0, p; selp.s32 %0, 1, 0, q; }"
               : "=r"(all) : "r"(condition) : "memory");
  return all;
}
EDGEC_SHORT int __syncthreads_or(int condition) {
  int any;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.or.pred q, 0, p; selp.s32 %0, 1, 0, q; }"
               : "=r"(any) : "r"(condition) : "memory");
  return any;
}
EDGEC_SHORT void __syncwarp(unsigned lanes = 0xFFFFFFFFu) {
  asm volatile("bar.warp.sync %0;" ::"r"(lanes) : "memory");
}
EDGEC_SHORT void __threadfence() { asm volatile("membar.gl;" ::: "memory"); }
EDGEC_SHORT void __threadfence_block() { asm volatile("membar.cta;" ::: "memory"); }
EDGEC_SHORT void __threadfence_system() { asm volatile("membar.sys;" ::: "memory"); }

/* A word of another lane. */
#define EDGEC_SHUFFLE(name, text)                                                                 \
  EDGEC_SHORT unsigned name(unsigned lanes, unsigned word, unsigned which, unsigned limit) {      \
    unsigned found;                                                                               \
    asm volatile("shfl.sync." text ".b32 %0, %1, %2, %3, %4;"                                     \
                 : "=r"(found) : "r"(word), "r"(which), "r"(limit), "r"(lanes) : "memory");       \
    return found;                                                                                 \
  }
EDGEC_SHUFFLE(edgec_of_lane, "idx")
EDGEC_SHUFFLE(edgec_of_lane_before, "up")
EDGEC_SHUFFLE(edgec_of_lane_behind, "down")
EDGEC_SHUFFLE(edgec_of_lane_across, "bfly")

EDGEC_SHORT unsigned __ballot_sync(unsigned lanes, int condition) {
  unsigned found;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
               : "=r"(found) : "r"(condition), "r"(lanes) : "memory");
  return found;
}
EDGEC_SHORT unsigned __activemask() {
  unsigned found;
  asm volatile("activemask.b32 %0;" : "=r"(found) :: "memory");
  return found;
}

#if __CUDA_ARCH__ >= 700
EDGEC_SHORT unsigned edgec_lanes_alike(unsigned lanes, unsigned word) {
  unsigned found;
  asm volatile("match.any.sync.b32 %0, %1, %2;" : "=r"(found) : "r"(word), "r"(lanes) : "memory");
  return found;
}
EDGEC_SHORT unsigned edgec_lanes_alike(unsigned lanes, unsigned long long word) {
  unsigned found;
  asm volatile("match.any.sync.b64 %0, %1, %2;" : "=r"(found) : "l"(word), "r"(lanes) : "memory");
  return found;
}
EDGEC_SHORT void __nanosleep(unsigned time) { asm volatile("nanosleep.u32 %0;" ::"r"(time)); }
#endif

#if __CUDA_ARCH__ >= 800
#define EDGEC_OVER_LANES(name, type, text)                                                           \
  EDGEC_SHORT type name(unsigned lanes, type value) {                                                \
    type found;                                                                                      \
    asm volatile("redux.sync." text " %0, %1, %2;" : "=r"(found) : "r"(value), "r"(lanes) : "memory"); \
    return found;                                                                                    \
  }
EDGEC_OVER_LANES(__reduce_add_sync, unsigned, "add.u32")
EDGEC_OVER_LANES(__reduce_add_sync, int, "add.s32")
EDGEC_OVER_LANES(__reduce_min_sync, unsigned, "min.u32")
EDGEC_OVER_LANES(__reduce_min_sync, int, "min.s32")
EDGEC_OVER_LANES(__reduce_max_sync, unsigned, "max.u32")
EDGEC_OVER_LANES(__reduce_max_sync, int, "max.s32")
EDGEC_OVER_LANES(__reduce_and_sync, unsigned, "and.b32")
EDGEC_OVER_LANES(__reduce_or_sync, unsigned, "or.b32")
EDGEC_OVER_LANES(__reduce_xor_sync, unsigned, "xor.b32")
#endif

/* Puts a value where a certain one is; what was there. */
#define EDGEC_EXCHANGE(type, bits, text, letter)                                               \
  EDGEC_SHORT type edgec_put_if(type *at, type expected, type value) {                         \
    type found;                                                                                \
    asm volatile("atom." text " %0, [%1], %2, %3;"                                             \
                 : "=" letter(found) : "l"(at), letter(expected), letter(value) : "memory");   \
    return found;                                                                              \
  }
EDGEC_EXCHANGE(unsigned, 32, "cas.b32", "r")
EDGEC_EXCHANGE(unsigned long long, 64, "cas.b64", "l")
#if __CUDA_ARCH__ >= 700
EDGEC_EXCHANGE(unsigned short, 16, "cas.b16", "h")
#endif

/* Counts up to a limit and begins again, or down; what was there. */
EDGEC_SHORT unsigned atomicInc(unsigned *at, unsigned limit) {
  unsigned found;
  asm volatile("atom.inc.u32 %0, [%1], %2;" : "=r"(found) : "l"(at), "r"(limit) : "memory");
  return found;
}
EDGEC_SHORT unsigned atomicDec(unsigned *at, unsigned limit) {
  unsigned found;
  asm volatile("atom.dec.u32 %0, [%1], %2;" : "=r"(found) : "l"(at), "r"(limit) : "memory");
  return found;
}

/* Adds narrow numbers, from the compute capability on that has the instruction. */
#define EDGEC_NARROW_SUM(name, bits, text, letter)                                                   \
  EDGEC_SHORT bits name(void *at, bits value) {                                                      \
    bits found;                                                                                      \
    asm volatile("atom.add.noftz." text " %0, [%1], %2;"                                             \
                 : "=" letter(found) : "l"(at), letter(value) : "memory");                           \
    return found;                                                                                    \
  }
#if __CUDA_ARCH__ >= 600
EDGEC_NARROW_SUM(edgec_add_f16x2, unsigned, "f16x2", "r")
#endif
#if __CUDA_ARCH__ >= 700
EDGEC_NARROW_SUM(edgec_add_f16, unsigned short, "f16", "h")
#endif
#if __CUDA_ARCH__ >= 900
EDGEC_NARROW_SUM(edgec_add_bf16, unsigned short, "bf16", "h")
EDGEC_NARROW_SUM(edgec_add_bf16x2, unsigned, "bf16x2", "r")
#endif

/* Loads and stores that say how long what they touch should be kept, by their size. */
#define EDGEC_LOAD(name, text, ...)                                                                  \
  template <class T> EDGEC_SHORT T name(const T *at) {                                               \
    T value;                                                                                         \
    if constexpr (sizeof(T) == 16)                                                                   \
      asm __VA_ARGS__("{ .reg .b64 p; cvta.to.global.u64 p, %4; ld.global." text ".v4.b32 {%0, %1, %2, %3}, [p]; }" \
          : "=r"(((unsigned *)&value)[0]), "=r"(((unsigned *)&value)[1]),                            \
            "=r"(((unsigned *)&value)[2]), "=r"(((unsigned *)&value)[3]) : "l"(at));                 \
    else if constexpr (sizeof(T) == 8)                                                               \
      asm __VA_ARGS__("{ .reg .b64 p; cvta.to.global.u64 p, %1; ld.global." text ".b64 %0, [p]; }"   \
          : "=l"(*(unsigned long long *)&value) : "l"(at));                                          \
    else if constexpr (sizeof(T) == 4)                                                               \
      asm __VA_ARGS__("{ .reg .b64 p; cvta.to.global.u64 p, %1; ld.global." text ".b32 %0, [p]; }"   \
          : "=r"(*(unsigned *)&value) : "l"(at));                                                    \
    else if constexpr (sizeof(T) == 2)                                                               \
      asm __VA_ARGS__("{ .reg .b64 p; cvta.to.global.u64 p, %1; ld.global." text ".b16 %0, [p]; }"   \
          : "=h"(*(unsigned short *)&value) : "l"(at));                                              \
    else {                                                                                           \
      static_assert(sizeof(T) == 1, #name " reads 1, 2, 4, 8 or 16 bytes");                          \
      unsigned short byte;                                                                           \
      asm __VA_ARGS__("{ .reg .b64 p; cvta.to.global.u64 p, %1; ld.global." text ".u8 %0, [p]; }"    \
          : "=h"(byte) : "l"(at));                                                                   \
      *(unsigned char *)&value = (unsigned char)byte;                                                \
    }                                                                                                \
    return value;                                                                                    \
  }
EDGEC_LOAD(__ldg, "nc")
EDGEC_LOAD(__ldcg, "cg", volatile)
EDGEC_LOAD(__ldca, "ca", volatile)
EDGEC_LOAD(__ldcs, "cs", volatile)
EDGEC_LOAD(__ldlu, "lu", volatile)
EDGEC_LOAD(__ldcv, "cv", volatile)

#define EDGEC_STORE(name, text)                                                                      \
  template <class T> EDGEC_SHORT void name(T *at, T value) {                                         \
    if constexpr (sizeof(T) == 16)                                                                   \
      asm volatile("{ .reg .b64 p; cvta.to.global.u64 p, %0; st.global." text ".v4.b32 [p], {%1, %2, %3, %4}; }" \
                   ::"l"(at), "r"(((unsigned *)&value)[0]), "r"(((unsigned *)&value)[1]),            \
                   "r"(((unsigned *)&value)[2]), "r"(((unsigned *)&value)[3]) : "memory");           \
    else if constexpr (sizeof(T) == 8)                                                               \
      asm volatile("{ .reg .b64 p; cvta.to.global.u64 p, %0; st.global." text ".b64 [p], %1; }"      \
                   ::"l"(at), "l"(*(unsigned long long *)&value) : "memory");                        \
    else if constexpr (sizeof(T) == 4)                                                               \
      asm volatile("{ .reg .b64 p; cvta.to.global.u64 p, %0; st.global." text ".b32 [p], %1; }"      \
                   ::"l"(at), "r"(*(unsigned *)&value) : "memory");                                  \
    else if constexpr (sizeof(T) == 2)                                                               \
      asm volatile("{ .reg .b64 p; cvta.to.global.u64 p, %0; st.global." text ".b16 [p], %1; }"      \
                   ::"l"(at), "h"(*(unsigned short *)&value) : "memory");                            \
    else {                                                                                           \
      static_assert(sizeof(T) == 1, #name " writes 1, 2, 4, 8 or 16 bytes");                         \
      asm volatile("{ .reg .b64 p; cvta.to.global.u64 p, %0; st.global." text ".u8 [p], %1; }"       \
                   ::"l"(at), "h"((unsigned short)*(unsigned char *)&value) : "memory");             \
    }                                                                                                \
  }
EDGEC_STORE(__stwb, "wb")
EDGEC_STORE(__stcg, "cg")
EDGEC_STORE(__stcs, "cs")
EDGEC_STORE(__stwt, "wt")

/* Where shared memory has what a pointer points to, as instructions in PTX take it. */
EDGEC_SHORT size_t __cvta_generic_to_shared(const void *at) {
  size_t there;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(there) : "l"(at));
  return there;
}

EDGEC_SHORT long long clock64() {
  long long time;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(time) :: "memory");
  return time;
}
EDGEC_SHORT int clock() {
  int time;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(time) :: "memory");
  return time;
}
EDGEC_SHORT void __trap() { asm volatile("trap;"); }

/* Calls that the driver answers. */
template <class... T> EDGEC_SHORT int printf(const char *format, T... values) {
  return __builtin_printf(format, values...);
}
extern "C" __device__ __attribute__((noreturn)) void __assertfail(
    const char *, const char *, unsigned, const char *, size_t);
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
  ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char)))
#endif

#endif /* EDGEC_EMULATED */

/* To nearest, to zero, up and down: of f32 and f64. */
#define EDGEC_ROUNDED(of, prefix, type, kind, letter)                              \
  of(__##prefix##add_rn, type, "add.rn." kind, letter)                             \
  of(__##prefix##add_rz, type, "add.rz." kind, letter)                             \
  of(__##prefix##add_ru, type, "add.rp." kind, letter)                             \
  of(__##prefix##add_rd, type, "add.rm." kind, letter)                             \
  of(__##prefix##sub_rn, type, "sub.rn." kind, letter)                             \
  of(__##prefix##sub_rz, type, "sub.rz." kind, letter)                             \
  of(__##prefix##sub_ru, type, "sub.rp." kind, letter)                             \
  of(__##prefix##sub_rd, type, "sub.rm." kind, letter)                             \
  of(__##prefix##mul_rn, type, "mul.rn." kind, letter)                             \
  of(__##prefix##mul_rz, type, "mul.rz." kind, letter)                             \
  of(__##prefix##mul_ru, type, "mul.rp." kind, letter)                             \
  of(__##prefix##mul_rd, type, "mul.rm." kind, letter)                             \
  of(__##prefix##div_rn, type, "div.rn." kind, letter)                             \
  of(__##prefix##div_rz, type, "div.rz." kind, letter)                             \
  of(__##prefix##div_ru, type, "div.rp." kind, letter)                             \
  of(__##prefix##div_rd, type, "div.rm." kind, letter)
EDGEC_ROUNDED(EDGEC_OF_2, f, float, "f32", "f")
EDGEC_ROUNDED(EDGEC_OF_2, d, double, "f64", "d")
#define EDGEC_ROUNDED_1(prefix, type, kind, letter)                                \
  EDGEC_OF_1(__##prefix##rcp_rn, type, type, "rcp.rn." kind, letter, letter)       \
  EDGEC_OF_1(__##prefix##rcp_rz, type, type, "rcp.rz." kind, letter, letter)       \
  EDGEC_OF_1(__##prefix##rcp_ru, type, type, "rcp.rp." kind, letter, letter)       \
  EDGEC_OF_1(__##prefix##rcp_rd, type, type, "rcp.rm." kind, letter, letter)       \
  EDGEC_OF_1(__##prefix##sqrt_rn, type, type, "sqrt.rn." kind, letter, letter)     \
  EDGEC_OF_1(__##prefix##sqrt_rz, type, type, "sqrt.rz." kind, letter, letter)     \
  EDGEC_OF_1(__##prefix##sqrt_ru, type, type, "sqrt.rp." kind, letter, letter)     \
  EDGEC_OF_1(__##prefix##sqrt_rd, type, type, "sqrt.rm." kind, letter, letter)
EDGEC_ROUNDED_1(f, float, "f32", "f")
EDGEC_ROUNDED_1(d, double, "f64", "d")
#define EDGEC_FUSED(name, type, kind, letter)              \
  EDGEC_OF_3(name##_rn, type, "fma.rn." kind, letter)      \
  EDGEC_OF_3(name##_rz, type, "fma.rz." kind, letter)      \
  EDGEC_OF_3(name##_ru, type, "fma.rp." kind, letter)      \
  EDGEC_OF_3(name##_rd, type, "fma.rm." kind, letter)
EDGEC_FUSED(__fmaf, float, "f32", "f")
EDGEC_FUSED(__fma, double, "f64", "d")

#define EDGEC_TO_WHOLE(name, to, from, kinds, out, in)                     \
  EDGEC_OF_1(name##_rn, to, from, "cvt.rni." kinds, out, in)               \
  EDGEC_OF_1(name##_rz, to, from, "cvt.rzi." kinds, out, in)               \
  EDGEC_OF_1(name##_ru, to, from, "cvt.rpi." kinds, out, in)               \
  EDGEC_OF_1(name##_rd, to, from, "cvt.rmi." kinds, out, in)
EDGEC_TO_WHOLE(__float2int, int, float, "s32.f32", "r", "f")
EDGEC_TO_WHOLE(__float2uint, unsigned, float, "u32.f32", "r", "f")
EDGEC_TO_WHOLE(__float2ll, long long, float, "s64.f32", "l", "f")
EDGEC_TO_WHOLE(__float2ull, unsigned long long, float, "u64.f32", "l", "f")
EDGEC_TO_WHOLE(__double2int, int, double, "s32.f64", "r", "d")
EDGEC_TO_WHOLE(__double2uint, unsigned, double, "u32.f64", "r", "d")
EDGEC_TO_WHOLE(__double2ll, long long, double, "s64.f64", "l", "d")
EDGEC_TO_WHOLE(__double2ull, unsigned long long, double, "u64.f64", "l", "d")

#define EDGEC_FROM(name, to, from, kinds, out, in)                         \
  EDGEC_OF_1(name##_rn, to, from, "cvt.rn." kinds, out, in)                \
  EDGEC_OF_1(name##_rz, to, from, "cvt.rz." kinds, out, in)                \
  EDGEC_OF_1(name##_ru, to, from, "cvt.rp." kinds, out, in)                \
  EDGEC_OF_1(name##_rd, to, from, "cvt.rm." kinds, out, in)
EDGEC_FROM(__int2float, float, int, "f32.s32", "f", "r")
EDGEC_FROM(__uint2float, float, unsigned, "f32.u32", "f", "r")
EDGEC_FROM(__ll2float, float, long long, "f32.s64", "f", "l")
EDGEC_FROM(__ull2float, float, unsigned long long, "f32.u64", "f", "l")
EDGEC_FROM(__double2float, float, double, "f32.f64", "f", "d")
EDGEC_FROM(__ll2double, double, long long, "f64.s64", "d", "l")
EDGEC_FROM(__ull2double, double, unsigned long long, "f64.u64", "d", "l")
EDGEC_SHORT double __int2double_rn(int whole) { return whole; }
EDGEC_SHORT double __uint2double_rn(unsigned whole) { return whole; }

/* What a GPU's own tables give. */
EDGEC_OF_1(edgec_near_power_of_2, float, float, "ex2.approx.f32", "f", "f")
EDGEC_OF_1(edgec_near_log2, float, float, "lg2.approx.f32", "f", "f")
EDGEC_OF_1(edgec_near_sine, float, float, "sin.approx.f32", "f", "f")
EDGEC_OF_1(edgec_near_cosine, float, float, "cos.approx.f32", "f", "f")
EDGEC_OF_1(edgec_near_reciprocal_root, float, float, "rsqrt.approx.f32", "f", "f")
EDGEC_OF_2(edgec_near_quotient, float, "div.approx.f32", "f")
#if __CUDA_ARCH__ >= 750 || defined(EDGEC_EMULATED)
EDGEC_OF_1(edgec_near_tanh, float, float, "tanh.approx.f32", "f", "f")
#endif

EDGEC_TOLD(threadIdx, tid)
EDGEC_TOLD(blockIdx, ctaid)
EDGEC_TOLD(blockDim, ntid)
EDGEC_TOLD(gridDim, nctaid)
constexpr int warpSize = 32;

#endif
