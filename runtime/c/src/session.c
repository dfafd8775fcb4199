#include "session.h"

#include "hal.h"
#include "json.h"
#include "seal.h"
#include "weights.h"

/* The time of a call begins; interruptions of the one before are over. */
static void session_start_watch(edgert_session *self) {
  atomic_store(&self->watch.is_interrupted, 0);
  uint64_t now = self->max_milliseconds ? edgert_nanoseconds() : 0;
  uint64_t most = (UINT64_MAX - now) / 1000000u;
  uint64_t given = self->max_milliseconds < most ? self->max_milliseconds : most;
  self->watch.deadline = self->max_milliseconds ? now + given * 1000000u : 0;
}

edgert_status edgert_session_buffer(edgert_session *self, edgert_memory memory, int64_t size,
                                    edgert_buffer **out, edgert_error *error) {
  *out = NULL;
  if (size < 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the program asks for %lld bytes",
                       (long long)size);
  return edgert_buffer_create(self->device, self->number, self->budget, memory, (uint64_t)size, out,
                              error);
}

edgert_status edgert_session_wait(edgert_session *self, const edgert_fence *fence,
                                  uint64_t milliseconds, edgert_error *error) {
  uint64_t point;
  edgert_status status = edgert_fence_point(fence, &point, error);
  if (status != EDGERT_OK) return status;
  return edgert_device_wait(self->device, point, milliseconds, &self->watch, error);
}

static void session_let_go(edgert_begun *begun) {
  for (size_t i = 0; i < begun->held_count; ++i) edgert_release(begun->held[i].ref);
  edgert_release(begun->signal);
  begun->held_count = 0;
  begun->signal = NULL;
}

/* Take away a call that waits. */
static void session_drop(edgert_session *self) {
  if (!self->frame) return;
  edgert_session_give_up(self);
  session_let_go(&self->begun);
  edgert_stack_restore(&self->stack, &self->object.allocator, self->begun.mark);
}

void edgert_session_destroy(edgert_object *object) {
  edgert_session *self = (edgert_session *)object;
  const edgert_allocator *allocator = &object->allocator;
  edgert_module *module = self->module;
  edgert_runner_destroy(&self->runner);
  session_drop(self);
  if (self->is_ready && module->deinit >= 0) {
    edgert_cell none;
    session_start_watch(self);
    (void)edgert_session_run(self, (uint32_t)module->deinit, NULL, &none, NULL);
    edgert_session_give_up(self);
  }
  for (uint32_t i = 0; self->global_refs && i < module->global_refs; ++i)
    edgert_release_at(&self->global_refs[i]);
  edgert_lists_clear(&self->lists);
  for (uint32_t i = 0; self->rodata && i < module->rodata_count; ++i)
    edgert_release(self->rodata[i]);
  for (size_t i = 0; i < self->scope_count; ++i) {
    edgert_deallocate(allocator, self->scopes[i].name);
    edgert_release(self->scopes[i].weights);
#if EDGERT_WITH_SIGNATURES
    edgert_release(self->scopes[i].pages);
#endif
  }
  edgert_stack_restore(&self->stack, allocator, (edgert_stack_mark){NULL, 0});
  edgert_deallocate(allocator, self->stack.top);
  edgert_deallocate(allocator, self->scopes);
  edgert_deallocate(allocator, self->globals);
  edgert_deallocate(allocator, self->global_refs);
  edgert_deallocate(allocator, self->rodata);
  edgert_deallocate(allocator, self->imports);
  edgert_mutex_destroy(&self->lock);
  edgert_release(self->heap);
  edgert_release(self->device);
  edgert_release(module);
}

/* --- imports ---------------------------------------------------------------------------------- */

static edgert_status session_resolve(edgert_session *self, edgert_error *error) {
  const edgert_module *module = self->module;
  for (uint32_t i = 0; i < module->import_count; ++i) {
    const edgert_import *import = &module->imports[i];
    int differs;
    int found = edgert_import_find(import->name, import->text, &self->imports[i], &differs);
    if (!found) self->imports[i].codes = NULL;
    if (!found && !import->optional)
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         differs ? "the module calls %.*s as another version has it: compile it again"
                                 : "the module needs %.*s, which edgert does not have",
                         EDGERT_TEXT(import->name));
  }
  return EDGERT_OK;
}

/* --- fitness ---------------------------------------------------------------------------------- */

/* Refuse a module that was compiled for a processor with more than this one has. */
static edgert_status session_check_features(const edgert_session *self, edgert_error *error) {
  const char *facts = edgert_module_attribute(self->module, SIZE_MAX, "edgec.module");
  if (!facts) return EDGERT_OK;
  edgert_json json = edgert_json_begin(facts, strlen(facts));
  edgert_json_scope fields = {0, 0}, features = {0, 0};
  edgert_text key;
  while (edgert_json_member(&json, &fields, &key)) {
    if (!edgert_text_equal(key, "cpu_features")) {
      edgert_json_skip(&json);
      continue;
    }
    while (edgert_json_element(&json, &features)) {
      edgert_text name = edgert_json_string(&json);
      int64_t value;
      if (!edgert_device_ask(self->device, (edgert_text){"hal.cpu", 7}, name, &value) ||
          value)
        continue;
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                         "the module is for a processor with %.*s, which this has not: "
                         "compile it for this one",
                         EDGERT_TEXT(name));
    }
  }
  return EDGERT_OK;
}

/* A program whose `__init` finds no device for its kernels fails with words of its compiler's; say
 * instead what it holds and what this device runs. */
static edgert_status session_explain(const edgert_session *self, edgert_status status,
                                     edgert_error *error) {
  if (status != EDGERT_PROGRAM_FAILED || !self->refused) return status;
  const edgert_driver *driver = self->device->driver;
  const char *format = driver->format(self->device, 0);
  (void)format; /* only messages name it */
  return EDGERT_FAIL(error, EDGERT_UNSUPPORTED,
                     "the module holds kernels for '%.*s', and this machine (device '%s') runs "
                     "'%s': compile it for this one",
                     EDGERT_TEXT(edgert_bytes_text(self->refused)), driver->name,
                     format ? format : "nothing");
}

/* --- calling ---------------------------------------------------------------------------------- */

static const struct {
  char code;
  uint8_t kind;
  char name[7];
} session_kinds[] = {
    {'r', EDGERT_TENSOR, "tensor"},     {'i', EDGERT_I32_VALUE, "i32"},
    {'I', EDGERT_I64_VALUE, "i64"},     {'f', EDGERT_F32_VALUE, "f32"},
    {'F', EDGERT_F64_VALUE, "f64"},
};

static int session_is_tensor(const edgert_value *value) {
  return value->kind == EDGERT_TENSOR || value->kind == EDGERT_GIVEN_TENSOR;
}

/* A tensor of the session's own with the same elements. */
static edgert_status session_copy(edgert_session *self, const edgert_tensor *tensor,
                                  edgert_object **out, edgert_error *error) {
  const edgert_memory kind = {0, 0};
  const edgert_range source = {tensor->buffer, 0, 0, tensor->size};
  edgert_range target = {NULL, 0, 0, tensor->size};
  edgert_commands *commands = NULL;
  edgert_tensor *copy = NULL;
  uint64_t point;
  edgert_status status =
      edgert_session_buffer(self, kind, (int64_t)tensor->size, &target.buffer, error);
  if (status == EDGERT_OK)
    status = edgert_tensor_view(target.buffer, 0, tensor->size, tensor->type, tensor->encoding,
                                tensor->rank, tensor->shape, &copy, error);
  *out = (edgert_object *)copy;
  if (status == EDGERT_OK)
    status = edgert_commands_create(self->device, &self->object.allocator, &commands, error);
  if (status == EDGERT_OK) status = edgert_commands_copy(commands, source, target, error);
  if (status == EDGERT_OK)
    status = self->device->driver->execute(self->device, commands, NULL, 0, &self->watch, &point,
                                           error);
  edgert_release(commands);
  edgert_release(target.buffer);
  return status;
}

/* Hold the arguments of a function that writes to some: those that are given away and nobody else's
 * as they are, also not another argument, and of the others to be written to copies. */
static edgert_status session_hold(edgert_session *self, const char *overwritten,
                                  const edgert_value *arguments, size_t count, edgert_cell *in,
                                  edgert_error *error) {
  edgert_begun *begun = &self->begun;
  edgert_status status = EDGERT_OK;
  begun->held_count = count;
  for (size_t i = 0; i < count; ++i)
    if (session_is_tensor(&arguments[i])) begun->held[i].ref = edgert_retain(in[i].ref);
  for (size_t i = 0; i < count && overwritten[i] && status == EDGERT_OK; ++i) {
    if (overwritten[i] != '1' || !session_is_tensor(&arguments[i])) continue;
    const edgert_tensor *tensor = arguments[i].as.tensor;
    if (arguments[i].kind == EDGERT_GIVEN_TENSOR && edgert_tensor_is_alone(tensor, 2)) continue;
    edgert_release_at(&begun->held[i].ref);
    status = session_copy(self, tensor, &begun->held[i].ref, error);
    in[i].ref = begun->held[i].ref;
  }
  return status;
}

static edgert_status session_take_argument(const edgert_session *self, const edgert_value *value,
                                           char code, size_t index, edgert_cell *out,
                                           edgert_error *error) {
  (void)index;
  size_t k = 0;
  while (session_kinds[k].code != code) ++k;
  int is_given = value->kind == EDGERT_GIVEN_TENSOR && code == 'r';
  if ((value->kind != session_kinds[k].kind && !is_given) || (code == 'r' && !value->as.tensor))
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "argument %u must be a %s", (unsigned)index,
                       session_kinds[k].name);
  if (code == 'r' && value->as.tensor->buffer->device != self->device)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "argument %u is on another device",
                       (unsigned)index);
  if (code == 'r')
    out->ref = &value->as.tensor->object;
  else
    memcpy(out, &value->as, sizeof *out < sizeof value->as ? sizeof *out : sizeof value->as);
  return EDGERT_OK;
}

static edgert_status session_give_result(edgert_cell *cell, char code, size_t index,
                                         edgert_value *out, edgert_error *error) {
  (void)index;
  size_t k = 0;
  while (session_kinds[k].code != code) ++k;
  if (code == 'r') {
    if (!edgert_object_as(cell->ref, EDGERT_KIND_TENSOR))
      return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "result %u is no tensor", (unsigned)index);
    const edgert_tensor *given = (edgert_tensor *)cell->ref;
    edgert_status status = edgert_buffer_trust(given->buffer, 0, given->size, error);
    if (status != EDGERT_OK) return status;
    out->as.tensor = (edgert_tensor *)cell->ref;
    cell->ref = NULL;
  } else {
    memcpy(&out->as, cell, sizeof *cell < sizeof out->as ? sizeof *cell : sizeof out->as);
  }
  out->kind = session_kinds[k].kind;
  return EDGERT_OK;
}

/* A call's program has ended, failed or waits: give its results, and take all else of it away. */
static edgert_status session_end(edgert_session *self, edgert_status status, edgert_value *results,
                                 edgert_error *error) {
  if (status == EDGERT_PENDING) return status;
  edgert_begun *begun = &self->begun;
  edgert_codes gives = self->module->functions[begun->function].convention.results;
  uint64_t point;
  if (status == EDGERT_OK && begun->signal && EDGERT_WITH_NATIVE && begun->is_left)
    status = edgert_fence_point(begun->signal, &point, error);
  else if (status == EDGERT_OK && begun->signal)
    status = edgert_session_wait(self, begun->signal, UINT64_MAX, error);
  for (size_t i = 0; i < gives.count && status == EDGERT_OK; ++i)
    status = session_give_result(&begun->results[i], gives.data[i], i, &results[i], error);
  for (size_t i = 0; i < gives.count; ++i)
    if (gives.data[i] == 'r') edgert_release(begun->results[i].ref);
  session_let_go(begun);
  edgert_stack_restore(&self->stack, &self->object.allocator, begun->mark);
  if (status == EDGERT_OK || !gives.count) return status;
  for (size_t i = 0; i < gives.count; ++i)
    if (results[i].kind == EDGERT_TENSOR) edgert_release(results[i].as.tensor);
  memset(results, 0, gives.count * sizeof *results);
  return status;
}

/* Run a function, in the time of a call of its own; a call that waits still is given up. */
static edgert_status session_begin(edgert_session *self, uint32_t function, int is_left,
                                   const char *overwritten, const edgert_value *arguments,
                                   size_t argument_count, edgert_value *results,
                                   edgert_error *error) {
  const edgert_convention *convention = &self->module->functions[function].convention;
  edgert_codes takes = convention->arguments, gives = convention->results;
  size_t held = overwritten ? argument_count : 0;
  size_t count = (size_t)takes.count + gives.count + held + 1;
  edgert_begun *begun = &self->begun;
  session_drop(self);
  session_start_watch(self);
  *begun = (edgert_begun){
      .mark = edgert_stack_save(&self->stack), .function = function, .is_left = is_left};
  void *memory;
  edgert_status status = edgert_stack_take(&self->stack, &self->object.allocator,
                                           count * sizeof(edgert_cell), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_cell *in = memory;
  memset(in, 0, count * sizeof *in);
  begun->results = in + takes.count;
  begun->held = begun->results + gives.count;
  for (size_t i = 0; i < argument_count && status == EDGERT_OK; ++i)
    status = session_take_argument(self, &arguments[i], takes.data[i], i, &in[i], error);
  if (status == EDGERT_OK && held)
    status = session_hold(self, overwritten, arguments, argument_count, in, error);
  if (status == EDGERT_OK && argument_count != takes.count) {
    status = edgert_fence_create(&self->object.allocator, &begun->signal, error);
    if (status == EDGERT_OK) in[takes.count - 1].ref = &begun->signal->object;
  }
  if (status == EDGERT_OK)
    status = edgert_session_run(self, function, in, begun->results, error);
  return session_end(self, status, results, error);
}

/* `__init` has ended, failed or waits. */
static edgert_status session_initialised(edgert_session *self, edgert_status status,
                                         edgert_error *error) {
  if (status == EDGERT_PENDING) return status;
  status = session_explain(self, status, error);
  edgert_release_at(&self->refused);
  self->is_ready = status == EDGERT_OK;
  return status;
}

static edgert_status session_call(edgert_session *session, size_t function, int is_left,
                                  const edgert_value *arguments, size_t argument_count,
                                  edgert_value *results, size_t result_count,
                                  edgert_error *error) {
  edgert_error_clear(error);
  if (result_count) memset(results, 0, result_count * sizeof *results);
  const edgert_module *module = session->module;
  if (function >= module->export_count)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND, "the module has no function number %llu",
                       (unsigned long long)function);
  size_t takes = edgert_module_input_count(module, function);
  size_t gives = edgert_module_output_count(module, function);
  if (argument_count != takes || result_count != gives)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT,
                       "%s takes %u arguments and gives %u results, not %u and %u",
                       module->exports[function].name, (unsigned)takes, (unsigned)gives,
                       (unsigned)argument_count, (unsigned)result_count);
  if (!session->is_ready)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "the session is not made yet");
  edgert_mutex_lock(&session->lock);
  const edgert_export *called = &module->exports[function];
  edgert_status status = session_begin(session, called->function, is_left, called->overwritten,
                                       arguments, argument_count, results, error);
  edgert_mutex_unlock(&session->lock);
  return status;
}

edgert_status edgert_session_call(edgert_session *session, size_t function,
                                  const edgert_value *arguments, size_t argument_count,
                                  edgert_value *results, size_t result_count,
                                  edgert_error *error) {
  return session_call(session, function, 0, arguments, argument_count, results, result_count,
                      error);
}

#if EDGERT_WITH_NATIVE
edgert_status edgert_session_submit(edgert_session *session, size_t function,
                                    const edgert_value *arguments, size_t argument_count,
                                    edgert_value *results, size_t result_count,
                                    edgert_error *error) {
  return session_call(session, function, 1, arguments, argument_count, results, result_count,
                      error);
}
#endif

edgert_status edgert_session_resume(edgert_session *session, edgert_value *results,
                                    size_t result_count, edgert_error *error) {
  edgert_error_clear(error);
  if (result_count) memset(results, 0, result_count * sizeof *results);
  edgert_mutex_lock(&session->lock);
  edgert_status status;
  const edgert_function *function = &session->module->functions[session->begun.function];
  if (!session->frame || result_count != function->convention.results.count)
    status = EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "no such call waits");
  else
    status = session_end(session, edgert_session_go_on(session, session->begun.results, error),
                         results, error);
  if (!session->is_ready) status = session_initialised(session, status, error);
  edgert_mutex_unlock(&session->lock);
  return status;
}

/* --- making ----------------------------------------------------------------------------------- */

static edgert_status session_add_scopes(edgert_session *self, const edgert_session_options *options,
                                        edgert_error *error) {
  const edgert_allocator *allocator = &self->object.allocator;
  void *memory;
  size_t count = options->scope_count;
  edgert_status status =
      edgert_allocate_array(allocator, count, sizeof *self->scopes, &memory, error);
  self->scopes = memory;
  for (size_t i = 0; i < count && status == EDGERT_OK; ++i) {
    const edgert_scope *scope = &options->scopes[i];
    edgert_session_scope *own = &self->scopes[self->scope_count];
    if (scope->name) {
      size_t size = strlen(scope->name) + 1;
      status = edgert_allocate(allocator, size, 1, &memory, error);
      if (status != EDGERT_OK) break;
      own->name = memcpy(memory, scope->name, size);
    }
    own->weights = edgert_retain(scope->weights);
    self->scope_count += 1;
#if EDGERT_WITH_SIGNATURES
    if (self->module->is_trusted)
      status = edgert_pages_create(allocator, &self->module->sealed, own->weights, &own->pages, error);
#endif
  }
  return status;
}

static edgert_status session_allocate(edgert_session *self, edgert_error *error) {
  const edgert_allocator *allocator = &self->object.allocator;
  const edgert_module *module = self->module;
  void *memory;
  edgert_status status = edgert_allocate_array(allocator, module->global_bytes, 1, &memory, error);
  self->globals = memory;
  if (status == EDGERT_OK)
    status = edgert_allocate_array(allocator, module->global_refs, sizeof *self->global_refs,
                                   &memory, error);
  self->global_refs = status == EDGERT_OK ? memory : NULL;
  if (status == EDGERT_OK)
    status = edgert_allocate_array(allocator, module->rodata_count, sizeof *self->rodata, &memory,
                                   error);
  self->rodata = status == EDGERT_OK ? memory : NULL;
  if (status == EDGERT_OK)
    status = edgert_allocate_array(allocator, module->import_count, sizeof *self->imports, &memory,
                                   error);
  self->imports = status == EDGERT_OK ? memory : NULL;
  if (status == EDGERT_OK)
    status = edgert_object_create(allocator, EDGERT_KIND_HEAP, sizeof(edgert_heap), &memory, error);
  if (status != EDGERT_OK) return status;
  ((edgert_heap *)memory)->device = edgert_retain(self->device);
  self->heap = memory;
  return EDGERT_OK;
}

edgert_status edgert_session_create(edgert_module *module, edgert_device *device,
                                    const edgert_session_options *options,
                                    edgert_session **out_session, edgert_error *error) {
  *out_session = NULL;
  edgert_error_clear(error);
  edgert_session_options full;
  memset(&full, 0, sizeof full);
  edgert_status status = edgert_options_read(&full, sizeof full, options, error);
  if (status != EDGERT_OK) return status;
  edgert_allocator allocator = edgert_allocator_or_default(&full.allocator);
  edgert_budget *budget;
  status = edgert_budget_create(&allocator, full.max_memory, &budget, error);
  if (status != EDGERT_OK) return status;
  allocator = edgert_budget_allocator(budget);
  void *made;
  status = edgert_object_create(&allocator, EDGERT_KIND_SESSION, sizeof **out_session, &made,
                                error);
  edgert_budget_give(budget, 0); /* the session holds it, if there is one */
  if (status != EDGERT_OK) return status;
  edgert_session *self = made;
  self->budget = budget;
  self->max_milliseconds = full.max_milliseconds;
  self->module = edgert_retain(module);
  self->device = edgert_retain(device);
  self->number = atomic_fetch_add(&device->sessions, 1) + 1;
  self->max_steps = full.max_steps;
  edgert_mutex_create(&self->lock);
  edgert_runner_create(&self->runner);
  status = session_check_features(self, error);
  if (status == EDGERT_OK) status = session_allocate(self, error);
  if (status == EDGERT_OK) status = session_add_scopes(self, &full, error);
  if (status == EDGERT_OK) status = session_resolve(self, error);
  if (status == EDGERT_OK && module->init >= 0)
    status = session_begin(self, (uint32_t)module->init, 0, NULL, NULL, 0, NULL, error);
  status = session_initialised(self, status, error);
  if (status != EDGERT_OK && status != EDGERT_PENDING) {
    edgert_release(self);
    return status;
  }
  *out_session = self;
  return status;
}

edgert_session *edgert_session_retain(edgert_session *session) { return edgert_retain(session); }

void edgert_session_release(edgert_session *session) { edgert_release(session); }

void edgert_session_interrupt(edgert_session *session) {
  atomic_store(&session->watch.is_interrupted, 1);
}

void edgert_session_memory(edgert_session *session, uint64_t *out_current, uint64_t *out_peak) {
  if (out_current) *out_current = atomic_load(&session->budget->used);
  if (out_peak) *out_peak = atomic_load(&session->budget->peak);
}
