/* For libFuzzer: any bytes as a module, a file of weights, an executable for Vulkan or for CUDA or
 * the form of a language model's text or what one has read, told apart by their first bytes. Of a module all functions are
 * called twice, and its golden calls made, on the CPU with kernels that are linked in, on the device
 * that computes nothing, or, where it is for CUDA, on the driver for that with a library in place of
 * NVIDIA's (`fake_cuda.c`); code that a module brings is never run. Some devices answer every other
 * read later, so that programs stop in their middle and go on. With -DFUZZ_JNI=1 some are opened as
 * apps in Java do (`fuzz_jni.c`).
 *
 *     python -c 'from tests.c.fuzzing import *; write_saved_model(Path("."))'
 *     clang -std=gnu11 -shared -fPIC -Wl,-soname,libcuda.so.1 tests/c/fake_cuda.c -o libcuda.so.1
 *     clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iruntime/c/include -I. \
 *         -DEDGERT_WITH_ELF=0 -DEDGERT_WITH_VULKAN=1 -DEDGERT_WITH_CUDA=1 \
 *         tests/c/fuzz.c tests/c/fuzz_kernels.c tests/c/fuzz_text.c tests/c/fuzz_vulkan.c \
 *         tests/c/fuzz_cuda.c $(find runtime/c/src runtime/c/text -name '*.c') \
 *         -Wl,--no-as-needed libcuda.so.1 -Wl,-rpath,. -lm -lpthread -ldl -o fuzz
 *     ./fuzz -malloc_limit_mb=256 CORPUS
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "../../runtime/c/src/driver.h"
#include "../../runtime/c/src/weights.h"

#ifndef FUZZ_JNI
#define FUZZ_JNI 0
#endif

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

const edgert_allocator fuzz_allocator = {NULL, limited_allocate, limited_release};

/* --- a device that has no answer at first ------------------------------------------------------- */

static edgert_driver slow;
static unsigned looks;

static edgert_status slow_map(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                              uint64_t size, int for_write, edgert_error *error) {
  (void)device, (void)buffer, (void)offset, (void)size, (void)error;
  return !for_write && looks++ % 2 == 0 ? EDGERT_PENDING : EDGERT_OK;
}

static edgert_status slow_unmap(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                                uint64_t size, edgert_error *error) {
  (void)device, (void)buffer, (void)offset, (void)size, (void)error;
  return EDGERT_OK;
}

static void slow_down(edgert_device *device) {
  slow = *device->driver;
  slow.map = slow_map;
  slow.unmap = slow_unmap;
  device->driver = &slow;
  looks = 0;
}

/* A call that waits, to its end; one in eight is left as it is. */
static edgert_status finish(edgert_session *session, edgert_status status, edgert_value *results,
                            size_t count) {
  while (status == EDGERT_PENDING && looks % 16)
    status = edgert_session_resume(session, results, count, NULL);
  return status;
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
  status = finish(session, status, results, gives);
  for (size_t i = 0; i < MOST_VALUES; ++i) {
    if (arguments[i].kind == EDGERT_TENSOR) edgert_tensor_release(arguments[i].as.tensor);
    if (results[i].kind == EDGERT_TENSOR) edgert_tensor_release(results[i].as.tensor);
  }
}

static void fuzz_weights(const uint8_t *data, size_t size) {
  edgert_weights *weights = NULL;
  if (edgert_weights_wrap(data, size, NULL, NULL, &fuzz_allocator, &weights, NULL) == EDGERT_OK) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < weights->count; ++i) {
      const edgert_weight *entry = &weights->entries[i];
      const edgert_text name = {entry->name, entry->name_size};
      if (!edgert_weights_find(weights, name)) abort();
      for (uint64_t at = 0; entry->data && at < entry->size; ++at) sum += entry->data[at];
    }
  }
  edgert_weights_release(weights);
}

/* Whether a module asks for a device that takes executables for CUDA. */
static int is_for_cuda(const uint8_t *data, size_t size) {
  static const char format[] = "cuda-nvptx-fb";
  const size_t length = sizeof format - 1;
  for (size_t at = 0; at + length <= size; ++at)
    if (data[at] == 'c' && memcmp(data + at, format, length) == 0) return 1;
  return 0;
}

static void fuzz_module(const uint8_t *data, size_t size) {
  const edgert_library_query libraries[] = {fuzz_library};
  edgert_device_options device_options = {.size = sizeof device_options,
                                          .threads = 1,
                                          .allocator = fuzz_allocator,
                                          .libraries = libraries,
                                          .library_count = 1};
  edgert_module_options module_options = {.size = sizeof module_options,
                                          .allocator = fuzz_allocator};
  edgert_session_options session_options = {.size = sizeof session_options,
                                            .allocator = fuzz_allocator,
                                            .max_steps = 10000,
                                            .max_memory = 64 << 20,
                                            .max_milliseconds = 1000};
  const char *driver = is_for_cuda(data, size) ? "cuda" : data[size - 1] % 4 ? "cpu" : "null";
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_session *session = NULL;
  edgert_status status = edgert_device_create(driver, &device_options, &device, NULL);
  if (status == EDGERT_OK && data[size - 3] % 4 == 0) slow_down(device);
  if (status == EDGERT_OK)
    status = edgert_module_wrap(data, size, NULL, NULL, &module_options, &module, NULL);
  if (status == EDGERT_OK)
    status = edgert_session_create(module, device, &session_options, &session, NULL);
  status = finish(session, status, NULL, 0);
  if (status == EDGERT_OK) {
    size_t count = edgert_module_function_count(module);
    for (size_t i = 0; i < 2 * count && i < MOST_FUNCTIONS; ++i)
      call(device, module, session, i % count);
    (void)!edgert_session_prove(session, NULL, NULL);
  }
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 16) return 0;
  if (memcmp(data, "VKE1", 4) == 0)
    fuzz_vulkan(data, size);
  else if (memcmp(data, "CDA1", 4) == 0)
    fuzz_cuda(data, size);
  else if (memcmp(data, "edgectx", 7) == 0)
    fuzz_text(data, size);
  else if (memcmp(data, "edgesav", 7) == 0)
    fuzz_saved(data, size);
#if FUZZ_JNI
  else if (data[size - 2] % 4 == 0)
    fuzz_jni(data, size);
#endif
  else if (memcmp(data + 8, "IREE", 4) == 0 || memcmp(data, "PK", 2) == 0)
    fuzz_module(data, size);
  else
    fuzz_weights(data, size);
  return 0;
}
