/* What kernels and moves take, where the app is told: time stamps before and behind each command of
 * a translation, read when it has run.
 *
 * A stamp is written when all before it is done, so what could run side by side does so one behind
 * the other. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

#define TIMING_TOGETHER 64u /* stamps read at once */

/* Whether a command does anything; dispatches without workgroups do not. */
static int timing_is_work(const edgert_command *command) {
  const uint32_t *counts = command->as.dispatch.workgroups;
  if (command->kind != EDGERT_COMMAND_DISPATCH) return command->kind != EDGERT_COMMAND_BARRIER;
  return command->as.dispatch.is_indirect || (counts[0] && counts[1] && counts[2]);
}

edgert_status vulkan_timing_prepare(vulkan_device *self, vulkan_record *record,
                                    const edgert_commands *commands, edgert_error *error) {
  vulkan_timing_drop(self, record);
  uint32_t count = 0;
  for (size_t i = 0; self->device.timed && i < commands->count; ++i)
    count += 2 * (uint32_t)timing_is_work(&commands->commands[i]);
  if (!count) return EDGERT_OK;
  const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                      .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                      .queryCount = count};
  VkResult result = self->CreateQueryPool(self->handle, &info, NULL, &record->stamps);
  if (result != VK_SUCCESS) return vulkan_fail(self, result, "making room for time stamps", error);
  record->stamp_count = count;
  return EDGERT_OK;
}

void vulkan_timing_drop(vulkan_device *self, vulkan_record *record) {
  if (record->stamps) self->DestroyQueryPool(self->handle, record->stamps, NULL);
  record->stamps = 0;
  record->stamp_count = record->stamped = 0;
}

void vulkan_timing_stamp(vulkan_device *self, vulkan_record *record,
                         const edgert_command *command) {
  if (!record->stamp_count || !timing_is_work(command)) return;
  if (!record->stamped)
    self->CmdResetQueryPool(record->commands, record->stamps, 0, record->stamp_count);
  self->CmdWriteTimestamp(record->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, record->stamps,
                          record->stamped++);
}

/* What lies between two stamps, in nanoseconds. */
static uint64_t timing_between(const vulkan_device *self, uint64_t from, uint64_t to) {
  uint32_t bits = self->facts.timestamp_bits;
  uint64_t ticks = to - from;
  if (bits < 64) ticks &= ((uint64_t)1 << bits) - 1;
  return (uint64_t)((double)ticks * (double)self->facts.properties.limits.timestampPeriod);
}

static void timing_tell(vulkan_device *self, const edgert_command *command, uint64_t nanoseconds,
                        uint64_t idle) {
  static const char *const moves[] = {[EDGERT_COMMAND_FILL] = "fill",
                                      [EDGERT_COMMAND_COPY] = "copy",
                                      [EDGERT_COMMAND_UPDATE] = "update"};
  edgert_timing timing = {.kernel = "?", .nanoseconds = nanoseconds, .idle_nanoseconds = idle};
  if (command->kind == EDGERT_COMMAND_DISPATCH) {
    const vulkan_executable *executable =
        (const vulkan_executable *)command->as.dispatch.executable;
    const uint32_t *counts = command->as.dispatch.workgroups;
    timing.kernel = executable->kernels[command->as.dispatch.kernel].name.data;
    timing.workgroups = command->as.dispatch.is_indirect
                            ? 1
                            : (uint64_t)counts[0] * counts[1] * counts[2];
  } else {
    timing.kernel = moves[command->kind];
  }
  self->device.timed(self->device.timed_user, &timing);
}

edgert_status vulkan_timing_read(vulkan_device *self, const vulkan_record *record,
                                 const edgert_commands *commands, edgert_error *error) {
  uint64_t stamps[TIMING_TOGETHER], last = 0;
  size_t at = 0;
  for (uint32_t done = 0; done < record->stamp_count; done += TIMING_TOGETHER) {
    uint32_t left = record->stamp_count - done;
    uint32_t count = left < TIMING_TOGETHER ? left : TIMING_TOGETHER;
    VkResult result = self->GetQueryPoolResults(
        self->handle, record->stamps, done, count, sizeof stamps, stamps, sizeof *stamps,
        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (result != VK_SUCCESS) return vulkan_fail(self, result, "reading time stamps", error);
    for (uint32_t i = 0; i < count; i += 2) {
      while (!timing_is_work(&commands->commands[at])) ++at;
      timing_tell(self, &commands->commands[at++], timing_between(self, stamps[i], stamps[i + 1]),
                  done || i ? timing_between(self, last, stamps[i]) : 0);
      last = stamps[i + 1];
    }
  }
  return EDGERT_OK;
}

#endif
