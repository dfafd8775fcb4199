/* The drivers of this build, the first of them first. A driver that is left out is not compiled. */
#include "drivers.h"

static const edgert_driver *const drivers_here[] = {
    &edgert_cpu_driver,
#if EDGERT_WITH_VULKAN
    &edgert_vulkan_driver,
#endif
#if EDGERT_WITH_CUDA
    &edgert_cuda_driver,
#endif
#if EDGERT_WITH_WEBGPU
    &edgert_webgpu_driver,
#endif
#if EDGERT_WITH_NULL
    &edgert_null_driver,
#endif
    NULL,
};

const edgert_driver *edgert_driver_at(size_t index) {
  return index < sizeof drivers_here / sizeof *drivers_here ? drivers_here[index] : NULL;
}
