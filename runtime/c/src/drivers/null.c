/* The `null` driver: host memory, transfers that happen, kernels that do nothing.
 *
 * It runs any module's byte code without its kernels, on any machine: for tests, for measuring
 * what a program costs beside its kernels, and as the model of a driver. A driver for a real
 * device replaces the functions that say so, and has those that are missing here: `list`, `map` and
 * `unmap`, or `read` and `write`, `wait` and `forget`. */
#include "../commands.h"
#include "../drivers.h"

static edgert_status null_create(const edgert_device_options *options, edgert_device **out,
                                 edgert_error *error) {
  void *made;
  edgert_status status = edgert_object_create(&options->allocator, EDGERT_KIND_DEVICE,
                                              sizeof **out, &made, error);
  *out = status == EDGERT_OK ? made : NULL;
  if (status == EDGERT_OK) edgert_device_begin(*out, &edgert_null_driver, options);
  return status;
}

/* Real: what `id` and `format` do not say already, if anything. */
static int null_query(edgert_device *self, edgert_text category, edgert_text key, int64_t *out) {
  (void)self, (void)key;
  *out = 1;
  return edgert_text_equal(category, "hal.device.id") ||
         edgert_text_equal(category, "hal.executable.format");
}

/* Real: what it has kernels loaded in. */
static const char *null_format(const edgert_device *self, uint32_t index) {
  (void)self, (void)index;
  return NULL;
}

/* Real: device memory, with `host` only where the host sees it. */
static edgert_status null_allocate(edgert_device *self, edgert_buffer *buffer,
                                   edgert_error *error) {
  void *memory;
  edgert_status status = edgert_allocate(&self->object.allocator, (size_t)buffer->size,
                                         EDGERT_ALIGNMENT, &memory, error);
  if (status != EDGERT_OK) return status;
  memset(memory, 0, (size_t)buffer->size);
  buffer->memory = buffer->host = memory;
  return EDGERT_OK;
}

static void null_deallocate(edgert_device *self, edgert_buffer *buffer) {
  edgert_deallocate(&self->object.allocator, buffer->memory);
}

static edgert_status null_lend(edgert_device *self, edgert_buffer *buffer, uint8_t *data,
                               edgert_error *error) {
  (void)self;
  if ((uintptr_t)data % EDGERT_ALIGNMENT != 0)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the memory is not aligned");
  buffer->host = data;
  return EDGERT_OK;
}

/* Real: a pipeline or code for each kernel. */
static edgert_status null_load(edgert_device *self, edgert_text format, const uint8_t *data,
                               size_t size, const uint32_t *constants, size_t constant_count,
                               edgert_executable **out, edgert_error *error) {
  (void)format, (void)data, (void)size, (void)constants, (void)constant_count;
  void *made;
  edgert_status status = edgert_object_create(&self->object.allocator, EDGERT_KIND_EXECUTABLE,
                                              sizeof **out, &made, error);
  *out = status == EDGERT_OK ? made : NULL;
  if (status == EDGERT_OK) (*out)->device = edgert_retain(self);
  return status;
}

/* Real: the kernel's number. */
static edgert_status null_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                               edgert_error *error) {
  (void)executable, (void)name, (void)error;
  *out = 0;
  return EDGERT_OK;
}

static edgert_status null_check(edgert_executable *executable, uint32_t kernel,
                                size_t constant_count, size_t binding_count, edgert_error *error) {
  (void)executable, (void)kernel, (void)constant_count, (void)binding_count, (void)error;
  return EDGERT_OK;
}

/* Real: submit, with barriers, and dispatch; `*out_point` is when that is done. */
static edgert_status null_execute(edgert_device *self, edgert_commands *commands,
                                  const edgert_range *slots, size_t slot_count,
                                  const edgert_watch *watch, uint64_t *out_point,
                                  edgert_error *error) {
  (void)self, (void)watch, (void)out_point;
  for (size_t i = 0; i < commands->count; ++i) {
    const edgert_command *command = &commands->commands[i];
    if (command->kind == EDGERT_COMMAND_BARRIER) continue;
    if (command->kind == EDGERT_COMMAND_DISPATCH) {
      for (uint32_t b = 0; b < command->as.dispatch.binding_count; ++b) {
        edgert_range range;
        edgert_status status =
            edgert_range_resolve(commands->bindings[command->as.dispatch.first_binding + b], slots,
                                 slot_count, &range, error);
        if (status != EDGERT_OK) return status;
      }
      continue;
    }
    edgert_status status = edgert_commands_transfer(commands, command, slots, slot_count, error);
    if (status != EDGERT_OK) return status;
  }
  return EDGERT_OK;
}

const edgert_driver edgert_null_driver = {
    .name = "null",
    .id = "null",
    .create = null_create,
    .query = null_query,
    .format = null_format,
    .allocate = null_allocate,
    .deallocate = null_deallocate,
    .lend = null_lend,
    .load = null_load,
    .find = null_find,
    .check = null_check,
    .execute = null_execute,
};
