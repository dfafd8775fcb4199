/* Objects that only the `hal` module's functions look into. */
#ifndef EDGERT_HAL_H
#define EDGERT_HAL_H

#include "bytes.h"
#include "commands.h"
#include "fence.h"
#include "tensor.h"

/* `hal.allocator`: the device's memory. */
typedef struct edgert_heap {
  edgert_object object;
  edgert_device *device;
} edgert_heap;

/* `hal.file`: bytes of the host that queues read and write. */
typedef struct edgert_file {
  edgert_object object;
  edgert_bytes *bytes;
  size_t offset;
  size_t size;
} edgert_file;

#endif
