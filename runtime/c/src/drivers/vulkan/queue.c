/* Submissions to the one queue of a device, each at a point that can be waited for.
 *
 * Points grow by one, and the queue does things in order, so that when a submission's fence is
 * signalled all before it are done. A fence is used again when its point is done and nobody waits
 * for it any more. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

#define QUEUE_SLICE ((uint64_t)10000000) /* ns between looks at the watch */
#define QUEUE_ASKING ((uint64_t)5000000) /* ns for which it is asked instead of slept */

edgert_status vulkan_fail(vulkan_device *self, VkResult result, const char *what,
                          edgert_error *error) {
  (void)what;
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "%s has no memory: %s", self->device.name,
                         what);
    case VK_ERROR_DEVICE_LOST:
      self->is_lost = 1;
      return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED,
                         "%s was lost: %s; open the device and its sessions again",
                         self->device.name, what);
    default:
      return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED, "%s failed with %d: %s", self->device.name,
                         (int)result, what);
  }
}

/* A fence that is not in use, or NULL; under the lock. */
static vulkan_fence *queue_fence(vulkan_device *self) {
  for (size_t i = 0; i < VULKAN_FENCES; ++i)
    if (self->fences[i].point <= self->done && !self->fences[i].waiters) return &self->fences[i];
  return NULL;
}

static edgert_status queue_prepare(vulkan_device *self, vulkan_fence *fence, edgert_error *error) {
  VkResult result = VK_SUCCESS;
  if (!fence->handle) {
    const VkFlagsCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    result = self->CreateFence(self->handle, &info, NULL, &fence->handle);
  } else if (fence->is_used) {
    result = self->ResetFences(self->handle, 1, &fence->handle);
  }
  if (result != VK_SUCCESS) return vulkan_fail(self, result, "making a fence", error);
  fence->is_used = 0;
  return EDGERT_OK;
}

edgert_status vulkan_submit(vulkan_device *self, VkCommandBuffer commands, uint64_t *out_point,
                            edgert_error *error) {
  edgert_mutex_lock(&self->lock);
  vulkan_fence *fence;
  edgert_status status = EDGERT_OK;
  while (status == EDGERT_OK && (fence = queue_fence(self)) == NULL) {
    uint64_t oldest = self->done + 1;
    edgert_mutex_unlock(&self->lock);
    status = vulkan_wait(self, oldest, UINT64_MAX, NULL, error);
    edgert_mutex_lock(&self->lock);
  }
  if (status == EDGERT_OK && self->is_lost)
    status = vulkan_fail(self, VK_ERROR_DEVICE_LOST, "submitting", error);
  if (status == EDGERT_OK) status = queue_prepare(self, fence, error);
  if (status == EDGERT_OK) {
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands};
    VkResult result = self->QueueSubmit(self->queue, 1, &info, fence->handle);
    if (result == VK_SUCCESS) {
      fence->is_used = 1;
      *out_point = fence->point = ++self->submitted;
    } else {
      status = vulkan_fail(self, result, "submitting", error);
    }
  }
  edgert_mutex_unlock(&self->lock);
  return status;
}

/* Wait for a fence for a while, without the lock, which is held before and behind. `asks`: ask for
 * it again and again instead of sleeping: to be woken takes 0.04 to 0.2 ms on an H200, whose calls
 * take 1. */
static VkResult queue_wait_fence(vulkan_device *self, vulkan_fence *fence, uint64_t nanoseconds,
                                 int asks) {
  uint64_t point = fence->point, begin = asks ? edgert_nanoseconds() : 0;
  VkResult result;
  fence->waiters += 1;
  edgert_mutex_unlock(&self->lock);
  do
    result = self->WaitForFences(self->handle, 1, &fence->handle, 1, asks ? 0 : nanoseconds);
  while (asks && result == VK_TIMEOUT && edgert_nanoseconds() - begin < QUEUE_ASKING);
  edgert_mutex_lock(&self->lock);
  fence->waiters -= 1;
  if (result == VK_SUCCESS && point > self->done) self->done = point;
  return result;
}

/* The fence of the first point that is not before `point`; there is one while that is not done. */
static vulkan_fence *queue_find(vulkan_device *self, uint64_t point) {
  vulkan_fence *found = NULL;
  for (size_t i = 0; i < VULKAN_FENCES; ++i) {
    vulkan_fence *fence = &self->fences[i];
    if (fence->point >= point && (!found || fence->point < found->point)) found = fence;
  }
  return found;
}

edgert_status vulkan_wait(vulkan_device *self, uint64_t point, uint64_t milliseconds,
                          const edgert_watch *watch, edgert_error *error) {
  const uint64_t begin = milliseconds && milliseconds != UINT64_MAX ? edgert_nanoseconds() : 0;
  edgert_status status = EDGERT_OK;
  /* Only a GPU of its own leaves the processor's time and power to who waits. */
  int asks = milliseconds && !self->is_shared;
  edgert_mutex_lock(&self->lock);
  while (point > self->done && status == EDGERT_OK) {
    vulkan_fence *fence = queue_find(self, point);
    VkResult result = VK_ERROR_DEVICE_LOST;
    if (fence && !self->is_lost)
      result = queue_wait_fence(self, fence, milliseconds ? QUEUE_SLICE : 0, asks);
    asks = 0;
    if (result == VK_SUCCESS) continue;
    if (result != VK_TIMEOUT)
      status = vulkan_fail(self, result, "waiting for it", error);
    else if (!milliseconds || (milliseconds != UINT64_MAX &&
                               (edgert_nanoseconds() - begin) / 1000000u >= milliseconds))
      status = EDGERT_FAIL(error, EDGERT_TIMED_OUT, "the device is still at work");
    else if (watch && edgert_watch_is_over(watch))
      status = edgert_watch_fail(watch, error);
  }
  edgert_mutex_unlock(&self->lock);
  return status;
}

void vulkan_wait_all(vulkan_device *self) {
  edgert_mutex_lock(&self->lock);
  uint64_t point = self->submitted;
  edgert_mutex_unlock(&self->lock);
  if (vulkan_wait(self, point, UINT64_MAX, NULL, NULL) != EDGERT_OK)
    (void)self->DeviceWaitIdle(self->handle);
}

/* --- records ---------------------------------------------------------------------------------- */

edgert_status vulkan_record_take(vulkan_device *self, vulkan_record **out, edgert_error *error) {
  edgert_mutex_lock(&self->lock);
  vulkan_record **place = &self->records;
  while (*place && (*place)->point > self->done) place = &(*place)->next;
  *out = *place;
  if (*out) *place = (*out)->next;
  edgert_mutex_unlock(&self->lock);
  if (*out) return EDGERT_OK;
  void *made;
  edgert_status status = edgert_allocate_array(&self->device.object.allocator, 1, sizeof **out,
                                               &made, error);
  if (status != EDGERT_OK) return status;
  vulkan_record *record = made;
  const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = self->facts.family};
  VkResult result = self->CreateCommandPool(self->handle, &pool, NULL, &record->pool);
  if (result == VK_SUCCESS) {
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = record->pool,
        .commandBufferCount = 1};
    result = self->AllocateCommandBuffers(self->handle, &info, &record->commands);
  }
  if (result == VK_SUCCESS) {
    *out = record;
    return EDGERT_OK;
  }
  vulkan_record_destroy(self, record);
  return vulkan_fail(self, result, "making a command buffer", error);
}

void vulkan_record_give(vulkan_device *self, vulkan_record *record) {
  vulkan_chunk **chunks[] = {&record->bytes, &record->aside};
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; ++i) {
    if (!*chunks[i]) continue;
    (*chunks[i])->point = record->point;
    vulkan_chunk_give(self, *chunks[i]);
    *chunks[i] = NULL;
  }
  edgert_mutex_lock(&self->lock);
  record->next = self->records;
  self->records = record;
  edgert_mutex_unlock(&self->lock);
}

void vulkan_record_destroy(vulkan_device *self, vulkan_record *record) {
  const edgert_allocator *allocator = &self->device.object.allocator;
  vulkan_timing_drop(self, record);
  if (record->pool) self->DestroyCommandPool(self->handle, record->pool, NULL);
  if (record->descriptors) self->DestroyDescriptorPool(self->handle, record->descriptors, NULL);
  edgert_deallocate(allocator, record->slots);
  edgert_deallocate(allocator, record);
}

edgert_status vulkan_record_begin(vulkan_device *self, vulkan_record *record, edgert_error *error) {
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkResult result = self->ResetCommandPool(self->handle, record->pool, 0);
  if (result == VK_SUCCESS) result = self->BeginCommandBuffer(record->commands, &info);
  if (result != VK_SUCCESS) return vulkan_fail(self, result, "beginning commands", error);
  const VkFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const vulkan_uses before = {stages, 0, VK_ACCESS_MEMORY_WRITE_BIT};
  const vulkan_uses behind = {stages | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT,
                              VK_ACCESS_MEMORY_READ_BIT, VK_ACCESS_MEMORY_WRITE_BIT};
  vulkan_record_barrier(self, record, &before, &behind);
  return EDGERT_OK;
}

void vulkan_record_barrier(vulkan_device *self, vulkan_record *record, const vulkan_uses *before,
                           const vulkan_uses *behind) {
  const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = before->writes,
                                   .dstAccessMask = behind->reads | behind->writes};
  self->CmdPipelineBarrier(record->commands, before->stages, behind->stages, 0, 1, &barrier, 0,
                           NULL, 0, NULL);
}

edgert_status vulkan_record_end(vulkan_device *self, vulkan_record *record, edgert_error *error) {
  const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  self->CmdPipelineBarrier(record->commands,
                           VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
  VkResult result = self->EndCommandBuffer(record->commands);
  return result == VK_SUCCESS ? EDGERT_OK : vulkan_fail(self, result, "ending commands", error);
}

#endif
