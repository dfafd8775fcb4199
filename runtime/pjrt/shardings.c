/* How a program for several devices cuts its arrays: told by PJRT's extension for shardings. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* Sizes (8 bytes) and bytes, one after the other, of all arguments and then all results. */
pjrt_error *pjrt_shardings_read(pjrt_executable *executable, const pjrt_part *part) {
  size_t count = executable->input_count + executable->output_count, at = 0;
  if (!part->size) return NULL;
  executable->shardings = calloc(count + 1, sizeof *executable->shardings);
  executable->sharding_sizes = calloc(count + 1, sizeof *executable->sharding_sizes);
  executable->sharding_bytes = malloc(part->size);
  if (!executable->shardings || !executable->sharding_sizes || !executable->sharding_bytes)
    return pjrt_out_of_memory();
  memcpy(executable->sharding_bytes, part->data, part->size);
  executable->sharding_bytes_size = part->size;
  for (size_t i = 0; i < count; ++i) {
    uint64_t size = UINT64_MAX;
    if (part->size - at >= sizeof size) memcpy(&size, (const char *)part->data + at, sizeof size);
    at += sizeof size;
    if (at > part->size || size > part->size - at)
      return pjrt_fail(PJRT_INTERNAL, "how %s cuts its arrays is damaged", executable->name);
    executable->shardings[i] = executable->sharding_bytes + at;
    executable->sharding_sizes[i] = (size_t)size;
    at += (size_t)size;
  }
  return NULL;
}

/* A program for one device has none: NULL, as of what gives nothing, of which PJRT's caller takes no
 * empty list. */
static pjrt_error *shardings_of_parameters(executable_shardings_args *args) {
  args->count = args->executable->input_count;
  args->shardings = args->executable->shardings;
  args->sizes = args->executable->sharding_sizes;
  return NULL;
}

static pjrt_error *shardings_of_results(executable_shardings_args *args) {
  const pjrt_executable *self = args->executable;
  bool has_some = self->shardings && self->output_count;
  args->count = self->output_count;
  args->shardings = has_some ? self->shardings + self->input_count : NULL;
  args->sizes = has_some ? self->sharding_sizes + self->input_count : NULL;
  return NULL;
}

const pjrt_shardings pjrt_shardings_extension = {.size = sizeof(pjrt_shardings),
                                                 .number = PJRT_SHARDINGS,
                                                 .of_parameters = shardings_of_parameters,
                                                 .of_results = shardings_of_results};
