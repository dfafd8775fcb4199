/* Loads a module, calls its first function on ones and prints the first number of the answer. */
#include <edgert/edgert.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
  edgert_error error = {EDGERT_OK, "give a module"};
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_session *session = NULL;
  edgert_value input = {.kind = EDGERT_NONE}, output = {.kind = EDGERT_NONE};
  edgert_argument spec;
  int failed = count < 2 || edgert_device_create("cpu", NULL, &device, &error) ||
               edgert_module_open(arguments[1], NULL, &module, &error) ||
               edgert_session_create(module, device, NULL, &session, &error) ||
               edgert_module_input(module, 0, 0, &spec, &error);
  if (!failed && spec.type == EDGERT_F32) {
    size_t size = sizeof(float);
    for (uint32_t i = 0; i < spec.rank; ++i) size *= (size_t)spec.shape[i];
    float *ones = aligned_alloc(EDGERT_ALIGNMENT, (size + 63) / 64 * 64);
    for (size_t i = 0; i < size / sizeof(float); ++i) ones[i] = 1;
    failed = edgert_tensor_wrap(device, spec.type, spec.rank, spec.shape, ones, size, free, ones,
                                &input.as.tensor, &error);
    input.kind = EDGERT_TENSOR;
    if (!failed) failed = edgert_session_call(session, 0, &input, 1, &output, 1, &error);
    if (!failed) printf("%g\n", (double)*(const float *)edgert_tensor_data(output.as.tensor));
    edgert_tensor_release(input.as.tensor);
    if (output.kind == EDGERT_TENSOR) edgert_tensor_release(output.as.tensor);
  }
  if (failed) fprintf(stderr, "%s\n", error.message);
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
  return failed ? 1 : 0;
}
