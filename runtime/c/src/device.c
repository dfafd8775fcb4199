#include "driver.h"

#include <string.h>

#ifndef EDGERT_WITH_NULL
#define EDGERT_WITH_NULL 1
#endif

static const edgert_driver *const device_drivers[] = {
    &edgert_cpu_driver,
#if EDGERT_WITH_NULL
    &edgert_null_driver,
#endif
};

#define DEVICE_DRIVER_COUNT (sizeof device_drivers / sizeof *device_drivers)

static void device_destroy(edgert_object *object) {
  edgert_device *self = (edgert_device *)object;
  if (self->driver && self->driver->destroy) self->driver->destroy(self);
}

const edgert_kind edgert_device_kind = {"hal.device", device_destroy};

static void device_executable_destroy(edgert_object *object) {
  edgert_executable *executable = (edgert_executable *)object;
  edgert_device *device = executable->device;
  if (device && device->driver->unload) device->driver->unload(executable);
  edgert_release(device);
}

const edgert_kind edgert_executable_kind = {"hal.executable", device_executable_destroy};

void edgert_device_begin(edgert_device *self, const edgert_driver *driver,
                         const edgert_device_options *options) {
  self->driver = driver;
  self->log = options->log;
  self->log_user = options->log_user;
}

void edgert_device_remark(const edgert_device *self, const char *message) {
  if (self->log) self->log(self->log_user, message);
}

const char *edgert_driver_name(size_t index) {
  return index < DEVICE_DRIVER_COUNT ? device_drivers[index]->name : NULL;
}

edgert_status edgert_device_create(const char *driver, const edgert_device_options *options,
                                   edgert_device **out_device, edgert_error *error) {
  *out_device = NULL;
  edgert_error_clear(error);
  edgert_device_options full;
  memset(&full, 0, sizeof full);
  edgert_status status = edgert_options_read(&full, sizeof full, options, error);
  if (status != EDGERT_OK) return status;
  full.allocator = edgert_allocator_or_default(&full.allocator);
  for (size_t i = 0; i < DEVICE_DRIVER_COUNT; ++i)
    if (strcmp(device_drivers[i]->name, driver) == 0)
      return device_drivers[i]->create(&full, out_device, error);
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "there is no driver '%s' in this build", driver);
}

edgert_device *edgert_device_retain(edgert_device *device) { return edgert_retain(device); }
void edgert_device_release(edgert_device *device) { edgert_release(device); }

int edgert_device_query(edgert_device *device, const char *category, const char *key,
                        int64_t *out_value) {
  *out_value = 0;
  return device->driver->query(device, (edgert_text){category, strlen(category)},
                               (edgert_text){key, strlen(key)}, out_value);
}

int edgert_pattern_fits(edgert_text pattern, const char *text) {
  size_t p = 0, star = SIZE_MAX;
  const char *retry = text;
  while (*text) {
    if (p < pattern.size && pattern.data[p] == '*') {
      star = p++;
      retry = text;
    } else if (p < pattern.size && (pattern.data[p] == '?' || pattern.data[p] == *text)) {
      ++p;
      ++text;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      text = ++retry;
    } else {
      return 0;
    }
  }
  while (p < pattern.size && pattern.data[p] == '*') ++p;
  return p == pattern.size;
}
