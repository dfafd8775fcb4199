/* What other libraries need to give a device work beside edgert. */
#include "session.h"
#include "tensor.h"

#if EDGERT_WITH_NATIVE

static edgert_status native_find(const edgert_device *device, const edgert_neighbour **out,
                                 edgert_error *error) {
  edgert_error_clear(error);
  *out = device->driver->neighbour;
  if (*out) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "'%s' works beside no other library",
                     device->driver->name);
}

edgert_status edgert_device_native(edgert_device *device, edgert_native *out_native,
                                   edgert_error *error) {
  const edgert_neighbour *neighbour;
  *out_native = (edgert_native){0};
  edgert_status status = native_find(device, &neighbour, error);
  if (status == EDGERT_OK) neighbour->native(device, out_native);
  return status;
}

edgert_status edgert_tensor_address(const edgert_tensor *tensor, uint64_t *out_address,
                                    edgert_error *error) {
  const edgert_buffer *buffer = tensor->buffer, *whole = buffer->whole ? buffer->whole : buffer;
  const edgert_neighbour *neighbour;
  *out_address = 0;
  edgert_status status = native_find(buffer->device, &neighbour, error);
  if (status == EDGERT_OK) *out_address = neighbour->address(whole) + buffer->offset;
  return status;
}

edgert_status edgert_tensor_wait(const edgert_tensor *tensor, uint64_t milliseconds,
                                 edgert_error *error) {
  const edgert_buffer *buffer = tensor->buffer, *whole = buffer->whole ? buffer->whole : buffer;
  edgert_error_clear(error);
  if (!whole->point) return EDGERT_OK;
  return edgert_device_wait(buffer->device, whole->point, milliseconds, NULL, error);
}

edgert_status edgert_device_hold(edgert_device *device, edgert_error *error) {
  const edgert_neighbour *neighbour;
  edgert_status status = native_find(device, &neighbour, error);
  if (status == EDGERT_OK) neighbour->hold(device);
  return status;
}

void edgert_device_let_go(edgert_device *device) { device->driver->neighbour->let_go(device); }

edgert_status edgert_device_enqueued(edgert_device *device, edgert_tensor *const *tensors,
                                     size_t count, edgert_error *error) {
  const edgert_neighbour *neighbour;
  edgert_status status = native_find(device, &neighbour, error);
  return status == EDGERT_OK ? neighbour->enqueued(device, tensors, count, error) : status;
}

#endif
