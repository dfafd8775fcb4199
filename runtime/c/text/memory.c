#include <stdlib.h>

#include "text.h"

#if defined(_WIN32)
#include <malloc.h>
#endif

static void memory_put(edgert_error *error, size_t *at, const char *text) {
  while (*text && *at + 1 < sizeof error->message) error->message[(*at)++] = *text++;
  error->message[*at] = 0;
}

edgert_status text_fail(edgert_error *error, edgert_status status, const char *sentence) {
  size_t at = 0;
  if (!error) return status;
  error->status = status;
  memory_put(error, &at, sentence);
  return status;
}

edgert_status text_fail_at(edgert_error *error, edgert_status status, const char *before,
                           uint64_t number, const char *after) {
  char digits[24] = {0};
  size_t first = sizeof digits - 1, at = 0;
  if (!error) return status;
  do digits[--first] = (char)('0' + number % 10);
  while (number /= 10);
  error->status = status;
  memory_put(error, &at, before);
  memory_put(error, &at, digits + first);
  memory_put(error, &at, after);
  return status;
}

#if defined(_WIN32)
/* Its `free` takes nothing aligned, so that all memory is. */
static void *memory_take(void *user, size_t size, size_t alignment) {
  (void)user;
  return _aligned_malloc(size, alignment);
}

static void memory_give(void *user, void *memory) {
  (void)user;
  _aligned_free(memory);
}
#else
static void *memory_take(void *user, size_t size, size_t alignment) {
  (void)user, (void)alignment; /* never more than malloc's own */
  return malloc(size);
}

static void memory_give(void *user, void *memory) {
  (void)user;
  free(memory);
}
#endif

edgert_allocator text_allocator_or_default(const edgert_allocator *allocator) {
  if (allocator && allocator->allocate) return *allocator;
  return (edgert_allocator){.allocate = memory_take, .release = memory_give};
}

edgert_status text_allocate(const edgert_allocator *allocator, size_t count, size_t size, void **out,
                            edgert_error *error) {
  *out = NULL;
  if (count == 0) return EDGERT_OK;
  if (count <= SIZE_MAX / size)
    *out = allocator->allocate(allocator->user, count * size, _Alignof(max_align_t));
  if (!*out) return text_fail_at(error, EDGERT_OUT_OF_MEMORY, "no memory for ", count, " things");
  memset(*out, 0, count * size);
  return EDGERT_OK;
}

void text_deallocate(const edgert_allocator *allocator, void *memory) {
  if (memory) allocator->release(allocator->user, memory);
}

edgert_status text_array_reserve(const edgert_allocator *allocator, text_array *self, size_t more,
                                 size_t size, edgert_error *error) {
  if (more <= self->capacity - self->count) return EDGERT_OK;
  size_t capacity = self->capacity < 32 ? 32 : self->capacity;
  while (capacity - self->count < more && capacity <= SIZE_MAX / 2) capacity *= 2;
  if (capacity - self->count < more)
    return text_fail(error, EDGERT_OUT_OF_MEMORY, "no memory for so long a text");
  void *grown;
  edgert_status status = text_allocate(allocator, capacity, size, &grown, error);
  if (status != EDGERT_OK) return status;
  if (self->count) memcpy(grown, self->data, self->count * size);
  text_deallocate(allocator, self->data);
  self->data = grown;
  self->capacity = capacity;
  return EDGERT_OK;
}

edgert_status text_bytes_add(const edgert_allocator *allocator, text_array *self, const void *data,
                             size_t size, edgert_error *error) {
  edgert_status status = text_array_reserve(allocator, self, size, 1, error);
  if (status != EDGERT_OK || size == 0) return status;
  memcpy((uint8_t *)self->data + self->count, data, size);
  self->count += size;
  return EDGERT_OK;
}
