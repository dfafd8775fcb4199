/* The `webgpu` driver: kernels as WGSL on the GPU of a page, which the page's own part drives.
 *
 * What a device does is JavaScript's (`runtime/js/src/webgpu.js`); here commands become calls of
 * it. Buffers, executables and recordings are numbers there, and 0 is none. Everything happens in
 * the order in which it is asked for, so nothing waits but who reads memory: that takes the page's
 * event loop. A read is `EDGERT_PENDING` first, and asked for again once the bytes are there; in the
 * middle of a program the interpreter stops there, and goes on by `edgert_session_resume`. */
#include "../../drivers.h"

#if EDGERT_WITH_WEBGPU

#include "../../commands.h"

#define WEBGPU_FORMAT "webgpu-wgsl"
#define WEBGPU_HOST(name) __attribute__((import_module("webgpu"), import_name(#name)))
#define WEBGPU_NAME_SIZE 96

/* What the page gives; all but sizes and numbers is 1 where it went well, and 0 where not. */
WEBGPU_HOST(open) uint32_t webgpu_host_open(char *name, size_t size);
WEBGPU_HOST(failure) void webgpu_host_failure(char *text, size_t size);
WEBGPU_HOST(allocate) uint32_t webgpu_host_allocate(size_t size);
WEBGPU_HOST(release) void webgpu_host_release(uint32_t buffer);
WEBGPU_HOST(write) uint32_t webgpu_host_write(uint32_t buffer, size_t offset, const void *data,
                                              size_t size);
/* 2: not yet. */
WEBGPU_HOST(read) uint32_t webgpu_host_read(uint32_t buffer, size_t offset, void *data, size_t size);
WEBGPU_HOST(load) uint32_t webgpu_host_load(const void *data, size_t size);
WEBGPU_HOST(unload) void webgpu_host_unload(uint32_t executable);
/* One more than the kernel's number. */
WEBGPU_HOST(find) uint32_t webgpu_host_find(uint32_t executable, const char *name, size_t size);
WEBGPU_HOST(check) uint32_t webgpu_host_check(uint32_t executable, uint32_t kernel, size_t words,
                                              size_t bindings);
WEBGPU_HOST(begin) uint32_t webgpu_host_begin(void);
WEBGPU_HOST(fill) uint32_t webgpu_host_fill(uint32_t buffer, size_t offset, size_t size,
                                            uint32_t pattern, uint32_t high, uint32_t width);
WEBGPU_HOST(copy) uint32_t webgpu_host_copy(uint32_t from, size_t from_offset, uint32_t to,
                                            size_t offset, size_t size);
WEBGPU_HOST(update) uint32_t webgpu_host_update(uint32_t buffer, size_t offset, const void *data,
                                                size_t size);
WEBGPU_HOST(bind) void webgpu_host_bind(uint32_t buffer, size_t offset, size_t size);
WEBGPU_HOST(dispatch) uint32_t webgpu_host_dispatch(uint32_t executable, uint32_t kernel,
                                                    const uint32_t *words, size_t count, uint32_t x,
                                                    uint32_t y, uint32_t z);
WEBGPU_HOST(dispatch_indirect) uint32_t webgpu_host_dispatch_indirect(
    uint32_t executable, uint32_t kernel, const uint32_t *words, size_t count, uint32_t buffer,
    size_t offset);
WEBGPU_HOST(submit) uint32_t webgpu_host_submit(uint32_t recording);
WEBGPU_HOST(forget) void webgpu_host_forget(uint32_t recording);

typedef struct webgpu_device {
  edgert_device device;
  char name[WEBGPU_NAME_SIZE];
} webgpu_device;

typedef struct webgpu_executable {
  edgert_executable executable;
  uint32_t id;
} webgpu_executable;

/* What recorded commands are in the page, for the places that their slots were bound to. */
typedef struct webgpu_recorded {
  uint32_t recording;
  size_t count;
  edgert_range slots[];
} webgpu_recorded;

/* In the page's words; where it has none, it was asked for more memory than it has. */
static edgert_status webgpu_fail(edgert_error *error) {
  char text[200];
  webgpu_host_failure(text, sizeof text);
  if (!*text)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "the page's GPU has not so much in one piece");
  return EDGERT_FAIL(error, EDGERT_DEVICE_FAILED, "%s", text);
}

static edgert_status webgpu_try(uint32_t done, edgert_error *error) {
  return done ? EDGERT_OK : webgpu_fail(error);
}

/* --- the device ------------------------------------------------------------------------------- */

static edgert_status webgpu_create(const edgert_device_options *options, edgert_device **out,
                                   edgert_error *error) {
  void *made;
  *out = NULL;
  edgert_status status = edgert_object_create(&options->allocator, EDGERT_KIND_DEVICE,
                                              sizeof(webgpu_device), &made, error);
  if (status != EDGERT_OK) return status;
  webgpu_device *self = made;
  edgert_device_begin(&self->device, &edgert_webgpu_driver, options);
  status = webgpu_try(webgpu_host_open(self->name, sizeof self->name), error);
  self->device.name = self->name;
  if (status == EDGERT_OK)
    *out = &self->device;
  else
    edgert_release(self);
  return status;
}

static const char *webgpu_format(const edgert_device *self, uint32_t index) {
  (void)self;
  return index ? NULL : WEBGPU_FORMAT;
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint32_t webgpu_memory(const edgert_buffer *buffer) {
  return (uint32_t)(uintptr_t)(buffer->whole ? buffer->whole : buffer)->memory;
}

static edgert_status webgpu_allocate(edgert_device *self, edgert_buffer *buffer,
                                     edgert_error *error) {
  (void)self;
  buffer->memory = (void *)(uintptr_t)webgpu_host_allocate((size_t)buffer->size);
  if (buffer->memory) return EDGERT_OK;
  return webgpu_fail(error);
}

static void webgpu_deallocate(edgert_device *self, edgert_buffer *buffer) {
  (void)self;
  webgpu_host_release(webgpu_memory(buffer));
}

static edgert_status webgpu_read(edgert_device *self, edgert_buffer *buffer, uint64_t offset,
                                 void *data, uint64_t size, edgert_error *error) {
  (void)self;
  uint32_t done = webgpu_host_read(webgpu_memory(buffer), (size_t)offset, data, (size_t)size);
  if (done == 2) return EDGERT_FAIL(error, EDGERT_PENDING, "the page's GPU is still at work");
  return webgpu_try(done, error);
}

static edgert_status webgpu_write(edgert_device *self, edgert_buffer *buffer, uint64_t offset,
                                  const void *data, uint64_t size, edgert_error *error) {
  (void)self;
  return webgpu_try(webgpu_host_write(webgpu_memory(buffer), (size_t)offset, data, (size_t)size),
                    error);
}

/* --- kernels ---------------------------------------------------------------------------------- */

static edgert_status webgpu_load(edgert_device *self, edgert_text format, const uint8_t *data,
                                 size_t size, const uint32_t *constants, size_t constant_count,
                                 edgert_executable **out, edgert_error *error) {
  (void)format, (void)constants;
  *out = NULL;
  if (constant_count)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "kernels in WGSL are not specialised");
  void *made;
  edgert_status status = edgert_object_create(&self->object.allocator, EDGERT_KIND_EXECUTABLE,
                                              sizeof(webgpu_executable), &made, error);
  if (status != EDGERT_OK) return status;
  webgpu_executable *executable = made;
  executable->executable.device = edgert_retain(self);
  executable->id = webgpu_host_load(data, size);
  if (executable->id) {
    *out = &executable->executable;
    return EDGERT_OK;
  }
  edgert_release(executable);
  return webgpu_fail(error);
}

static uint32_t webgpu_id(const edgert_executable *executable) {
  return ((const webgpu_executable *)executable)->id;
}

static void webgpu_unload(edgert_executable *executable) {
  if (webgpu_id(executable)) webgpu_host_unload(webgpu_id(executable));
}

static edgert_status webgpu_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                                 edgert_error *error) {
  uint32_t found = webgpu_host_find(webgpu_id(executable), name.data, name.size);
  if (!found)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "there is no kernel '%.*s'", EDGERT_TEXT(name));
  *out = found - 1;
  return EDGERT_OK;
}

static edgert_status webgpu_check(edgert_executable *executable, uint32_t kernel,
                                  size_t constant_count, size_t binding_count,
                                  edgert_error *error) {
  if (webgpu_host_check(webgpu_id(executable), kernel, constant_count, binding_count))
    return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                     "a kernel takes other constants and bindings than %u and %u",
                     (unsigned)constant_count, (unsigned)binding_count);
}

/* --- commands --------------------------------------------------------------------------------- */

typedef struct webgpu_walk {
  const edgert_commands *commands;
  const edgert_range *slots;
  size_t slot_count;
} webgpu_walk;

static edgert_status webgpu_resolve(const webgpu_walk *walk, edgert_range range, edgert_range *out,
                                    uint32_t *out_memory, edgert_error *error) {
  edgert_status status =
      edgert_range_resolve(range, walk->slots, walk->slot_count, out, error);
  if (status != EDGERT_OK) return status;
  *out_memory = webgpu_memory(out->buffer);
  out->offset += out->buffer->offset;
  return EDGERT_OK;
}

static edgert_status webgpu_dispatch(const webgpu_walk *walk, const edgert_command *command,
                                     edgert_error *error) {
  const uint32_t *words = walk->commands->constants + command->as.dispatch.first_constant;
  const uint32_t count = command->as.dispatch.constant_count;
  const uint32_t *groups = command->as.dispatch.workgroups;
  uint32_t id = webgpu_id(command->as.dispatch.executable), kernel = command->as.dispatch.kernel;
  edgert_range range;
  uint32_t memory;
  for (uint32_t i = 0; i < command->as.dispatch.binding_count; ++i) {
    edgert_status status =
        webgpu_resolve(walk, walk->commands->bindings[command->as.dispatch.first_binding + i],
                       &range, &memory, error);
    if (status != EDGERT_OK) return status;
    webgpu_host_bind(memory, (size_t)range.offset, (size_t)range.length);
  }
  if (!command->as.dispatch.is_indirect)
    return webgpu_try(
        webgpu_host_dispatch(id, kernel, words, count, groups[0], groups[1], groups[2]), error);
  edgert_status status = webgpu_resolve(walk, command->target, &range, &memory, error);
  if (status != EDGERT_OK) return status;
  return webgpu_try(
      webgpu_host_dispatch_indirect(id, kernel, words, count, memory, (size_t)range.offset), error);
}

static edgert_status webgpu_command(const webgpu_walk *walk, const edgert_command *command,
                                    edgert_error *error) {
  edgert_range target, source;
  uint32_t memory, from;
  if (command->kind == EDGERT_COMMAND_BARRIER) return EDGERT_OK; /* each dispatch ends before */
  if (command->kind == EDGERT_COMMAND_DISPATCH) return webgpu_dispatch(walk, command, error);
  edgert_status status = webgpu_resolve(walk, command->target, &target, &memory, error);
  if (status != EDGERT_OK || target.length == 0) return status;
  size_t offset = (size_t)target.offset, size = (size_t)target.length;
  switch (command->kind) {
    case EDGERT_COMMAND_FILL: {
      uint64_t pattern = command->as.fill.pattern;
      return webgpu_try(webgpu_host_fill(memory, offset, size, (uint32_t)pattern,
                                         (uint32_t)(pattern >> 32), command->as.fill.width),
                        error);
    }
    case EDGERT_COMMAND_COPY:
      status = webgpu_resolve(walk, command->as.copy.source, &source, &from, error);
      if (status != EDGERT_OK) return status;
      return webgpu_try(webgpu_host_copy(from, (size_t)source.offset, memory, offset, size), error);
    default:
      return webgpu_try(webgpu_host_update(memory, offset,
                                           walk->commands->bytes + command->as.update.first, size),
                        error);
  }
}

static void webgpu_forget(edgert_device *self, edgert_commands *commands) {
  webgpu_recorded *recorded = commands->translation;
  if (!recorded) return;
  webgpu_host_forget(recorded->recording);
  edgert_deallocate(&self->object.allocator, recorded);
  commands->translation = NULL;
}

/* Whether slots are bound to the same places; those of a recording are kept as places alone. */
static int webgpu_is_alike(const webgpu_recorded *recorded, const edgert_range *slots,
                           size_t count) {
  if (recorded->count != count) return 0;
  for (size_t i = 0; i < count; ++i) {
    const edgert_range *was = &recorded->slots[i];
    const edgert_buffer *buffer = slots[i].buffer;
    if (was->slot != (buffer ? webgpu_memory(buffer) : 0) || was->length != slots[i].length ||
        (buffer && was->offset != slots[i].offset + buffer->offset))
      return 0;
  }
  return 1;
}

/* Keep a recording for the next time; where there is no memory for that, it goes. */
static void webgpu_keep(edgert_device *self, edgert_commands *commands, const edgert_range *slots,
                        size_t count, uint32_t recording) {
  void *made;
  if (!commands->finished ||
      edgert_allocate(&self->object.allocator,
                      sizeof(webgpu_recorded) + count * sizeof(edgert_range), 8, &made,
                      NULL) != EDGERT_OK) {
    webgpu_host_forget(recording);
    return;
  }
  webgpu_recorded *recorded = commands->translation = made;
  recorded->recording = recording;
  recorded->count = count;
  for (size_t i = 0; i < count; ++i) {
    const edgert_buffer *buffer = slots[i].buffer;
    recorded->slots[i] = (edgert_range){NULL, buffer ? webgpu_memory(buffer) : 0,
                                        slots[i].offset + (buffer ? buffer->offset : 0),
                                        slots[i].length};
  }
}

static edgert_status webgpu_execute(edgert_device *self, edgert_commands *commands,
                                    const edgert_range *slots, size_t slot_count,
                                    const edgert_watch *watch, uint64_t *out_point,
                                    edgert_error *error) {
  (void)watch, (void)out_point; /* who reads what this gives waits for it */
  const webgpu_recorded *known = commands->translation;
  if (known && webgpu_is_alike(known, slots, slot_count))
    return webgpu_try(webgpu_host_submit(known->recording), error);
  webgpu_forget(self, commands);
  const webgpu_walk walk = {commands, slots, slot_count};
  uint32_t recording = webgpu_host_begin();
  edgert_status status = EDGERT_OK;
  for (size_t i = 0; i < commands->count && status == EDGERT_OK; ++i)
    status = webgpu_command(&walk, &commands->commands[i], error);
  if (status == EDGERT_OK) status = webgpu_try(webgpu_host_submit(recording), error);
  if (status == EDGERT_OK)
    webgpu_keep(self, commands, slots, slot_count, recording);
  else
    webgpu_host_forget(recording);
  return status;
}

const edgert_driver edgert_webgpu_driver = {
    .name = "webgpu",
    .id = "webgpu",
    .create = webgpu_create,
    .format = webgpu_format,
    .allocate = webgpu_allocate,
    .deallocate = webgpu_deallocate,
    .read = webgpu_read,
    .write = webgpu_write,
    .load = webgpu_load,
    .unload = webgpu_unload,
    .find = webgpu_find,
    .check = webgpu_check,
    .execute = webgpu_execute,
    .forget = webgpu_forget,
};

#endif
