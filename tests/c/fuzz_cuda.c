/* Executables for CUDA: their tables and text read, and modules and functions asked of a GPU that a
 * library in place of NVIDIA's has (`fake_cuda.c`). */
#define EDGERT_WITH_CUDA 1
#include "../../runtime/c/src/drivers.h"
#include "../../runtime/c/src/drivers/cuda/cuda.h"

#include <stdlib.h>

#include "fuzz.h"

void fuzz_cuda(const uint8_t *data, size_t size) {
  edgert_device_options options = {.size = sizeof options, .allocator = fuzz_allocator};
  edgert_device *device = NULL;
  if (edgert_device_create("cuda", &options, &device, NULL) != EDGERT_OK) abort();
  const uint32_t constants[1] = {1};
  edgert_executable *executable = NULL;
  uint32_t kernel;
  if (cuda_load(device, (edgert_text){CUDA_FORMAT, sizeof CUDA_FORMAT - 1}, data, size, constants,
                size % 7 == 0, &executable, NULL) == EDGERT_OK) {
    (void)cuda_find(executable, (edgert_text){"main", 4}, &kernel, NULL);
    for (kernel = 0; kernel < 4; ++kernel) (void)cuda_check(executable, kernel, 1, 3, NULL);
  }
  edgert_release(executable ? &executable->object : NULL);
  edgert_device_release(device);
}
