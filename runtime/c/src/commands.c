#include "commands.h"

void edgert_commands_destroy(edgert_object *object) {
  edgert_commands *self = (edgert_commands *)object;
  if (self->translation) self->device->driver->forget(self->device, self);
  for (size_t i = 0; i < self->kept_count; ++i) edgert_release(self->kept[i]);
  edgert_deallocate(&object->allocator, self->kept);
  edgert_deallocate(&object->allocator, self->commands);
  edgert_deallocate(&object->allocator, self->bindings);
  edgert_deallocate(&object->allocator, self->constants);
  edgert_deallocate(&object->allocator, self->bytes);
  edgert_release(self->device);
}

edgert_status edgert_commands_create(edgert_device *device, const edgert_allocator *allocator,
                                     edgert_commands **out, edgert_error *error) {
  *out = NULL;
  void *made;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_COMMANDS, sizeof **out, &made, error);
  if (status != EDGERT_OK) return status;
  *out = made;
  (*out)->device = edgert_retain(device);
  return EDGERT_OK;
}

/* Room for one more of an array; `array` is a field of `self`. */
#define COMMANDS_RESERVE(self, array, count, capacity, more, error)                          \
  commands_reserve((self), (void **)&(self)->array, (self)->count, &(self)->capacity, (more), \
                   sizeof *(self)->array, (error))

static edgert_status commands_reserve(edgert_commands *self, void **array, size_t count,
                                      size_t *capacity, size_t more, size_t size,
                                      edgert_error *error) {
  void *grown = *array;
  edgert_status status =
      edgert_grow(&self->object.allocator, &grown, count, capacity, count + more, size, error);
  *array = grown;
  return status;
}

static edgert_status commands_keep(edgert_commands *self, edgert_object *object,
                                   edgert_error *error) {
  if (!object) return EDGERT_OK;
  edgert_status status =
      COMMANDS_RESERVE(self, kept, kept_count, kept_capacity, 1, error);
  if (status == EDGERT_OK) self->kept[self->kept_count++] = edgert_retain(object);
  return status;
}

static edgert_status commands_keep_range(edgert_commands *self, edgert_range range,
                                         edgert_error *error) {
  return commands_keep(self, range.buffer ? &range.buffer->object : NULL, error);
}

static edgert_status commands_add(edgert_commands *self, edgert_command command,
                                  edgert_error *error) {
  if (self->finished)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program records into finished commands");
  edgert_status status = COMMANDS_RESERVE(self, commands, count, capacity, 1, error);
  if (status == EDGERT_OK) self->commands[self->count++] = command;
  return status;
}

edgert_status edgert_commands_barrier(edgert_commands *self, edgert_error *error) {
  if (self->count && self->commands[self->count - 1].kind == EDGERT_COMMAND_BARRIER)
    return EDGERT_OK;
  return commands_add(self, (edgert_command){.kind = EDGERT_COMMAND_BARRIER}, error);
}

edgert_status edgert_commands_fill(edgert_commands *self, edgert_range target, uint64_t pattern,
                                   uint32_t width, edgert_error *error) {
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a fill has a pattern of %u bytes",
                       (unsigned)width);
  edgert_command command = {.kind = EDGERT_COMMAND_FILL, .target = target};
  command.as.fill.pattern = pattern;
  command.as.fill.width = width;
  edgert_status status = commands_keep_range(self, target, error);
  return status == EDGERT_OK ? commands_add(self, command, error) : status;
}

edgert_status edgert_commands_copy(edgert_commands *self, edgert_range source, edgert_range target,
                                   edgert_error *error) {
  edgert_command command = {.kind = EDGERT_COMMAND_COPY, .target = target};
  command.as.copy.source = source;
  edgert_status status = commands_keep_range(self, source, error);
  if (status == EDGERT_OK) status = commands_keep_range(self, target, error);
  return status == EDGERT_OK ? commands_add(self, command, error) : status;
}

edgert_status edgert_commands_update(edgert_commands *self, const uint8_t *data,
                                     edgert_range target, edgert_error *error) {
  edgert_command command = {.kind = EDGERT_COMMAND_UPDATE, .target = target};
  command.as.update.first = self->byte_count;
  if (target.length > SIZE_MAX / 4)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_RANGE, "an update is larger than any memory");
  edgert_status status = COMMANDS_RESERVE(self, bytes, byte_count, byte_capacity,
                                          (size_t)target.length, error);
  if (status == EDGERT_OK) status = commands_keep_range(self, target, error);
  if (status == EDGERT_OK) status = commands_add(self, command, error);
  if (status != EDGERT_OK) return status;
  if (target.length) memcpy(self->bytes + self->byte_count, data, (size_t)target.length);
  self->byte_count += (size_t)target.length;
  return EDGERT_OK;
}

edgert_status edgert_commands_dispatch(edgert_commands *self, edgert_executable *executable,
                                       uint32_t kernel, const uint32_t workgroups[3],
                                       const edgert_range *size, edgert_error *error) {
  edgert_command command = {.kind = EDGERT_COMMAND_DISPATCH};
  if (executable->device != self->device)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program uses a foreign device");
  command.as.dispatch.executable = executable;
  command.as.dispatch.kernel = kernel;
  command.as.dispatch.first_constant = self->constant_count;
  command.as.dispatch.first_binding = self->binding_count;
  if (size) {
    command.target = *size;
    command.as.dispatch.is_indirect = 1;
  } else {
    memcpy(command.as.dispatch.workgroups, workgroups, sizeof command.as.dispatch.workgroups);
  }
  edgert_status status = commands_keep(self, &executable->object, error);
  if (status == EDGERT_OK && size) status = commands_keep_range(self, *size, error);
  return status == EDGERT_OK ? commands_add(self, command, error) : status;
}

edgert_status edgert_commands_add_constant(edgert_commands *self, uint32_t value,
                                           edgert_error *error) {
  edgert_status status =
      COMMANDS_RESERVE(self, constants, constant_count, constant_capacity, 1, error);
  if (status != EDGERT_OK) return status;
  self->constants[self->constant_count++] = value;
  self->commands[self->count - 1].as.dispatch.constant_count += 1;
  return EDGERT_OK;
}

edgert_status edgert_commands_add_binding(edgert_commands *self, edgert_range range,
                                          edgert_error *error) {
  edgert_status status =
      COMMANDS_RESERVE(self, bindings, binding_count, binding_capacity, 1, error);
  if (status == EDGERT_OK) status = commands_keep_range(self, range, error);
  if (status != EDGERT_OK) return status;
  self->bindings[self->binding_count++] = range;
  self->commands[self->count - 1].as.dispatch.binding_count += 1;
  return EDGERT_OK;
}

edgert_status edgert_commands_end_dispatch(edgert_commands *self, edgert_error *error) {
  const edgert_command *command = &self->commands[self->count - 1];
  return self->device->driver->check(
      command->as.dispatch.executable, command->as.dispatch.kernel,
      command->as.dispatch.constant_count, command->as.dispatch.binding_count, error);
}

void edgert_commands_undo_dispatch(edgert_commands *self) {
  const edgert_command *command = &self->commands[--self->count];
  self->constant_count = command->as.dispatch.first_constant;
  self->binding_count = command->as.dispatch.first_binding;
}

/* What was filled is copied behind itself, in pieces that stay in the nearest cache. */
#define COMMANDS_FILL_PIECE 4096

static void commands_fill_bytes(uint8_t *target, uint64_t size, uint64_t pattern,
                                uint32_t width) {
  uint8_t bytes[sizeof pattern];
  memcpy(bytes, &pattern, sizeof bytes);
  if (memcmp(bytes, bytes + 1, width - 1) == 0) {
    memset(target, bytes[0], (size_t)(size - size % width));
    return;
  }
  if (size < width) return;
  size -= size % width;
  memcpy(target, bytes, width);
  for (uint64_t done = width; done < size;) {
    uint64_t piece = done < COMMANDS_FILL_PIECE ? done : COMMANDS_FILL_PIECE;
    if (piece > size - done) piece = size - done;
    memcpy(target + done, target, (size_t)piece);
    done += piece;
  }
}

edgert_status edgert_commands_transfer(const edgert_commands *self, const edgert_command *command,
                                       const edgert_range *slots, size_t slot_count,
                                       edgert_error *error) {
  edgert_range target, source;
  edgert_status status =
      edgert_range_resolve(command->target, slots, slot_count, &target, error);
  if (status != EDGERT_OK) return status;
  if (target.buffer->read_only)
    return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "the program writes to constants");
  if (target.length == 0) return EDGERT_OK;
  const edgert_buffer *whole = target.buffer->whole ? target.buffer->whole : target.buffer;
  if (EDGERT_HAS_ZEROS && whole->is_fresh && command->kind == EDGERT_COMMAND_FILL &&
      command->as.fill.pattern == 0)
    return EDGERT_OK;
  edgert_buffer_touch(target.buffer);
  uint8_t *to = edgert_range_host(&target);
  switch (command->kind) {
    case EDGERT_COMMAND_FILL:
      commands_fill_bytes(to, target.length, command->as.fill.pattern, command->as.fill.width);
      return EDGERT_OK;
    case EDGERT_COMMAND_UPDATE:
      memcpy(to, self->bytes + command->as.update.first, (size_t)target.length);
      return EDGERT_OK;
    case EDGERT_COMMAND_COPY:
      status = edgert_range_resolve(command->as.copy.source, slots, slot_count, &source, error);
      if (status != EDGERT_OK) return status;
      if (source.length != target.length)
        return EDGERT_FAIL(error, EDGERT_PROGRAM_FAILED, "a copy's two sides differ in size");
      memmove(to, edgert_range_host(&source), (size_t)target.length);
      return EDGERT_OK;
    default:
      return EDGERT_OK;
  }
}
