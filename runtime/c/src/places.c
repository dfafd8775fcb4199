/* A call on tensors that may lie in the caller's own memory: made, called and read at once. */
#include "session.h"
#include "tensor.h"

#if EDGERT_WITH_PLACES

/* The tensor of an argument: a new reference, to a copy of the caller's memory where it has none. */
static edgert_status place_take(const edgert_place *self, edgert_device *device, size_t index,
                               edgert_value *out, edgert_error *error) {
  (void)index;
  out->kind = EDGERT_TENSOR;
  out->as.tensor = edgert_retain(self->tensor);
  if (self->tensor) return EDGERT_OK;
  if (!self->data)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "argument %u must be a tensor",
                       (unsigned)index);
  edgert_status status = edgert_tensor_create(device, self->type, self->rank, self->shape,
                                              &out->as.tensor, error);
  if (status != EDGERT_OK) return status;
  return edgert_tensor_write(out->as.tensor, self->data, self->size, error);
}

static int place_fits(const edgert_place *self, const edgert_tensor *tensor) {
  return self->data && self->rank == tensor->rank && edgert_type_fits(tensor->type, self->type) &&
         memcmp(self->shape, tensor->shape, tensor->rank * sizeof *tensor->shape) == 0;
}

/* A result: into the caller's memory where it fits, else as a tensor, which is taken over. */
static edgert_status place_give(edgert_place *self, edgert_value *value, edgert_error *error) {
  edgert_tensor *tensor = value->as.tensor;
  if (value->kind != EDGERT_TENSOR) {
    *self = (edgert_place){0};
    return EDGERT_OK;
  }
  if (place_fits(self, tensor)) return edgert_tensor_read(tensor, self->data, self->size, error);
  int is_host = !tensor->buffer->device->driver->map;
  *self = (edgert_place){.tensor = tensor,
                        .data = is_host ? tensor->buffer->host : NULL,
                        .size = (size_t)tensor->size,
                        .type = tensor->type,
                        .rank = (uint32_t)tensor->rank,
                        .shape = tensor->shape};
  value->kind = EDGERT_NONE;
  return EDGERT_OK;
}

edgert_status edgert_session_call_places(edgert_session *session, size_t function,
                                        const edgert_place *arguments, size_t argument_count,
                                        edgert_place *results, size_t result_count,
                                        edgert_error *error) {
  edgert_error_clear(error);
  for (size_t i = 0; i < result_count; ++i) results[i].tensor = NULL;
  const edgert_allocator *allocator = &session->object.allocator;
  size_t count = argument_count + result_count;
  if (count < result_count)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there are too many arguments");
  void *memory;
  edgert_status status =
      edgert_allocate_array(allocator, count, sizeof(edgert_value), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_value *in = memory, *out = in + argument_count;
  for (size_t i = 0; i < argument_count && status == EDGERT_OK; ++i)
    status = place_take(&arguments[i], session->device, i, &in[i], error);
  if (status == EDGERT_OK)
    status = edgert_session_call(session, function, in, argument_count, out, result_count, error);
  for (size_t i = 0; i < result_count && status == EDGERT_OK; ++i)
    status = place_give(&results[i], &out[i], error);
  for (size_t i = 0; i < count; ++i)
    if (in[i].kind == EDGERT_TENSOR) edgert_release(in[i].as.tensor);
  for (size_t i = 0; i < result_count && status != EDGERT_OK; ++i) {
    edgert_release(results[i].tensor);
    results[i].tensor = NULL;
  }
  edgert_deallocate(allocator, memory);
  return status;
}

#endif
