/* The drivers of this build, the first of them first. A driver that is left out is not compiled. */
#include "drivers.h"

const edgert_driver *edgert_driver_at(size_t index) {
  if (index-- == 0) return &edgert_cpu_driver;
#if EDGERT_WITH_VULKAN
  if (index-- == 0) return &edgert_vulkan_driver;
#endif
#if EDGERT_WITH_CUDA
  if (index-- == 0) return &edgert_cuda_driver;
#endif
#if EDGERT_WITH_WEBGPU
  if (index-- == 0) return &edgert_webgpu_driver;
#endif
#if EDGERT_WITH_NULL
  if (index-- == 0) return &edgert_null_driver;
#endif
  return NULL;
}
