/* What a kernel in C needs of an NVIDIA GPU: who a thread is, copies, barriers, matrix units.
 *
 * A kernel is written as `KERNEL(NAME, PARAMETERS) { ... }`, where parameters are the pointers and
 * integers of a call; those that are compiled in are macros of the same names. EDGEC_EMULATED stands
 * for the same on a processor, thread by thread, for tests without a GPU.
 */
#ifndef EDGEC_GPU_H
#define EDGEC_GPU_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef struct { float x, y; } pair;
typedef struct __attribute__((aligned(16))) { float x, y, z, w; } four;

#define WARP 32
#define UNROLLED _Pragma("unroll")
#define ALWAYS static inline __attribute__((always_inline))

#ifdef EDGEC_EMULATED
#include "emulated.h"
#else

#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))
#define ROOM(type) (*(SHARED type *)edgec_room)

extern SHARED __attribute__((aligned(16))) char edgec_room[];

/* Who a thread is, by a register that tells it. */
#define TOLD_BY(name, where)                         \
  ALWAYS u32 name(void) {                            \
    u32 value;                                       \
    __asm__("mov.u32 %0, %%" where ";" : "=r"(value)); \
    return value;                                    \
  }
TOLD_BY(thread, "tid.x")
TOLD_BY(group_x, "ctaid.x")
TOLD_BY(group_y, "ctaid.y")
TOLD_BY(group_z, "ctaid.z")
TOLD_BY(groups_y, "nctaid.y")
TOLD_BY(groups_x, "nctaid.x")

/* All threads of a group have come here, and see what the others wrote. */
ALWAYS void meet(void) { __asm__ volatile("bar.sync 0;" ::: "memory"); }

/* The same of a warp. */
ALWAYS void meet_in_warp(void) { __asm__ volatile("bar.warp.sync -1;" ::: "memory"); }

/* What is read before this is asked for before what comes after it is done. */
ALWAYS void all_on_their_way(void) { __asm__ volatile("" ::: "memory"); }

/* Lets the next kernel begin (from compute capability 9.0 on). */
ALWAYS void let_next_begin(void) { __asm__ volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/* Waits until the kernels before this have ended, and what they wrote is there. */
ALWAYS void wait_for_earlier(void) { __asm__ volatile("griddepcontrol.wait;" ::: "memory"); }

/* 16, 8 or 4 bytes on their way from memory; both places are multiples of as many. */
ALWAYS void copy(SHARED void *to, const GLOBAL void *from, u32 bytes) {
  u32 at = (u32)(u64)to;
  if (bytes == 16)
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else if (bytes == 8)
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from) : "memory");
  else
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}

/* What was put on its way since the last call of this belongs together. */
ALWAYS void copies_end(void) { __asm__ volatile("cp.async.commit_group;" ::: "memory"); }

/* Until no more than the last so many (0 to 6) that belong together are on their way. */
#define WAIT_BUT(n) \
  if (but_last == n) __asm__ volatile("cp.async.wait_group " #n ";" ::: "memory")
ALWAYS void wait_for_copies(int but_last) {
  WAIT_BUT(0);
  WAIT_BUT(1);
  WAIT_BUT(2);
  WAIT_BUT(3);
  WAIT_BUT(4);
  WAIT_BUT(5);
  WAIT_BUT(6);
}

/* What lies there is on its way to where all kernels find it sooner; it is not read. */
ALWAYS void expect(const GLOBAL void *at) {
  __asm__ volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

ALWAYS float other_lanes(float value, u32 across) {
  float other;
  __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(other) : "f"(value), "r"(across));
  return other;
}

/* The least, or the largest, that any lane of a warp has. */
ALWAYS u32 least_of_lanes(u32 value) {
  u32 least;
  __asm__ volatile("redux.sync.min.u32 %0, %1, -1;" : "=r"(least) : "r"(value));
  return least;
}

ALWAYS u32 most_of_lanes(u32 value) {
  u32 most;
  __asm__ volatile("redux.sync.max.u32 %0, %1, -1;" : "=r"(most) : "r"(value));
  return most;
}

/* Adds 1 to a counter, and gives what it was: who has a later number sees what was written by those
 * who have an earlier one. */
ALWAYS u32 take_number(GLOBAL int *counter) {
  u32 number;
  __asm__ volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(number) : "l"(counter) : "memory");
  return number;
}

/* Groups that run together (from compute capability 9.0 on) write to the memory of one another, the
 * same structure in each: which of them this is, that all have come here, and that they have and
 * what they wrote before is there. */
TOLD_BY(rank_in_cluster, "cluster_ctarank")

ALWAYS void arrive_in_cluster(void) {
  __asm__ volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

ALWAYS void wait_for_cluster(void) {
  __asm__ volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Writes where the first group of a cluster has what is here at `to`. */
ALWAYS void write_to_first(SHARED float *to, float value) {
  u32 there;
  __asm__ volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"((u32)(u64)to));
  __asm__ volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}

/* Two matrices of 8 rows of 16 bytes, whose rows the lanes 0 to 7 and 8 to 15 name: lane i has word
 * i % 4 of row i / 4 of each. */
ALWAYS void load_matrices_2(u32 found[2], const SHARED void *row) {
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                   : "=r"(found[0]), "=r"(found[1]) : "r"((u32)(u64)row));
}

/* Four, by all lanes. */
ALWAYS void load_matrices_4(u32 found[4], const SHARED void *row) {
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
                   : "r"((u32)(u64)row));
}

/* 16 rows of 32 bytes by 8 columns of as many signed ones, exactly. */
ALWAYS void multiply_32(int sums[4], const u32 a[4], const u32 b[2], const int c[4], int is_signed) {
  if (is_signed)
    __asm__("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
            : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]),
              "r"(c[2]), "r"(c[3]));
  else
    __asm__("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
            : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]),
              "r"(c[2]), "r"(c[3]));
}

/* 16 rows of 16 bytes by 8 columns. */
ALWAYS void multiply_16(int sums[4], const u32 a[2], u32 b) {
  __asm__("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
          : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
          : "r"(a[0]), "r"(a[1]), "r"(b), "r"(0));
}

/* Bytes of two words, each by its number. */
ALWAYS u32 bytes_of(u32 low, u32 high, u32 which) {
  u32 value;
  __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(value) : "r"(low), "r"(high), "r"(which));
  return value;
}

ALWAYS int to_nearest(float value) {
  int whole;
  __asm__("cvt.rni.s32.f32 %0, %1;" : "=r"(whole) : "f"(value));
  return whole;
}

ALWAYS float power_of_2(float value) {
  float power;
  __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
  return power;
}

/* 1 / sqrt(value), to 2 units in the last place. */
ALWAYS float one_by_root(float value) {
  float root;
  __asm__("rsqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
  return root;
}

#endif /* EDGEC_EMULATED */

ALWAYS u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
ALWAYS float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
ALWAYS float larger(float a, float b) { return __builtin_fmaxf(a, b); }
ALWAYS float smaller(float a, float b) { return __builtin_fminf(a, b); }
ALWAYS float exponential(float value) { return power_of_2(value * 1.4426950408889634f); }

#endif /* EDGEC_GPU_H */
