/* What kernels and moves take, where the app is told: events before and behind each command, read
 * when all are done. CUDA's clock tells half microseconds. */
#include "../../drivers.h"

#if EDGERT_WITH_CUDA

#include "cuda.h"

int cuda_is_work(const edgert_command *command) {
  const uint32_t *counts = command->as.dispatch.workgroups;
  if (command->kind != EDGERT_COMMAND_DISPATCH) return command->kind != EDGERT_COMMAND_BARRIER;
  return command->as.dispatch.is_indirect || (counts[0] && counts[1] && counts[2]);
}

edgert_status cuda_stamps_add(cuda_device *self, edgert_error *error) {
  void *grown = self->stamps;
  CUresult result = CUDA_SUCCESS;
  size_t before = self->stamp_capacity;
  edgert_status status =
      edgert_grow(&self->device.object.allocator, &grown, before, &self->stamp_capacity,
                  self->stamp_count + 1, sizeof *self->stamps, error);
  self->stamps = grown;
  if (status != EDGERT_OK) return status;
  for (size_t i = before; i < self->stamp_capacity; ++i) self->stamps[i] = NULL;
  CUevent *stamp = &self->stamps[self->stamp_count];
  if (!*stamp) result = self->cuda.EventCreate(stamp, CU_EVENT_DEFAULT);
  if (result == CUDA_SUCCESS) result = self->cuda.EventRecord(*stamp, self->stream);
  if (result != CUDA_SUCCESS) return cuda_fail(self, result, "stamping the time", error);
  self->stamp_count += 1;
  return EDGERT_OK;
}

static void stamps_tell(cuda_device *self, const edgert_command *command, float milliseconds,
                        float idle) {
  static const char *const moves[] = {[EDGERT_COMMAND_FILL] = "fill",
                                      [EDGERT_COMMAND_COPY] = "copy",
                                      [EDGERT_COMMAND_UPDATE] = "update"};
  edgert_timing timing = {.nanoseconds = (uint64_t)((double)milliseconds * 1e6),
                          .idle_nanoseconds = (uint64_t)((double)idle * 1e6)};
  if (command->kind == EDGERT_COMMAND_DISPATCH) {
    const cuda_executable *executable =
        (const cuda_executable *)command->as.dispatch.executable;
    const uint32_t *counts = command->as.dispatch.workgroups;
    timing.kernel = executable->kernels[command->as.dispatch.kernel].name.data;
    timing.workgroups = (uint64_t)counts[0] * counts[1] * counts[2];
  } else {
    timing.kernel = moves[command->kind];
  }
  self->device.timed(self->device.timed_user, &timing);
}

edgert_status cuda_stamps_tell(cuda_device *self, const edgert_commands *commands,
                               edgert_error *error) {
  size_t at = 0;
  for (size_t i = 0; i + 1 < self->stamp_count; i += 2, ++at) {
    float taken = 0, idle = 0;
    CUresult result =
        self->cuda.EventElapsedTime(&taken, self->stamps[i], self->stamps[i + 1]);
    if (result == CUDA_SUCCESS && i)
      result = self->cuda.EventElapsedTime(&idle, self->stamps[i - 1], self->stamps[i]);
    if (result != CUDA_SUCCESS) return cuda_fail(self, result, "reading time stamps", error);
    while (at + 1 < commands->count && !cuda_is_work(&commands->commands[at])) ++at;
    stamps_tell(self, &commands->commands[at], taken, idle);
  }
  return EDGERT_OK;
}

void cuda_stamps_close(cuda_device *self) {
  for (size_t i = 0; i < self->stamp_capacity; ++i)
    if (self->stamps[i]) (void)self->cuda.EventDestroy(self->stamps[i]);
  edgert_deallocate(&self->device.object.allocator, self->stamps);
}

#endif
