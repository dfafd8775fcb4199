/* From options to a session with its arguments bound. */
#include "work.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#if !defined(__wasm__)
#include <sys/resource.h>
#endif

int fail(const char *problem) {
  fprintf(stderr, "error: %s\n", problem);
  return 1;
}

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double peak_memory(void) {
#if defined(__wasm__)
  return 0;
#else
  struct rusage usage_now;
  if (getrusage(RUSAGE_SELF, &usage_now) != 0) return 0;
#if defined(__APPLE__)
  return (double)usage_now.ru_maxrss;
#else
  return (double)usage_now.ru_maxrss * 1024;
#endif
#endif
}

unsigned long thread_count(work *self) {
  int64_t count = 0;
  return edgert_device_query(self->device, "hal.dispatch", "concurrency", &count) && count > 0
             ? (unsigned long)count
             : 0;
}

static void remark(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "note: %s\n", message);
}

/* --- inputs ----------------------------------------------------------------------------------- */

static const char *ends_with(const char *text, const char *end) {
  size_t size = strlen(text), length = strlen(end);
  return size >= length && strcmp(text + size - length, end) == 0 ? text + size - length : NULL;
}

/* One input's text behind its name into an array; `spec` is what the function declares. */
static int read_input(const char *text, const edgert_argument *spec, array *out, char *problem) {
  memset(out, 0, sizeof *out);
  if (text[0] == '@' && ends_with(text, ".npy")) return array_read_npy(out, text + 1, problem);
  size_t typed = array_parse_type(out, text);
  if (!typed) {
    out->type = spec->type;
    out->rank = spec->rank;
    memcpy(out->shape, spec->shape, sizeof out->shape);
    for (uint32_t i = 0; i < out->rank; ++i)
      if (out->shape[i] < 0) {
        snprintf(problem, ARRAY_PROBLEM_SIZE, "say the shape: its size is not fixed");
        return -1;
      }
    if (!out->type) {
      snprintf(problem, ARRAY_PROBLEM_SIZE, "say the type, as in 2x3xf32=0.5");
      return -1;
    }
  }
  const char *values = typed && text[typed] == '=' ? text + typed + 1 : typed ? NULL : text;
  if (values && values[0] == '@') return array_read_raw(out, values + 1, problem);
  if (array_reserve(out, problem) != 0) return -1;
  return values ? array_parse_values(out, values, problem) : 0;
}

static void free_data(void *user) { free(user); }

static int make_tensor(work *self, array *values, edgert_tensor **out) {
  edgert_status status =
      edgert_tensor_wrap(self->device, values->type, values->rank, values->shape, values->data,
                         values->size, free_data, values->data, out, &self->error);
  values->data = NULL; /* the tensor's now, or already free */
  return status == EDGERT_OK ? 0 : fail(self->error.message);
}

static int make_scalar(const array *values, edgert_value_kind kind, edgert_value *out) {
  static const struct {
    edgert_value_kind kind;
    uint32_t type;
  } pairs[] = {{EDGERT_I32_VALUE, EDGERT_I32},
               {EDGERT_I64_VALUE, EDGERT_I64},
               {EDGERT_F32_VALUE, EDGERT_F32},
               {EDGERT_F64_VALUE, EDGERT_F64}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
    if (pairs[i].kind == kind && pairs[i].type == values->type && values->size <= sizeof out->as) {
      memcpy(&out->as, values->data, values->size);
      return 0;
    }
  return fail("a number was given in another type than the function takes");
}

/* Make an array an argument; what it held is the argument's now, or free. */
static int set_argument(work *self, size_t index, edgert_value_kind kind, array *values) {
  edgert_value *argument = &self->arguments[index];
  if (argument->kind == EDGERT_TENSOR) edgert_tensor_release(argument->as.tensor);
  argument->kind = kind;
  if (kind == EDGERT_TENSOR) {
    argument->as.tensor = NULL;
    return make_tensor(self, values, &argument->as.tensor);
  }
  int result = make_scalar(values, kind, argument);
  array_free(values);
  return result;
}

/* --- a call for each row ---------------------------------------------------------------------- */

/* Keep an array that holds a row for each call; all that do have as many. */
static int keep_rows(work *self, size_t index, array *values) {
  size_t count = (size_t)values->shape[0];
  array_free(&self->rows[index]);
  self->rows[index] = *values;
  if (self->has_rows && count != self->row_count)
    return fail("--each needs as many rows in every input");
  self->has_rows = 1;
  self->row_count = count;
  return 0;
}

int take_row(work *self, size_t row) {
  for (size_t i = 0; i < self->argument_count; ++i) {
    const array *rows = &self->rows[i];
    if (!rows->data) continue;
    edgert_argument spec;
    char problem[ARRAY_PROBLEM_SIZE];
    if (edgert_module_input(self->module, self->function, i, &spec, &self->error))
      return fail(self->error.message);
    array values = {.type = rows->type, .rank = rows->rank - 1};
    memcpy(values.shape, rows->shape + 1, values.rank * sizeof *values.shape);
    if (array_reserve(&values, problem) != 0) return fail(problem);
    memcpy(values.data, (const uint8_t *)rows->data + row * values.size, values.size);
    if (set_argument(self, i, spec.kind, &values) != 0) return 1;
  }
  return 0;
}

static int bind_input(work *self, const char *text, size_t *position) {
  char problem[ARRAY_PROBLEM_SIZE];
  size_t index = *position;
  edgert_argument spec;
  for (size_t i = 0; i < self->argument_count; ++i) {
    if (edgert_module_input(self->module, self->function, i, &spec, &self->error)) continue;
    size_t length = strlen(spec.name);
    if (length && strncmp(text, spec.name, length) == 0 && text[length] == '=') {
      index = i;
      text += length + 1;
      break;
    }
  }
  if (index == *position) *position += 1;
  if (index >= self->argument_count) return fail("there are more inputs than arguments");
  if (edgert_module_input(self->module, self->function, index, &spec, &self->error))
    return fail(self->error.message);
  array values;
  if (read_input(text, &spec, &values, problem) != 0) {
    array_free(&values);
    return fail(problem);
  }
  if (self->options.each && values.rank == spec.rank + 1) return keep_rows(self, index, &values);
  return set_argument(self, index, spec.kind, &values);
}

/* Inputs that were not given: zeros for bench, a refusal for run. */
static int fill_input(work *self, size_t index, int with_zeros) {
  edgert_argument spec;
  if (edgert_module_input(self->module, self->function, index, &spec, &self->error))
    return fail(self->error.message);
  char text[128];
  snprintf(text, sizeof text, "the input %s is missing", spec.name[0] ? spec.name : "there");
  if (!with_zeros) return fail(text);
  edgert_value *argument = &self->arguments[index];
  argument->kind = spec.kind;
  if (spec.kind != EDGERT_TENSOR) return 0;
  array values = {.type = spec.type, .rank = spec.rank};
  for (uint32_t i = 0; i < spec.rank; ++i) values.shape[i] = spec.shape[i] < 0 ? 1 : spec.shape[i];
  if (!spec.type || array_reserve(&values, text) != 0) return fail("say the inputs");
  return make_tensor(self, &values, &argument->as.tensor);
}

/* --- opening ---------------------------------------------------------------------------------- */

int open_session(work *self) {
  options *options = &self->options;
  edgert_device_options device = {.size = sizeof device, .threads = (uint32_t)options->threads,
                                  .log = remark, .timed = self->timed,
                                  .timed_user = self->timed_user};
  if (edgert_device_create(options->device, &device, &self->device, &self->error))
    return fail(self->error.message);
  if (edgert_module_open(options->module, NULL, &self->module, &self->error))
    return fail(self->error.message);
  edgert_scope scope = {NULL, NULL};
  if (options->weights &&
      edgert_weights_open(options->weights, NULL, &self->weights, &self->error))
    return fail(self->error.message);
  scope.weights = self->weights;
  edgert_session_options session = {.size = sizeof session,
                                    .scopes = &scope,
                                    .scope_count = options->weights ? 1 : 0,
                                    .max_steps = options->max_steps};
  if (edgert_session_create(self->module, self->device, &session, &self->session, &self->error))
    return fail(self->error.message);
  if (options->function &&
      edgert_module_find(self->module, options->function, &self->function, &self->error))
    return fail(self->error.message);
  if (edgert_module_function_count(self->module) == 0) return fail("the module has no function");
  self->argument_count = edgert_module_input_count(self->module, self->function);
  self->result_count = edgert_module_output_count(self->module, self->function);
  if (self->argument_count > MAX_INPUTS) return fail("the function takes too many arguments");
  self->results = calloc(self->result_count + 1, sizeof *self->results);
  self->rows = calloc(self->argument_count + 1, sizeof *self->rows);
  return self->results && self->rows ? 0 : fail("out of memory");
}

int bind_inputs(work *self, int with_zeros) {
  size_t position = 0;
  for (size_t i = 0; i < self->options.input_count; ++i)
    if (bind_input(self, self->options.inputs[i], &position) != 0) return 1;
  for (size_t i = 0; i < self->argument_count; ++i)
    if (self->arguments[i].kind == EDGERT_NONE && !self->rows[i].data && fill_input(self, i, with_zeros) != 0) return 1;
  return 0;
}

static void drop_results(work *self) {
  for (size_t i = 0; self->results && i < self->result_count; ++i) {
    if (self->results[i].kind == EDGERT_TENSOR) edgert_tensor_release(self->results[i].as.tensor);
    self->results[i].kind = EDGERT_NONE;
  }
}

int call(work *self) {
  drop_results(self);
  if (edgert_session_call(self->session, self->function, self->arguments, self->argument_count,
                          self->results, self->result_count, &self->error))
    return fail(self->error.message);
  return 0;
}

void close_session(work *self) {
  drop_results(self);
  free(self->results);
  for (size_t i = 0; i < self->argument_count && i < MAX_INPUTS; ++i)
    if (self->arguments[i].kind == EDGERT_TENSOR)
      edgert_tensor_release(self->arguments[i].as.tensor);
  for (size_t i = 0; self->rows && i < self->argument_count; ++i) array_free(&self->rows[i]);
  free(self->rows);
  edgert_session_release(self->session);
  edgert_weights_release(self->weights);
  edgert_module_release(self->module);
  edgert_device_release(self->device);
}
