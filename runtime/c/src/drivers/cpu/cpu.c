/* The `cpu` driver: kernels as machine code in this process, on one thread or several. */
#include "cpu.h"

#include "../../bytes.h"
#include "../../drivers.h"

#define CPU_PAGE 4096u
#define CPU_DEFAULT_CACHE ((uint64_t)256 << 20)

/* Memory that one execution needs and the next can use again. */
typedef struct cpu_run cpu_run;
struct cpu_run {
  cpu_run *next;
  edgert_work *works;
  size_t work_count, work_capacity;
  void **bindings;
  size_t *lengths;
  size_t binding_count, binding_capacity, length_capacity;
  edgert_scratch scratch;
};

typedef struct cpu_device {
  edgert_device device;
  edgert_pool *pool;
  edgert_cache cache;
  edgert_cpu_features features;
  edgert_library_query *libraries;
  size_t library_count;
  edgert_mutex lock;
  cpu_run *runs; /* those that are not in use */
} cpu_device;

typedef struct cpu_executable {
  edgert_executable executable;
  edgert_elf elf;
  edgert_library_query wasm;
  const edgert_library *library;
  uint32_t *constants;
  atomic_uint *costs; /* of each kernel's workgroups, see edgert_work */
  edgert_library_environment environment;
} cpu_executable;

/* --- the device ------------------------------------------------------------------------------- */

static void cpu_run_destroy(cpu_run *self, const edgert_allocator *allocator) {
  edgert_deallocate(allocator, self->works);
  edgert_deallocate(allocator, self->bindings);
  edgert_deallocate(allocator, self->lengths);
  edgert_deallocate(allocator, self->scratch.memory);
  edgert_deallocate(allocator, self);
}

static void cpu_destroy(edgert_device *device) {
  cpu_device *self = (cpu_device *)device;
  const edgert_allocator *allocator = &device->object.allocator;
  edgert_pool_destroy(self->pool);
  while (self->runs) {
    cpu_run *run = self->runs;
    self->runs = run->next;
    cpu_run_destroy(run, allocator);
  }
  edgert_cache_destroy(&self->cache, allocator);
  edgert_mutex_destroy(&self->lock);
  edgert_deallocate(allocator, self->libraries);
}

static edgert_status cpu_create(const edgert_device_options *options, edgert_device **out,
                                edgert_error *error) {
  void *made;
  edgert_status status = edgert_object_create(&options->allocator, EDGERT_KIND_DEVICE,
                                              sizeof(cpu_device), &made, error);
  if (status != EDGERT_OK) return status;
  cpu_device *self = made;
  edgert_device_begin(&self->device, &edgert_cpu_driver, options);
  edgert_cache_create(&self->cache,
                      options->cache_bytes ? options->cache_bytes : CPU_DEFAULT_CACHE,
                      (uint8_t)options->unwritten);
  edgert_mutex_create(&self->lock);
  edgert_cpu_read_features(&self->features);
  if (EDGERT_WITH_PROVE)
    self->device.identity =
        edgert_bytes_hash((const uint8_t *)&self->features, sizeof self->features);
  void *libraries;
  status = edgert_allocate_array(&options->allocator, options->library_count,
                                 sizeof *self->libraries, &libraries, error);
  self->libraries = libraries;
  if (status == EDGERT_OK && options->library_count) {
    memcpy(self->libraries, options->libraries,
           options->library_count * sizeof *self->libraries);
    self->library_count = options->library_count;
  }
  if (status == EDGERT_OK)
    status = edgert_pool_create(&options->allocator,
                                options->threads ? options->threads : edgert_processor_count(),
                                &self->pool, error);
  if (status != EDGERT_OK)
    edgert_release(self);
  else
    *out = &self->device;
  return status;
}

static const char *cpu_format(const edgert_device *device, uint32_t index) {
  (void)device;
  const char *elf = edgert_elf_format();
  if (elf && index-- == 0) return elf;
  if (EDGERT_WITH_WASM && index-- == 0) return EDGERT_WASM_FORMAT;
  return EDGERT_WITH_STATIC && index == 0 ? "static" : NULL;
}

static int cpu_query(edgert_device *device, edgert_text category, edgert_text key, int64_t *out) {
  cpu_device *self = (cpu_device *)device;
  if (edgert_text_equal(category, "hal.cpu")) return edgert_cpu_feature(&self->features, key, out);
  if (!edgert_text_equal(category, "hal.dispatch") || !edgert_text_equal(key, "concurrency"))
    return 0;
  *out = edgert_pool_threads(self->pool);
  return 1;
}

/* --- memory ----------------------------------------------------------------------------------- */

static edgert_status cpu_allocate(edgert_device *device, edgert_buffer *buffer,
                                  edgert_error *error) {
  cpu_device *self = (cpu_device *)device;
  void *memory;
  edgert_status status =
      edgert_cache_take(&self->cache, &device->object.allocator, buffer->owner, buffer->size,
                        &memory, &buffer->is_fresh, error);
  if (status == EDGERT_OK) buffer->memory = buffer->host = memory;
  return status;
}

static void cpu_deallocate(edgert_device *device, edgert_buffer *buffer) {
  cpu_device *self = (cpu_device *)device;
  edgert_cache_give(&self->cache, &device->object.allocator, buffer->memory, buffer->owner,
                    buffer->size);
}

static edgert_status cpu_lend(edgert_device *device, edgert_buffer *buffer, uint8_t *data,
                              edgert_error *error) {
  (void)device;
  if ((uintptr_t)data % EDGERT_ALIGNMENT != 0)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "memory must begin at a multiple of %d",
                       EDGERT_ALIGNMENT);
  buffer->host = data; /* `memory` stays NULL: there is nothing to give back */
  return EDGERT_OK;
}

/* --- kernels ---------------------------------------------------------------------------------- */

static void cpu_unload(edgert_executable *executable) {
  cpu_executable *self = (cpu_executable *)executable;
  const edgert_allocator *allocator = &executable->object.allocator;
  edgert_elf_unload(&self->elf);
#if EDGERT_WITH_WASM
  edgert_wasm_unload(self->wasm);
#endif
  edgert_deallocate(allocator, self->constants);
  edgert_deallocate(allocator, self->costs);
}

static const edgert_library *cpu_ask(cpu_executable *self, edgert_library_query query) {
  edgert_kernel_query ask;
  memcpy(&ask, &query, sizeof ask);
  const edgert_library *library = ask(EDGERT_LIBRARY_VERSION, &self->environment);
  return library && library->header && library->header->version == EDGERT_LIBRARY_VERSION
             ? library
             : NULL;
}

/* The linked library whose name the executable's data is. */
static edgert_status cpu_find_static(cpu_device *device, cpu_executable *self, const uint8_t *data,
                                     size_t size, edgert_error *error) {
  const char *end = size ? memchr(data, 0, size) : NULL;
  const edgert_text name = {(const char *)data, end ? (size_t)(end - (const char *)data) : size};
  for (size_t i = 0; i < device->library_count; ++i) {
    const edgert_library *library = cpu_ask(self, device->libraries[i]);
    if (!library || !edgert_text_equal(name, library->header->name)) continue;
    self->library = library;
    return EDGERT_OK;
  }
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND,
                     "the kernels '%.*s' are not linked into this program or not registered",
                     EDGERT_TEXT(name));
}

static edgert_status cpu_check_library(cpu_executable *self, size_t constant_count,
                                       edgert_error *error) {
  const edgert_library *library = self->library;
  if (!library)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable is of another version");
  if (library->header->sanitizer)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable was built with a sanitizer");
  if (library->imports.count)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "an executable needs functions from outside: %s",
                       library->imports.names ? library->imports.names[0] : "?");
  if (library->constants.count > constant_count)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                       "an executable takes %u constants and was given %u",
                       (unsigned)library->constants.count, (unsigned)constant_count);
  return EDGERT_OK;
}

static edgert_status cpu_load(edgert_device *device, edgert_text format, const uint8_t *data,
                              size_t size, const uint32_t *constants, size_t constant_count,
                              edgert_executable **out, edgert_error *error) {
  const edgert_allocator *allocator = &device->object.allocator;
  *out = NULL;
  void *made;
  edgert_status status =
      edgert_object_create(allocator, EDGERT_KIND_EXECUTABLE, sizeof(cpu_executable), &made, error);
  if (status != EDGERT_OK) return status;
  cpu_executable *self = made;
  self->executable.device = edgert_retain(device);
  void *memory;
  status = edgert_allocate_array(allocator, constant_count, sizeof *constants, &memory, error);
  self->constants = memory;
  if (status == EDGERT_OK && constant_count)
    memcpy(self->constants, constants, constant_count * sizeof *constants);
  self->environment.constants = self->constants;
  if (status == EDGERT_OK && edgert_text_equal(format, "static")) {
    status = cpu_find_static((cpu_device *)device, self, data, size, error);
  } else if (status == EDGERT_OK) {
    edgert_library_query query;
#if EDGERT_WITH_WASM
    status = edgert_wasm_load(data, size, &self->wasm, error);
    query = self->wasm;
#else
    status = edgert_elf_load(data, size, &self->elf, &query, error);
#endif
    if (status == EDGERT_OK) self->library = cpu_ask(self, query);
  }
  if (status == EDGERT_OK) status = cpu_check_library(self, constant_count, error);
  if (status == EDGERT_OK)
    status = edgert_allocate_array(allocator, self->library->exports.count, sizeof *self->costs,
                                   &memory, error);
  if (status == EDGERT_OK) {
    self->costs = memory;
    *out = &self->executable;
  } else {
    edgert_release(self);
  }
  return status;
}

static edgert_status cpu_find(edgert_executable *executable, edgert_text name, uint32_t *out,
                              edgert_error *error) {
  const edgert_library *library = ((cpu_executable *)executable)->library;
  for (uint32_t i = 0; library->exports.names && i < library->exports.count; ++i)
    if (library->exports.names[i] && edgert_text_equal(name, library->exports.names[i])) {
      *out = i;
      return EDGERT_OK;
    }
  return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "there is no kernel '%.*s'", EDGERT_TEXT(name));
}

static edgert_status cpu_check(edgert_executable *executable, uint32_t kernel,
                               size_t constant_count, size_t binding_count, edgert_error *error) {
  const edgert_library *library = ((cpu_executable *)executable)->library;
  if (kernel >= library->exports.count)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "there is no kernel %u", (unsigned)kernel);
  const edgert_library_attributes *attributes = library->exports.attributes;
  size_t constants = attributes ? attributes[kernel].constant_count : 0;
  size_t bindings = attributes ? attributes[kernel].binding_count : 0;
  if (constant_count < constants || binding_count < bindings || constant_count > UINT16_MAX ||
      binding_count > UINT8_MAX)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                       "a kernel takes %u constants and %u bindings, and was given %u and %u",
                       (unsigned)constants, (unsigned)bindings, (unsigned)constant_count,
                       (unsigned)binding_count);
  return EDGERT_OK;
}

/* --- execution -------------------------------------------------------------------------------- */

static edgert_status cpu_begin(cpu_device *self, cpu_run **out, edgert_error *error) {
  edgert_mutex_lock(&self->lock);
  cpu_run *run = self->runs;
  if (run) self->runs = run->next;
  edgert_mutex_unlock(&self->lock);
  *out = run;
  if (run) return EDGERT_OK;
  void *made;
  edgert_status status =
      edgert_allocate_array(&self->device.object.allocator, 1, sizeof *run, &made, error);
  *out = made;
  return status;
}

static void cpu_end(cpu_device *self, cpu_run *run) {
  run->work_count = run->binding_count = 0;
  edgert_mutex_lock(&self->lock);
  run->next = self->runs;
  self->runs = run;
  edgert_mutex_unlock(&self->lock);
}

/* Run the dispatches that were collected. */
static edgert_status cpu_flush(cpu_device *self, cpu_run *run, const edgert_watch *watch,
                               edgert_error *error) {
  if (run->work_count == 0) return EDGERT_OK;
  edgert_status status =
      edgert_pool_run(self->pool, run->works, run->work_count, &run->scratch, watch, error);
  run->work_count = run->binding_count = 0;
  return status;
}

/* How many workgroups, from the command or from memory. */
static edgert_status cpu_count(const edgert_command *command, const edgert_range *slots,
                               size_t slot_count, uint32_t out[3], edgert_error *error) {
  memcpy(out, command->as.dispatch.workgroups, 3 * sizeof *out);
  if (command->as.dispatch.is_indirect) {
    edgert_range range = command->target;
    range.length = 3 * sizeof *out;
    edgert_status status = edgert_range_resolve(range, slots, slot_count, &range, error);
    if (status != EDGERT_OK) return status;
    memcpy(out, edgert_range_host(&range), 3 * sizeof *out);
  }
  if (out[2] <= UINT16_MAX) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a dispatch has %u workgroups along z",
                     (unsigned)out[2]);
}

static edgert_status cpu_collect(cpu_device *self, cpu_run *run, const edgert_commands *commands,
                                 const edgert_command *command, const edgert_range *slots,
                                 size_t slot_count, edgert_error *error) {
  uint32_t counts[3];
  edgert_status status = cpu_count(command, slots, slot_count, counts, error);
  if (status != EDGERT_OK) return status;
  cpu_executable *executable = (cpu_executable *)command->as.dispatch.executable;
  const edgert_library *library = executable->library;
  uint32_t kernel = command->as.dispatch.kernel;
  uint32_t binding_count = command->as.dispatch.binding_count;
  for (uint32_t i = 0; i < binding_count; ++i) {
    edgert_range range;
    status = edgert_range_resolve(commands->bindings[command->as.dispatch.first_binding + i],
                                  slots, slot_count, &range, error);
    if (status != EDGERT_OK) return status;
    edgert_buffer_touch(range.buffer);
    run->bindings[run->binding_count + i] = edgert_range_host(&range);
    run->lengths[run->binding_count + i] = (size_t)range.length;
  }
  uint64_t count = (uint64_t)counts[0] * counts[1];
  if (counts[2] && count > UINT64_MAX / counts[2])
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a dispatch has too many workgroups");
  count *= counts[2];
  if (count == 0) return EDGERT_OK;
  edgert_work *work = &run->works[run->work_count];
  const edgert_library_attributes *attributes = library->exports.attributes;
  uint64_t first = run->work_count ? work[-1].first + work[-1].count : 0;
  if (count > UINT64_MAX / 2 - first)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a dispatch has too many workgroups");
  unsigned threads = edgert_pool_threads(self->pool);
  *work = (edgert_work){
      .kernel = library->exports.kernels[kernel],
      .environment = &executable->environment,
      .dispatch = {.size_x = 1,
                   .size_y = 1,
                   .size_z = 1,
                   .constant_count = (uint16_t)command->as.dispatch.constant_count,
                   .count_x = counts[0],
                   .count_y = counts[1],
                   .count_z = (uint16_t)counts[2],
                   .max_concurrency = threads < UINT8_MAX ? (uint8_t)threads : UINT8_MAX,
                   .binding_count = (uint8_t)binding_count,
                   .constants = commands->constants + command->as.dispatch.first_constant,
                   .bindings = run->bindings + run->binding_count,
                   .lengths = run->lengths + run->binding_count},
      .scratch_size = attributes ? attributes[kernel].scratch_pages * CPU_PAGE : 0,
      .is_sequential = attributes && (attributes[kernel].flags & EDGERT_KERNEL_SEQUENTIAL),
      .first = first,
      .count = count,
      .cost = &executable->costs[kernel]};
  run->work_count += 1;
  run->binding_count += binding_count;
  return EDGERT_OK;
}

/* Room for all dispatches and bindings, so that nothing moves while commands are collected. */
static edgert_status cpu_reserve(cpu_device *self, cpu_run *run, const edgert_commands *commands,
                                 edgert_error *error) {
  const edgert_allocator *allocator = &self->device.object.allocator;
  void *works = run->works, *bindings = run->bindings, *lengths = run->lengths;
  edgert_status status = edgert_grow(allocator, &works, 0, &run->work_capacity, commands->count,
                                     sizeof *run->works, error);
  if (status == EDGERT_OK)
    status = edgert_grow(allocator, &bindings, 0, &run->binding_capacity, commands->binding_count,
                         sizeof *run->bindings, error);
  if (status == EDGERT_OK)
    status = edgert_grow(allocator, &lengths, 0, &run->length_capacity, commands->binding_count,
                         sizeof *run->lengths, error);
  run->works = works;
  run->bindings = bindings;
  run->lengths = lengths;
  return status;
}

/* Run one command by itself, and tell how long it took. */
static edgert_status cpu_run_timed(cpu_device *self, cpu_run *run, const edgert_commands *commands,
                                   const edgert_command *command, const edgert_range *slots,
                                   size_t slot_count, const edgert_watch *watch,
                                   edgert_error *error) {
  static const char moves[][7] = {[EDGERT_COMMAND_FILL] = "fill",
                                  [EDGERT_COMMAND_COPY] = "copy",
                                  [EDGERT_COMMAND_UPDATE] = "update"};
  edgert_timing timing = {.kernel = "?"};
  edgert_status status = EDGERT_OK;
  if (command->kind == EDGERT_COMMAND_DISPATCH) {
    status = cpu_collect(self, run, commands, command, slots, slot_count, error);
    if (status != EDGERT_OK || run->work_count == 0) return status;
    const cpu_executable *executable = (cpu_executable *)command->as.dispatch.executable;
    const edgert_library *library = executable->library;
    uint32_t kernel = command->as.dispatch.kernel;
    timing.workgroups = run->works[0].count;
    if (library->exports.names) timing.kernel = library->exports.names[kernel];
    if (library->exports.places) {
      timing.file = library->exports.places[kernel].path;
      timing.file_size = library->exports.places[kernel].path_size;
      timing.line = library->exports.places[kernel].line;
    }
  } else {
    timing.kernel = moves[command->kind];
  }
  uint64_t begin = edgert_nanoseconds();
  status = timing.workgroups
               ? cpu_flush(self, run, watch, error)
               : edgert_commands_transfer(commands, command, slots, slot_count, error);
  timing.nanoseconds = edgert_nanoseconds() - begin;
  if (status == EDGERT_OK) self->device.timed(self->device.timed_user, &timing);
  return status;
}

static edgert_status cpu_execute(edgert_device *device, edgert_commands *commands,
                                 const edgert_range *slots, size_t slot_count,
                                 const edgert_watch *watch, uint64_t *out_point,
                                 edgert_error *error) {
  (void)out_point;
  cpu_device *self = (cpu_device *)device;
  cpu_run *run;
  edgert_status status = cpu_begin(self, &run, error);
  if (status != EDGERT_OK) return status;
  status = cpu_reserve(self, run, commands, error);
  for (size_t i = 0; i < commands->count && status == EDGERT_OK; ++i) {
    const edgert_command *command = &commands->commands[i];
    if (command->kind == EDGERT_COMMAND_BARRIER)
      status = cpu_flush(self, run, watch, error);
    else if (device->timed)
      status = cpu_run_timed(self, run, commands, command, slots, slot_count, watch, error);
    else if (command->kind == EDGERT_COMMAND_DISPATCH)
      status = cpu_collect(self, run, commands, command, slots, slot_count, error);
    else
      status = edgert_commands_transfer(commands, command, slots, slot_count, error);
  }
  if (status == EDGERT_OK) status = cpu_flush(self, run, watch, error);
  cpu_end(self, run);
  return status;
}

const edgert_driver edgert_cpu_driver = {
    .name = "cpu",
    .id = "local",
    .is_timed = 1,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .query = cpu_query,
    .format = cpu_format,
    .allocate = cpu_allocate,
    .deallocate = cpu_deallocate,
    .lend = cpu_lend,
    .load = cpu_load,
    .unload = cpu_unload,
    .find = cpu_find,
    .check = cpu_check,
    .execute = cpu_execute,
};
