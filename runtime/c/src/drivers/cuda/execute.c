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
  CUstream stream;
  cuda_chunk **bytes; /* what updates copy from, or NULL there */
  int is_timed;
  int is_after_kernel; /* the last work was a dispatch */
} execution;

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
    result = device->cuda.MemsetD8Async(to, bytes[0], (size_t)(count * width), self->stream);
  else if (to % (width < 4 ? width : 4))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a fill of %u bytes begins at an odd place",
                       (unsigned)width);
  else if (width == 2)
    result = device->cuda.MemsetD16Async(to, (unsigned short)pattern, (size_t)count,
                                         self->stream);
  else if (width == 4 || (uint32_t)pattern == pattern >> 32)
    result = device->cuda.MemsetD32Async(to, (unsigned)pattern, (size_t)(count * (width / 4)),
                                         self->stream);
  else { /* as two columns, row by row */
    result = device->cuda.MemsetD2D32Async(to, 8, (unsigned)pattern, 1, (size_t)count,
                                           self->stream);
    if (result == CUDA_SUCCESS)
      result = device->cuda.MemsetD2D32Async(to + 4, 8, (unsigned)(pattern >> 32), 1,
                                             (size_t)count, self->stream);
  }
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(device, result, "filling memory", error);
}

/* The bytes of all updates, where the device can reach them for as long as it takes. */
static edgert_status execution_take_bytes(execution *self, edgert_error *error) {
  const edgert_commands *commands = self->commands;
  if (*self->bytes) return EDGERT_OK;
  edgert_status status = cuda_chunk_take(self->device, CUDA_HOST, 0, commands->byte_count,
                                         self->bytes, error);
  if (status == EDGERT_OK)
    status = cuda_await(self->device, (*self->bytes)->point, UINT64_MAX, NULL, error);
  if (status == EDGERT_OK) memcpy((*self->bytes)->host, commands->bytes, commands->byte_count);
  return status;
}

static edgert_status execution_copy(execution *self, CUdeviceptr to, CUdeviceptr from,
                                    uint64_t size, edgert_error *error) {
  cuda_device *device = self->device;
  CUresult result = device->cuda.MemcpyAsync(to, from, (size_t)size, self->stream);
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
  CUdeviceptr to = cuda_address(&target);
  if (command->kind == EDGERT_COMMAND_FILL)
    return execution_fill(self, command, to, target.length, error);
  if (command->kind == EDGERT_COMMAND_COPY) {
    status = edgert_range_resolve(command->as.copy.source, self->slots, self->slot_count, &source,
                                  error);
    if (status != EDGERT_OK) return status;
    if (source.length != target.length)
      return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a copy's two sides differ in size");
    return target.length ? execution_copy(self, to, cuda_address(&source), target.length,
                                          error)
                         : EDGERT_OK;
  }
  if (!target.length) return EDGERT_OK;
  status = execution_take_bytes(self, error);
  if (status != EDGERT_OK) return status;
  return execution_copy(self, to, (*self->bytes)->address + command->as.update.first, target.length,
                        error);
}

/* --- dispatches ------------------------------------------------------------------------------- */

#define EARLY_DRIVER 12030 /* the first whose graphs may have such kernels */

/* A kernel that waits by itself for what was launched before it may begin early: until then it reads
 * what nothing writes, and it is on its way when the other one ends. */
static CUresult execution_launch(execution *self, const cuda_kernel *kernel, const uint32_t *counts,
                                 void **parameters) {
  cuda_device *device = self->device;
  const uint32_t *block = kernel->block;
  if (!kernel->waits || !self->is_after_kernel || self->is_timed || !device->cuda.LaunchKernelEx ||
      device->facts.major < 9 || device->facts.driver < EARLY_DRIVER)
    return device->cuda.LaunchKernel(kernel->function, counts[0], counts[1], counts[2], block[0],
                                     block[1], block[2], kernel->shared, self->stream, parameters,
                                     NULL);
  CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  early.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig how = {counts[0],      counts[1],    counts[2], block[0], block[1], block[2],
                        kernel->shared, self->stream, &early,    1};
  return device->cuda.LaunchKernelEx(&how, kernel->function, parameters, NULL);
}

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
    addresses[count] = cuda_address(&range);
    parameters[count] = &addresses[count];
  }
  for (uint32_t i = 0; i < kernel->constant_count; ++i)
    parameters[count + i] = &self->commands->constants[command->as.dispatch.first_constant + i];
  CUresult result =
      execution_launch(self, kernel, counts, (void **)(uintptr_t)parameters);
  return result == CUDA_SUCCESS ? EDGERT_OK : cuda_fail(device, result, kernel->name.data, error);
}

/* --- all of them ------------------------------------------------------------------------------ */

static edgert_status execution_run(execution *self, const edgert_command *command,
                                   edgert_error *error) {
  edgert_status status = EDGERT_OK;
  if (!cuda_is_work(command)) return EDGERT_OK;
  if (self->is_timed) status = cuda_stamps_add(self->device, error);
  if (status == EDGERT_OK)
    status = command->kind == EDGERT_COMMAND_DISPATCH ? execution_dispatch(self, command, error)
                                                      : execution_transfer(self, command, error);
  if (status == EDGERT_OK && self->is_timed) status = cuda_stamps_add(self->device, error);
  self->is_after_kernel = command->kind == EDGERT_COMMAND_DISPATCH;
  return status;
}

edgert_status cuda_encode(cuda_device *device, const edgert_commands *commands,
                          const edgert_range *slots, size_t slot_count, CUstream stream,
                          cuda_chunk **bytes, edgert_error *error) {
  execution self = {.device = device,
                    .commands = commands,
                    .slots = slots,
                    .slot_count = slot_count,
                    .stream = stream,
                    .bytes = bytes,
                    .is_timed = stream == device->stream && device->device.timed};
  edgert_status status = EDGERT_OK;
  for (size_t i = 0; i < commands->count && status == EDGERT_OK; ++i)
    status = execution_run(&self, &commands->commands[i], error);
  return status;
}

void cuda_touch(edgert_buffer *buffer, uint64_t point) {
  if (!buffer) return;
  if (buffer->whole) buffer = buffer->whole;
  if (buffer->point < point) buffer->point = point;
}

/* What the commands use is in use until then. */
static void execute_touch(cuda_device *self, const edgert_commands *commands,
                          const edgert_range *slots, size_t slot_count, uint64_t point) {
  edgert_mutex_lock(&self->lock);
  for (size_t i = 0; i < commands->kept_count; ++i)
    cuda_touch(edgert_object_as(commands->kept[i], EDGERT_KIND_BUFFER), point);
  for (size_t i = 0; i < slot_count; ++i) cuda_touch(slots[i].buffer, point);
  edgert_mutex_unlock(&self->lock);
}

static edgert_status execute_all(cuda_device *self, edgert_commands *commands,
                                 const edgert_range *slots, size_t slot_count,
                                 const edgert_watch *watch, uint64_t *out_point,
                                 edgert_error *error) {
  cuda_chunk *bytes = NULL;
  CUgraphExec graph = NULL;
  edgert_status status = EDGERT_OK;
  if (self->device.timed)
    self->stamp_count = 0;
  else
    status = cuda_graph_find(self, commands, slots, slot_count, &graph, error);
  if (status == EDGERT_OK && graph) {
    CUresult result = self->cuda.GraphLaunch(graph, self->stream);
    if (result != CUDA_SUCCESS) status = cuda_fail(self, result, "replaying commands", error);
  } else if (status == EDGERT_OK) {
    status = cuda_encode(self, commands, slots, slot_count, self->stream, &bytes, error);
  }
  if (status == EDGERT_OK) status = cuda_submit(self, out_point, error);
  if (status == EDGERT_OK)
    execute_touch(self, commands, slots, slot_count, *out_point);
  else /* what was begun must not be in use behind the caller's back */
    (void)self->cuda.StreamSynchronize(self->stream);
  if (bytes) {
    bytes->point = *out_point;
    cuda_chunk_give(self, bytes);
  }
  if (status != EDGERT_OK || !self->device.timed || !self->stamp_count) return status;
  status = cuda_await(self, *out_point, UINT64_MAX, watch, error);
  return status == EDGERT_OK ? cuda_stamps_tell(self, commands, error) : status;
}

edgert_status cuda_execute(edgert_device *device, edgert_commands *commands,
                           const edgert_range *slots, size_t slot_count, const edgert_watch *watch,
                           uint64_t *out_point, edgert_error *error) {
  cuda_device *self = (cuda_device *)device;
  if (!commands->count) return EDGERT_OK;
  if (edgert_watch_is_over(watch)) return edgert_watch_fail(watch, error);
  if (self->lost) return cuda_fail(self, self->lost, "running", error);
  edgert_status status = cuda_enter(self, error);
  if (status != EDGERT_OK) return status;
  if (self->device.timed) edgert_mutex_lock(&self->timing);
  status = execute_all(self, commands, slots, slot_count, watch, out_point, error);
  if (self->device.timed) edgert_mutex_unlock(&self->timing);
  cuda_leave(self);
  return status;
}

#endif
