/* Numbers from the host's memory into buffers, from buffers to the host, and between devices. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* --- strides ---------------------------------------------------------------------------------- */

/* Bytes from one element to the next along each axis, where rows lie one after the other. */
static void dense_strides(size_t rank, const int64_t *shape, size_t element, int64_t *out) {
  int64_t stride = (int64_t)element;
  for (size_t i = rank; i-- > 0;) {
    out[i] = stride;
    stride *= shape[i];
  }
}

/* Whether strides mean what the others do: along an axis of one element they mean nothing. */
static bool is_same(size_t rank, const int64_t *shape, const int64_t *a, const int64_t *b) {
  for (size_t i = 0; i < rank; ++i)
    if (shape[i] > 1 && a[i] != b[i]) return false;
  return true;
}

/* Copy all elements, each side with its own strides. */
static void copy_strided(size_t rank, const int64_t *shape, size_t element, char *to,
                         const int64_t *to_strides, const char *from,
                         const int64_t *from_strides) {
  if (!rank) {
    memcpy(to, from, element);
    return;
  }
  for (int64_t i = 0; i < *shape; ++i)
    copy_strided(rank - 1, shape + 1, element, to + i * *to_strides, to_strides + 1,
                 from + i * *from_strides, from_strides + 1);
}

/* The strides that a layout asks for; row major where it is NULL. */
static pjrt_error *layout_strides(const pjrt_layout *layout, size_t rank, const int64_t *shape,
                                  size_t element, int64_t *out) {
  dense_strides(rank, shape, element, out);
  if (!layout) return NULL;
  if (layout->type == PJRT_STRIDES) {
    if (layout->as.strides.num_byte_strides != rank)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "a layout has %zu strides for %zu dimensions",
                       layout->as.strides.num_byte_strides, rank);
    for (size_t i = 0; i < rank; ++i) out[i] = layout->as.strides.byte_strides[i];
    return NULL;
  }
  if (layout->as.tiled.num_tiles)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's buffers have no tiles");
  int64_t stride = (int64_t)element;
  for (size_t i = 0; i < layout->as.tiled.minor_to_major_size; ++i) {
    int64_t axis = layout->as.tiled.minor_to_major[i];
    if (axis < 0 || (size_t)axis >= rank)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "a layout names the dimension %lld of %zu",
                       (long long)axis, rank);
    out[axis] = stride;
    stride *= shape[axis];
  }
  return NULL;
}

/* --- from the host ---------------------------------------------------------------------------- */

static void let_go(void *event) { pjrt_event_set(event, NULL); }

/* A tensor on the caller's own memory, where the device computes in it and it is aligned; else NULL. */
static edgert_tensor *shared(const client_buffer_from_host_buffer_args *args, pjrt_device *device,
                             uint32_t type, size_t bytes, pjrt_event **out_done) {
  *out_done = NULL;
  edgert_tensor *tensor = NULL;
  if (args->semantics != PJRT_ZERO_COPY && args->semantics != PJRT_MUTABLE_ZERO_COPY) return NULL;
  if (strcmp(device->driver, "cpu") || !bytes || (uintptr_t)args->data % EDGERT_ALIGNMENT)
    return NULL;
  pjrt_event *done = pjrt_event_make();
  if (!done) return NULL;
  edgert_error error;
  if (edgert_tensor_wrap(device->device, type, args->num_dims, args->dims,
                         (void *)(uintptr_t)args->data, bytes, let_go, done, &tensor, &error)) {
    pjrt_event_destroy(&(event_destroy_args){.event = done}); /* `let_go` has been called */
    return NULL;
  }
  *out_done = done;
  return tensor;
}

/* A tensor with a copy. */
static pjrt_error *copied(const client_buffer_from_host_buffer_args *args, pjrt_device *device,
                          uint32_t type, const int64_t *strides, const int64_t *dense,
                          size_t bytes, edgert_tensor **out) {
  size_t element = pjrt_type_bytes(args->type);
  const void *data = args->data;
  char *rows = NULL;
  edgert_error error;
  if (bytes && !is_same(args->num_dims, args->dims, strides, dense)) {
    rows = malloc(bytes);
    if (!rows) return pjrt_out_of_memory();
    copy_strided(args->num_dims, args->dims, element, rows, dense, data, strides);
    data = rows;
  }
  edgert_status status =
      edgert_tensor_create(device->device, type, args->num_dims, args->dims, out, &error);
  if (!status && bytes) status = edgert_tensor_write(*out, data, bytes, &error);
  free(rows);
  if (!status) return NULL;
  edgert_tensor_release(*out);
  *out = NULL;
  return pjrt_fail_edgert(&error);
}

pjrt_error *pjrt_client_buffer_from_host_buffer(client_buffer_from_host_buffer_args *args) {
  pjrt_device *device = args->memory ? args->memory->device : args->device;
  uint32_t type = pjrt_type_to_edgert(args->type);
  args->buffer = NULL;
  args->done = NULL;
  if (!type)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "edgec's buffers have no elements of PJRT's type %d: they are bool, integers "
                     "of 8 to 64 bits, f16, bf16, f32, f64, c64 and c128",
                     (int)args->type);
  if (args->num_dims > EDGERT_MAX_RANK)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "%zu dimensions; edgec's buffers have %d at most",
                     args->num_dims, EDGERT_MAX_RANK);
  int64_t dense[EDGERT_MAX_RANK], strides[EDGERT_MAX_RANK], wanted[EDGERT_MAX_RANK];
  size_t element = pjrt_type_bytes(args->type), bytes = element;
  for (size_t i = 0; i < args->num_dims; ++i) bytes *= (size_t)args->dims[i];
  dense_strides(args->num_dims, args->dims, element, dense);
  pjrt_error *failed =
      layout_strides(args->device_layout, args->num_dims, args->dims, element, wanted);
  if (failed) return failed;
  if (!is_same(args->num_dims, args->dims, wanted, dense))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's buffers are row major, and a layout is not");
  memcpy(strides, args->num_byte_strides ? args->byte_strides : dense,
         args->num_dims * sizeof *strides);
  edgert_tensor *tensor = NULL;
  pjrt_event *done = NULL;
  if (is_same(args->num_dims, args->dims, strides, dense))
    tensor = shared(args, device, type, bytes, &done);
  if (!tensor) {
    failed = copied(args, device, type, strides, dense, bytes, &tensor);
    if (failed) return failed;
    done = pjrt_event_ready();
  }
  args->buffer = pjrt_buffer_make(device, pjrt_value_make(tensor, NULL), args->type,
                                  args->num_dims, args->dims);
  args->done = done;
  if (args->buffer && done) return NULL;
  pjrt_buffer_destroy(&(buffer_destroy_args){.buffer = args->buffer});
  pjrt_event_destroy(&(event_destroy_args){.event = done});
  args->buffer = NULL;
  args->done = NULL;
  return pjrt_out_of_memory();
}

/* --- memory of somebody else's, as DLPack gives it -------------------------------------------- */

typedef struct view_owner {
  void *data;
  void (*on_delete)(void *data, void *user);
  void *user;
} view_owner;

static void view_let_go(void *user) {
  view_owner *owner = user;
  if (owner->on_delete) owner->on_delete(owner->data, owner->user);
  free(owner);
}

pjrt_error *pjrt_client_create_view_of_device_buffer(
    client_create_view_of_device_buffer_args *args) {
  pjrt_device *device = args->memory ? args->memory->device : args->device;
  uint32_t type = pjrt_type_to_edgert(args->type);
  args->buffer = NULL;
  if (!type || args->num_dims > EDGERT_MAX_RANK)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's buffers do not have this type or rank");
  if (strcmp(device->driver, "cpu"))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "%s does not share the host's memory", device->text);
  size_t element = pjrt_type_bytes(args->type), bytes = element;
  for (size_t i = 0; i < args->num_dims; ++i) bytes *= (size_t)args->dims[i];
  int64_t dense[EDGERT_MAX_RANK], strides[EDGERT_MAX_RANK];
  dense_strides(args->num_dims, args->dims, element, dense);
  pjrt_error *failed = layout_strides(args->layout, args->num_dims, args->dims, element, strides);
  if (failed) return failed;
  if (!is_same(args->num_dims, args->dims, strides, dense))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's buffers are row major, and this memory is not");
  if (bytes && (uintptr_t)args->data % EDGERT_ALIGNMENT)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "memory that edgec computes in begins at a multiple of %d: copy it",
                     EDGERT_ALIGNMENT);
  view_owner *owner = malloc(sizeof *owner);
  if (!owner) return pjrt_out_of_memory();
  *owner = (view_owner){args->data, args->on_delete, args->on_delete_user};
  edgert_tensor *tensor;
  edgert_error error;
  if (edgert_tensor_wrap(device->device, type, args->num_dims, args->dims, args->data, bytes,
                         view_let_go, owner, &tensor, &error))
    return pjrt_fail_edgert(&error);
  args->buffer = pjrt_buffer_make(device, pjrt_value_make(tensor, NULL), args->type,
                                  args->num_dims, args->dims);
  return args->buffer ? NULL : pjrt_out_of_memory();
}

/* --- to the host ------------------------------------------------------------------------------ */

static pjrt_error *held(pjrt_buffer *buffer, pjrt_value **out) {
  *out = pjrt_buffer_hold(buffer);
  if (*out) return NULL;
  return pjrt_fail(PJRT_INVALID_ARGUMENT, "the buffer has been deleted or donated");
}

/* What is read of a value once it is there, and where to. */
typedef struct reading {
  pjrt_value *value;
  pjrt_event *done;
  void *data;
  size_t offset, size;  /* bytes of the value that are read */
  size_t bytes;         /* of all of it */
  size_t rank, element; /* elements go where `strides` say; rank 0: they lie as on the device */
  int64_t shape[EDGERT_MAX_RANK], strides[EDGERT_MAX_RANK];
} reading;

static pjrt_error *reading_do(const reading *self) {
  edgert_tensor *tensor;
  edgert_error error;
  pjrt_error *failed = pjrt_value_wait(self->value, &tensor);
  if (failed || !self->size) return failed;
  bool is_whole = !self->rank && self->size == self->bytes;
  char *all = is_whole ? self->data : malloc(self->bytes);
  if (!all) return pjrt_out_of_memory();
  if (edgert_tensor_read(tensor, all, self->bytes, &error)) {
    failed = pjrt_fail_edgert(&error);
  } else if (self->rank) {
    int64_t dense[EDGERT_MAX_RANK];
    dense_strides(self->rank, self->shape, self->element, dense);
    copy_strided(self->rank, self->shape, self->element, self->data, self->strides, all, dense);
  } else if (!is_whole) {
    memcpy(self->data, all + self->offset, self->size);
  }
  if (!is_whole) free(all);
  return failed;
}

static void reading_end(pjrt_error *error, void *user) {
  reading *self = user;
  pjrt_event_set(self->done, error ? error : reading_do(self));
  pjrt_value_release(self->value);
  free(self);
}

/* Read now, or once the value is there; takes its reference to the value. */
static pjrt_error *reading_begin(const reading *what, pjrt_event **out_event) {
  *out_event = NULL;
  if (pjrt_value_is_there(what->value)) {
    pjrt_error *failed = reading_do(what);
    pjrt_value_release(what->value);
    if (!failed) *out_event = pjrt_event_ready();
    return failed;
  }
  reading *later = malloc(sizeof *later);
  pjrt_event *done = later ? pjrt_event_make() : NULL;
  pjrt_error *failed = pjrt_out_of_memory();
  if (done) {
    *later = *what;
    later->done = done;
    failed = pjrt_event_tell(pjrt_value_made(what->value), reading_end, later);
  }
  if (!failed) {
    *out_event = done;
    return NULL;
  }
  if (done) pjrt_event_set(pjrt_event_retain(done), NULL);
  pjrt_event_release(done);
  pjrt_event_release(done);
  free(later);
  pjrt_value_release(what->value);
  return failed;
}

pjrt_error *pjrt_buffer_to_host(buffer_to_host_args *args) {
  pjrt_buffer *buffer = args->buffer;
  args->event = NULL;
  if (!args->data) {
    args->data_size = buffer->bytes;
    return NULL;
  }
  if (args->data_size < buffer->bytes)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu bytes do not fit into %zu", buffer->bytes,
                     args->data_size);
  size_t element = pjrt_type_bytes(buffer->type);
  int64_t dense[EDGERT_MAX_RANK];
  reading what = {
      .data = args->data, .size = buffer->bytes, .bytes = buffer->bytes, .element = element};
  dense_strides(buffer->rank, buffer->shape, element, dense);
  pjrt_error *failed =
      layout_strides(args->host_layout, buffer->rank, buffer->shape, element, what.strides);
  if (!failed) failed = held(buffer, &what.value);
  if (failed) return failed;
  if (!is_same(buffer->rank, buffer->shape, what.strides, dense)) {
    what.rank = buffer->rank;
    memcpy(what.shape, buffer->shape, sizeof what.shape);
  }
  return reading_begin(&what, &args->event);
}

pjrt_error *pjrt_buffer_copy_raw_to_host(buffer_copy_raw_to_host_args *args) {
  pjrt_buffer *buffer = args->buffer;
  args->event = NULL;
  if (args->offset < 0 || args->count < 0 || (uint64_t)args->offset > buffer->bytes ||
      (uint64_t)args->count > buffer->bytes - (uint64_t)args->offset)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%lld bytes from %lld on do not lie in %zu",
                     (long long)args->count, (long long)args->offset, buffer->bytes);
  reading what = {.data = args->data,
                  .offset = (size_t)args->offset,
                  .size = (size_t)args->count,
                  .bytes = buffer->bytes};
  pjrt_error *failed = held(buffer, &what.value);
  return failed ? failed : reading_begin(&what, &args->event);
}

/* --- between devices -------------------------------------------------------------------------- */

/* A copy on another device, once the value is there: the caller waits. */
static pjrt_error *copy_to(pjrt_buffer *buffer, pjrt_device *device, pjrt_buffer **out) {
  *out = NULL;
  pjrt_value *value;
  edgert_tensor *tensor, *copy = NULL;
  pjrt_error *failed = held(buffer, &value);
  if (failed) return failed;
  failed = pjrt_value_wait(value, &tensor);
  if (failed) {
    pjrt_value_release(value);
    return failed;
  }
  char *data = malloc(buffer->bytes + 1);
  edgert_error error = {EDGERT_OUT_OF_MEMORY, "no memory for a copy"};
  edgert_status status = data ? EDGERT_OK : EDGERT_OUT_OF_MEMORY;
  if (!status && buffer->bytes) status = edgert_tensor_read(tensor, data, buffer->bytes, &error);
  if (!status)
    status = edgert_tensor_create(device->device, pjrt_type_to_edgert(buffer->type), buffer->rank,
                                  buffer->shape, &copy, &error);
  if (!status && buffer->bytes) status = edgert_tensor_write(copy, data, buffer->bytes, &error);
  free(data);
  pjrt_value_release(value);
  if (status) {
    edgert_tensor_release(copy);
    return pjrt_fail_edgert(&error);
  }
  *out = pjrt_buffer_make(device, pjrt_value_make(copy, NULL), buffer->type, buffer->rank,
                          buffer->shape);
  return *out ? NULL : pjrt_out_of_memory();
}

pjrt_error *pjrt_buffer_copy_to_device(buffer_copy_to_device_args *args) {
  return copy_to(args->buffer, args->device, &args->copy);
}

pjrt_error *pjrt_buffer_copy_to_memory(buffer_copy_to_memory_args *args) {
  return copy_to(args->buffer, args->memory->device, &args->copy);
}
