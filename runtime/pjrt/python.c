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

/* A copy of a tensor in the host's memory, once it is computed. */
static pjrt_error *look(const edgert_tensor *tensor, void **out) {
  edgert_error error;
  size_t size = (size_t)edgert_tensor_size(tensor);
  *out = malloc(size + 1);
  if (!*out) return pjrt_out_of_memory();
  return size && edgert_tensor_read(tensor, *out, size, &error) ? pjrt_fail_edgert(&error) : NULL;
}

static size_t bytes_of(const pjrt_array *array) {
  size_t bytes = pjrt_type_bytes(pjrt_type_of_edgert(array->type));
  for (size_t i = 0; i < array->rank; ++i) bytes *= (size_t)array->shape[i];
  return bytes;
}

static pjrt_error *make(const pjrt_array *array, const void *data, pjrt_device *device,
                        edgert_tensor **out) {
  return pjrt_tensor_make(device->device, array->type, array->rank, array->shape, data,
                          bytes_of(array), out);
}

static pjrt_error *call(const pjrt_client *client, int64_t number, void *const *inputs,
                        void *const *outputs) {
  char *said = calloc(1, PYTHON_SAYS);
  if (!said) return pjrt_out_of_memory();
  pjrt_error *failed = NULL;
  if (client->python(number, inputs, outputs, said, PYTHON_SAYS))
    failed = pjrt_fail_text(PJRT_INTERNAL, said, strlen(said));
  free(said);
  return failed;
}

pjrt_error *pjrt_call_python(const pjrt_client *client, const pjrt_step *step,
                             edgert_tensor *const *given, pjrt_device *const *devices, size_t count,
                             edgert_tensor **made) {
  size_t taken = step->input_count, each = step->output_count, all = count * each;
  for (size_t i = 0; i < all; ++i) made[i] = NULL;
  if (!client->python)
    return pjrt_fail(PJRT_FAILED_PRECONDITION,
                     "the program calls Python, and JAX was started without edgec's");
  void **inputs = calloc(taken + 1, sizeof *inputs), **outputs = calloc(each + 1, sizeof *outputs);
  pjrt_error *failed = inputs && outputs ? NULL : pjrt_out_of_memory();
  for (size_t i = 0; i < taken && !failed; ++i) failed = look(given[i], &inputs[i]);
  for (size_t i = 0; i < each && !failed; ++i) {
    outputs[i] = malloc(bytes_of(&step->arrays[i]) + 1);
    if (!outputs[i]) failed = pjrt_out_of_memory();
  }
  if (!failed) failed = call(client, step->number, inputs, outputs);
  for (size_t i = 0; i < all && !failed; ++i)
    failed = make(&step->arrays[i % each], outputs[i % each], devices[i / each], &made[i]);
  for (size_t i = 0; i < all && failed; ++i) {
    edgert_tensor_release(made[i]);
    made[i] = NULL;
  }
  for (size_t i = 0; i < taken && inputs; ++i) free(inputs[i]);
  for (size_t i = 0; i < each && outputs; ++i) free(outputs[i]);
  free(inputs);
  free(outputs);
  return failed;
}
