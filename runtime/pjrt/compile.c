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
  ANSWER_FUNCTION, /* its name (of several devices the names, a line each), or what a program of
                    * XLA's gives: types, ranks and sizes */
  ANSWER_NAME,
  ANSWER_FINGERPRINT,
  ANSWER_DONATED,
  ANSWER_COUNT, /* of a program of edgec's there are more: */
  ANSWER_ROUTE = ANSWER_COUNT, /* of one device none */
  ANSWER_OUTPUTS, /* types, ranks and sizes; none where the module says them */
  ANSWER_COSTS,
  ANSWER_MODULE_COUNT, /* of several devices there are more: */
  ANSWER_SHARDINGS = ANSWER_MODULE_COUNT,
  ANSWER_PROGRAM, /* what each device computes */
  ANSWER_SPREAD_COUNT
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
  const char *verdict = answer->count ? answer->parts[ANSWER_VERDICT].data : "";
  if (answer->count == ANSWER_COUNT && !strcmp(verdict, "elsewhere")) return NULL;
  if (answer->count == ANSWER_MODULE_COUNT && !strcmp(verdict, "module")) return NULL;
  if (answer->count == ANSWER_SPREAD_COUNT && !strcmp(verdict, "spread")) return NULL;
  return pjrt_fail(PJRT_INTERNAL, "edgec's compiler answered what this plugin does not know: both "
                                  "must be of one version of edgec");
}

pjrt_error *pjrt_client_place(pjrt_client *client, const char *options, size_t size,
                              pjrt_place *out) {
  *out = (pjrt_place){0};
  pjrt_placement placement = pjrt_placement_read(options, size);
  if (placement.is_damaged)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the compile options are damaged");
  if (placement.unknown)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "No such compile option: '%.*s'",
                     (int)placement.unknown_size, placement.unknown);
  if (placement.replicas > 1)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "the program has %d replicas, and edgec's plugin spreads programs by "
                     "shardings alone: use jax.jit with shardings, or jax.shard_map",
                     (int)placement.replicas);
  size_t count = placement.partitions ? (size_t)placement.partitions : 1;
  if (count > client->device_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the program is for %zu devices, and there are %zu",
                     count, client->device_count);
  if (placement.device_count && placement.device_count < count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the program is for %zu devices, and names %zu", count,
                     placement.device_count);
  for (size_t i = 0; i < count; ++i) {
    int64_t id = placement.device_count ? placement.devices[i] : (int64_t)i;
    if (id < 0 || (uint64_t)id >= client->device_count)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device %lld", (long long)id);
    pjrt_device *device = &client->devices[id];
    out->devices[i] = device;
    if (strcmp(device->what, out->devices[0]->what))
      return pjrt_fail(PJRT_UNIMPLEMENTED,
                       "the program is spread over devices that need different code, %s for %s and "
                       "%s for %s: give its mesh devices of one kind",
                       out->devices[0]->text, out->devices[0]->what, device->text, device->what);
  }
  out->count = count;
  return NULL;
}

/* Have a program compiled. Where the compiler dies of it, another one is asked to do in a process apart
 * what may die, and so to say what it died of. */
static pjrt_error *ask(pjrt_client *client, const pjrt_place *place, const pjrt_program *program,
                       pjrt_answer *out_answer) {
  const pjrt_device *device = place->devices[0];
  char count[24];
  snprintf(count, sizeof count, "%zu", place->count);
  pjrt_part parts[] = {{"compile", 7},
                       {device->what, strlen(device->what)},
                       {program->code, program->code_size},
                       {"here", 4},
                       {client->refused, strlen(client->refused)},
                       {count, strlen(count)}};
  bool died;
  pjrt_error *failed = pjrt_compiler_ask(&client->compiler, parts, 6, out_answer, &died);
  if (!died) return failed;
  pjrt_error_destroy(&(error_destroy_args){.error = failed});
  parts[3] = (pjrt_part){"apart", 5};
  return pjrt_compiler_ask(&client->compiler, parts, 6, out_answer, &died);
}

pjrt_error *pjrt_client_compile(client_compile_args *args) {
  args->executable = NULL;
  const pjrt_program *program = args->program;
  if (program->format_size != 4 || memcmp(program->format, "mlir", 4))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec compiles programs in the format mlir, not %.*s",
                     (int)program->format_size, program->format);
  pjrt_place place;
  pjrt_error *failed = pjrt_client_place(args->client, args->options, args->options_size, &place);
  if (failed) return failed;
  pjrt_answer answer;
  failed = ask(args->client, &place, program, &answer);
  if (!failed) failed = check_answer(&answer);
  if (failed) {
    pjrt_answer_release(&answer);
    return failed;
  }
  bool is_elsewhere = !strcmp(answer.parts[ANSWER_VERDICT].data, "elsewhere");
  bool is_spread = answer.count == ANSWER_SPREAD_COUNT;
  pjrt_made made = {.name = answer.parts[ANSWER_NAME].data,
                    .fingerprint = answer.parts[ANSWER_FINGERPRINT].data,
                    .donated = answer.parts[ANSWER_DONATED]};
  if (is_elsewhere) {
    made.elsewhere = answer.parts[ANSWER_MODULE].data;
    made.outputs = answer.parts[ANSWER_FUNCTION];
  } else {
    made.path = answer.parts[ANSWER_MODULE].data;
    made.function = answer.parts[ANSWER_FUNCTION].data;
    made.route = answer.parts[ANSWER_ROUTE];
    made.outputs = answer.parts[ANSWER_OUTPUTS];
    made.costs = answer.parts[ANSWER_COSTS];
  }
  if (is_spread) {
    made.shardings = answer.parts[ANSWER_SHARDINGS];
    made.program = answer.parts[ANSWER_PROGRAM];
  } else {
    made.program = (pjrt_part){program->code, program->code_size};
  }
  failed = pjrt_executable_load(&place, &made, &args->executable);
  pjrt_answer_release(&answer);
  return failed;
}
