/* Several threads on one device: one session for all of them, then a session each.
 *
 *     threads MODULE    its first function takes one f32 tensor; the answers must not differ
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert.h"

enum { THREADS = 4, CALLS = 200 };

typedef struct job {
  edgert_device *device;
  edgert_module *module;
  edgert_session *session; /* NULL: one of its own */
  int failed;
} job;

static void *work(void *argument) {
  job *self = argument;
  edgert_error error;
  edgert_argument spec;
  edgert_session *session = edgert_session_retain(self->session);
  edgert_value input = {.kind = EDGERT_TENSOR}, output = {.kind = EDGERT_NONE};
  uint8_t first[4096];
  size_t size = 0;
  self->failed = 1;
  if (!session && edgert_session_create(self->module, self->device, NULL, &session, &error))
    return NULL;
  if (edgert_module_input(self->module, 0, 0, &spec, &error) ||
      edgert_tensor_create(self->device, spec.type, spec.rank, spec.shape, &input.as.tensor,
                           &error))
    goto end;
  float *values = calloc((size_t)edgert_tensor_size(input.as.tensor), 1);
  for (size_t i = 0; values && i < edgert_tensor_size(input.as.tensor) / sizeof *values; ++i)
    values[i] = (float)(i % 17) / 8;
  if (!values || edgert_tensor_write(input.as.tensor, values,
                                     (size_t)edgert_tensor_size(input.as.tensor), &error)) {
    free(values);
    goto end;
  }
  free(values);
  for (int i = 0; i < CALLS; ++i) {
    if (edgert_session_call(session, 0, &input, 1, &output, 1, &error)) goto end;
    const void *data = edgert_tensor_data(output.as.tensor);
    if (i == 0) {
      size = (size_t)edgert_tensor_size(output.as.tensor);
      if (size > sizeof first) size = sizeof first;
      memcpy(first, data, size);
    }
    int differs = memcmp(first, data, size) != 0;
    edgert_tensor_release(output.as.tensor);
    if (differs) goto end;
  }
  self->failed = 0;
end:
  edgert_tensor_release(input.as.tensor);
  edgert_session_release(session);
  return NULL;
}

int main(int count, char **arguments) {
  edgert_error error = {EDGERT_OK, "give a module"};
  edgert_device_options options = {.size = sizeof options, .threads = 3};
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_session *session = NULL;
  if (count < 2 || edgert_device_create("cpu", &options, &device, &error) ||
      edgert_module_open(arguments[1], NULL, &module, &error) ||
      edgert_session_create(module, device, NULL, &session, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int failed = 0;
  for (int shared = 0; shared < 2; ++shared) {
    pthread_t threads[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; ++i) {
      jobs[i] = (job){device, module, shared ? session : NULL, 0};
      pthread_create(&threads[i], NULL, work, &jobs[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
      pthread_join(threads[i], NULL);
      failed |= jobs[i].failed;
    }
  }
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
  return failed;
}
