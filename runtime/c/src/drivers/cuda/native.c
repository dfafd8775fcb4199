/* What other libraries are told of a device, NCCL for one, whose work goes to the same stream. */
#include "../../drivers.h"
#include "../../tensor.h"

#if EDGERT_WITH_CUDA && EDGERT_WITH_NATIVE

#include "cuda.h"

static void cuda_native(edgert_device *device, edgert_native *out) {
  const cuda_device *self = (const cuda_device *)device;
  *out = (edgert_native){.stream = self->stream, .index = (uint32_t)self->number};
}

static uint64_t cuda_whole_address(const edgert_buffer *buffer) {
  return ((const cuda_chunk *)buffer->memory)->address;
}

/* What takes memory and gives it back does so under this lock. */
static void cuda_hold(edgert_device *device) { edgert_mutex_lock(&((cuda_device *)device)->lock); }
static void cuda_let_go(edgert_device *device) {
  edgert_mutex_unlock(&((cuda_device *)device)->lock);
}

static edgert_status cuda_enqueued(edgert_device *device, edgert_tensor *const *tensors,
                                   size_t count, edgert_error *error) {
  cuda_device *self = (cuda_device *)device;
  uint64_t point = 0;
  edgert_status status = cuda_enter(self, error);
  if (status != EDGERT_OK) return status;
  status = cuda_submit(self, &point, error);
  edgert_mutex_lock(&self->lock);
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i) cuda_touch(tensors[i]->buffer, point);
  edgert_mutex_unlock(&self->lock);
  cuda_leave(self);
  return status;
}

const edgert_neighbour cuda_neighbour = {
    .native = cuda_native,
    .address = cuda_whole_address,
    .hold = cuda_hold,
    .let_go = cuda_let_go,
    .enqueued = cuda_enqueued,
};

#endif
