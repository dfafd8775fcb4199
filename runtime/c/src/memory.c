#include "memory.h"

#include <stdlib.h>

#define MEMORY_DEFAULT_ALIGNMENT 16

#if defined(_WIN32)
#include <malloc.h>

/* Its `free` takes nothing aligned, so that all memory is. */
static void *memory_allocate(void *user, size_t size, size_t alignment) {
  (void)user;
  return _aligned_malloc(size, alignment < sizeof(void *) ? sizeof(void *) : alignment);
}

static void memory_release(void *user, void *memory) {
  (void)user;
  _aligned_free(memory);
}
#else

static void *memory_allocate(void *user, size_t size, size_t alignment) {
  (void)user;
  if (alignment <= sizeof(void *) || alignment <= _Alignof(max_align_t)) return malloc(size);
  if (size > SIZE_MAX - alignment) return NULL;
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void memory_release(void *user, void *memory) {
  (void)user;
  free(memory);
}
#endif

edgert_allocator edgert_allocator_or_default(const edgert_allocator *allocator) {
  if (allocator && allocator->allocate) return *allocator;
  return (edgert_allocator){.allocate = memory_allocate, .release = memory_release};
}

int edgert_allocator_is_default(const edgert_allocator *allocator) {
  return allocator->allocate == memory_allocate;
}

edgert_status edgert_allocate(const edgert_allocator *allocator, size_t size, size_t alignment,
                              void **out, edgert_error *error) {
  *out = allocator->allocate(allocator->user, size ? size : 1, alignment);
  if (*out) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "no memory for %llu bytes",
                     (unsigned long long)size);
}

edgert_status edgert_allocate_array(const edgert_allocator *allocator, size_t count, size_t size,
                                    void **out, edgert_error *error) {
  *out = NULL;
  if (count == 0) return EDGERT_OK;
  if (count > SIZE_MAX / size)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "no memory for %llu times %llu bytes",
                       (unsigned long long)count, (unsigned long long)size);
  edgert_status status =
      edgert_allocate(allocator, count * size, MEMORY_DEFAULT_ALIGNMENT, out, error);
  if (status == EDGERT_OK) memset(*out, 0, count * size);
  return status;
}

void edgert_deallocate(const edgert_allocator *allocator, void *memory) {
  if (memory) allocator->release(allocator->user, memory);
}

edgert_status edgert_options_read(void *out, size_t size, const void *options,
                                  edgert_error *error) {
  if (!options) return EDGERT_OK;
  size_t given = edgert_load_u32(options);
  if (given <= sizeof(uint32_t))
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "options without their size: set `size`");
  for (size_t i = size; i < given; ++i)
    if (((const uint8_t *)options)[i])
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "an option is set that this edgert does not know: it is older");
  memcpy(out, options, given < size ? given : size);
  return EDGERT_OK;
}

edgert_status edgert_grow(const edgert_allocator *allocator, void **array, size_t count,
                          size_t *capacity, size_t needed, size_t size, edgert_error *error) {
  if (needed <= *capacity) return EDGERT_OK;
  size_t target = *capacity < 8 ? 8 : *capacity;
  while (target < needed) target = target > SIZE_MAX / 2 ? needed : target * 2;
  void *grown;
  edgert_status status = edgert_allocate_array(allocator, target, size, &grown, error);
  if (status != EDGERT_OK) return status;
  if (count) memcpy(grown, *array, count * size);
  edgert_deallocate(allocator, *array);
  *array = grown;
  *capacity = target;
  return EDGERT_OK;
}
