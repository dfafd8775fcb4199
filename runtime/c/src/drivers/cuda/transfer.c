/* What the host reads and writes of the device's memory, through memory that both see. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

#define TRANSFER_PIECE ((uint64_t)8 << 20)
#define TRANSFER_SIDES 2 /* the device works on one piece while the host does on the next */

static uint64_t transfer_point(cuda_device *self, const edgert_buffer *buffer) {
  edgert_mutex_lock(&self->lock);
  uint64_t point = buffer->point;
  edgert_mutex_unlock(&self->lock);
  return point;
}

edgert_status cuda_map(edgert_device *device, edgert_buffer *buffer, uint64_t offset, uint64_t size,
                       int for_write, edgert_error *error) {
  (void)offset, (void)size, (void)for_write;
  uint64_t point = transfer_point((cuda_device *)device, buffer);
  return point ? cuda_wait(device, point, UINT64_MAX, NULL, error) : EDGERT_OK;
}

/* A transfer in pieces: `sides` are taken when they are first needed. */
typedef struct transfer {
  cuda_device *device;
  cuda_chunk *sides[TRANSFER_SIDES];
  CUdeviceptr at;
  uint64_t size;
} transfer;

static uint64_t transfer_size(const transfer *self, uint64_t at) {
  return self->size - at < TRANSFER_PIECE ? self->size - at : TRANSFER_PIECE;
}

/* A side whose last piece is done. */
static edgert_status transfer_side(transfer *self, uint64_t at, cuda_chunk **out,
                                   edgert_error *error) {
  cuda_chunk **side = &self->sides[at / TRANSFER_PIECE % TRANSFER_SIDES];
  edgert_status status = EDGERT_OK;
  if (!*side)
    status = cuda_chunk_take(self->device, CUDA_HOST, 0, transfer_size(self, at), side, error);
  if (status == EDGERT_OK)
    status = cuda_await(self->device, (*side)->point, UINT64_MAX, NULL, error);
  *out = *side;
  return status;
}

static edgert_status transfer_move(transfer *self, CUdeviceptr to, CUdeviceptr from, uint64_t size,
                                   cuda_chunk *side, edgert_error *error) {
  cuda_device *device = self->device;
  CUresult result = device->cuda.MemcpyAsync(to, from, (size_t)size, device->stream);
  if (result != CUDA_SUCCESS) return cuda_fail(device, result, "copying", error);
  return cuda_submit(device, &side->point, error);
}

static edgert_status transfer_begin(transfer *self, edgert_device *device,
                                    const edgert_buffer *buffer, uint64_t offset, uint64_t size,
                                    edgert_error *error) {
  const cuda_chunk *chunk = buffer->memory;
  *self = (transfer){
      .device = (cuda_device *)device, .at = chunk->address + offset, .size = size};
  return cuda_enter(self->device, error);
}

static void transfer_end(transfer *self) {
  for (size_t i = 0; i < TRANSFER_SIDES; ++i)
    if (self->sides[i]) cuda_chunk_give(self->device, self->sides[i]);
  cuda_leave(self->device);
}

edgert_status cuda_write(edgert_device *device, edgert_buffer *buffer, uint64_t offset,
                         const void *data, uint64_t size, edgert_error *error) {
  transfer self;
  cuda_chunk *side;
  edgert_status status = transfer_begin(&self, device, buffer, offset, size, error);
  if (status != EDGERT_OK) return status;
  for (uint64_t at = 0; at < size && status == EDGERT_OK; at += TRANSFER_PIECE) {
    uint64_t piece = transfer_size(&self, at);
    status = transfer_side(&self, at, &side, error);
    if (status != EDGERT_OK) break;
    memcpy(side->host, (const uint8_t *)data + at, (size_t)piece);
    status = transfer_move(&self, self.at + at, side->address, piece, side, error);
  }
  transfer_end(&self);
  return status;
}

/* What the device has brought of a piece, to where the app wants it. */
static edgert_status transfer_fetch(transfer *self, uint64_t at, uint8_t *data,
                                    edgert_error *error) {
  cuda_chunk *side;
  edgert_status status = transfer_side(self, at, &side, error);
  if (status == EDGERT_OK) memcpy(data + at, side->host, (size_t)transfer_size(self, at));
  return status;
}

edgert_status cuda_read(edgert_device *device, edgert_buffer *buffer, uint64_t offset, void *data,
                        uint64_t size, edgert_error *error) {
  transfer self;
  cuda_chunk *side;
  edgert_status status = transfer_begin(&self, device, buffer, offset, size, error);
  if (status != EDGERT_OK) return status;
  uint64_t fetched = 0;
  for (uint64_t at = 0; at < size && status == EDGERT_OK; at += TRANSFER_PIECE) {
    status = transfer_side(&self, at, &side, error);
    if (status == EDGERT_OK)
      status = transfer_move(&self, side->address, self.at + at, transfer_size(&self, at), side,
                             error);
    if (at / TRANSFER_PIECE + 1 < TRANSFER_SIDES || status != EDGERT_OK) continue;
    status = transfer_fetch(&self, fetched, data, error);
    fetched += TRANSFER_PIECE;
  }
  for (; fetched < size && status == EDGERT_OK; fetched += TRANSFER_PIECE)
    status = transfer_fetch(&self, fetched, data, error);
  transfer_end(&self);
  return status;
}

#endif
