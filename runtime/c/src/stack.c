#include "session.h"

#define STACK_ALIGNMENT 16
#define STACK_CHUNK_SIZE (64 * 1024)

struct edgert_stack_chunk {
  edgert_stack_chunk *below;
  size_t capacity;
  size_t used;
};

static size_t stack_header(void) {
  return (sizeof(edgert_stack_chunk) + STACK_ALIGNMENT - 1) & ~(size_t)(STACK_ALIGNMENT - 1);
}

edgert_stack_mark edgert_stack_save(const edgert_stack *self) {
  return (edgert_stack_mark){self->top, self->top ? self->top->used : 0};
}

edgert_status edgert_stack_take(edgert_stack *self, const edgert_allocator *allocator, size_t size,
                                void **out, edgert_error *error) {
  *out = NULL;
  size = (size + STACK_ALIGNMENT - 1) & ~(size_t)(STACK_ALIGNMENT - 1);
  edgert_stack_chunk *chunk = self->top;
  if (!chunk || chunk->capacity - chunk->used < size) {
    size_t capacity = size < STACK_CHUNK_SIZE ? STACK_CHUNK_SIZE : size;
    void *made;
    edgert_status status =
        edgert_allocate(allocator, stack_header() + capacity, STACK_ALIGNMENT, &made, error);
    if (status != EDGERT_OK) return status;
    chunk = made;
    *chunk = (edgert_stack_chunk){.below = self->top, .capacity = capacity};
    self->top = chunk;
  }
  *out = (uint8_t *)chunk + stack_header() + chunk->used;
  chunk->used += size;
  return EDGERT_OK;
}

void edgert_stack_restore(edgert_stack *self, const edgert_allocator *allocator,
                          edgert_stack_mark mark) {
  /* The lowest chunk stays for the next call. */
  while (self->top && self->top != mark.chunk && (mark.chunk || self->top->below)) {
    edgert_stack_chunk *chunk = self->top;
    self->top = chunk->below;
    edgert_deallocate(allocator, chunk);
  }
  if (self->top) self->top->used = mark.used;
}
