#include "limits.h"

#include "platform.h"

/* Before each piece of counted memory: its size, and how far back what was allocated begins. */
typedef struct budget_head {
  size_t size;
  size_t back;
} budget_head;

int edgert_budget_take(edgert_budget *self, uint64_t size) {
  if (!self) return 1;
  uint64_t used = atomic_load_explicit(&self->used, memory_order_relaxed);
  do {
    if (self->limit && (size > self->limit || used > self->limit - size)) return 0;
  } while (!atomic_compare_exchange_weak(&self->used, &used, used + size));
  uint64_t peak = atomic_load_explicit(&self->peak, memory_order_relaxed);
  while (peak < used + size && !atomic_compare_exchange_weak(&self->peak, &peak, used + size))
    continue;
  atomic_fetch_add(&self->holds, 1);
  return 1;
}

void edgert_budget_give(edgert_budget *self, uint64_t size) {
  if (!self) return;
  atomic_fetch_sub(&self->used, size);
  if (atomic_fetch_sub(&self->holds, 1) != 1) return;
  edgert_allocator inner = self->inner;
  edgert_deallocate(&inner, self);
}

static void *budget_allocate(void *user, size_t size, size_t alignment) {
  edgert_budget *self = user;
  size_t back = alignment < 16 ? 16 : alignment;
  if (size > SIZE_MAX - back || !edgert_budget_take(self, size)) return NULL;
  uint8_t *memory = self->inner.allocate(self->inner.user, size + back, back);
  if (!memory) {
    edgert_budget_give(self, size);
    return NULL;
  }
  const budget_head head = {size, back};
  memcpy(memory + back - sizeof head, &head, sizeof head);
  return memory + back;
}

static void budget_release(void *user, void *memory) {
  edgert_budget *self = user;
  budget_head head;
  memcpy(&head, (uint8_t *)memory - sizeof head, sizeof head);
  self->inner.release(self->inner.user, (uint8_t *)memory - head.back);
  edgert_budget_give(self, head.size);
}

edgert_status edgert_budget_create(const edgert_allocator *inner, uint64_t limit,
                                   edgert_budget **out, edgert_error *error) {
  void *made;
  edgert_status status = edgert_allocate_array(inner, 1, sizeof **out, &made, error);
  *out = made;
  if (status != EDGERT_OK) return status;
  (*out)->inner = *inner;
  (*out)->limit = limit;
  atomic_store(&(*out)->holds, 1);
  return status;
}

edgert_allocator edgert_budget_allocator(edgert_budget *self) {
  return (edgert_allocator){self, budget_allocate, budget_release};
}

int edgert_watch_is_over(const edgert_watch *self) {
  return atomic_load_explicit(&self->is_interrupted, memory_order_relaxed) ||
         (self->deadline && edgert_nanoseconds() >= self->deadline);
}

edgert_status edgert_watch_fail(const edgert_watch *self, edgert_error *error) {
  if (atomic_load_explicit(&self->is_interrupted, memory_order_relaxed))
    return EDGERT_FAIL(error, EDGERT_CANCELLED, "the call was interrupted");
  return EDGERT_FAIL(error, EDGERT_LIMIT, "the call took longer than it may");
}
