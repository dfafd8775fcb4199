/* The `edgert` command: run, time and look at modules on this machine. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if !defined(__wasm__)
#include <sys/resource.h>
#endif

#include "array.h"

#define MAX_INPUTS 256

static const char usage[] =
    "usage: edgert run MODULE [options]      call a function and print what it gives\n"
    "       edgert bench MODULE [options]    call it again and again, and print how long it takes\n"
    "       edgert inspect MODULE            list functions, their arguments and attributes\n"
    "       edgert version\n"
    "\n"
    "  --function=NAME     the function to call; without it the first\n"
    "  --input=INPUT       [NAME=]@FILE.npy, [NAME=]2x3xf32=VALUES, [NAME=]2x3xf32=@FILE.bin;\n"
    "                      one number fills an array, none is zeros\n"
    "  --output=FILE       write results to a .npy or .npz file\n"
    "  --weights=FILE      a .safetensors or .irpa file\n"
    "  --device=NAME       cpu (the default) or null\n"
    "  --threads=N         without it as many as there are processors\n"
    "  --times=N           run: call so many times, state carried on\n"
    "  --seconds=S         bench: for so long (1)\n"
    "  --max-steps=N       stop a program that takes more jumps and calls\n"
    "  --json              bench: as JSON\n";

typedef struct options {
  const char *verb;
  const char *module;
  const char *function;
  const char *inputs[MAX_INPUTS];
  size_t input_count;
  const char *output;
  const char *weights;
  const char *device;
  unsigned long threads;
  unsigned long times;
  unsigned long long max_steps;
  double seconds;
  int json;
} options;

/* What a verb holds while it works. */
typedef struct work {
  options options;
  edgert_device *device;
  edgert_module *module;
  edgert_weights *weights;
  edgert_session *session;
  size_t function;
  edgert_value arguments[MAX_INPUTS];
  size_t argument_count;
  edgert_value *results;
  size_t result_count;
  edgert_error error;
} work;

static int fail(const char *problem) {
  fprintf(stderr, "error: %s\n", problem);
  return 1;
}

/* The text behind `--name=`, or NULL. */
static const char *option_value(const char *argument, const char *name) {
  size_t length = strlen(name);
  return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                         : NULL;
}

static int parse_options(int count, char **arguments, options *out) {
  memset(out, 0, sizeof *out);
  out->device = "cpu";
  out->times = 1;
  out->seconds = 1;
  if (count < 2) return -1;
  out->verb = arguments[1];
  for (int i = 2; i < count; ++i) {
    const char *argument = arguments[i], *value;
    if ((value = option_value(argument, "--function"))) {
      out->function = value;
    } else if ((value = option_value(argument, "--input"))) {
      if (out->input_count == MAX_INPUTS) return -1;
      out->inputs[out->input_count++] = value;
    } else if ((value = option_value(argument, "--output"))) {
      out->output = value;
    } else if ((value = option_value(argument, "--weights"))) {
      out->weights = value;
    } else if ((value = option_value(argument, "--device"))) {
      out->device = value;
    } else if ((value = option_value(argument, "--threads"))) {
      out->threads = strtoul(value, NULL, 10);
    } else if ((value = option_value(argument, "--times"))) {
      out->times = strtoul(value, NULL, 10);
    } else if ((value = option_value(argument, "--seconds"))) {
      out->seconds = strtod(value, NULL);
    } else if ((value = option_value(argument, "--max-steps"))) {
      out->max_steps = strtoull(value, NULL, 10);
    } else if (strcmp(argument, "--json") == 0) {
      out->json = 1;
    } else if (argument[0] == '-' || out->module) {
      return -1;
    } else {
      out->module = argument;
    }
  }
  return 0;
}

static double now(void) {
  struct timespec time;
  timespec_get(&time, TIME_UTC);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
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
  edgert_value *argument = &self->arguments[index];
  if (argument->kind == EDGERT_TENSOR) edgert_tensor_release(argument->as.tensor);
  argument->kind = spec.kind;
  if (spec.kind == EDGERT_TENSOR) {
    argument->as.tensor = NULL;
    return make_tensor(self, &values, &argument->as.tensor);
  }
  int result = make_scalar(&values, spec.kind, argument);
  array_free(&values);
  return result;
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

static int open_session(work *self) {
  options *options = &self->options;
  edgert_device_options device = {.size = sizeof device, .threads = (uint32_t)options->threads,
                                  .log = remark};
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
  return self->results ? 0 : fail("out of memory");
}

static int bind_inputs(work *self, int with_zeros) {
  size_t position = 0;
  for (size_t i = 0; i < self->options.input_count; ++i)
    if (bind_input(self, self->options.inputs[i], &position) != 0) return 1;
  for (size_t i = 0; i < self->argument_count; ++i)
    if (self->arguments[i].kind == EDGERT_NONE && fill_input(self, i, with_zeros) != 0) return 1;
  return 0;
}

static void drop_results(work *self) {
  for (size_t i = 0; self->results && i < self->result_count; ++i) {
    if (self->results[i].kind == EDGERT_TENSOR) edgert_tensor_release(self->results[i].as.tensor);
    self->results[i].kind = EDGERT_NONE;
  }
}

static int call(work *self) {
  drop_results(self);
  if (edgert_session_call(self->session, self->function, self->arguments, self->argument_count,
                          self->results, self->result_count, &self->error))
    return fail(self->error.message);
  return 0;
}

static void close_session(work *self) {
  drop_results(self);
  free(self->results);
  for (size_t i = 0; i < self->argument_count && i < MAX_INPUTS; ++i)
    if (self->arguments[i].kind == EDGERT_TENSOR)
      edgert_tensor_release(self->arguments[i].as.tensor);
  edgert_session_release(self->session);
  edgert_weights_release(self->weights);
  edgert_module_release(self->module);
  edgert_device_release(self->device);
}

/* --- run -------------------------------------------------------------------------------------- */

static int result_array(work *self, size_t index, array *out) {
  const edgert_value *value = &self->results[index];
  static const uint32_t types[] = {0, 0, EDGERT_I32, EDGERT_I64, EDGERT_F32, EDGERT_F64};
  char problem[ARRAY_PROBLEM_SIZE];
  memset(out, 0, sizeof *out);
  out->type = types[value->kind];
  edgert_argument spec;
  if (edgert_module_output(self->module, self->function, index, &spec, &self->error))
    return fail(self->error.message);
  if (value->kind == EDGERT_TENSOR) {
    const edgert_tensor *tensor = value->as.tensor;
    out->type = edgert_tensor_type(tensor);
    /* Unsigned elements lose their sign in the module; the declaration has it. */
    if (spec.type && (spec.type & 0xFFFF) == (out->type & 0xFFFF)) out->type = spec.type;
    out->rank = (uint32_t)edgert_tensor_rank(tensor);
    if (out->rank > EDGERT_MAX_RANK) return fail("a result has too many dimensions");
    memcpy(out->shape, edgert_tensor_shape(tensor), out->rank * sizeof *out->shape);
  }
  if (array_reserve(out, problem) != 0) return fail(problem);
  if (value->kind != EDGERT_TENSOR) {
    memcpy(out->data, &value->as, out->size);
    return 0;
  }
  if (edgert_tensor_read(value->as.tensor, out->data, out->size, &self->error))
    return fail(self->error.message);
  return 0;
}

static int show_results(work *self) {
  array *arrays = calloc(self->result_count + 1, sizeof *arrays);
  char(*names)[64] = calloc(self->result_count + 1, sizeof *names);
  const char **pointers = calloc(self->result_count + 1, sizeof *pointers);
  int result = arrays && names && pointers ? 0 : fail("out of memory");
  for (size_t i = 0; i < self->result_count && result == 0; ++i) {
    edgert_argument spec;
    result = edgert_module_output(self->module, self->function, i, &spec, &self->error);
    if (spec.name[0])
      memcpy(names[i], spec.name, sizeof names[i]);
    else
      snprintf(names[i], sizeof names[i], "out%zu", i);
    pointers[i] = names[i];
    if (result == 0) result = result_array(self, i, &arrays[i]);
    if (result == 0) array_print(stdout, names[i], &arrays[i]);
  }
  char problem[ARRAY_PROBLEM_SIZE];
  if (result == 0 && self->options.output &&
      array_write(self->options.output, arrays, pointers, self->result_count, problem) != 0)
    result = fail(problem);
  for (size_t i = 0; arrays && i < self->result_count; ++i) array_free(&arrays[i]);
  free(arrays);
  free(names);
  free(pointers);
  return result;
}

static int verb_run(work *self) {
  if (open_session(self) != 0 || bind_inputs(self, 0) != 0) return 1;
  for (unsigned long i = 0; i < self->options.times; ++i)
    if (call(self) != 0) return 1;
  return show_results(self);
}

/* --- bench ------------------------------------------------------------------------------------ */

static int compare_times(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return first < second ? -1 : first > second;
}

static double peak_memory(void) {
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

static int verb_bench(work *self) {
  enum { MAX_CALLS = 1000000 };
  double start = now();
  if (open_session(self) != 0) return 1;
  double load = now() - start;
  if (bind_inputs(self, 1) != 0) return 1;
  start = now();
  if (call(self) != 0) return 1;
  double first = now() - start;
  double *times = malloc(MAX_CALLS * sizeof *times);
  if (!times) return fail("out of memory");
  size_t count = 0;
  double begin = now();
  do {
    start = now();
    if (call(self) != 0) {
      free(times);
      return 1;
    }
    times[count++] = now() - start;
  } while (count < MAX_CALLS && (count < 3 || now() - begin < self->options.seconds));
  double elapsed = now() - begin;
  qsort(times, count, sizeof *times, compare_times);
  const char *format =
      self->options.json
          ? "{\"load\": %.9f, \"first\": %.9f, \"min\": %.9f, \"p50\": %.9f, \"p90\": %.9f, "
            "\"calls\": %zu, \"per_second\": %.3f, \"peak\": %.0f}\n"
          : "load %.6f s, first call %.6f s, then min %.6f, p50 %.6f, p90 %.6f s over %zu calls, "
            "%.1f a second, peak memory %.0f bytes\n";
  printf(format, load, first, times[0], times[count / 2], times[count * 9 / 10], count,
         (double)count / elapsed, peak_memory());
  free(times);
  return 0;
}

/* --- inspect ---------------------------------------------------------------------------------- */

static void print_argument(const char *side, size_t index, const edgert_argument *argument) {
  static const char *const kinds[] = {"?", "tensor", "i32", "i64", "f32", "f64"};
  printf("  %s %zu: ", side, index);
  if (argument->name[0]) printf("%s: ", argument->name);
  if (argument->kind != EDGERT_TENSOR || !argument->type) {
    printf("%s\n", kinds[argument->kind]);
    return;
  }
  printf("%s[", edgert_type_name(argument->type));
  for (uint32_t i = 0; i < argument->rank; ++i) {
    if (i) printf(", ");
    if (argument->shape[i] < 0)
      printf("?");
    else
      printf("%" PRId64, argument->shape[i]);
  }
  printf("]\n");
}

static int verb_inspect(work *self) {
  if (edgert_module_open(self->options.module, NULL, &self->module, &self->error))
    return fail(self->error.message);
  const edgert_module *module = self->module;
  printf("module %s\n", edgert_module_name(module));
  for (size_t f = 0; f < edgert_module_function_count(module); ++f) {
    edgert_argument argument;
    const char *key, *value;
    printf("function %s\n", edgert_module_function_name(module, f));
    for (size_t i = 0; i < edgert_module_input_count(module, f); ++i)
      if (edgert_module_input(module, f, i, &argument, &self->error) == EDGERT_OK)
        print_argument("input", i, &argument);
    for (size_t i = 0; i < edgert_module_output_count(module, f); ++i)
      if (edgert_module_output(module, f, i, &argument, &self->error) == EDGERT_OK)
        print_argument("output", i, &argument);
    for (size_t i = 0; edgert_module_attribute_at(module, f, i, &key, &value); ++i)
      printf("  %s = %.200s%s\n", key, value, strlen(value) > 200 ? "..." : "");
  }
  return 0;
}

static int verb_version(void) {
  printf("edgert, ABI %" PRIu32 ", drivers:", edgert_abi());
  for (size_t i = 0; edgert_driver_name(i); ++i) printf(" %s", edgert_driver_name(i));
  printf("\n");
  return 0;
}

int main(int count, char **arguments) {
  static work state;
  if (parse_options(count, arguments, &state.options) != 0) {
    fputs(usage, stderr);
    return 2;
  }
  const char *verb = state.options.verb;
  if (strcmp(verb, "version") == 0) return verb_version();
  if (strcmp(verb, "--help") == 0) {
    fputs(usage, stdout);
    return 0;
  }
  if (!state.options.module) {
    fputs(usage, stderr);
    return 2;
  }
  int result = 2;
  if (strcmp(verb, "run") == 0)
    result = verb_run(&state);
  else if (strcmp(verb, "bench") == 0)
    result = verb_bench(&state);
  else if (strcmp(verb, "inspect") == 0)
    result = verb_inspect(&state);
  else
    fputs(usage, stderr);
  close_session(&state);
  return result;
}
