#include "driver.h"
#include "format.h"

#include <string.h>

void edgert_device_destroy(edgert_object *object) {
  edgert_device *self = (edgert_device *)object;
  if (self->driver && self->driver->destroy) self->driver->destroy(self);
}

void edgert_executable_destroy(edgert_object *object) {
  edgert_executable *executable = (edgert_executable *)object;
  edgert_device *device = executable->device;
  if (device && device->driver->unload) device->driver->unload(executable);
  edgert_release(device);
}

void edgert_device_begin(edgert_device *self, const edgert_driver *driver,
                         const edgert_device_options *options) {
  self->driver = driver;
  self->name = driver->name;
  self->log = options->log;
  self->log_user = options->log_user;
  self->timed = options->timed;
  self->timed_user = options->timed_user;
}

void edgert_device_remark(const edgert_device *self, const char *message) {
  if (self->log) self->log(self->log_user, message);
}

edgert_status edgert_device_wait(edgert_device *self, uint64_t point, uint64_t milliseconds,
                                 const edgert_watch *watch, edgert_error *error) {
  if (!point || !self->driver->wait) return EDGERT_OK;
  return self->driver->wait(self, point, milliseconds, watch, error);
}

const char *edgert_driver_name(size_t index) {
  const edgert_driver *driver = edgert_driver_at(index);
  return driver ? driver->name : NULL;
}

static edgert_status device_find_driver(const char *name, const edgert_driver **out,
                                        edgert_error *error) {
  for (size_t i = 0; (*out = edgert_driver_at(i)) != NULL; ++i)
    if (strcmp((*out)->name, name) == 0) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "there is no driver '%s' in this build", name);
}

edgert_status edgert_driver_device(const char *driver, uint32_t index, char *out_name,
                                   size_t name_size, edgert_error *error) {
  const edgert_driver *found;
  edgert_error_clear(error);
  if (!name_size) return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no room for a name");
  *out_name = 0;
  edgert_status status = device_find_driver(driver, &found, error);
  if (status != EDGERT_OK) return status;
  if (found->list) return found->list(index, out_name, name_size, error);
  if (index) return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "'%s' has one device", driver);
  edgert_format(out_name, name_size, "%s", driver);
  return EDGERT_OK;
}

edgert_status edgert_device_create(const char *driver, const edgert_device_options *options,
                                   edgert_device **out_device, edgert_error *error) {
  *out_device = NULL;
  edgert_error_clear(error);
  const edgert_driver *found;
  edgert_device_options full;
  memset(&full, 0, sizeof full);
  edgert_status status = edgert_options_read(&full, sizeof full, options, error);
  if (status == EDGERT_OK) status = device_find_driver(driver, &found, error);
  if (status != EDGERT_OK) return status;
  if (full.index && !found->list)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "'%s' has one device", driver);
  if (full.timed && !found->is_timed)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "'%s' does not time what it runs", driver);
  full.allocator = edgert_allocator_or_default(&full.allocator);
  return found->create(&full, out_device, error);
}

const char *edgert_device_name(const edgert_device *device) { return device->name; }

uint64_t edgert_device_identity(const edgert_device *device) { return device->identity; }

edgert_device *edgert_device_retain(edgert_device *device) { return edgert_retain(device); }
void edgert_device_release(edgert_device *device) { edgert_release(device); }

int edgert_device_query(edgert_device *device, const char *category, const char *key,
                        int64_t *out_value) {
  return edgert_device_ask(device, (edgert_text){category, strlen(category)},
                           (edgert_text){key, strlen(key)}, out_value);
}

int edgert_device_ask(edgert_device *self, edgert_text category, edgert_text key, int64_t *out) {
  const edgert_driver *driver = self->driver;
  *out = 0;
  if (driver->query && driver->query(self, category, key, out)) return 1;
  if (edgert_text_equal(category, "hal.device.id")) {
    *out = edgert_pattern_fits(key, driver->id);
    return 1;
  }
  if (edgert_text_equal(category, "hal.executable.format")) {
    const char *format;
    for (uint32_t i = 0; !*out && (format = driver->format(self, i)) != NULL; ++i)
      *out = edgert_text_equal(key, format);
    return 1;
  }
  *out = edgert_text_equal(key, "concurrency") && (edgert_text_equal(category, "hal.device") ||
                                                   edgert_text_equal(category, "hal.dispatch"));
  return *out != 0; /* one at a time */
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
