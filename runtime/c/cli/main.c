/* The `edgert` command: run, time and look at modules on this machine. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

static const char usage[] =
    "usage: edgert run MODULE [options]      call a function and print what it gives\n"
    "       edgert bench MODULE [options]    call it again and again, and print how long it takes\n"
    "       edgert profile MODULE [options]  call it ten times, and list what takes the time\n"
    "       edgert inspect MODULE            list functions, their arguments and attributes\n"
    "       edgert query CATEGORY KEY...     ask the device, as in: query hal.cpu dotprod\n"
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
    "  --each              run: inputs with one dimension more hold a row for each call, state\n"
    "                      carried on, and so do the results\n"
    "  --seconds=S         bench: for so long (1)\n"
    "  --iterations=N      bench: so many calls instead; profile: so many (10)\n"
    "  --max-steps=N       stop a program that takes more jumps and calls\n"
    "  --json              figures as JSON; run: results only to --output\n";

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
    } else if ((value = option_value(argument, "--iterations"))) {
      out->iterations = strtoul(value, NULL, 10);
    } else if ((value = option_value(argument, "--max-steps"))) {
      out->max_steps = strtoull(value, NULL, 10);
    } else if (strcmp(argument, "--each") == 0) {
      out->each = 1;
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

/* A result behind those of the calls before: all of them are one array with a dimension more. */
static int stack_result(const array *one, size_t row, size_t rows, array *out) {
  char problem[ARRAY_PROBLEM_SIZE];
  if (row == 0) {
    if (one->rank == EDGERT_MAX_RANK) return fail("a result has too many dimensions");
    memset(out, 0, sizeof *out);
    out->type = one->type;
    out->rank = one->rank + 1;
    out->shape[0] = (int64_t)rows;
    memcpy(out->shape + 1, one->shape, one->rank * sizeof *one->shape);
    if (array_reserve(out, problem) != 0) return fail(problem);
  } else if (one->rank + 1 != out->rank ||
             memcmp(one->shape, out->shape + 1, one->rank * sizeof *one->shape) != 0) {
    return fail("--each gives results of different shapes");
  }
  memcpy((uint8_t *)out->data + row * one->size, one->data, one->size);
  return 0;
}

/* The results of the last call; with --each added to those of the calls before. */
static int take_results(work *self, size_t row, array *arrays) {
  for (size_t i = 0; i < self->result_count; ++i) {
    array one;
    int result = result_array(self, i, &one);
    if (result == 0 && self->has_rows) {
      result = stack_result(&one, row, self->row_count, &arrays[i]);
      array_free(&one);
    } else if (result == 0) {
      arrays[i] = one;
    }
    if (result != 0) return 1;
  }
  return 0;
}

static int show_results(work *self, const array *arrays) {
  char(*names)[64] = calloc(self->result_count + 1, sizeof *names);
  const char **pointers = calloc(self->result_count + 1, sizeof *pointers);
  int result = names && pointers ? 0 : fail("out of memory");
  for (size_t i = 0; i < self->result_count && result == 0; ++i) {
    edgert_argument spec;
    if (edgert_module_output(self->module, self->function, i, &spec, &self->error))
      result = fail(self->error.message);
    else if (spec.name[0])
      memcpy(names[i], spec.name, sizeof names[i]);
    else
      snprintf(names[i], sizeof names[i], "out%zu", i);
    pointers[i] = names[i];
    if (result == 0 && !self->options.json) array_print(stdout, names[i], &arrays[i]);
  }
  char problem[ARRAY_PROBLEM_SIZE];
  if (result == 0 && self->options.output &&
      array_write(self->options.output, arrays, pointers, self->result_count, problem) != 0)
    result = fail(problem);
  free(names);
  free(pointers);
  return result;
}

static int make_calls(work *self, array *arrays, double *out_seconds) {
  size_t count = self->has_rows ? self->row_count : self->options.times;
  for (size_t i = 0; i < count; ++i) {
    if (self->has_rows && take_row(self, i) != 0) return 1;
    double start = now();
    if (call(self) != 0) return 1;
    *out_seconds += now() - start;
    if ((self->has_rows || i + 1 == count) && take_results(self, i, arrays) != 0) return 1;
  }
  return 0;
}

static int verb_run(work *self) {
  double start = now(), seconds = 0;
  if (open_session(self) != 0) return 1;
  double load = now() - start;
  if (bind_inputs(self, 0) != 0) return 1;
  if (self->has_rows ? !self->row_count : !self->options.times) return fail("there is no call");
  array *arrays = calloc(self->result_count + 1, sizeof *arrays);
  int result = arrays ? make_calls(self, arrays, &seconds) : fail("out of memory");
  if (result == 0) result = show_results(self, arrays);
  if (result == 0 && self->options.json)
    printf("{\"load\": %.9f, \"seconds\": %.9f, \"threads\": %lu, \"peak\": %.0f}\n", load,
           seconds, thread_count(self), peak_memory());
  for (size_t i = 0; arrays && i < self->result_count; ++i) array_free(&arrays[i]);
  free(arrays);
  return result;
}

/* --- query ------------------------------------------------------------------------------------ */

static int verb_query(int count, char **arguments) {
  edgert_device *device;
  edgert_error error;
  edgert_device_options single = {.size = sizeof single, .threads = 1};
  if (edgert_device_create("cpu", &single, &device, &error)) return fail(error.message);
  for (int i = 3; i < count; ++i) {
    int64_t value;
    if (edgert_device_query(device, arguments[2], arguments[i], &value))
      printf("%s %" PRId64 "\n", arguments[i], value);
    else
      printf("%s unknown\n", arguments[i]);
  }
  edgert_device_release(device);
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
  if (count > 3 && strcmp(arguments[1], "query") == 0) return verb_query(count, arguments);
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
  else if (strcmp(verb, "profile") == 0)
    result = verb_profile(&state);
  else if (strcmp(verb, "inspect") == 0)
    result = verb_inspect(&state);
  else
    fputs(usage, stderr);
  close_session(&state);
  return result;
}
