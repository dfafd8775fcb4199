/* For libFuzzer: any bytes as a module, all of its functions called, without native code.
 *
 *     clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iruntime/c/include \
 *         tests/c/fuzz.c $(find runtime/c/src -name '*.c') -lm -lpthread -o fuzz
 *     ./fuzz -malloc_limit_mb=256 CORPUS
 */
#include <stdlib.h>

#include "edgert/edgert.h"

enum { MOST_FUNCTIONS = 64, MOST_VALUES = 16 };

static void *limited_allocate(void *user, size_t size, size_t alignment) {
  (void)user;
  if (size > (size_t)64 << 20) return NULL;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void limited_release(void *user, void *memory) {
  (void)user;
  free(memory);
}

/* Call a function with small tensors and zeros. */
static void call(edgert_device *device, edgert_module *module, edgert_session *session,
                 size_t function) {
  edgert_value arguments[MOST_VALUES] = {{.kind = EDGERT_NONE}};
  edgert_value results[MOST_VALUES] = {{.kind = EDGERT_NONE}};
  size_t takes = edgert_module_input_count(module, function);
  size_t gives = edgert_module_output_count(module, function);
  if (takes > MOST_VALUES || gives > MOST_VALUES) return;
  edgert_status status = EDGERT_OK;
  for (size_t i = 0; i < takes && status == EDGERT_OK; ++i) {
    edgert_argument spec;
    status = edgert_module_input(module, function, i, &spec, NULL);
    if (status == EDGERT_OK && spec.kind == EDGERT_TENSOR) {
      const int64_t shape[1] = {4};
      status = edgert_tensor_create(device, EDGERT_F32, 1, shape, &arguments[i].as.tensor, NULL);
    }
    if (status == EDGERT_OK) arguments[i].kind = spec.kind;
  }
  if (status == EDGERT_OK)
    status = edgert_session_call(session, function, arguments, takes, results, gives, NULL);
  for (size_t i = 0; i < MOST_VALUES; ++i) {
    if (arguments[i].kind == EDGERT_TENSOR) edgert_tensor_release(arguments[i].as.tensor);
    if (results[i].kind == EDGERT_TENSOR) edgert_tensor_release(results[i].as.tensor);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  edgert_allocator allocator = {NULL, limited_allocate, limited_release};
  edgert_device_options device_options = {
      .size = sizeof device_options, .threads = 1, .allocator = allocator};
  edgert_module_options module_options = {.size = sizeof module_options, .allocator = allocator};
  edgert_session_options session_options = {
      .size = sizeof session_options, .allocator = allocator, .max_steps = 10000};
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_session *session = NULL;
  if (edgert_device_create("null", &device_options, &device, NULL) == EDGERT_OK &&
      edgert_module_wrap(data, size, NULL, NULL, &module_options, &module, NULL) == EDGERT_OK &&
      edgert_session_create(module, device, &session_options, &session, NULL) == EDGERT_OK) {
    size_t count = edgert_module_function_count(module);
    for (size_t i = 0; i < count && i < MOST_FUNCTIONS; ++i) call(device, module, session, i);
  }
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
  return 0;
}
