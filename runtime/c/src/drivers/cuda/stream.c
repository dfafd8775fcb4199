/* The one stream of a device: points in it, and waiting for them.
 *
 * A point is an event that was recorded behind what it stands for. Points grow by one, and the
 * stream does things in order, so that when an event has passed all before it have. An event is used
 * again when its point is done. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

/* ns for which an event is asked again and again: to be woken takes longer than most calls. Then it
 * is asked once a millisecond. */
#define STREAM_ASKING ((uint64_t)5000000)

static int stream_is_loss(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
      return 1;
    default:
      return result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED;
  }
}

edgert_status cuda_fail(cuda_device *self, CUresult result, const char *what, edgert_error *error) {
  const char *name = NULL;
  (void)what;
  if (self->cuda.GetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "%s has no memory: %s", self->device.name,
                       what);
  if (!self->lost && !stream_is_loss(result))
    return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED, "%s failed with %s (%d): %s",
                       self->device.name, name, (int)result, what);
  self->lost = result;
  return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED,
                     "%s was lost with %s (%d): %s; begin a new process",
                     self->device.name, name, (int)result, what);
}

/* How far a point is: CUDA_SUCCESS, CUDA_ERROR_NOT_READY, or what failed; under the lock. */
static CUresult stream_ask(cuda_device *self, uint64_t point) {
  if (point <= self->done) return CUDA_SUCCESS;
  CUresult result = self->cuda.EventQuery(self->events[point % CUDA_EVENTS]);
  if (result == CUDA_SUCCESS) self->done = point;
  return result;
}

int cuda_is_done(cuda_device *self, uint64_t point) {
  return stream_ask(self, point) == CUDA_SUCCESS;
}

edgert_status cuda_await(cuda_device *self, uint64_t point, uint64_t milliseconds,
                         const edgert_watch *watch, edgert_error *error) {
  uint64_t begin = 0;
  for (;;) {
    edgert_mutex_lock(&self->lock);
    CUresult result = stream_ask(self, point);
    edgert_mutex_unlock(&self->lock);
    if (result == CUDA_SUCCESS) return EDGERT_OK;
    if (result != CUDA_ERROR_NOT_READY) return cuda_fail(self, result, "waiting for it", error);
    uint64_t now = edgert_nanoseconds();
    if (!begin) begin = now;
    if (!milliseconds || (milliseconds != UINT64_MAX && (now - begin) / 1000000u >= milliseconds))
      return EDGERT_FAIL(error, EDGERT_TIMED_OUT, "the device is still at work");
    if (watch && edgert_watch_is_over(watch)) return edgert_watch_fail(watch, error);
    if (now - begin < STREAM_ASKING) {
      edgert_spin_pause();
      continue;
    }
    edgert_mutex_lock(&self->lock);
    edgert_condition_wait_for(&self->nap, &self->lock, 1);
    edgert_mutex_unlock(&self->lock);
  }
}

edgert_status cuda_wait(edgert_device *device, uint64_t point, uint64_t milliseconds,
                        const edgert_watch *watch, edgert_error *error) {
  cuda_device *self = (cuda_device *)device;
  edgert_status status = cuda_enter(self, error);
  if (status != EDGERT_OK) return status;
  status = cuda_await(self, point, milliseconds, watch, error);
  cuda_leave(self);
  return status;
}

edgert_status cuda_submit(cuda_device *self, uint64_t *out_point, edgert_error *error) {
  edgert_status status = EDGERT_OK;
  edgert_mutex_lock(&self->lock);
  while (status == EDGERT_OK && self->submitted - self->done == CUDA_EVENTS) {
    uint64_t oldest = self->done + 1;
    edgert_mutex_unlock(&self->lock);
    status = cuda_await(self, oldest, UINT64_MAX, NULL, error);
    edgert_mutex_lock(&self->lock);
  }
  if (status == EDGERT_OK && self->lost) status = cuda_fail(self, self->lost, "submitting", error);
  if (status == EDGERT_OK) {
    CUevent *event = &self->events[(self->submitted + 1) % CUDA_EVENTS];
    CUresult result = CUDA_SUCCESS;
    if (!*event) result = self->cuda.EventCreate(event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) result = self->cuda.EventRecord(*event, self->stream);
    if (result == CUDA_SUCCESS)
      *out_point = ++self->submitted;
    else
      status = cuda_fail(self, result, "submitting", error);
  }
  edgert_mutex_unlock(&self->lock);
  return status;
}

#endif
