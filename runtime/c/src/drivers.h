/* The drivers that there are, and which of them a build has. */
#ifndef EDGERT_DRIVERS_H
#define EDGERT_DRIVERS_H

#include "driver.h"

#ifndef EDGERT_WITH_NULL
#define EDGERT_WITH_NULL 1
#endif
#ifndef EDGERT_WITH_WEBGPU
#define EDGERT_WITH_WEBGPU 0
#endif
#ifndef EDGERT_WITH_VULKAN
#define EDGERT_WITH_VULKAN 0
#endif
#ifndef EDGERT_WITH_CUDA
#define EDGERT_WITH_CUDA 0
#endif

extern const edgert_driver edgert_cpu_driver;
extern const edgert_driver edgert_cuda_driver;
extern const edgert_driver edgert_null_driver;
extern const edgert_driver edgert_vulkan_driver;
extern const edgert_driver edgert_webgpu_driver;

#endif
