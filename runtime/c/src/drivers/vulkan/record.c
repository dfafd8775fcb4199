/* Commands translated to a command buffer of Vulkan's, once for each set of buffers that they are
 * run with, and replayed while those stay the same.
 *
 * A descriptor must not change while a command buffer that uses it waits to be run again, so a
 * translation is for the places that its slots were bound to. A program that runs again gets its
 * memory in the same places (`memory.c`); for results that the app holds for a while there are
 * several translations, the latest first. */
#include "../../drivers.h"

#if EDGERT_WITH_VULKAN

#include "vulkan.h"

#define RECORD_KEPT 6       /* translations of the same commands */
#define RECORD_PIECE 4096u  /* of a pattern that Vulkan does not fill with */
#define RECORD_NARROW 16u   /* what a fill needs for its ends */
#define RECORD_COPIES 32u   /* at once */
#define RECORD_WRITES 16u   /* of descriptors at once */
#define RECORD_THERE UINT64_MAX /* a binding that stays where it is */

/* What is being translated. */
typedef struct recorder {
  vulkan_device *device;
  const edgert_commands *commands;
  const edgert_range *slots;
  size_t slot_count;
  vulkan_record *record;
  uint64_t byte_count; /* of `record->bytes`, so far */
  VkPipeline pipeline; /* that is bound */
  vulkan_uses uses;    /* of the commands behind the last barrier */
} recorder;

static const vulkan_chunk *record_chunk(const edgert_buffer *buffer) {
  return (buffer->whole ? buffer->whole : buffer)->memory;
}

/* Where in its block a range that was resolved begins. */
static uint64_t record_offset(const edgert_range *range) {
  return record_chunk(range->buffer)->offset + range->buffer->offset + range->offset;
}

static VkBuffer record_buffer(const edgert_range *range) {
  return record_chunk(range->buffer)->block->buffer;
}

static vulkan_place record_place(const edgert_range *slot) {
  if (!slot->buffer) return (vulkan_place){0, 0, 0};
  return (vulkan_place){record_chunk(slot->buffer)->block->number, record_offset(slot),
                        slot->length};
}

/* --- transfers -------------------------------------------------------------------------------- */

/* Whether a fill is one that Vulkan has: of 32 bits. */
static int record_is_narrow(const edgert_command *command) {
  uint64_t pattern = command->as.fill.pattern;
  return command->as.fill.width < 8 || (uint32_t)pattern == pattern >> 32;
}

/* Room for what updates and fills copy from. */
static edgert_status record_reserve_bytes(recorder *self, edgert_error *error) {
  uint64_t size = 0;
  for (size_t i = 0; i < self->commands->count; ++i) {
    const edgert_command *command = &self->commands->commands[i];
    if (command->kind == EDGERT_COMMAND_FILL)
      size += record_is_narrow(command) ? RECORD_NARROW : RECORD_PIECE;
  }
  size += self->commands->byte_count;
  if (!size) return EDGERT_OK;
  vulkan_chunk *chunk;
  edgert_status status = vulkan_chunk_take(self->device, VULKAN_HOST, 0, size, &chunk, error);
  if (status != EDGERT_OK) return status;
  self->record->bytes = chunk;
  status = vulkan_wait(self->device, chunk->point, UINT64_MAX, NULL, error);
  if (status != EDGERT_OK || !self->commands->byte_count) return status;
  memcpy(vulkan_chunk_host(chunk), self->commands->bytes, self->commands->byte_count);
  self->byte_count = self->commands->byte_count;
  return EDGERT_OK;
}

/* Copy from the bytes that go with the record. */
static void record_copy_bytes(recorder *self, uint64_t from, VkBuffer to, uint64_t offset,
                              uint64_t size) {
  const vulkan_chunk *bytes = self->record->bytes;
  const VkBufferCopy copy = {bytes->offset + from, offset, size};
  if (size)
    self->device->CmdCopyBuffer(self->record->commands, bytes->block->buffer, to, 1, &copy);
}

/* A pattern repeated into the bytes that go with the record; where they begin. */
static uint64_t record_add_pattern(recorder *self, uint64_t pattern, uint32_t width,
                                   uint32_t size) {
  uint8_t *at = vulkan_chunk_host(self->record->bytes) + self->byte_count;
  for (uint32_t i = 0; i < size; i += width) memcpy(at + i, &pattern, width);
  self->byte_count += size;
  return self->byte_count - size;
}

/* The whole words by a fill, what is before and behind them by copies. */
static void record_fill_narrow(recorder *self, const edgert_command *command, VkBuffer buffer,
                               uint64_t offset, uint64_t size) {
  uint32_t width = command->as.fill.width < 4 ? command->as.fill.width : 4;
  uint64_t end = offset + size, first = (offset + 3) / 4 * 4, last = end / 4 * 4;
  uint64_t pattern = record_add_pattern(self, command->as.fill.pattern, width, RECORD_NARROW);
  uint32_t word;
  memcpy(&word, vulkan_chunk_host(self->record->bytes) + pattern, sizeof word);
  if (last > first)
    self->device->CmdFillBuffer(self->record->commands, buffer, first, last - first, word);
  if (last < first) { /* within one word */
    record_copy_bytes(self, pattern + offset % 4, buffer, offset, size);
    return;
  }
  record_copy_bytes(self, pattern + offset % 4, buffer, offset, first - offset);
  record_copy_bytes(self, pattern, buffer, last, end - last);
}

static void record_fill_wide(recorder *self, const edgert_command *command, VkBuffer buffer,
                             uint64_t offset, uint64_t size) {
  const vulkan_chunk *bytes = self->record->bytes;
  VkBufferCopy copies[RECORD_COPIES];
  uint64_t from = record_add_pattern(self, command->as.fill.pattern, 8, RECORD_PIECE);
  uint32_t count = 0;
  for (uint64_t at = 0; at < size; at += RECORD_PIECE) {
    copies[count++] = (VkBufferCopy){bytes->offset + from, offset + at,
                                     size - at < RECORD_PIECE ? size - at : RECORD_PIECE};
    if (count < RECORD_COPIES && at + RECORD_PIECE < size) continue;
    self->device->CmdCopyBuffer(self->record->commands, bytes->block->buffer, buffer, count,
                                copies);
    count = 0;
  }
}

static edgert_status record_copy(recorder *self, const edgert_command *command,
                                 const edgert_range *target, edgert_error *error) {
  edgert_range source;
  edgert_status status = edgert_range_resolve(command->as.copy.source, self->slots,
                                              self->slot_count, &source, error);
  if (status != EDGERT_OK) return status;
  if (source.length != target->length)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a copy's two sides differ in size");
  const VkBufferCopy copy = {record_offset(&source), record_offset(target), target->length};
  VkBuffer from = record_buffer(&source), to = record_buffer(target);
  if (from == to && copy.srcOffset < copy.dstOffset + copy.size &&
      copy.dstOffset < copy.srcOffset + copy.size) {
    if (copy.srcOffset == copy.dstOffset) return EDGERT_OK;
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a copy's two sides overlap");
  }
  self->device->CmdCopyBuffer(self->record->commands, from, to, 1, &copy);
  return EDGERT_OK;
}

static edgert_status record_transfer(recorder *self, const edgert_command *command,
                                     edgert_error *error) {
  edgert_range target;
  edgert_status status =
      edgert_range_resolve(command->target, self->slots, self->slot_count, &target, error);
  if (status != EDGERT_OK || target.length == 0) return status;
  VkBuffer buffer = record_buffer(&target);
  uint64_t offset = record_offset(&target);
  if (command->kind == EDGERT_COMMAND_COPY) return record_copy(self, command, &target, error);
  if (command->kind == EDGERT_COMMAND_UPDATE) {
    record_copy_bytes(self, command->as.update.first, buffer, offset, target.length);
    return EDGERT_OK;
  }
  /* As on the host: whole patterns from its beginning on. */
  uint64_t size = target.length / command->as.fill.width * command->as.fill.width;
  if (offset % command->as.fill.width)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "a fill does not begin at a whole pattern");
  if (record_is_narrow(command))
    record_fill_narrow(self, command, buffer, offset, size);
  else
    record_fill_wide(self, command, buffer, offset, size);
  return EDGERT_OK;
}

/* --- dispatches ------------------------------------------------------------------------------- */

/* Sets and descriptors for all dispatches, in a pool that is as large. */
static edgert_status record_reserve_sets(recorder *self, edgert_error *error) {
  vulkan_device *device = self->device;
  vulkan_record *record = self->record;
  uint32_t sets = 0;
  for (size_t i = 0; i < self->commands->count; ++i)
    sets += self->commands->commands[i].kind == EDGERT_COMMAND_DISPATCH;
  if (self->commands->binding_count > UINT32_MAX / 2)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "commands with too many bindings");
  uint32_t descriptors = (uint32_t)self->commands->binding_count;
  VkResult result = VK_SUCCESS;
  if (sets <= record->set_capacity && descriptors <= record->descriptor_capacity) {
    if (record->descriptors)
      result = device->ResetDescriptorPool(device->handle, record->descriptors, 0);
  } else {
    if (record->descriptors)
      device->DestroyDescriptorPool(device->handle, record->descriptors, NULL);
    record->descriptors = 0;
    record->set_capacity = record->descriptor_capacity = 0;
    const VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors ? descriptors : 1},
        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, descriptors ? descriptors : 1}};
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = sets,
        .poolSizeCount = 2,
        .pPoolSizes = sizes};
    result = device->CreateDescriptorPool(device->handle, &info, NULL, &record->descriptors);
    if (result == VK_SUCCESS) {
      record->set_capacity = sets;
      record->descriptor_capacity = descriptors;
    }
  }
  return result == VK_SUCCESS ? EDGERT_OK
                              : vulkan_fail(device, result, "making room for bindings", error);
}

/* Where a binding lies, with how many bytes a kernel may reach of it. */
static edgert_status record_binding(recorder *self, edgert_range range,
                                    VkDescriptorBufferInfo *out, edgert_error *error) {
  const VkPhysicalDeviceLimits *limits = &self->device->facts.properties.limits;
  edgert_status status = edgert_range_resolve(range, self->slots, self->slot_count, &range, error);
  if (status != EDGERT_OK) return status;
  /* Kernels read small types by whole words; there is room for the last. */
  uint64_t size = range.length ? (range.length + 3) / 4 * 4 : 4;
  *out = (VkDescriptorBufferInfo){record_buffer(&range), record_offset(&range), size};
  const vulkan_chunk *chunk = record_chunk(range.buffer);
  if (out->offset + size > chunk->offset + chunk->size)
    out->offset = chunk->offset; /* an empty range at the end */
  if (size > limits->maxStorageBufferRange)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                       "a kernel reaches into %llu bytes at once, and %s gives it %u at most",
                       (unsigned long long)size, self->device->device.name,
                       (unsigned)limits->maxStorageBufferRange);
  return EDGERT_OK;
}

/* Whether a device lets a binding begin where this one lies. */
static int record_may_begin(const recorder *self, const VkDescriptorBufferInfo *place,
                            uint32_t type) {
  const VkPhysicalDeviceLimits *limits = &self->device->facts.properties.limits;
  return place->offset % (type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
                              ? limits->minUniformBufferOffsetAlignment
                              : limits->minStorageBufferOffsetAlignment) == 0;
}

/* Whether two ranges that resolve have bytes in common. */
static int record_overlap(const recorder *self, edgert_range one, edgert_range other) {
  if (edgert_range_resolve(one, self->slots, self->slot_count, &one, NULL) != EDGERT_OK ||
      edgert_range_resolve(other, self->slots, self->slot_count, &other, NULL) != EDGERT_OK)
    return 1;
  return record_buffer(&one) == record_buffer(&other) &&
         record_offset(&one) < record_offset(&other) + other.length &&
         record_offset(&other) < record_offset(&one) + one.length;
}

/* The bindings of a dispatch that begin where the device lets none begin are copied aside, and back
 * when it is over. This is where the next one goes, `*size` bytes from the first on; one that begins
 * where an earlier one does shares its copy, and one that overlaps with another is refused. */
static edgert_status record_plan_aside(recorder *self, const edgert_range *ranges,
                                       const vulkan_layout *layout, uint32_t number,
                                       uint64_t *starts, uint64_t *size, edgert_error *error) {
  VkDescriptorBufferInfo place, other;
  starts[number] = RECORD_THERE;
  if (!layout->bindings[number]) return EDGERT_OK;
  edgert_status status = record_binding(self, ranges[number], &place, error);
  if (status != EDGERT_OK || record_may_begin(self, &place, layout->bindings[number]))
    return status;
  uint64_t most = place.range;
  for (uint32_t i = 0; i < layout->binding_count; ++i) {
    if (i == number || !layout->bindings[i]) continue;
    status = record_binding(self, ranges[i], &other, error);
    if (status != EDGERT_OK) return status;
    if (!record_overlap(self, ranges[number], ranges[i])) continue;
    if (other.offset != place.offset || layout->bindings[i] != layout->bindings[number])
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "a kernel's binding begins at %llu of what another one reaches, and %s "
                         "wants multiples of %llu",
                         (unsigned long long)place.offset, self->device->device.name,
                         (unsigned long long)self->device->facts.properties.limits
                             .minStorageBufferOffsetAlignment);
    if (i < number) starts[number] = starts[i];
    if (other.range > most) most = other.range;
  }
  if (starts[number] != RECORD_THERE) return EDGERT_OK;
  starts[number] = *size;
  *size += (most + self->device->alignment - 1) / self->device->alignment * self->device->alignment;
  return EDGERT_OK;
}

static edgert_status record_plan_asides(recorder *self, const edgert_command *command,
                                        uint64_t *starts, uint64_t *out_size,
                                        edgert_error *error) {
  const vulkan_executable *executable =
      (const vulkan_executable *)command->as.dispatch.executable;
  const vulkan_layout *layout = executable->kernels[command->as.dispatch.kernel].layout;
  const edgert_range *ranges = self->commands->bindings + command->as.dispatch.first_binding;
  edgert_status status = EDGERT_OK;
  *out_size = 0;
  for (uint32_t i = 0; i < layout->binding_count && status == EDGERT_OK; ++i)
    status = record_plan_aside(self, ranges, layout, i, starts, out_size, error);
  return status;
}

static int record_is_empty(const edgert_command *command) {
  const uint32_t *counts = command->as.dispatch.workgroups;
  return !command->as.dispatch.is_indirect && (!counts[0] || !counts[1] || !counts[2]);
}

/* Room for the copies of one dispatch: while such a one runs, nothing else does. */
static edgert_status record_reserve_aside(recorder *self, edgert_error *error) {
  uint64_t starts[VULKAN_MOST_BINDINGS], size, most = 0;
  for (size_t i = 0; i < self->commands->count; ++i) {
    const edgert_command *command = &self->commands->commands[i];
    if (command->kind != EDGERT_COMMAND_DISPATCH || record_is_empty(command)) continue;
    edgert_status status = record_plan_asides(self, command, starts, &size, error);
    if (status != EDGERT_OK) return status;
    if (size > most) most = size;
  }
  if (!most) return EDGERT_OK;
  edgert_status status =
      vulkan_chunk_take(self->device, VULKAN_LOCAL, 0, most, &self->record->aside, error);
  if (status == EDGERT_OK) self->record->aside->owner = VULKAN_NOBODY;
  return status;
}

/* Copy what is put aside there, or back, when all before is over, and before anything else. */
static edgert_status record_move(recorder *self, const edgert_range *ranges,
                                 const vulkan_layout *layout, const uint64_t *starts, int is_back,
                                 edgert_error *error) {
  static const vulkan_uses all = {VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                      VK_PIPELINE_STAGE_TRANSFER_BIT |
                                      VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT,
                                  VK_ACCESS_MEMORY_READ_BIT, VK_ACCESS_MEMORY_WRITE_BIT};
  const vulkan_chunk *aside = self->record->aside;
  vulkan_record_barrier(self->device, self->record, &all, &all);
  for (uint32_t i = 0; i < layout->binding_count; ++i) {
    if (starts[i] == RECORD_THERE) continue;
    edgert_range range;
    edgert_status status =
        edgert_range_resolve(ranges[i], self->slots, self->slot_count, &range, error);
    if (status != EDGERT_OK) return status;
    uint64_t there = record_offset(&range), here = aside->offset + starts[i];
    const VkBufferCopy copy = {is_back ? here : there, is_back ? there : here, range.length};
    VkBuffer from = is_back ? aside->block->buffer : record_buffer(&range);
    VkBuffer to = is_back ? record_buffer(&range) : aside->block->buffer;
    if (range.length) self->device->CmdCopyBuffer(self->record->commands, from, to, 1, &copy);
  }
  vulkan_record_barrier(self->device, self->record, &all, &all);
  return EDGERT_OK;
}

/* `starts` is NULL where all bindings stay where they are. */
static edgert_status record_bind(recorder *self, const edgert_command *command,
                                 const vulkan_layout *layout, const uint64_t *starts,
                                 edgert_error *error) {
  vulkan_device *device = self->device;
  VkDescriptorSet set;
  const VkDescriptorSetAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
      .descriptorPool = self->record->descriptors,
      .descriptorSetCount = 1,
      .pSetLayouts = &layout->set};
  VkResult result = device->AllocateDescriptorSets(device->handle, &info, &set);
  if (result != VK_SUCCESS)
    return vulkan_fail(device, result == VK_ERROR_OUT_OF_POOL_MEMORY
                                   ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                                   : result,
                       "taking room for bindings", error);
  VkDescriptorBufferInfo places[RECORD_WRITES];
  VkWriteDescriptorSet writes[RECORD_WRITES];
  const edgert_range *ranges = self->commands->bindings + command->as.dispatch.first_binding;
  uint32_t count = 0;
  for (uint32_t i = 0; i < layout->binding_count; ++i) {
    if (layout->bindings[i]) {
      edgert_status status = record_binding(self, ranges[i], &places[count], error);
      if (status != EDGERT_OK) return status;
      if (starts && starts[i] != RECORD_THERE) {
        places[count].buffer = self->record->aside->block->buffer;
        places[count].offset = self->record->aside->offset + starts[i];
      }
      writes[count] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                             .dstSet = set,
                                             .dstBinding = i,
                                             .descriptorCount = 1,
                                             .descriptorType = layout->bindings[i],
                                             .pBufferInfo = &places[count]};
      ++count;
    }
    if (count < RECORD_WRITES && i + 1 < layout->binding_count) continue;
    device->UpdateDescriptorSets(device->handle, count, writes, 0, NULL);
    count = 0;
  }
  device->CmdBindDescriptorSets(self->record->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                layout->pipeline, 0, 1, &set, 0, NULL);
  return EDGERT_OK;
}

/* Workgroups in as many dispatches as it takes. */
static void record_split(recorder *self, const uint32_t counts[3]) {
  const uint32_t *most = self->device->facts.properties.limits.maxComputeWorkGroupCount;
  uint32_t at[3], size[3];
  for (at[2] = 0; at[2] < counts[2]; at[2] += size[2]) {
    size[2] = counts[2] - at[2] < most[2] ? counts[2] - at[2] : most[2];
    for (at[1] = 0; at[1] < counts[1]; at[1] += size[1]) {
      size[1] = counts[1] - at[1] < most[1] ? counts[1] - at[1] : most[1];
      for (at[0] = 0; at[0] < counts[0]; at[0] += size[0]) {
        size[0] = counts[0] - at[0] < most[0] ? counts[0] - at[0] : most[0];
        self->device->CmdDispatchBase(self->record->commands, at[0], at[1], at[2], size[0],
                                      size[1], size[2]);
      }
    }
  }
}

static edgert_status record_workgroups(recorder *self, const edgert_command *command,
                                       const vulkan_kernel *kernel, edgert_error *error) {
  vulkan_device *device = self->device;
  const uint32_t *most = device->facts.properties.limits.maxComputeWorkGroupCount;
  const uint32_t *counts = command->as.dispatch.workgroups;
  if (!command->as.dispatch.is_indirect) {
    if (counts[0] <= most[0] && counts[1] <= most[1] && counts[2] <= most[2]) {
      device->CmdDispatch(self->record->commands, counts[0], counts[1], counts[2]);
      return EDGERT_OK;
    }
    if (!kernel->may_split)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "a dispatch has %u x %u x %u workgroups, more than %s runs",
                         (unsigned)counts[0], (unsigned)counts[1], (unsigned)counts[2],
                         device->device.name);
    record_split(self, counts);
    return EDGERT_OK;
  }
  edgert_range range = command->target;
  range.length = 3 * sizeof *counts;
  edgert_status status =
      edgert_range_resolve(range, self->slots, self->slot_count, &range, error);
  if (status != EDGERT_OK) return status;
  if (record_offset(&range) % 4)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the size of a dispatch lies at an odd place");
  device->CmdDispatchIndirect(self->record->commands, record_buffer(&range),
                              record_offset(&range));
  return EDGERT_OK;
}

static edgert_status record_dispatch(recorder *self, const edgert_command *command,
                                     edgert_error *error) {
  vulkan_device *device = self->device;
  const vulkan_executable *executable =
      (const vulkan_executable *)command->as.dispatch.executable;
  const vulkan_kernel *kernel = &executable->kernels[command->as.dispatch.kernel];
  if (record_is_empty(command)) return EDGERT_OK;
  if (kernel->pipeline != self->pipeline)
    device->CmdBindPipeline(self->record->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                            kernel->pipeline);
  self->pipeline = kernel->pipeline;
  const edgert_range *ranges = self->commands->bindings + command->as.dispatch.first_binding;
  uint64_t starts[VULKAN_MOST_BINDINGS], aside = 0;
  edgert_status status = EDGERT_OK;
  if (self->record->aside) /* a dispatch of these has such bindings */
    status = record_plan_asides(self, command, starts, &aside, error);
  if (status == EDGERT_OK && aside)
    status = record_move(self, ranges, kernel->layout, starts, 0, error);
  if (status == EDGERT_OK)
    status = record_bind(self, command, kernel->layout, aside ? starts : NULL, error);
  if (status != EDGERT_OK) return status;
  if (kernel->layout->constant_count)
    device->CmdPushConstants(self->record->commands, kernel->layout->pipeline,
                             VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * kernel->layout->constant_count,
                             self->commands->constants + command->as.dispatch.first_constant);
  status = record_workgroups(self, command, kernel, error);
  return status == EDGERT_OK && aside
             ? record_move(self, ranges, kernel->layout, starts, 1, error)
             : status;
}

/* --- barriers --------------------------------------------------------------------------------- */

/* What the commands from one on, up to the next barrier, do: kernels that follow each other wait for
 * less than all that a device has. */
static vulkan_uses record_uses(const edgert_commands *commands, size_t first) {
  vulkan_uses uses = {0, 0, 0};
  for (size_t i = first; i < commands->count; ++i) {
    const edgert_command *command = &commands->commands[i];
    if (command->kind == EDGERT_COMMAND_BARRIER) break;
    if (command->kind != EDGERT_COMMAND_DISPATCH) {
      uses.stages |= VK_PIPELINE_STAGE_TRANSFER_BIT;
      uses.reads |= VK_ACCESS_TRANSFER_READ_BIT;
      uses.writes |= VK_ACCESS_TRANSFER_WRITE_BIT;
      continue;
    }
    uses.stages |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    uses.reads |= VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_UNIFORM_READ_BIT;
    uses.writes |= VK_ACCESS_SHADER_WRITE_BIT;
    if (!command->as.dispatch.is_indirect) continue;
    uses.stages |= VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT;
    uses.reads |= VK_ACCESS_INDIRECT_COMMAND_READ_BIT;
  }
  return uses;
}

/* What is before a translation's first commands is over when they begin, and barriers that follow
 * each other are one. */
static void record_barrier(recorder *self, size_t at) {
  vulkan_uses behind = record_uses(self->commands, at + 1);
  if (!behind.stages) return;
  if (self->uses.stages)
    vulkan_record_barrier(self->device, self->record, &self->uses, &behind);
  self->uses = behind;
}

/* --- translations ----------------------------------------------------------------------------- */

static edgert_status record_all(recorder *self, edgert_error *error) {
  edgert_status status = record_reserve_bytes(self, error);
  if (status == EDGERT_OK) status = record_reserve_sets(self, error);
  if (status == EDGERT_OK) status = record_reserve_aside(self, error);
  if (status == EDGERT_OK)
    status = vulkan_timing_prepare(self->device, self->record, self->commands, error);
  if (status == EDGERT_OK) status = vulkan_record_begin(self->device, self->record, error);
  self->uses = record_uses(self->commands, 0);
  for (size_t i = 0; i < self->commands->count && status == EDGERT_OK; ++i) {
    const edgert_command *command = &self->commands->commands[i];
    vulkan_timing_stamp(self->device, self->record, command);
    if (command->kind == EDGERT_COMMAND_BARRIER)
      record_barrier(self, i);
    else if (command->kind == EDGERT_COMMAND_DISPATCH)
      status = record_dispatch(self, command, error);
    else
      status = record_transfer(self, command, error);
    vulkan_timing_stamp(self->device, self->record, command);
  }
  if (status == EDGERT_OK && self->byte_count)
    status = vulkan_chunk_flush(self->device, self->record->bytes, 0, self->byte_count, error);
  return status == EDGERT_OK ? vulkan_record_end(self->device, self->record, error) : status;
}

static edgert_status record_note_slots(recorder *self, edgert_error *error) {
  vulkan_record *record = self->record;
  void *grown = record->slots;
  edgert_status status = edgert_grow(&self->device->device.object.allocator, &grown, 0,
                                     &record->slot_capacity, self->slot_count,
                                     sizeof *record->slots, error);
  record->slots = grown;
  if (status != EDGERT_OK) return status;
  record->slot_count = self->slot_count;
  for (size_t i = 0; i < self->slot_count; ++i) record->slots[i] = record_place(&self->slots[i]);
  return EDGERT_OK;
}

static int record_fits(const vulkan_record *record, const edgert_range *slots, size_t slot_count) {
  if (record->slot_count != slot_count) return 0;
  for (size_t i = 0; i < slot_count; ++i) {
    vulkan_place place = record_place(&slots[i]);
    if (place.block != record->slots[i].block || place.offset != record->slots[i].offset ||
        place.length != record->slots[i].length)
      return 0;
  }
  return 1;
}

/* The translation for these slots, first among those of the commands. */
static edgert_status record_find(recorder *self, edgert_commands *commands, edgert_error *error) {
  vulkan_record *first = commands->translation, **place = &first;
  size_t count = 0;
  while (*place && !record_fits(*place, self->slots, self->slot_count)) {
    if (++count == RECORD_KEPT && !(*place)->next) break;
    place = &(*place)->next;
  }
  vulkan_record *record = *place;
  int is_found = record && record_fits(record, self->slots, self->slot_count);
  if (record) *place = record->next;
  commands->translation = first;
  if (record && !is_found) vulkan_record_give(self->device, record);
  edgert_status status = EDGERT_OK;
  if (!is_found) status = vulkan_record_take(self->device, &record, error);
  if (status != EDGERT_OK) return status;
  self->record = record;
  if (!is_found) status = record_note_slots(self, error);
  if (status == EDGERT_OK && !is_found) status = record_all(self, error);
  if (status != EDGERT_OK) {
    vulkan_record_give(self->device, record);
    return status;
  }
  record->next = commands->translation;
  commands->translation = record;
  return EDGERT_OK;
}

/* What the commands use is in use until then. */
static void record_touch(recorder *self, uint64_t point) {
  edgert_mutex_lock(&self->device->lock);
  for (size_t i = 0; i < self->commands->kept_count; ++i) {
    edgert_buffer *buffer = edgert_object_as(self->commands->kept[i], EDGERT_KIND_BUFFER);
    if (!buffer) continue;
    if (buffer->whole) buffer = buffer->whole;
    if (buffer->point < point) buffer->point = point;
  }
  for (size_t i = 0; i < self->slot_count; ++i) {
    edgert_buffer *buffer = self->slots[i].buffer;
    if (!buffer) continue;
    if (buffer->whole) buffer = buffer->whole;
    if (buffer->point < point) buffer->point = point;
  }
  edgert_mutex_unlock(&self->device->lock);
}

edgert_status vulkan_execute(edgert_device *device, edgert_commands *commands,
                             const edgert_range *slots, size_t slot_count,
                             const edgert_watch *watch, uint64_t *out_point, edgert_error *error) {
  vulkan_device *self = (vulkan_device *)device;
  recorder recorder = {
      .device = self, .commands = commands, .slots = slots, .slot_count = slot_count};
  if (!commands->count) return EDGERT_OK;
  if (edgert_watch_is_over(watch)) return edgert_watch_fail(watch, error);
  edgert_status status = record_find(&recorder, commands, error);
  /* A command buffer is not submitted twice at a time. */
  if (status == EDGERT_OK)
    status = vulkan_wait(self, recorder.record->point, UINT64_MAX, watch, error);
  if (status == EDGERT_OK)
    status = vulkan_submit(self, recorder.record->commands, out_point, error);
  if (status != EDGERT_OK) return status;
  recorder.record->point = *out_point;
  record_touch(&recorder, *out_point);
  vulkan_cache_save(self);
  if (!recorder.record->stamps) return EDGERT_OK;
  status = vulkan_wait(self, *out_point, UINT64_MAX, watch, error);
  return status == EDGERT_OK ? vulkan_timing_read(self, recorder.record, commands, error) : status;
}

void vulkan_forget(edgert_device *device, edgert_commands *commands) {
  vulkan_record *record = commands->translation;
  while (record) {
    vulkan_record *next = record->next;
    vulkan_record_give((vulkan_device *)device, record);
    record = next;
  }
  commands->translation = NULL;
}

#endif
