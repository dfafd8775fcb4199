/* Memory from the caller's allocator, sizes that cannot overflow, unaligned loads. */
#ifndef EDGERT_MEMORY_H
#define EDGERT_MEMORY_H

#include <string.h>

#include "status.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "modules are little-endian and so must the machine be"
#endif

/* Whether the system has pages of zeros that cost nothing until they are touched. */
#if defined(__wasm__)
#define EDGERT_HAS_ZEROS 0
#else
#define EDGERT_HAS_ZEROS 1
#endif

/* The caller's allocator, or the C library's where it is NULL or zero. */
edgert_allocator edgert_allocator_or_default(const edgert_allocator *allocator);

/* Whether it is the C library's. */
int edgert_allocator_is_default(const edgert_allocator *allocator);

/* `*out` gets `size` bytes (one at least) at `alignment`; what they hold is undefined. */
edgert_status edgert_allocate(const edgert_allocator *allocator, size_t size, size_t alignment,
                              void **out, edgert_error *error);

/* The same, zeroed, for `count` things of `size` bytes; an array of none is NULL. */
edgert_status edgert_allocate_array(const edgert_allocator *allocator, size_t count, size_t size,
                                    void **out, edgert_error *error);

void edgert_deallocate(const edgert_allocator *allocator, void *memory);

/* Grow an array to hold at least `needed` things, keeping what it has. */
edgert_status edgert_grow(const edgert_allocator *allocator, void **array, size_t count,
                          size_t *capacity, size_t needed, size_t size, edgert_error *error);

/* The caller's options into a zeroed structure of `size` bytes, as far as both know them; refused
 * where the caller did not say their size, or set what this library does not know. */
edgert_status edgert_options_read(void *out, size_t size, const void *options, edgert_error *error);

/* Whether [offset, offset + length) lies in [0, size). */
static inline int edgert_in_range(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

static inline uint16_t edgert_load_u16(const void *p) {
  uint16_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline uint32_t edgert_load_u32(const void *p) {
  uint32_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline uint64_t edgert_load_u64(const void *p) {
  uint64_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

#endif
