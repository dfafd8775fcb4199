/* Programs to executables: asked of the compiler's process. */
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

pjrt_error *pjrt_client_place(pjrt_client *client, const char *options, size_t size,
                              pjrt_device **out) {
  *out = NULL;
  pjrt_placement placement = pjrt_placement_read(options, size);
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
  if ((uint64_t)id >= client->device_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device %lld", (long long)id);
  *out = &client->devices[id];
  return NULL;
}

/* Have a program compiled. Where the compiler dies of it, another one is asked to do in a process apart
 * what may die, and so to say what it died of. */
static pjrt_error *ask(pjrt_client *client, const pjrt_device *device, const pjrt_program *program,
                       pjrt_answer *out_answer) {
  pjrt_part parts[] = {{"compile", 7},
                       {device->what, strlen(device->what)},
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
  pjrt_error *failed =
      pjrt_client_place(args->client, args->options, args->options_size, &device);
  if (failed) return failed;
  pjrt_answer answer;
  failed = ask(args->client, device, program, &answer);
  if (!failed) failed = check_answer(&answer);
  if (failed) {
    pjrt_answer_release(&answer);
    return failed;
  }
  bool is_elsewhere = !strcmp(answer.parts[ANSWER_VERDICT].data, "elsewhere");
  pjrt_made made = {.name = answer.parts[ANSWER_NAME].data,
                    .fingerprint = answer.parts[ANSWER_FINGERPRINT].data,
                    .donated = answer.parts[ANSWER_DONATED]};
  if (is_elsewhere) {
    made.elsewhere = answer.parts[ANSWER_MODULE].data;
    made.outputs = answer.parts[ANSWER_FUNCTION];
  } else {
    made.path = answer.parts[ANSWER_MODULE].data;
    made.function = answer.parts[ANSWER_FUNCTION].data;
  }
  failed = pjrt_executable_load(device, &made, &args->executable);
  pjrt_answer_release(&answer);
  return failed;
}
