/* A call of Python between a program's parts: a device's tensors to the host's memory, and back. */
#include <stdlib.h>
#include <string.h>

#include "route.h"

void pjrt_route_keep_python(const pjrt_client *client, const pjrt_route *route, bool is_kept) {
  for (size_t i = 0; i < route->step_count; ++i) {
    const pjrt_step *step = &route->steps[i];
    if (step->kind == STEP_PYTHON && client->python)
      client->python(step->number, NULL, NULL, NULL, is_kept);
    for (size_t j = 0; j < step->way_count; ++j)
      pjrt_route_keep_python(client, step->ways[j], is_kept);
  }
}

#define PYTHON_SAYS 8192 /* bytes of what a failure says */

/* What the host sees of a tensor: its own memory, or a copy, which is then noted in `copy`. */
static pjrt_error *look(const edgert_tensor *tensor, const void **out, void **copy) {
  edgert_error error;
  size_t size = (size_t)edgert_tensor_size(tensor);
  *out = edgert_tensor_data(tensor);
  if (*out || !size) return NULL;
  *out = *copy = malloc(size);
  if (!*copy) return pjrt_out_of_memory();
  return edgert_tensor_read(tensor, *copy, size, &error) ? pjrt_fail_edgert(&error) : NULL;
}

static size_t bytes_of(const pjrt_array *array) {
  size_t bytes = pjrt_type_bytes(pjrt_type_of_edgert(array->type));
  for (size_t i = 0; i < array->rank; ++i) bytes *= (size_t)array->shape[i];
  return bytes;
}

static pjrt_error *make(const pjrt_array *array, const void *data, pjrt_device *device,
                        edgert_tensor **out) {
  edgert_error error;
  size_t size = bytes_of(array);
  if (!edgert_tensor_create(device->device, array->type, array->rank, array->shape, out, &error) &&
      (!size || !edgert_tensor_write(*out, data, size, &error)))
    return NULL;
  edgert_tensor_release(*out);
  *out = NULL;
  return pjrt_fail_edgert(&error);
}

static pjrt_error *call(const pjrt_client *client, int64_t number, const void *const *inputs,
                        void *const *outputs) {
  char *said = calloc(1, PYTHON_SAYS);
  if (!said) return pjrt_out_of_memory();
  pjrt_error *failed = NULL;
  if (client->python(number, inputs, outputs, said, PYTHON_SAYS))
    failed = pjrt_fail_text(PJRT_INTERNAL, said, strlen(said));
  free(said);
  return failed;
}

pjrt_error *pjrt_call_python(const pjrt_client *client, const pjrt_step *step, pjrt_device *device,
                             edgert_tensor *const *given, edgert_tensor **made) {
  if (!client->python)
    return pjrt_fail(PJRT_FAILED_PRECONDITION,
                     "the program calls Python, and JAX was started without edgec's");
  size_t taken = step->input_count, count = step->output_count;
  const void **inputs = calloc(taken + 1, sizeof *inputs);
  void **copies = calloc(taken + 1, sizeof *copies), **outputs = calloc(count + 1, sizeof *outputs);
  pjrt_error *failed = inputs && copies && outputs ? NULL : pjrt_out_of_memory();
  for (size_t i = 0; i < taken && !failed; ++i) failed = look(given[i], &inputs[i], &copies[i]);
  for (size_t i = 0; i < count && !failed; ++i) {
    outputs[i] = malloc(bytes_of(&step->arrays[i]) + 1);
    if (!outputs[i]) failed = pjrt_out_of_memory();
  }
  if (!failed) failed = call(client, step->number, inputs, outputs);
  for (size_t i = 0; i < count; ++i) made[i] = NULL;
  for (size_t i = 0; i < count && !failed; ++i)
    failed = make(&step->arrays[i], outputs[i], device, &made[i]);
  for (size_t i = 0; i < count && failed; ++i) {
    edgert_tensor_release(made[i]);
    made[i] = NULL;
  }
  for (size_t i = 0; i < taken && copies; ++i) free(copies[i]);
  for (size_t i = 0; i < count && outputs; ++i) free(outputs[i]);
  free(inputs);
  free(copies);
  free(outputs);
  return failed;
}
