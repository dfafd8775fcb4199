/* Commands to the stream, one after the other; it does them in this order, so that barriers are
 * nothing. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

/* What is being executed. */
typedef struct execution {
  cuda_device *device;
  const edgert_commands *commands;
  const edgert_range *slots;
  size_t slot_count;
  cuda_chunk *bytes; /* what updates copy from, or NULL */
} execution;

static CUdeviceptr execution_address(const edgert_range *range) {
  const edgert_buffer *buffer = range->buffer;
  const cuda_chunk *chunk = (buffer->whole ? buffer->whole : buffer)->memory;
  return chunk->address + buffer->offset + range->offset;
}

/* --- transfers -------------------------------------------------------------------------------- */

static edgert_status execution_fill(execution *self, const edgert_command *command, CUdeviceptr to,
                                    uint64_t size, edgert_error *error) {
  cuda_device *device = self->device;
  uint32_t width = command->as.fill.width;
  uint64_t pattern = command->as.fill.pattern, count = size / width;
  CUresult result;
  uint8_t bytes[sizeof pattern];
  memcpy(bytes, &pattern, sizeof bytes);
  if (!count) return EDGERT_OK;
  if (memcmp(bytes, bytes + 1, width - 1) == 0)
    result = device->cuda.MemsetD8Async(to, bytes[0], (size_t)(count * width), device->stream);
  else if (to % (width < 4 ? width : 4))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a fill of %u bytes begins at an odd place",
                       (unsigned)width);
  else if (width == 2)
    result = device->cuda.MemsetD16Async(to, (unsigned short)pattern, (size_t)count,
                                         device->stream);
  else if (width == 4 || (uint32_t)pattern == pattern >> 32)
    result = device->cuda.MemsetD32Async(to, (unsigned)pattern, (size_t)(count * (width / 4)),
                                         device->stream);
  else { /* as two columns, row by row */
    result = device->cuda.MemsetD2D32Async(to, 8, (unsigned)pattern, 1, (size_t)count,
                                           device->stream);
    if (result == CUDA_SUCCESS)
      result = device->cuda.MemsetD2D32Async(to + 4, 8, (unsigned)(pattern >> 32), 1,
                                             (size_t)count, device->stream);
  }
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(device, result, "filling memory", error);
}

/* The bytes of all updates, where the device can reach them for as long as it takes. */
static edgert_status execution_take_bytes(execution *self, edgert_error *error) {
  const edgert_commands *commands = self->commands;
  if (self->bytes) return EDGERT_OK;
  edgert_status status = cuda_chunk_take(self->device, CUDA_HOST, 0, commands->byte_count,
                                         &self->bytes, error);
  if (status == EDGERT_OK)
    status = cuda_await(self->device, self->bytes->point, UINT64_MAX, NULL, error);
  if (status == EDGERT_OK) memcpy(self->bytes->host, commands->bytes, commands->byte_count);
  return status;
}

static edgert_status execution_copy(execution *self, CUdeviceptr to, CUdeviceptr from,
                                    uint64_t size, edgert_error *error) {
  cuda_device *device = self->device;
  CUresult result = device->cuda.MemcpyAsync(to, from, (size_t)size, device->stream);
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(device, result, "copying", error);
}

static edgert_status execution_transfer(execution *self, const edgert_command *command,
                                        edgert_error *error) {
  edgert_range target, source;
  edgert_status status =
      edgert_range_resolve(command->target, self->slots, self->slot_count, &target, error);
  if (status != EDGERT_OK) return status;
  if (target.buffer->read_only)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program writes to constants");
  CUdeviceptr to = execution_address(&target);
  if (command->kind == EDGERT_COMMAND_FILL)
    return execution_fill(self, command, to, target.length, error);
  if (command->kind == EDGERT_COMMAND_COPY) {
    status = edgert_range_resolve(command->as.copy.source, self->slots, self->slot_count, &source,
                                  error);
    if (status != EDGERT_OK) return status;
    if (source.length != target.length)
      return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a copy's two sides differ in size");
    return target.length ? execution_copy(self, to, execution_address(&source), target.length,
                                          error)
                         : EDGERT_OK;
  }
  if (!target.length) return EDGERT_OK;
  status = execution_take_bytes(self, error);
  if (status != EDGERT_OK) return status;
  return execution_copy(self, to, self->bytes->address + command->as.update.first, target.length,
                        error);
}

/* --- dispatches ------------------------------------------------------------------------------- */

/* A kernel's parameters are the addresses of its bindings, then its constants. */
static edgert_status execution_dispatch(execution *self, const edgert_command *command,
                                        edgert_error *error) {
  cuda_device *device = self->device;
  const cuda_executable *executable = (const cuda_executable *)command->as.dispatch.executable;
  const cuda_kernel *kernel = &executable->kernels[command->as.dispatch.kernel];
  const edgert_range *bindings = self->commands->bindings + command->as.dispatch.first_binding;
  const uint32_t *counts = command->as.dispatch.workgroups, *most = device->facts.most_grid;
  CUdeviceptr addresses[CUDA_MOST_PARAMETERS];
  const void *parameters[CUDA_MOST_PARAMETERS];
  uint32_t count = 0;
  if (command->as.dispatch.is_indirect)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "a dispatch has its size in memory, where CUDA does not look for it");
  if (counts[0] > most[0] || counts[1] > most[1] || counts[2] > most[2])
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "a dispatch has %u x %u x %u workgroups, more than %s runs",
                       (unsigned)counts[0], (unsigned)counts[1], (unsigned)counts[2],
                       device->device.name);
  for (; count < kernel->binding_count; ++count) {
    edgert_range range;
    edgert_status status =
        edgert_range_resolve(bindings[count], self->slots, self->slot_count, &range, error);
    if (status != EDGERT_OK) return status;
    addresses[count] = execution_address(&range);
    parameters[count] = &addresses[count];
  }
  for (uint32_t i = 0; i < kernel->constant_count; ++i)
    parameters[count + i] = &self->commands->constants[command->as.dispatch.first_constant + i];
  CUresult result = device->cuda.LaunchKernel(
      kernel->function, counts[0], counts[1], counts[2], kernel->block[0], kernel->block[1],
      kernel->block[2], kernel->shared, device->stream, (void **)(uintptr_t)parameters, NULL);
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(device, result, kernel->name.data, error);
}

/* --- all of them ------------------------------------------------------------------------------ */

static edgert_status execution_run(execution *self, const edgert_command *command,
                                   edgert_error *error) {
  int is_timed = self->device->device.timed != NULL;
  edgert_status status = EDGERT_OK;
  if (!cuda_is_work(command)) return EDGERT_OK;
  if (is_timed) status = cuda_stamps_add(self->device, error);
  if (status == EDGERT_OK)
    status = command->kind == EDGERT_COMMAND_DISPATCH ? execution_dispatch(self, command, error)
                                                      : execution_transfer(self, command, error);
  if (status == EDGERT_OK && is_timed) status = cuda_stamps_add(self->device, error);
  return status;
}

static void execution_touch_buffer(edgert_buffer *buffer, uint64_t point) {
  if (!buffer) return;
  if (buffer->whole) buffer = buffer->whole;
  if (buffer->point < point) buffer->point = point;
}

/* What the commands use is in use until then. */
static void execution_touch(execution *self, uint64_t point) {
  const edgert_commands *commands = self->commands;
  edgert_mutex_lock(&self->device->lock);
  for (size_t i = 0; i < commands->kept_count; ++i)
    execution_touch_buffer(edgert_object_as(commands->kept[i], &edgert_buffer_kind), point);
  for (size_t i = 0; i < self->slot_count; ++i)
    execution_touch_buffer(self->slots[i].buffer, point);
  edgert_mutex_unlock(&self->device->lock);
}

static edgert_status execution_all(execution *self, const edgert_watch *watch, uint64_t *out_point,
                                   edgert_error *error) {
  cuda_device *device = self->device;
  edgert_status status = EDGERT_OK;
  if (device->device.timed) device->stamp_count = 0;
  for (size_t i = 0; i < self->commands->count && status == EDGERT_OK; ++i)
    status = execution_run(self, &self->commands->commands[i], error);
  if (status == EDGERT_OK) status = cuda_submit(device, out_point, error);
  if (status == EDGERT_OK)
    execution_touch(self, *out_point);
  else /* what was begun must not be in use behind the caller's back */
    (void)device->cuda.StreamSynchronize(device->stream);
  if (self->bytes) {
    self->bytes->point = *out_point;
    cuda_chunk_give(device, self->bytes);
  }
  if (status != EDGERT_OK || !device->stamp_count) return status;
  status = cuda_await(device, *out_point, UINT64_MAX, watch, error);
  return status == EDGERT_OK ? cuda_stamps_tell(device, self->commands, error) : status;
}

edgert_status cuda_execute(edgert_device *device, edgert_commands *commands,
                           const edgert_range *slots, size_t slot_count, const edgert_watch *watch,
                           uint64_t *out_point, edgert_error *error) {
  execution self = {.device = (cuda_device *)device,
                    .commands = commands,
                    .slots = slots,
                    .slot_count = slot_count};
  if (!commands->count) return EDGERT_OK;
  if (edgert_watch_is_over(watch)) return edgert_watch_fail(watch, error);
  if (self.device->lost) return cuda_fail(self.device, self.device->lost, "running", error);
  edgert_status status = cuda_enter(self.device, error);
  if (status != EDGERT_OK) return status;
  if (self.device->device.timed) edgert_mutex_lock(&self.device->timing);
  status = execution_all(&self, watch, out_point, error);
  if (self.device->device.timed) edgert_mutex_unlock(&self.device->timing);
  cuda_leave(self.device);
  return status;
}

#endif
