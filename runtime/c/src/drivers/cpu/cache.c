/* Memory of buffers that are gone, kept for the next ones of the same size. */
#include "cpu.h"

void edgert_cache_create(edgert_cache *self, uint64_t limit, uint8_t unwritten) {
  memset(self, 0, sizeof *self);
  self->limit = limit;
  self->unwritten = unwritten;
  edgert_mutex_create(&self->lock);
}

/* Of these sizes on the system's own pages are taken, which are zeros before they are touched: a
 * language model's cache of keys and values would be written twice, most of it for nothing. */
#define CACHE_PAGES ((size_t)1 << 20)

static int cache_has_pages(const edgert_allocator *allocator, size_t size) {
  return EDGERT_HAS_ZEROS && size >= CACHE_PAGES && edgert_allocator_is_default(allocator);
}

static void cache_release(const edgert_allocator *allocator, void *memory, size_t size) {
  if (cache_has_pages(allocator, size))
    edgert_zeros_release(memory, size);
  else
    edgert_deallocate(allocator, memory);
}

static edgert_status cache_allocate(const edgert_allocator *allocator, size_t size, void **out,
                                    int *out_fresh, edgert_error *error) {
  if (!cache_has_pages(allocator, size))
    return edgert_allocate(allocator, size, EDGERT_ALIGNMENT, out, error);
  uint8_t *pages;
  edgert_status status = edgert_zeros_reserve(size, &pages, error);
  *out = pages;
  *out_fresh = status == EDGERT_OK;
  return status;
}

void edgert_cache_destroy(edgert_cache *self, const edgert_allocator *allocator) {
  for (size_t i = 0; i < self->count; ++i)
    cache_release(allocator, self->entries[i].memory, self->entries[i].size);
  edgert_mutex_destroy(&self->lock);
}

/* Sizes are rounded so that small differences do not matter. */
static size_t cache_round(uint64_t size) {
  size_t step = size <= 4096 ? 64 : 4096;
  size_t rounded = ((size_t)size + step - 1) & ~(step - 1);
  return rounded ? rounded : step;
}

static void *cache_remove(edgert_cache *self, size_t index) {
  void *memory = self->entries[index].memory;
  self->held -= self->entries[index].size;
  self->count -= 1;
  memmove(&self->entries[index], &self->entries[index + 1],
          (self->count - index) * sizeof self->entries[0]);
  return memory;
}

edgert_status edgert_cache_take(edgert_cache *self, const edgert_allocator *allocator,
                                uint64_t owner, uint64_t size, void **out, int *out_fresh,
                                edgert_error *error) {
  size_t rounded = cache_round(size);
  size_t fits = SIZE_MAX;
  int is_own = 0;
  *out = NULL;
  *out_fresh = 0;
  edgert_mutex_lock(&self->lock);
  for (size_t i = self->count; i-- > 0 && !is_own;) {
    if (self->entries[i].size != rounded) continue;
    is_own = self->entries[i].owner == owner;
    if (is_own || fits == SIZE_MAX) fits = i;
  }
  if (fits != SIZE_MAX) *out = cache_remove(self, fits);
  edgert_mutex_unlock(&self->lock);
  edgert_status status =
      *out ? EDGERT_OK : cache_allocate(allocator, rounded, out, out_fresh, error);
  /* What others left, and the C library's memory with it, is not for programs to read. */
  int is_kept = is_own || (EDGERT_HAS_ZEROS && *out_fresh);
  if (status == EDGERT_OK && owner && (!is_kept || self->unwritten)) {
    memset(*out, self->unwritten, rounded);
    *out_fresh = 0;
  }
  return status;
}

/* Memory on its way back to the system, written where it begins. */
typedef struct cache_old {
  struct cache_old *next;
  size_t size;
} cache_old;

static void cache_drop(cache_old **list, void *memory, size_t size) {
  cache_old *old = memory;
  *old = (cache_old){*list, size};
  *list = old;
}

void edgert_cache_give(edgert_cache *self, const edgert_allocator *allocator, void *memory,
                       uint64_t owner, uint64_t size) {
  size_t rounded = cache_round(size);
  cache_old *list = NULL;
  edgert_mutex_lock(&self->lock);
  if (rounded > self->limit) {
    cache_drop(&list, memory, rounded);
  } else {
    while (self->count == EDGERT_CACHE_ENTRIES || self->held + rounded > self->limit) {
      size_t gone = self->entries[0].size;
      cache_drop(&list, cache_remove(self, 0), gone);
    }
    self->entries[self->count].memory = memory;
    self->entries[self->count].size = rounded;
    self->entries[self->count].owner = owner;
    self->count += 1;
    self->held += rounded;
  }
  edgert_mutex_unlock(&self->lock);
  while (list) {
    cache_old *old = list;
    list = old->next;
    cache_release(allocator, old, old->size);
  }
}
