/* The `cuda` driver: kernels as PTX on NVIDIA's GPUs. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "../../bytes.h"
#include "cuda.h"

static void cuda_destroy(edgert_device *device) {
  cuda_device *self = (cuda_device *)device;
  if (self->context && cuda_enter(self, NULL) == EDGERT_OK) {
    if (self->stream) (void)self->cuda.StreamSynchronize(self->stream);
    cuda_pool_close(self);
    cuda_stamps_close(self);
    for (size_t i = 0; i < CUDA_EVENTS; ++i)
      if (self->events[i]) (void)self->cuda.EventDestroy(self->events[i]);
    if (self->recorder) (void)self->cuda.StreamDestroy(self->recorder);
    if (self->stream) (void)self->cuda.StreamDestroy(self->stream);
    cuda_leave(self);
  }
  if (self->context) (void)self->cuda.DevicePrimaryCtxRelease(self->number);
  edgert_condition_destroy(&self->nap);
  edgert_mutex_destroy(&self->timing);
  edgert_mutex_destroy(&self->recording);
  edgert_mutex_destroy(&self->lock);
}

/* Of the device and its driver's version. */
static uint64_t cuda_identity(const cuda_facts *facts) {
  const int numbers[] = {facts->driver, facts->major, facts->minor};
  uint64_t hashes[2] = {edgert_bytes_hash((const uint8_t *)facts->name, strlen(facts->name)),
                        edgert_bytes_hash((const uint8_t *)numbers, sizeof numbers)};
  return edgert_bytes_hash((const uint8_t *)hashes, sizeof hashes);
}

static edgert_status cuda_open(cuda_device *self, const edgert_device_options *options,
                               edgert_error *error) {
  edgert_status status = cuda_library_open(&self->cuda, error);
  if (status == EDGERT_OK)
    status = cuda_facts_read(&self->cuda, options->index, &self->number, &self->facts, error);
  if (status != EDGERT_OK) return status;
  self->device.name = self->facts.name;
  self->device.identity = cuda_identity(&self->facts);
  cuda_pool_open(self, options->cache_bytes);
  CUcontext context = NULL;
  CUresult result = self->cuda.DevicePrimaryCtxRetain(&context, self->number);
  if (result != CUDA_SUCCESS) return cuda_fail(self, result, "opening it", error);
  self->context = context;
  status = cuda_enter(self, error);
  if (status != EDGERT_OK) return status;
  result = self->cuda.StreamCreate(&self->stream, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) status = cuda_fail(self, result, "making a stream", error);
  cuda_leave(self);
  return status;
}

static edgert_status cuda_create(const edgert_device_options *options, edgert_device **out,
                                 edgert_error *error) {
  void *made;
  *out = NULL;
  edgert_status status = edgert_object_create(&options->allocator, EDGERT_KIND_DEVICE,
                                              sizeof(cuda_device), &made, error);
  if (status != EDGERT_OK) return status;
  cuda_device *self = made;
  edgert_device_begin(&self->device, &edgert_cuda_driver, options);
  edgert_mutex_create(&self->lock);
  edgert_mutex_create(&self->recording);
  edgert_mutex_create(&self->timing);
  edgert_condition_create(&self->nap);
  status = cuda_open(self, options, error);
  if (status == EDGERT_OK)
    *out = &self->device;
  else
    edgert_release(self);
  return status;
}

static edgert_status cuda_list(uint32_t index, char *out, size_t size, edgert_error *error) {
  cuda_library library;
  cuda_facts facts;
  CUdevice device;
  edgert_status status = cuda_library_open(&library, error);
  if (status == EDGERT_OK) status = cuda_facts_read(&library, index, &device, &facts, error);
  if (status != EDGERT_OK) return status;
  strncpy(out, facts.name, size - 1);
  out[size - 1] = 0;
  return EDGERT_OK;
}

static const char *cuda_format(const edgert_device *device, uint32_t index) {
  (void)device;
  return index ? NULL : CUDA_FORMAT;
}

static int cuda_query(edgert_device *device, edgert_text category, edgert_text key, int64_t *out) {
  const cuda_facts *facts = &((const cuda_device *)device)->facts;
  if (!edgert_text_equal(category, "hal.cuda") || !edgert_text_equal(key, "compute_capability"))
    return 0;
  *out = facts->major * 10 + facts->minor;
  return 1;
}

const edgert_driver edgert_cuda_driver = {
    .name = "cuda",
    .id = "cuda",
    .create = cuda_create,
    .destroy = cuda_destroy,
    .list = cuda_list,
    .format = cuda_format,
    .query = cuda_query,
    .allocate = cuda_allocate,
    .deallocate = cuda_deallocate,
    .map = cuda_map,
    .read = cuda_read,
    .write = cuda_write,
    .load = cuda_load,
    .unload = cuda_unload,
    .find = cuda_find,
    .check = cuda_check,
    .execute = cuda_execute,
    .forget = cuda_forget,
    .wait = cuda_wait,
    .is_timed = 1,
#if EDGERT_WITH_NATIVE
    .neighbour = &cuda_neighbour,
#endif
};

#endif
