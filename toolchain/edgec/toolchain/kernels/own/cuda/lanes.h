/* What lanes of a warp give each other, and what threads do to numbers that others change, too. */
#ifndef EDGEC_CUDA_LANES_H
#define EDGEC_CUDA_LANES_H

#include "device.h"

#define EDGEC_BETWEEN_LANES(name, word, last)                                                       \
  template <class T> EDGEC_SHORT T name(unsigned lanes, T value, unsigned which, int width = 32) {  \
    static_assert(sizeof(T) <= 8, #name " gives numbers of 1, 2, 4 or 8 bytes");                    \
    unsigned limit = (unsigned)(32 - width) << 8 | last;                                            \
    if constexpr (sizeof(T) == 8) {                                                                 \
      uint2 words = __builtin_bit_cast(uint2, value);                                               \
      words.x = word(lanes, words.x, which, limit);                                                 \
      words.y = word(lanes, words.y, which, limit);                                                 \
      return __builtin_bit_cast(T, words);                                                          \
    } else {                                                                                        \
      unsigned bits = 0;                                                                            \
      __builtin_memcpy(&bits, &value, sizeof(T));                                                   \
      bits = word(lanes, bits, which, limit);                                                       \
      __builtin_memcpy(&value, &bits, sizeof(T));                                                   \
      return value;                                                                                 \
    }                                                                                               \
  }
EDGEC_BETWEEN_LANES(__shfl_sync, edgec_of_lane, 31)
EDGEC_BETWEEN_LANES(__shfl_up_sync, edgec_of_lane_before, 0)
EDGEC_BETWEEN_LANES(__shfl_down_sync, edgec_of_lane_behind, 31)
EDGEC_BETWEEN_LANES(__shfl_xor_sync, edgec_of_lane_across, 31)

EDGEC_SHORT int __any_sync(unsigned lanes, int condition) {
  return __ballot_sync(lanes, condition) != 0;
}
EDGEC_SHORT int __all_sync(unsigned lanes, int condition) {
  return __ballot_sync(lanes, !condition) == 0;
}
#if __CUDA_ARCH__ >= 700 || defined(EDGEC_EMULATED)
template <class T> EDGEC_SHORT unsigned __match_any_sync(unsigned lanes, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_any_sync compares 4 or 8 bytes");
  if constexpr (sizeof(T) == 8)
    return edgec_lanes_alike(lanes, __builtin_bit_cast(unsigned long long, value));
  else
    return edgec_lanes_alike(lanes, __builtin_bit_cast(unsigned, value));
}
template <class T> EDGEC_SHORT unsigned __match_all_sync(unsigned lanes, T value, int *all) {
  *all = __all_sync(lanes, __match_any_sync(lanes, value) == lanes);
  return *all ? lanes : 0;
}
#endif

/* What was there, and there is the sum, the lesser ... of it and a value. In no order with what else
 * a thread reads or writes. */
#define EDGEC_ATOMIC(name, how, type)                                                       \
  EDGEC_SHORT type name(type *at, type value) {                                             \
    return how(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                         \
  }                                                                                         \
  EDGEC_SHORT type name##_block(type *at, type value) {                                     \
    return how(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                         \
  }
EDGEC_ATOMIC(atomicAdd, __scoped_atomic_fetch_add, int)
EDGEC_ATOMIC(atomicAdd, __scoped_atomic_fetch_add, unsigned)
EDGEC_ATOMIC(atomicAdd, __scoped_atomic_fetch_add, unsigned long long)
EDGEC_ATOMIC(atomicAdd, __scoped_atomic_fetch_add, float)
#if __CUDA_ARCH__ >= 600 || defined(EDGEC_EMULATED)
EDGEC_ATOMIC(atomicAdd, __scoped_atomic_fetch_add, double)
#endif
EDGEC_ATOMIC(atomicSub, __scoped_atomic_fetch_sub, int)
EDGEC_ATOMIC(atomicSub, __scoped_atomic_fetch_sub, unsigned)
#define EDGEC_ATOMIC_WHOLE(name, how)        \
  EDGEC_ATOMIC(name, how, int)               \
  EDGEC_ATOMIC(name, how, unsigned)          \
  EDGEC_ATOMIC(name, how, unsigned long long)
EDGEC_ATOMIC_WHOLE(atomicMin, __scoped_atomic_fetch_min)
EDGEC_ATOMIC_WHOLE(atomicMax, __scoped_atomic_fetch_max)
EDGEC_ATOMIC(atomicMin, __scoped_atomic_fetch_min, long long)
EDGEC_ATOMIC(atomicMax, __scoped_atomic_fetch_max, long long)
EDGEC_ATOMIC_WHOLE(atomicAnd, __scoped_atomic_fetch_and)
EDGEC_ATOMIC_WHOLE(atomicOr, __scoped_atomic_fetch_or)
EDGEC_ATOMIC_WHOLE(atomicXor, __scoped_atomic_fetch_xor)
EDGEC_ATOMIC_WHOLE(atomicExch, __scoped_atomic_exchange_n)
EDGEC_SHORT float atomicExch(float *at, float value) {
  return __builtin_bit_cast(float, atomicExch((unsigned *)at, __builtin_bit_cast(unsigned, value)));
}
EDGEC_SHORT unsigned atomicInc_block(unsigned *at, unsigned limit) { return atomicInc(at, limit); }
EDGEC_SHORT unsigned atomicDec_block(unsigned *at, unsigned limit) { return atomicDec(at, limit); }
EDGEC_SHORT float atomicExch_block(float *at, float value) { return atomicExch(at, value); }

#define EDGEC_ATOMIC_IF(type, bits)                                                       \
  EDGEC_SHORT type atomicCAS(type *at, type expected, type value) {                       \
    return (type)edgec_put_if((bits *)at, (bits)expected, (bits)value);                   \
  }                                                                                       \
  EDGEC_SHORT type atomicCAS_block(type *at, type expected, type value) {                 \
    return (type)edgec_put_if((bits *)at, (bits)expected, (bits)value);                   \
  }
EDGEC_ATOMIC_IF(int, unsigned)
EDGEC_ATOMIC_IF(unsigned, unsigned)
EDGEC_ATOMIC_IF(unsigned long long, unsigned long long)
#if __CUDA_ARCH__ >= 700 || defined(EDGEC_EMULATED)
EDGEC_ATOMIC_IF(unsigned short, unsigned short)
#endif

#endif
