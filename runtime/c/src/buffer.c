#include "driver.h"
#include "seal.h"

void edgert_buffer_destroy(edgert_object *object) {
  edgert_buffer *self = (edgert_buffer *)object;
  if (self->whole) {
    edgert_release(self->whole);
  } else {
    if (self->memory) self->device->driver->deallocate(self->device, self);
    edgert_budget_give(self->budget, self->size + sizeof *self);
    edgert_release(self->lender);
    if (self->release) self->release(self->user);
  }
  edgert_release(self->device);
}

static edgert_status buffer_begin(edgert_device *device, uint64_t size, edgert_buffer **out,
                                  edgert_error *error) {
  *out = NULL;
  if (size > SIZE_MAX / 2)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "no memory for %llu bytes",
                       (unsigned long long)size);
  void *made;
  edgert_status status = edgert_object_create(&device->object.allocator, EDGERT_KIND_BUFFER,
                                              sizeof **out, &made, error);
  if (status != EDGERT_OK) return status;
  edgert_buffer *self = made;
  self->device = edgert_retain(device);
  self->size = size;
  atomic_init(&self->owners, 1);
  *out = self;
  return EDGERT_OK;
}

edgert_status edgert_buffer_create(edgert_device *device, uint64_t owner, edgert_budget *budget,
                                   edgert_memory kind, uint64_t size, edgert_buffer **out,
                                   edgert_error *error) {
  edgert_status status = buffer_begin(device, size, out, error);
  if (status != EDGERT_OK) return status;
  if (!edgert_budget_take(budget, size + sizeof **out)) {
    edgert_release(*out);
    *out = NULL;
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY,
                       "%llu bytes more are beyond the session's %llu", (unsigned long long)size,
                       (unsigned long long)budget->limit);
  }
  (*out)->owner = owner;
  (*out)->kind = kind;
  (*out)->budget = budget;
  status = device->driver->allocate(device, *out, error);
  if (status != EDGERT_OK) {
    edgert_release(*out);
    *out = NULL;
  }
  return status;
}

edgert_status edgert_buffer_lend(edgert_device *device, const void *data, uint64_t size,
                                 int read_only, edgert_object *lender, void (*release)(void *user),
                                 void *user, edgert_buffer **out, edgert_error *error) {
  edgert_status status = buffer_begin(device, size, out, error);
  if (status != EDGERT_OK) {
    if (release) release(user);
    return status;
  }
  edgert_buffer *self = *out;
  self->lender = edgert_retain(lender);
  self->release = release;
  self->user = user;
  self->read_only = read_only;
  status = device->driver->lend
               ? device->driver->lend(device, self, (uint8_t *)(uintptr_t)data, error)
               : EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the device cannot share host memory");
  if (status != EDGERT_OK) {
    edgert_release(self);
    *out = NULL;
  }
  return status;
}

edgert_status edgert_range_check(uint64_t whole, uint64_t offset, uint64_t size,
                                 edgert_error *error) {
  if (edgert_in_range(offset, size, whole)) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE,
                     "%llu bytes at %llu are beyond the %llu that are there",
                     (unsigned long long)size, (unsigned long long)offset,
                     (unsigned long long)whole);
}

edgert_status edgert_buffer_part(edgert_buffer *buffer, uint64_t offset, uint64_t length,
                                 edgert_buffer **out, edgert_error *error) {
  *out = NULL;
  if (length == EDGERT_WHOLE && offset <= buffer->size) length = buffer->size - offset;
  edgert_status status = edgert_range_check(buffer->size, offset, length, error);
  if (status != EDGERT_OK) return status;
  if (offset == 0 && length == buffer->size) {
    *out = edgert_retain(buffer);
    return EDGERT_OK;
  }
  status = buffer_begin(buffer->device, length, out, error);
  if (status != EDGERT_OK) return status;
  edgert_buffer *self = *out;
  self->whole = edgert_retain(buffer->whole ? buffer->whole : buffer);
  self->offset = buffer->offset + offset;
  self->host = buffer->host ? buffer->host + offset : NULL;
  self->read_only = buffer->read_only;
#if EDGERT_WITH_SIGNATURES
  self->pages = buffer->pages;
  self->place = buffer->place + offset;
#endif
  return EDGERT_OK;
}

#if EDGERT_WITH_SIGNATURES
edgert_status edgert_buffer_trust(const edgert_buffer *buffer, uint64_t offset, uint64_t size,
                                  edgert_error *error) {
  if (!buffer->pages) return EDGERT_OK;
  return edgert_pages_check(buffer->pages, buffer->place + offset, size, error);
}
#endif

edgert_status edgert_buffer_map(edgert_buffer *buffer, uint64_t offset, uint64_t size, int for_write,
                                edgert_error *error) {
  const edgert_driver *driver = buffer->device->driver;
  if (!driver->map) return EDGERT_OK;
  edgert_buffer *whole = buffer->whole ? buffer->whole : buffer;
  return driver->map(buffer->device, whole, buffer->offset + offset, size, for_write, error);
}

edgert_status edgert_buffer_read(edgert_buffer *buffer, uint64_t offset, void *data, uint64_t size,
                                 edgert_error *error) {
  edgert_status status = edgert_range_check(buffer->size, offset, size, error);
  if (status != EDGERT_OK || size == 0) return status;
  status = edgert_buffer_trust(buffer, offset, size, error);
  if (status != EDGERT_OK) return status;
  edgert_buffer *whole = buffer->whole ? buffer->whole : buffer;
  if (!buffer->host)
    return buffer->device->driver->read(buffer->device, whole, buffer->offset + offset, data, size,
                                        error);
  status = edgert_buffer_map(buffer, offset, size, 0, error);
  if (status == EDGERT_OK) memcpy(data, buffer->host + offset, (size_t)size);
  return status;
}

edgert_status edgert_buffer_write(edgert_buffer *buffer, uint64_t offset, const void *data,
                                  uint64_t size, edgert_error *error) {
  const edgert_driver *driver = buffer->device->driver;
  edgert_status status = edgert_range_check(buffer->size, offset, size, error);
  if (status != EDGERT_OK || size == 0) return status;
  if (buffer->read_only)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "constants cannot be written");
  edgert_buffer *whole = buffer->whole ? buffer->whole : buffer;
  if (!buffer->host)
    return driver->write(buffer->device, whole, buffer->offset + offset, data, size, error);
  edgert_buffer_touch(buffer);
  status = edgert_buffer_map(buffer, offset, size, 1, error);
  if (status != EDGERT_OK) return status;
  memcpy(buffer->host + offset, data, (size_t)size);
  if (!driver->unmap) return EDGERT_OK;
  return driver->unmap(buffer->device, whole, buffer->offset + offset, size, error);
}

edgert_status edgert_range_resolve(edgert_range range, const edgert_range *slots,
                                   size_t slot_count, edgert_range *out, edgert_error *error) {
  uint64_t size = range.buffer ? range.buffer->size : 0;
  uint64_t base = 0;
  if (!range.buffer) {
    if (range.slot >= slot_count || !slots[range.slot].buffer)
      return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "nothing is bound to slot %u",
                         (unsigned)range.slot);
    range.buffer = slots[range.slot].buffer;
    base = slots[range.slot].offset;
    size = slots[range.slot].length;
  }
  if (range.length == EDGERT_WHOLE && range.offset <= size) range.length = size - range.offset;
  edgert_status status = edgert_range_check(size, range.offset, range.length, error);
  if (status != EDGERT_OK) return status;
  range.offset += base;
  *out = range;
  return edgert_buffer_trust(range.buffer, range.offset, range.length, error);
}
