/* The file in which compiled kernels are kept for the next time.
 *
 * Drivers check what they are given back, but not all of them well. So the file says of which device
 * and driver version it is, and holds a hash of the rest; what does not fit is not given. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "../../bytes.h"
#include "../../file.h"
#include "vulkan.h"

typedef struct cache_head {
  char magic[8];
  uint32_t vendor, device, driver, reserved;
  uint8_t id[VK_UUID_SIZE];
  uint64_t size, hash;
} cache_head;

static cache_head cache_make_head(const vulkan_device *self, const uint8_t *data, size_t size) {
  const VkPhysicalDeviceProperties *properties = &self->facts.properties;
  cache_head head = {.magic = "edgeVK1",
                     .vendor = properties->vendorID,
                     .device = properties->deviceID,
                     .driver = properties->driverVersion,
                     .size = size,
                     .hash = edgert_bytes_hash(data, size)};
  memcpy(head.id, properties->pipelineCacheUUID, sizeof head.id);
  return head;
}

/* What the file holds, if it is of this device; else nothing. */
static int cache_read(const vulkan_device *self, edgert_mapping *out) {
  edgert_error ignored;
  const edgert_allocator *allocator = &self->device.object.allocator;
  if (edgert_mapping_open(self->cache_file, allocator, out, &ignored) != EDGERT_OK) return 0;
  if (out->size > sizeof(cache_head)) {
    const uint8_t *data = out->data + sizeof(cache_head);
    const cache_head head = cache_make_head(self, data, out->size - sizeof head);
    if (memcmp(out->data, &head, sizeof head) == 0) return 1;
  }
  edgert_mapping_close(out, allocator);
  return 0;
}

edgert_status vulkan_cache_open(vulkan_device *self, const char *path, edgert_error *error) {
  const edgert_allocator *allocator = &self->device.object.allocator;
  edgert_mapping file = {NULL, 0, 0};
  if (path) {
    void *memory;
    size_t size = strlen(path) + 1;
    edgert_status status = edgert_allocate(allocator, size, 1, &memory, error);
    if (status != EDGERT_OK) return status;
    self->cache_file = memcpy(memory, path, size);
  }
  int is_found = path && cache_read(self, &file);
  VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  if (is_found) {
    info.initialDataSize = file.size - sizeof(cache_head);
    info.pInitialData = file.data + sizeof(cache_head);
  }
  VkResult result = self->CreatePipelineCache(self->handle, &info, NULL, &self->cache);
  if (is_found) edgert_mapping_close(&file, allocator);
  if (result == VK_SUCCESS) return EDGERT_OK;
  return vulkan_fail(self, result, "making a cache of kernels", error);
}

void vulkan_cache_save(vulkan_device *self) {
  const edgert_allocator *allocator = &self->device.object.allocator;
  size_t size = 0;
  void *data;
  if (!self->is_cache_old || !self->cache_file || self->is_lost) return;
  self->is_cache_old = 0;
  if (self->GetPipelineCacheData(self->handle, self->cache, &size, NULL) != VK_SUCCESS || !size)
    return;
  if (edgert_allocate(allocator, size, 16, &data, NULL) != EDGERT_OK) return;
  int is_written = 0;
  if (self->GetPipelineCacheData(self->handle, self->cache, &size, data) == VK_SUCCESS) {
    const cache_head head = cache_make_head(self, data, size);
    is_written =
        edgert_file_replace(self->cache_file, allocator, &head, sizeof head, data, size);
  }
  if (!is_written)
    edgert_device_remark(&self->device, "the file for compiled kernels cannot be written");
  edgert_deallocate(allocator, data);
}

/* Of the device and its driver's version; not of what is in the cache. */
uint64_t vulkan_cache_identity(const vulkan_device *self) {
  const cache_head head = cache_make_head(self, NULL, 0);
  return edgert_bytes_hash((const uint8_t *)&head, sizeof head);
}

void vulkan_cache_close(vulkan_device *self) {
  if (self->cache) {
    vulkan_cache_save(self);
    self->DestroyPipelineCache(self->handle, self->cache, NULL);
  }
  edgert_deallocate(&self->device.object.allocator, self->cache_file);
}

#endif
