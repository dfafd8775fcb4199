/* Programs to executables: asked of the compiler's process, loaded onto a device by edgert. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "plugin.h"

/* Parts of the compiler's answer; a refusal has a code and a text. */
enum {
  ANSWER_VERDICT,
  ANSWER_MODULE,   /* its path, or what the compiler's process calls a program of XLA's */
  ANSWER_FUNCTION, /* its name, or what a program of XLA's gives: types, ranks and sizes */
  ANSWER_NAME,
  ANSWER_FINGERPRINT,
  ANSWER_DONATED,
  ANSWER_COUNT
};
enum { REFUSAL_CODE = 1, REFUSAL_TEXT, REFUSAL_COUNT };

pjrt_error *pjrt_answer_refusal(const pjrt_answer *answer) {
  if (answer->count != REFUSAL_COUNT || strcmp(answer->parts[ANSWER_VERDICT].data, "refused"))
    return NULL;
  int code = atoi(answer->parts[REFUSAL_CODE].data);
  return pjrt_fail_text((pjrt_code)code, answer->parts[REFUSAL_TEXT].data,
                        answer->parts[REFUSAL_TEXT].size);
}

static pjrt_error *check_answer(const pjrt_answer *answer) {
  pjrt_error *refused = pjrt_answer_refusal(answer);
  if (refused) return refused;
  if (answer->count == ANSWER_COUNT) {
    const char *verdict = answer->parts[ANSWER_VERDICT].data;
    if (!strcmp(verdict, "module") || !strcmp(verdict, "elsewhere")) return NULL;
  }
  return pjrt_fail(PJRT_INTERNAL, "edgec's compiler answered what this plugin does not know: both "
                                  "must be of one version of edgec");
}

/* --- what an executable gives ----------------------------------------------------------------- */

static pjrt_error *read_output(pjrt_executable *self, size_t index) {
  edgert_argument argument;
  edgert_error error;
  if (edgert_module_output(self->module, self->function, index, &argument, &error))
    return pjrt_fail_edgert(&error);
  pjrt_output *output = &self->outputs[index];
  output->type = pjrt_type_of_edgert(argument.type);
  output->rank = argument.rank;
  if (argument.kind != EDGERT_TENSOR || output->type == PJRT_INVALID)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "result %zu of %s is no array that PJRT knows", index,
                     self->name);
  for (size_t i = 0; i < output->rank; ++i) {
    if (argument.shape[i] < 0)
      return pjrt_fail(PJRT_UNIMPLEMENTED, "result %zu of %s has a shape of its own", index,
                       self->name);
    output->shape[i] = argument.shape[i];
  }
  return NULL;
}

/* How many results a list of types, ranks and sizes tells of; each is written where that is asked for. */
static size_t list_outputs(const pjrt_part *list, pjrt_output *outputs) {
  size_t count = 0, numbers = list->size / sizeof(int64_t);
  int64_t head[2];
  for (size_t at = 0; at + 2 <= numbers; ++count) {
    const char *start = (const char *)list->data + at * sizeof(int64_t);
    memcpy(head, start, sizeof head);
    if (head[1] < 0 || head[1] > EDGERT_MAX_RANK || at + 2 + (size_t)head[1] > numbers) break;
    if (outputs) {
      outputs[count].type = (pjrt_type)head[0];
      outputs[count].rank = (size_t)head[1];
      memcpy(outputs[count].shape, start + sizeof head, (size_t)head[1] * sizeof(int64_t));
    }
    at += 2 + (size_t)head[1];
  }
  return count;
}

/* The lists that PJRT's caller is given. */
static void show_outputs(pjrt_executable *self) {
  size_t dims = 0;
  for (size_t i = 0; i < self->output_count; ++i) {
    const pjrt_output *output = &self->outputs[i];
    self->output_types[i] = output->type;
    self->output_ranks[i] = output->rank;
    self->output_kinds[i] = PJRT_MEMORY_KIND;
    self->output_kind_sizes[i] = strlen(PJRT_MEMORY_KIND);
    for (size_t j = 0; j < output->rank; ++j) self->output_dims[dims++] = output->shape[j];
  }
}

static pjrt_error *describe(pjrt_executable *self, const pjrt_answer *answer) {
  const pjrt_part *donated = &answer->parts[ANSWER_DONATED];
  const pjrt_part *listed = &answer->parts[ANSWER_FUNCTION];
  size_t count;
  if (self->elsewhere) {
    self->input_count = donated->size;
    count = list_outputs(listed, NULL);
  } else {
    self->input_count = edgert_module_input_count(self->module, self->function);
    count = edgert_module_output_count(self->module, self->function);
  }
  self->output_count = count;
  self->donated = calloc(self->input_count + 1, 1);
  self->outputs = calloc(count + 1, sizeof *self->outputs);
  self->output_types = calloc(count + 1, sizeof *self->output_types);
  self->output_dims = calloc(count * EDGERT_MAX_RANK + 1, sizeof *self->output_dims);
  self->output_ranks = calloc(count + 1, sizeof *self->output_ranks);
  self->output_kinds = calloc(count + 1, sizeof *self->output_kinds);
  self->output_kind_sizes = calloc(count + 1, sizeof *self->output_kind_sizes);
  if (!self->donated || !self->outputs || !self->output_types || !self->output_dims ||
      !self->output_ranks || !self->output_kinds || !self->output_kind_sizes)
    return pjrt_out_of_memory();
  if (donated->size == self->input_count) memcpy(self->donated, donated->data, donated->size);
  if (self->elsewhere) list_outputs(listed, self->outputs);
  for (size_t i = 0; i < count && !self->elsewhere; ++i) {
    pjrt_error *failed = read_output(self, i);
    if (failed) return failed;
  }
  show_outputs(self);
  return NULL;
}

/* --- loading ---------------------------------------------------------------------------------- */

/* A serialised `DeviceAssignmentProto`: one replica of one computation on one device. */
static void assign(pjrt_executable *self) {
  const char bytes[] = {0x08, 1, 0x10, 1, 0x1a, 3, 0x0a, 1, (char)self->device->id};
  memcpy(self->assignment, bytes, sizeof bytes);
  self->assignment_size = sizeof bytes;
}

static pjrt_error *load(pjrt_executable *self, const pjrt_answer *answer) {
  edgert_error error;
  self->name = strdup(answer->parts[ANSWER_NAME].data);
  self->fingerprint = strdup(answer->parts[ANSWER_FINGERPRINT].data);
  if (!self->name || !self->fingerprint) return pjrt_out_of_memory();
  assign(self);
  if (!strcmp(answer->parts[ANSWER_VERDICT].data, "elsewhere")) {
    self->elsewhere = strdup(answer->parts[ANSWER_MODULE].data);
    return self->elsewhere ? describe(self, answer) : pjrt_out_of_memory();
  }
  if (edgert_module_open(answer->parts[ANSWER_MODULE].data, NULL, &self->module, &error) ||
      edgert_module_find(self->module, answer->parts[ANSWER_FUNCTION].data, &self->function,
                         &error) ||
      edgert_session_create(self->module, self->device->device, NULL, &self->session, &error))
    return pjrt_fail_edgert(&error);
  return describe(self, answer);
}

static void executable_free(pjrt_executable *self) {
  edgert_session_release(self->session);
  edgert_module_release(self->module);
  free(self->name);
  free(self->fingerprint);
  free(self->elsewhere);
  free(self->donated);
  free(self->outputs);
  free(self->output_types);
  free(self->output_dims);
  free(self->output_ranks);
  free((void *)self->output_kinds);
  free(self->output_kind_sizes);
  free(self);
}

void pjrt_executable_release(pjrt_executable *executable) {
  if (executable && atomic_fetch_sub(&executable->references, 1) == 1)
    executable_free(executable);
}

static pjrt_error *choose_device(const client_compile_args *args, pjrt_device **out) {
  *out = NULL;
  pjrt_placement placement = pjrt_placement_read(args->options, args->options_size);
  if (placement.is_damaged)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the compile options are damaged");
  if (placement.unknown)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "No such compile option: '%.*s'",
                     (int)placement.unknown_size, placement.unknown);
  if (placement.replicas > 1 || placement.partitions > 1)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "the program is spread over %d devices; edgec's plugin runs a program on one: "
                     "leave the mesh out, or give it one device",
                     (int)(placement.replicas * placement.partitions));
  int64_t id = placement.device < 0 ? 0 : placement.device;
  if ((uint64_t)id >= args->client->device_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device %lld", (long long)id);
  *out = &args->client->devices[id];
  return NULL;
}

/* Have a program compiled. Where the compiler dies of it, another one is asked to do in a process apart
 * what may die, and so to say what it died of. */
static pjrt_error *ask(pjrt_client *client, const pjrt_device *device, const pjrt_program *program,
                       pjrt_answer *out_answer) {
  pjrt_part parts[] = {{"compile", 7},
                       {device->driver, strlen(device->driver)},
                       {program->code, program->code_size},
                       {"here", 4},
                       {client->refused, strlen(client->refused)}};
  bool died;
  pjrt_error *failed = pjrt_compiler_ask(&client->compiler, parts, 5, out_answer, &died);
  if (!died) return failed;
  pjrt_error_destroy(&(error_destroy_args){.error = failed});
  parts[3] = (pjrt_part){"apart", 5};
  return pjrt_compiler_ask(&client->compiler, parts, 5, out_answer, &died);
}

pjrt_error *pjrt_client_compile(client_compile_args *args) {
  args->executable = NULL;
  const pjrt_program *program = args->program;
  if (program->format_size != 4 || memcmp(program->format, "mlir", 4))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec compiles programs in the format mlir, not %.*s",
                     (int)program->format_size, program->format);
  pjrt_device *device;
  pjrt_error *failed = choose_device(args, &device);
  if (failed) return failed;
  pjrt_answer answer;
  failed = ask(args->client, device, program, &answer);
  if (!failed) failed = check_answer(&answer);
  if (failed) {
    pjrt_answer_release(&answer);
    return failed;
  }
  pjrt_executable *executable = calloc(1, sizeof *executable);
  if (executable) {
    atomic_init(&executable->references, 1);
    atomic_init(&executable->nanoseconds, UINT64_MAX);
    executable->client = args->client;
    executable->device = executable->devices[0] = device;
    failed = load(executable, &answer);
  } else {
    failed = pjrt_out_of_memory();
  }
  pjrt_answer_release(&answer);
  if (failed) {
    pjrt_executable_release(executable);
    return failed;
  }
  args->executable = executable;
  return NULL;
}
