/* Memory in large blocks, of which buffers are pieces, and what the host sees of it.
 *
 * Vulkan gives few allocations and gives them slowly. A block is one allocation, one buffer over all
 * of it, and mapped once where the host sees it. A piece that is given back is kept for the next
 * of its size, and the one that lies first is taken first: so a program that asks for the same
 * memory at each call gets the same, and its recorded commands can be replayed. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

#define MEMORY_FIRST_BLOCK ((uint64_t)4 << 20)
#define MEMORY_LARGEST_BLOCK ((uint64_t)256 << 20)
#define MEMORY_STAGING ((uint64_t)8 << 20)
#define MEMORY_DEFAULT_KEPT ((uint64_t)256 << 20)
#define MEMORY_OWN_KEPT ((uint64_t)1 << 30)

/* Tests set it to 0, to have what GPUs with memory of their own do on one without. */
#ifndef VULKAN_MAY_SHARE
#define VULKAN_MAY_SHARE 1
#endif

static uint64_t memory_round(uint64_t size, uint64_t to) { return (size + to - 1) / to * to; }

/* --- kinds of memory -------------------------------------------------------------------------- */

static VkResult memory_make_buffer(vulkan_device *self, uint64_t size, VkBuffer *out,
                                   VkMemoryRequirements *needs) {
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = size,
      .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
               VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT};
  VkResult result = self->CreateBuffer(self->handle, &info, NULL, out);
  if (result == VK_SUCCESS) self->GetBufferMemoryRequirements(self->handle, *out, needs);
  return result;
}

/* How well a type of memory serves as a kind; negative: not at all. Where the device computes in the
 * host's memory its own is seen by both, best with the processor's caches; elsewhere it is its own
 * alone, and what both see lies at the host. */
static int memory_fitness(int kind, int is_shared, VkFlags flags) {
  int is_local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
  int is_seen = (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
  int is_coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
  int is_cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
  if (flags >> 4) return -1; /* protected, lazy, or another vendor's */
  if (kind == VULKAN_HOST) return is_seen ? 4 * is_cached + 2 * is_coherent + !is_local : -1;
  if (is_shared) return 8 * is_local + 4 * is_seen + 2 * (is_seen && is_cached) + is_coherent;
  return 2 * is_local + !is_seen;
}

static edgert_status memory_choose(vulkan_device *self, uint32_t allowed, edgert_error *error) {
  VkPhysicalDeviceMemoryProperties memory;
  self->instance.GetPhysicalDeviceMemoryProperties(
      self->instance.devices[self->number], &memory);
  uint32_t type = self->facts.properties.deviceType;
  self->is_shared = VULKAN_MAY_SHARE && (type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                                         type == VK_PHYSICAL_DEVICE_TYPE_CPU);
  for (int kind = 0; kind < VULKAN_KINDS; ++kind) {
    int best = -1;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      VkFlags flags = memory.memoryTypes[i].propertyFlags;
      int fitness = allowed >> i & 1 ? memory_fitness(kind, self->is_shared, flags) : -1;
      if (fitness <= best) continue;
      best = fitness;
      self->types[kind] = i;
      self->type_flags[kind] = flags;
    }
    if (best < 0)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s has no memory of a kind that is needed",
                         self->device.name);
  }
  return EDGERT_OK;
}

edgert_status vulkan_memory_open(vulkan_device *self, uint64_t cache_bytes, edgert_error *error) {
  const VkPhysicalDeviceLimits *limits = &self->facts.properties.limits;
  self->next_block = MEMORY_FIRST_BLOCK;
  self->alignment = EDGERT_ALIGNMENT;
  const uint64_t others[] = {limits->minStorageBufferOffsetAlignment,
                             limits->minUniformBufferOffsetAlignment, limits->nonCoherentAtomSize};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) /* all are powers of two */
    if (others[i] > self->alignment) self->alignment = others[i];
  VkBuffer buffer;
  VkMemoryRequirements needs;
  VkResult result = memory_make_buffer(self, MEMORY_FIRST_BLOCK, &buffer, &needs);
  if (result != VK_SUCCESS) return vulkan_fail(self, result, "making a buffer", error);
  self->DestroyBuffer(self->handle, buffer, NULL);
  edgert_status status = memory_choose(self, needs.memoryTypeBits, error);
  /* A GPU's own memory takes milliseconds to get: what a call needed stays for the next. */
  self->kept_limit = cache_bytes       ? cache_bytes
                     : self->is_shared ? MEMORY_DEFAULT_KEPT
                                       : MEMORY_OWN_KEPT;
  return status;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void memory_destroy_block(vulkan_device *self, vulkan_block *block) {
  const edgert_allocator *allocator = &self->device.object.allocator;
  if (block->buffer) self->DestroyBuffer(self->handle, block->buffer, NULL);
  if (block->memory) self->FreeMemory(self->handle, block->memory, NULL);
  edgert_deallocate(allocator, block->free);
  edgert_deallocate(allocator, block);
}

static edgert_status memory_reserve_spans(vulkan_device *self, vulkan_block *block,
                                          edgert_error *error) {
  void *grown = block->free;
  edgert_status status =
      edgert_grow(&self->device.object.allocator, &grown, block->free_count, &block->free_capacity,
                  block->chunk_count + 2, sizeof *block->free, error);
  block->free = grown;
  return status;
}

static edgert_status memory_make_block(vulkan_device *self, int kind, uint64_t size,
                                       vulkan_block **out, edgert_error *error) {
  void *made;
  *out = NULL;
  if (size > self->facts.largest_allocation)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "%s gives at most %llu bytes at once, not %llu",
                       self->device.name, (unsigned long long)self->facts.largest_allocation,
                       (unsigned long long)size);
  edgert_status status = edgert_allocate_array(&self->device.object.allocator, 1,
                                               sizeof(vulkan_block), &made, error);
  if (status != EDGERT_OK) return status;
  vulkan_block *block = made;
  block->number = ++self->block_count;
  block->kind = kind;
  block->size = size;
  VkMemoryRequirements needs;
  void *host = NULL;
  VkResult result = memory_make_buffer(self, size, &block->buffer, &needs);
  if (result == VK_SUCCESS) {
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = self->types[kind]};
    result = self->AllocateMemory(self->handle, &info, NULL, &block->memory);
  }
  if (result == VK_SUCCESS)
    result = self->BindBufferMemory(self->handle, block->buffer, block->memory, 0);
  if (result == VK_SUCCESS && (kind == VULKAN_HOST || self->is_shared) &&
      (self->type_flags[kind] & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT))
    result = self->MapMemory(self->handle, block->memory, 0, VK_WHOLE_SIZE, 0, &host);
  block->host = host;
  if (result != VK_SUCCESS) status = vulkan_fail(self, result, "taking memory", error);
  if (status == EDGERT_OK) status = memory_reserve_spans(self, block, error);
  if (status != EDGERT_OK) {
    memory_destroy_block(self, block);
    return status;
  }
  block->free[block->free_count++] = (vulkan_span){0, size};
  block->next = self->blocks;
  self->blocks = block;
  *out = block;
  return EDGERT_OK;
}

/* Where a piece of that size is free: the number of the span, or SIZE_MAX. */
static size_t memory_find_span(const vulkan_block *block, uint64_t size) {
  for (size_t i = 0; i < block->free_count; ++i)
    if (block->free[i].size >= size) return i;
  return SIZE_MAX;
}

static void memory_remove_span(vulkan_block *block, size_t index) {
  block->free_count -= 1;
  memmove(block->free + index, block->free + index + 1,
          (block->free_count - index) * sizeof *block->free);
}

/* There is room for it, since the chunk that goes had been counted. */
static void memory_add_span(vulkan_block *block, uint64_t offset, uint64_t size) {
  size_t at = 0;
  while (at < block->free_count && block->free[at].offset < offset) ++at;
  memmove(block->free + at + 1, block->free + at, (block->free_count - at) * sizeof *block->free);
  block->free_count += 1;
  block->free[at] = (vulkan_span){offset, size};
  if (at + 1 < block->free_count && offset + size == block->free[at + 1].offset) {
    block->free[at].size += block->free[at + 1].size;
    memory_remove_span(block, at + 1);
  }
  if (at && block->free[at - 1].offset + block->free[at - 1].size == offset) {
    block->free[at - 1].size += block->free[at].size;
    memory_remove_span(block, at);
  }
}

/* --- chunks ----------------------------------------------------------------------------------- */

/* A kept chunk goes back to its block, and a block without any to the device. */
static void memory_drop(vulkan_device *self, size_t index) {
  vulkan_chunk *chunk = self->kept[index];
  self->kept_count -= 1;
  self->kept_bytes -= chunk->size;
  memmove(self->kept + index, self->kept + index + 1,
          (self->kept_count - index) * sizeof *self->kept);
  if (chunk->point > self->span_point) self->span_point = chunk->point;
  vulkan_block *block = chunk->block;
  memory_add_span(block, chunk->offset, chunk->size);
  block->chunk_count -= 1;
  edgert_deallocate(&self->device.object.allocator, chunk);
  if (block->chunk_count || self->span_point > self->done) return;
  vulkan_block **place = &self->blocks;
  while (*place != block) place = &(*place)->next;
  *place = block->next;
  memory_destroy_block(self, block);
}

/* The kept chunk that serves best: of the owner's, then one that is not in use, then the first. */
static size_t memory_find_kept(const vulkan_device *self, int kind, uint64_t owner, uint64_t size) {
  size_t best = SIZE_MAX;
  int best_score = -1;
  for (size_t i = 0; i < self->kept_count; ++i) {
    const vulkan_chunk *chunk = self->kept[i];
    if (chunk->size != size || chunk->block->kind != kind) continue;
    int score = 2 * (chunk->owner == owner) + (kind == VULKAN_HOST && chunk->point <= self->done);
    const vulkan_chunk *rival = best == SIZE_MAX ? NULL : self->kept[best];
    int is_first = !rival || (uintptr_t)chunk->block < (uintptr_t)rival->block ||
                   (chunk->block == rival->block && chunk->offset < rival->offset);
    if (score < best_score || (score == best_score && !is_first)) continue;
    best = i;
    best_score = score;
  }
  return best;
}

static edgert_status memory_cut(vulkan_device *self, vulkan_block *block, size_t span,
                                uint64_t size, vulkan_chunk **out, edgert_error *error) {
  void *made;
  block->chunk_count += 1;
  edgert_status status = memory_reserve_spans(self, block, error);
  if (status == EDGERT_OK)
    status = edgert_allocate_array(&self->device.object.allocator, 1, sizeof **out, &made, error);
  if (status != EDGERT_OK) {
    block->chunk_count -= 1;
    return status;
  }
  *out = made;
  **out = (vulkan_chunk){.block = block,
                         .offset = block->free[span].offset,
                         .size = size,
                         .owner = VULKAN_NOBODY,
                         .point = self->span_point};
  block->free[span].offset += size;
  block->free[span].size -= size;
  if (!block->free[span].size) memory_remove_span(block, span);
  return EDGERT_OK;
}

/* A chunk out of the blocks there are, or `*out` stays NULL. */
static edgert_status memory_find(vulkan_device *self, int kind, uint64_t size, vulkan_chunk **out,
                                 edgert_error *error) {
  for (vulkan_block *block = self->blocks; block; block = block->next) {
    size_t span = block->kind == kind ? memory_find_span(block, size) : SIZE_MAX;
    if (span != SIZE_MAX) return memory_cut(self, block, span, size, out, error);
  }
  return EDGERT_OK;
}

static edgert_status memory_take(vulkan_device *self, int kind, uint64_t owner, uint64_t size,
                                 vulkan_chunk **out, edgert_error *error) {
  size_t kept = memory_find_kept(self, kind, owner, size);
  if (kept != SIZE_MAX) {
    *out = self->kept[kept];
    self->kept_count -= 1;
    self->kept_bytes -= size;
    memmove(self->kept + kept, self->kept + kept + 1,
            (self->kept_count - kept) * sizeof *self->kept);
    return EDGERT_OK;
  }
  edgert_status status = memory_find(self, kind, size, out, error);
  if (status != EDGERT_OK || *out) return status;
  vulkan_block *block;
  status = memory_make_block(self, kind, size > self->next_block ? size : self->next_block, &block,
                             error);
  if (status == EDGERT_OUT_OF_MEMORY && size < self->next_block)
    status = memory_make_block(self, kind, size, &block, error);
  if (status == EDGERT_OUT_OF_MEMORY && self->kept_count) {
    while (self->kept_count) memory_drop(self, 0);
    status = memory_find(self, kind, size, out, error);
    if (status != EDGERT_OK || *out) return status;
    status = memory_make_block(self, kind, size, &block, error);
  }
  if (status != EDGERT_OK) return status;
  if (self->next_block < MEMORY_LARGEST_BLOCK) self->next_block *= 2;
  return memory_cut(self, block, 0, size, out, error);
}

edgert_status vulkan_chunk_take(vulkan_device *self, int kind, uint64_t owner, uint64_t size,
                                vulkan_chunk **out, edgert_error *error) {
  *out = NULL;
  size = memory_round(size ? size : 1, self->alignment);
  edgert_mutex_lock(&self->lock);
  edgert_status status = memory_take(self, kind, owner, size, out, error);
  edgert_mutex_unlock(&self->lock);
  return status;
}

void vulkan_chunk_give(vulkan_device *self, vulkan_chunk *chunk) {
  edgert_mutex_lock(&self->lock);
  if (self->kept_count == VULKAN_KEPT_CHUNKS) memory_drop(self, 0);
  self->kept[self->kept_count++] = chunk;
  self->kept_bytes += chunk->size;
  while (self->kept_count && self->kept_bytes > self->kept_limit) memory_drop(self, 0);
  edgert_mutex_unlock(&self->lock);
}

void vulkan_memory_close(vulkan_device *self) {
  while (self->kept_count) memory_drop(self, 0);
  while (self->blocks) {
    vulkan_block *block = self->blocks;
    self->blocks = block->next;
    memory_destroy_block(self, block);
  }
}

/* --- what the host sees ----------------------------------------------------------------------- */

/* A range of a chunk for a flush or an invalidation, or 0 where none is needed. */
static int memory_range(const vulkan_device *self, const vulkan_chunk *chunk, uint64_t offset,
                        uint64_t size, VkMappedMemoryRange *out) {
  if (self->type_flags[chunk->block->kind] & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) return 0;
  uint64_t begin = offset / self->alignment * self->alignment;
  *out = (VkMappedMemoryRange){.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                               .memory = chunk->block->memory,
                               .offset = chunk->offset + begin,
                               .size = memory_round(offset + size - begin, self->alignment)};
  return 1;
}

edgert_status vulkan_chunk_flush(vulkan_device *self, const vulkan_chunk *chunk, uint64_t offset,
                                 uint64_t size, edgert_error *error) {
  VkMappedMemoryRange range;
  if (!memory_range(self, chunk, offset, size, &range)) return EDGERT_OK;
  VkResult result = self->FlushMappedMemoryRanges(self->handle, 1, &range);
  return result == VK_SUCCESS ? EDGERT_OK : vulkan_fail(self, result, "writing memory", error);
}

static edgert_status memory_invalidate(vulkan_device *self, const vulkan_chunk *chunk,
                                       uint64_t offset, uint64_t size, edgert_error *error) {
  VkMappedMemoryRange range;
  if (!memory_range(self, chunk, offset, size, &range)) return EDGERT_OK;
  VkResult result = self->InvalidateMappedMemoryRanges(self->handle, 1, &range);
  return result == VK_SUCCESS ? EDGERT_OK : vulkan_fail(self, result, "reading memory", error);
}

static uint64_t memory_point(vulkan_device *self, const edgert_buffer *buffer) {
  edgert_mutex_lock(&self->lock);
  uint64_t point = buffer->point;
  edgert_mutex_unlock(&self->lock);
  return point;
}

static void memory_touch(vulkan_device *self, edgert_buffer *buffer, uint64_t point) {
  edgert_mutex_lock(&self->lock);
  if (point > buffer->point) buffer->point = point;
  edgert_mutex_unlock(&self->lock);
}

edgert_status vulkan_map(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                         uint64_t size, int for_write, edgert_error *error) {
  vulkan_device *self = (vulkan_device *)device;
  (void)for_write; /* a line of the cache that is written in part must hold the rest, too */
  edgert_status status = vulkan_wait(self, memory_point(self, buffer), UINT64_MAX, NULL, error);
  if (status != EDGERT_OK) return status;
  return memory_invalidate(self, buffer->memory, offset, size, error);
}

edgert_status vulkan_unmap(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                           uint64_t size, edgert_error *error) {
  return vulkan_chunk_flush((vulkan_device *)device, buffer->memory, offset, size, error);
}

/* --- transfers -------------------------------------------------------------------------------- */

/* Copy between chunks, or fill `to` with zeros where `from` is NULL. */
static edgert_status memory_move(vulkan_device *self, const vulkan_chunk *from,
                                 uint64_t from_offset, const vulkan_chunk *to, uint64_t to_offset,
                                 uint64_t size, uint64_t *out_point, edgert_error *error) {
  vulkan_record *record;
  edgert_status status = vulkan_record_take(self, &record, error);
  if (status != EDGERT_OK) return status;
  status = vulkan_record_begin(self, record, error);
  if (status == EDGERT_OK) {
    const VkBufferCopy copy = {(from ? from->offset : 0) + from_offset, to->offset + to_offset,
                               size};
    if (from)
      self->CmdCopyBuffer(record->commands, from->block->buffer, to->block->buffer, 1, &copy);
    else
      self->CmdFillBuffer(record->commands, to->block->buffer, copy.dstOffset, size, 0);
    status = vulkan_record_end(self, record, error);
  }
  if (status == EDGERT_OK) status = vulkan_submit(self, record->commands, out_point, error);
  if (status == EDGERT_OK) record->point = *out_point;
  vulkan_record_give(self, record);
  return status;
}

static edgert_status memory_clear(vulkan_device *self, vulkan_chunk *chunk, edgert_error *error) {
  uint8_t *host = vulkan_chunk_host(chunk);
  if (!host) return memory_move(self, NULL, 0, chunk, 0, chunk->size, &chunk->point, error);
  edgert_status status = vulkan_wait(self, chunk->point, UINT64_MAX, NULL, error);
  if (status != EDGERT_OK) return status;
  memset(host, 0, (size_t)chunk->size);
  return vulkan_chunk_flush(self, chunk, 0, chunk->size, error);
}

edgert_status vulkan_allocate(edgert_device *device, edgert_buffer *buffer, edgert_error *error) {
  vulkan_device *self = (vulkan_device *)device;
  vulkan_chunk *chunk;
  edgert_status status =
      vulkan_chunk_take(self, VULKAN_LOCAL, buffer->owner, buffer->size, &chunk, error);
  if (status != EDGERT_OK) return status;
  if (buffer->owner && chunk->owner != buffer->owner) {
    chunk->owner = VULKAN_NOBODY;
    status = memory_clear(self, chunk, error);
  }
  if (status != EDGERT_OK) {
    vulkan_chunk_give(self, chunk);
    return status;
  }
  chunk->owner = buffer->owner;
  buffer->memory = chunk;
  buffer->host = vulkan_chunk_host(chunk);
  buffer->point = chunk->point;
  return EDGERT_OK;
}

void vulkan_deallocate(edgert_device *device, edgert_buffer *buffer) {
  vulkan_chunk *chunk = buffer->memory;
  chunk->point = buffer->point;
  vulkan_chunk_give((vulkan_device *)device, chunk);
}

/* Pieces of what goes through the host's memory; the device works on one while the host does on the
 * next. */
edgert_status vulkan_read(edgert_device *device, edgert_buffer *buffer, uint64_t offset, void *data,
                          uint64_t size, edgert_error *error) {
  vulkan_device *self = (vulkan_device *)device;
  edgert_status status = EDGERT_OK;
  for (uint64_t at = 0; at < size && status == EDGERT_OK;) {
    uint64_t piece = size - at < MEMORY_STAGING ? size - at : MEMORY_STAGING;
    vulkan_chunk *staging;
    status = vulkan_chunk_take(self, VULKAN_HOST, 0, piece, &staging, error);
    if (status != EDGERT_OK) return status;
    status = memory_move(self, buffer->memory, offset + at, staging, 0, piece, &staging->point,
                         error);
    if (status == EDGERT_OK) status = vulkan_wait(self, staging->point, UINT64_MAX, NULL, error);
    if (status == EDGERT_OK) status = memory_invalidate(self, staging, 0, piece, error);
    if (status == EDGERT_OK)
      memcpy((uint8_t *)data + at, vulkan_chunk_host(staging), (size_t)piece);
    vulkan_chunk_give(self, staging);
    at += piece;
  }
  return status;
}

edgert_status vulkan_write(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                           const void *data, uint64_t size, edgert_error *error) {
  vulkan_device *self = (vulkan_device *)device;
  edgert_status status = EDGERT_OK;
  uint64_t before = 0; /* the piece before the last */
  for (uint64_t at = 0; at < size && status == EDGERT_OK;) {
    uint64_t piece = size - at < MEMORY_STAGING ? size - at : MEMORY_STAGING;
    uint64_t last = memory_point(self, buffer);
    vulkan_chunk *staging;
    status = vulkan_wait(self, before, UINT64_MAX, NULL, error);
    if (status == EDGERT_OK)
      status = vulkan_chunk_take(self, VULKAN_HOST, 0, piece, &staging, error);
    if (status != EDGERT_OK) return status;
    status = vulkan_wait(self, staging->point, UINT64_MAX, NULL, error);
    if (status == EDGERT_OK) {
      memcpy(vulkan_chunk_host(staging), (const uint8_t *)data + at, (size_t)piece);
      status = vulkan_chunk_flush(self, staging, 0, piece, error);
    }
    if (status == EDGERT_OK)
      status = memory_move(self, staging, 0, buffer->memory, offset + at, piece, &staging->point,
                           error);
    if (status == EDGERT_OK) memory_touch(self, buffer, staging->point);
    vulkan_chunk_give(self, staging);
    if (at) before = last;
    at += piece;
  }
  return status;
}

#endif
