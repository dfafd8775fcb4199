/* The `vulkan` driver: kernels as SPIR-V on a GPU, or on what does as if it were one. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

/* --- the device ------------------------------------------------------------------------------- */

static void vulkan_destroy(edgert_device *device) {
  vulkan_device *self = (vulkan_device *)device;
  vulkan_pipelines_close(self);
  if (self->handle) {
    vulkan_wait_all(self);
    while (self->records) {
      vulkan_record *record = self->records;
      self->records = record->next;
      vulkan_record_destroy(self, record);
    }
    vulkan_memory_close(self);
    vulkan_cache_close(self);
    for (size_t i = 0; i < VULKAN_FENCES; ++i)
      if (self->fences[i].handle)
        self->DestroyFence(self->handle, self->fences[i].handle, NULL);
    self->DestroyDevice(self->handle, NULL);
  }
  vulkan_instance_close(&self->instance);
  edgert_condition_destroy(&self->made);
  edgert_mutex_destroy(&self->making);
  edgert_mutex_destroy(&self->lock);
}

/* The functions of a device that was opened; without all of them it is as if it were not. */
static edgert_status vulkan_find_all(vulkan_device *self, VkDevice handle, edgert_error *error) {
  if (!vulkan_find_functions(&self->instance, handle, VULKAN_DEVICE(VULKAN_NAME), self->functions))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s lacks functions of Vulkan",
                       self->device.name);
  self->handle = handle;
  self->GetDeviceQueue(handle, self->facts.family, 0, &self->queue);
  return EDGERT_OK;
}

static edgert_status vulkan_open(vulkan_device *self, const edgert_device_options *options,
                                 edgert_error *error) {
  VkDevice handle;
  edgert_status status = vulkan_instance_open(&self->instance, error);
  if (status != EDGERT_OK) return status;
  self->number = options->index;
  if (self->number >= self->instance.device_count)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "Vulkan has %u devices here, and none of number %u",
                       (unsigned)self->instance.device_count, (unsigned)self->number);
  VkPhysicalDevice physical = self->instance.devices[self->number];
  status = vulkan_facts_read(&self->instance, physical, &self->facts, error);
  self->device.name = self->facts.properties.deviceName;
  if (status == EDGERT_OK && options->timed && !self->facts.timestamp_bits)
    status = EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s has no clock for its kernels",
                         self->device.name);
  if (status == EDGERT_OK)
    status = vulkan_facts_open(&self->instance, physical, &self->facts, &handle, error);
  if (status == EDGERT_OK) status = vulkan_find_all(self, handle, error);
  if (status == EDGERT_OK) status = vulkan_memory_open(self, options->cache_bytes, error);
  self->device.identity = vulkan_cache_identity(self);
  if (status == EDGERT_OK) status = vulkan_cache_open(self, options->cache_file, error);
  return status;
}

static edgert_status vulkan_create(const edgert_device_options *options, edgert_device **out,
                                   edgert_error *error) {
  void *made;
  *out = NULL;
  edgert_status status = edgert_object_create(&options->allocator, EDGERT_KIND_DEVICE,
                                              sizeof(vulkan_device), &made, error);
  if (status != EDGERT_OK) return status;
  vulkan_device *self = made;
  edgert_device_begin(&self->device, &edgert_vulkan_driver, options);
  edgert_mutex_create(&self->lock);
  edgert_mutex_create(&self->making);
  edgert_condition_create(&self->made);
  status = vulkan_open(self, options, error);
  if (status == EDGERT_OK)
    *out = &self->device;
  else
    edgert_release(self);
  return status;
}

static edgert_status vulkan_list(uint32_t index, char *out, size_t size, edgert_error *error) {
  vulkan_instance instance;
  vulkan_facts facts;
  edgert_status status = vulkan_instance_open(&instance, error);
  if (status != EDGERT_OK) return status;
  if (index < instance.device_count) {
    status = vulkan_facts_read(&instance, instance.devices[index], &facts, error);
    strncpy(out, facts.properties.deviceName, size - 1);
    out[size - 1] = 0;
  } else {
    status = EDGERT_FAIL(error, EDGERT_NOT_FOUND, "Vulkan has %u devices here",
                         (unsigned)instance.device_count);
  }
  vulkan_instance_close(&instance);
  return status;
}

static const char *vulkan_format(const edgert_device *device, uint32_t index) {
  (void)device;
  return index ? NULL : VULKAN_FORMAT;
}

static edgert_status vulkan_wait_for_point(edgert_device *device, uint64_t point,
                                           uint64_t milliseconds, const edgert_watch *watch,
                                           edgert_error *error) {
  return vulkan_wait((vulkan_device *)device, point, milliseconds, watch, error);
}

const edgert_driver edgert_vulkan_driver = {
    .name = "vulkan",
    .id = "vulkan",
    .create = vulkan_create,
    .destroy = vulkan_destroy,
    .list = vulkan_list,
    .format = vulkan_format,
    .allocate = vulkan_allocate,
    .deallocate = vulkan_deallocate,
    .map = vulkan_map,
    .unmap = vulkan_unmap,
    .read = vulkan_read,
    .write = vulkan_write,
    .load = vulkan_load,
    .unload = vulkan_unload,
    .find = vulkan_find,
    .check = vulkan_check,
    .execute = vulkan_execute,
    .forget = vulkan_forget,
    .wait = vulkan_wait_for_point,
    .is_timed = 1,
};

#endif
