/* Buffers: values on a device, with the shape and type that PJRT's caller knows them by. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

pjrt_buffer *pjrt_buffer_make(pjrt_device *device, pjrt_value *value, pjrt_type type, size_t rank,
                              const int64_t *shape) {
  pjrt_buffer *buffer = value ? calloc(1, sizeof *buffer) : NULL;
  if (!buffer) {
    pjrt_value_release(value);
    return NULL;
  }
  pthread_mutex_init(&buffer->lock, NULL);
  buffer->device = device;
  buffer->value = value;
  buffer->type = type;
  buffer->bytes = pjrt_type_bytes(type);
  buffer->rank = rank;
  for (size_t i = 0; i < rank; ++i) {
    buffer->shape[i] = shape[i];
    buffer->bytes *= (size_t)shape[i];
    buffer->minor_to_major[i] = (int64_t)(rank - 1 - i);
  }
  return buffer;
}

pjrt_value *pjrt_buffer_hold(pjrt_buffer *buffer) {
  pthread_mutex_lock(&buffer->lock);
  pjrt_value *value = buffer->value ? pjrt_value_retain(buffer->value) : NULL;
  pthread_mutex_unlock(&buffer->lock);
  return value;
}

static pjrt_error *buffer_deleted(void) {
  return pjrt_fail(PJRT_INVALID_ARGUMENT, "the buffer has been deleted or donated");
}

/* --- what it is ------------------------------------------------------------------------------- */

pjrt_error *pjrt_buffer_element_type(buffer_element_type_args *args) {
  args->type = args->buffer->type;
  return NULL;
}

pjrt_error *pjrt_buffer_dimensions(buffer_dimensions_args *args) {
  args->dims = args->buffer->shape;
  args->num_dims = args->buffer->rank;
  return NULL;
}

pjrt_error *pjrt_buffer_unpadded_dimensions(buffer_unpadded_dimensions_args *args) {
  args->dims = args->buffer->shape;
  args->num_dims = args->buffer->rank;
  return NULL;
}

pjrt_error *pjrt_buffer_dynamic_dimensions(buffer_dynamic_dimensions_args *args) {
  args->indices = NULL;
  args->count = 0;
  return NULL;
}

pjrt_error *pjrt_buffer_memory_layout(buffer_memory_layout_args *args) {
  memset(&args->layout, 0, sizeof args->layout);
  args->layout.size = sizeof args->layout;
  args->layout.type = PJRT_TILED;
  args->layout.as.tiled.size = sizeof args->layout.as.tiled;
  args->layout.as.tiled.minor_to_major = args->buffer->minor_to_major;
  args->layout.as.tiled.minor_to_major_size = args->buffer->rank;
  return NULL;
}

pjrt_error *pjrt_buffer_size_in_bytes(buffer_size_in_bytes_args *args) {
  args->bytes = args->buffer->bytes;
  return NULL;
}

pjrt_error *pjrt_buffer_device(buffer_device_args *args) {
  args->device = args->buffer->device;
  return NULL;
}

pjrt_error *pjrt_buffer_memory(buffer_memory_args *args) {
  args->memory = &args->buffer->device->memory;
  return NULL;
}

/* Whether the host may read a buffer where it lies, which lets NumPy and DLPack do without copies. */
static bool buffer_is_shared(const pjrt_buffer *buffer) {
  return strcmp(buffer->device->driver, "cpu") == 0;
}

pjrt_error *pjrt_buffer_is_on_cpu(buffer_is_on_cpu_args *args) {
  args->is_on_cpu = buffer_is_shared(args->buffer);
  return NULL;
}

pjrt_error *pjrt_buffer_ready_event(buffer_ready_event_args *args) {
  pjrt_value *value = pjrt_buffer_hold(args->buffer);
  args->event = value ? pjrt_event_retain(pjrt_value_made(value)) : pjrt_event_ready();
  pjrt_value_release(value);
  return NULL;
}

/* --- its life --------------------------------------------------------------------------------- */

pjrt_error *pjrt_buffer_delete(buffer_delete_args *args) {
  pthread_mutex_lock(&args->buffer->lock);
  pjrt_value *value = args->buffer->value;
  args->buffer->value = NULL;
  pthread_mutex_unlock(&args->buffer->lock);
  pjrt_value_release(value);
  return NULL;
}

pjrt_error *pjrt_buffer_is_deleted(buffer_is_deleted_args *args) {
  pthread_mutex_lock(&args->buffer->lock);
  args->is_deleted = !args->buffer->value;
  pthread_mutex_unlock(&args->buffer->lock);
  return NULL;
}

pjrt_error *pjrt_buffer_destroy(buffer_destroy_args *args) {
  pjrt_buffer *buffer = args->buffer;
  if (!buffer) return NULL;
  pjrt_value_release(buffer->value);
  pjrt_value_release(buffer->lent);
  pthread_mutex_destroy(&buffer->lock);
  free(buffer);
  return NULL;
}

/* Somebody reads the memory by itself, also after the buffer has been deleted. */
pjrt_error *pjrt_buffer_lend(buffer_lend_args *args) {
  pjrt_buffer *buffer = args->buffer;
  pthread_mutex_lock(&buffer->lock);
  bool is_there = buffer->value || buffer->lent_count;
  if (is_there && !buffer->lent_count++) buffer->lent = pjrt_value_retain(buffer->value);
  pthread_mutex_unlock(&buffer->lock);
  return is_there ? NULL : buffer_deleted();
}

pjrt_error *pjrt_buffer_take_back(buffer_take_back_args *args) {
  pjrt_buffer *buffer = args->buffer;
  pthread_mutex_lock(&buffer->lock);
  pjrt_value *last = NULL;
  bool is_lent = buffer->lent_count > 0;
  if (is_lent && !--buffer->lent_count) {
    last = buffer->lent;
    buffer->lent = NULL;
  }
  pthread_mutex_unlock(&buffer->lock);
  pjrt_value_release(last);
  return is_lent ? NULL : pjrt_fail(PJRT_FAILED_PRECONDITION, "the buffer is not lent");
}

static pjrt_error *buffer_address(pjrt_buffer *buffer, void **out) {
  *out = NULL;
  if (!buffer_is_shared(buffer))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "memory of %s has no address on the host",
                     buffer->device->text);
  pjrt_value *value = pjrt_buffer_hold(buffer);
  if (!value) return buffer_deleted();
  edgert_tensor *tensor;
  pjrt_error *failed = pjrt_value_wait(value, &tensor);
  if (!failed) *out = (void *)(uintptr_t)edgert_tensor_data(tensor);
  pjrt_value_release(value);
  return failed;
}

pjrt_error *pjrt_buffer_unsafe_pointer(buffer_unsafe_pointer_args *args) {
  void *data;
  pjrt_error *failed = buffer_address(args->buffer, &data);
  args->pointer = (uintptr_t)data;
  return failed;
}

pjrt_error *pjrt_buffer_data_pointer(buffer_data_pointer_args *args) {
  return buffer_address(args->buffer, &args->data);
}
