/* Memory by CUDA's own allocator, kept for the next time.
 *
 * To take memory from CUDA and to give it back costs as much as a small call, and giving back waits
 * for the device. So what is given back is kept for the next of its size, and sizes are rounded so
 * that those of a program whose shapes grow meet again. The device's memory may be used again at
 * once, since the stream comes to the next user later; the host waits before it looks. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

#define POOL_LEAST_LOCAL ((uint64_t)512)
#define POOL_LEAST_HOST ((uint64_t)64 << 10)
#define POOL_COARSEST ((uint64_t)2 << 20)
#define POOL_MOST_KEPT ((uint64_t)1 << 30)
#define POOL_BUSY 4u /* pieces of the host's memory of a size that may be in use before one waits */

/* Sizes in steps of an eighth, or of what CUDA itself gives: at most an eighth is in vain. */
static uint64_t pool_round(int kind, uint64_t size) {
  uint64_t step = kind == CUDA_HOST ? POOL_LEAST_HOST : POOL_LEAST_LOCAL;
  while (step < POOL_COARSEST && step * 16 <= size) step *= 2;
  if (!size) size = 1;
  return (size + step - 1) / step * step;
}

void cuda_pool_open(cuda_device *self, uint64_t cache_bytes) {
  uint64_t usual = self->facts.memory / 8;
  self->kept_limit = cache_bytes ? cache_bytes : usual < POOL_MOST_KEPT ? usual : POOL_MOST_KEPT;
}

/* --- chunks ----------------------------------------------------------------------------------- */

static void pool_free(cuda_device *self, cuda_chunk *chunk) {
  if (chunk->kind == CUDA_HOST)
    (void)self->cuda.MemFreeHost(chunk->host);
  else
    (void)self->cuda.MemFree(chunk->address);
  edgert_deallocate(&self->device.object.allocator, chunk);
}

static cuda_chunk *pool_remove(cuda_device *self, size_t index) {
  cuda_chunk *chunk = self->kept[index];
  self->kept_count -= 1;
  self->kept_bytes -= chunk->size;
  memmove(self->kept + index, self->kept + index + 1,
          (self->kept_count - index) * sizeof *self->kept);
  return chunk;
}

/* Give the oldest back to CUDA, as many as it takes; nothing may use them then. */
static void pool_shrink(cuda_device *self, size_t count, uint64_t bytes) {
  if (self->kept_count <= count && self->kept_bytes <= bytes) return;
  (void)self->cuda.StreamSynchronize(self->stream);
  while (self->kept_count > count || self->kept_bytes > bytes)
    pool_free(self, pool_remove(self, 0));
}

/* The kept chunk that serves best, or SIZE_MAX: the owner's own, then the one that lies first, so
 * that a program which runs again gets the same memory. */
static size_t pool_find_local(const cuda_device *self, uint64_t owner, uint64_t size) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < self->kept_count; ++i) {
    const cuda_chunk *chunk = self->kept[i];
    if (chunk->size != size || chunk->kind != CUDA_LOCAL) continue;
    const cuda_chunk *rival = best == SIZE_MAX ? NULL : self->kept[best];
    int is_owners = chunk->owner == owner, is_rivals = rival && rival->owner == owner;
    if (!rival || is_owners > is_rivals ||
        (is_owners == is_rivals && chunk->address < rival->address))
      best = i;
  }
  return best;
}

/* Of the host's memory one that is not in use; where there are many that are, the oldest. */
static size_t pool_find_host(cuda_device *self, uint64_t size) {
  size_t oldest = SIZE_MAX, busy = 0;
  for (size_t i = 0; i < self->kept_count; ++i) {
    const cuda_chunk *chunk = self->kept[i];
    if (chunk->size != size || chunk->kind != CUDA_HOST) continue;
    if (cuda_is_done(self, chunk->point)) return i;
    if (oldest == SIZE_MAX || chunk->point < self->kept[oldest]->point) oldest = i;
    ++busy;
  }
  return busy < POOL_BUSY ? SIZE_MAX : oldest;
}

static CUresult pool_make(cuda_device *self, cuda_chunk *chunk) {
  void *host = NULL;
  if (chunk->kind == CUDA_LOCAL) return self->cuda.MemAlloc(&chunk->address, (size_t)chunk->size);
  CUresult result = self->cuda.MemHostAlloc(&host, (size_t)chunk->size,
                                            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  chunk->host = host;
  result = self->cuda.MemHostGetDevicePointer(&chunk->address, host, 0);
  if (result != CUDA_SUCCESS) (void)self->cuda.MemFreeHost(host);
  return result;
}

static edgert_status pool_take(cuda_device *self, int kind, uint64_t owner, uint64_t size,
                                 cuda_chunk **out, edgert_error *error) {
  size_t kept = kind == CUDA_HOST ? pool_find_host(self, size)
                                  : pool_find_local(self, owner, size);
  if (kept != SIZE_MAX) {
    *out = pool_remove(self, kept);
    return EDGERT_OK;
  }
  void *made;
  edgert_status status = edgert_allocate_array(&self->device.object.allocator, 1, sizeof **out,
                                               &made, error);
  if (status != EDGERT_OK) return status;
  cuda_chunk *chunk = made;
  *chunk = (cuda_chunk){.size = size, .owner = CUDA_NOBODY, .kind = kind};
  CUresult result = pool_make(self, chunk);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && self->kept_count) {
    pool_shrink(self, 0, 0);
    result = pool_make(self, chunk);
  }
  if (result == CUDA_SUCCESS) {
    *out = chunk;
    return EDGERT_OK;
  }
  edgert_deallocate(&self->device.object.allocator, chunk);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return cuda_fail(self, result, "taking memory", error);
  return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "%s has no memory for %llu bytes%s",
                     self->device.name, (unsigned long long)size,
                     kind == CUDA_HOST ? " of the host's" : "");
}

edgert_status cuda_chunk_take(cuda_device *self, int kind, uint64_t owner, uint64_t size,
                              cuda_chunk **out, edgert_error *error) {
  *out = NULL;
  edgert_mutex_lock(&self->lock);
  edgert_status status = pool_take(self, kind, owner, pool_round(kind, size), out, error);
  edgert_mutex_unlock(&self->lock);
  return status;
}

void cuda_chunk_give(cuda_device *self, cuda_chunk *chunk) {
  edgert_mutex_lock(&self->lock);
  pool_shrink(self, CUDA_KEPT_CHUNKS - 1, UINT64_MAX);
  self->kept[self->kept_count++] = chunk;
  self->kept_bytes += chunk->size;
  pool_shrink(self, CUDA_KEPT_CHUNKS, self->kept_limit);
  edgert_mutex_unlock(&self->lock);
}

void cuda_pool_close(cuda_device *self) { pool_shrink(self, 0, 0); }

/* --- buffers ---------------------------------------------------------------------------------- */

enum { POOL_DEVICE_LOCAL = 1 << 5 }; /* among a buffer's types */

/* Memory that the host looks into lies where it can, and the device reaches it there. */
static int pool_kind(edgert_memory asked) {
  if (asked.types & POOL_DEVICE_LOCAL) return CUDA_LOCAL;
  return asked.types & EDGERT_TYPE_HOST_VISIBLE ? CUDA_HOST : CUDA_LOCAL;
}

static edgert_status pool_clear(cuda_device *self, cuda_chunk *chunk, edgert_error *error) {
  if (!chunk->host) {
    CUresult result =
        self->cuda.MemsetD8Async(chunk->address, 0, (size_t)chunk->size, self->stream);
    return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(self, result, "clearing memory", error);
  }
  edgert_status status = cuda_await(self, chunk->point, UINT64_MAX, NULL, error);
  if (status == EDGERT_OK) memset(chunk->host, 0, (size_t)chunk->size);
  return status;
}

edgert_status cuda_allocate(edgert_device *device, edgert_buffer *buffer, edgert_error *error) {
  cuda_device *self = (cuda_device *)device;
  cuda_chunk *chunk = NULL;
  edgert_status status = cuda_enter(self, error);
  if (status != EDGERT_OK) return status;
  status = cuda_chunk_take(self, pool_kind(buffer->kind), buffer->owner, buffer->size, &chunk,
                           error);
  if (status == EDGERT_OK && buffer->owner && chunk->owner != buffer->owner) {
    chunk->owner = CUDA_NOBODY;
    status = pool_clear(self, chunk, error);
  }
  if (status == EDGERT_OK) {
    chunk->owner = buffer->owner;
    buffer->memory = chunk;
    buffer->host = chunk->host;
    buffer->point = chunk->point;
  } else if (chunk) {
    cuda_chunk_give(self, chunk);
  }
  cuda_leave(self);
  return status;
}

void cuda_deallocate(edgert_device *device, edgert_buffer *buffer) {
  cuda_device *self = (cuda_device *)device;
  cuda_chunk *chunk = buffer->memory;
  int is_inside = cuda_enter(self, NULL) == EDGERT_OK;
  chunk->point = buffer->point;
  cuda_chunk_give(self, chunk);
  if (is_inside) cuda_leave(self);
}

#endif
