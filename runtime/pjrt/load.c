/* Modules to executables: loaded onto a device by edgert, with what they say of themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

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

static pjrt_error *describe(pjrt_executable *self, const pjrt_made *made) {
  const pjrt_part *donated = &made->donated;
  const pjrt_part *listed = &made->outputs;
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

static void module_let_go(void *bytes) { free(bytes); }

/* The module: a file, or bytes, of which it keeps a copy where modules may lie. */
static pjrt_error *open_module(pjrt_executable *self, const pjrt_made *made) {
  edgert_error error;
  if (made->path) {
    self->path = strdup(made->path);
    if (!self->path) return pjrt_out_of_memory();
    if (edgert_module_open(self->path, NULL, &self->module, &error))
      return pjrt_fail_edgert(&error);
    return NULL;
  }
  size_t size = (made->bytes.size + EDGERT_ALIGNMENT) / EDGERT_ALIGNMENT * EDGERT_ALIGNMENT;
  void *bytes = aligned_alloc(EDGERT_ALIGNMENT, size);
  if (!bytes) return pjrt_out_of_memory();
  memcpy(bytes, made->bytes.data, made->bytes.size);
  if (edgert_module_wrap(bytes, made->bytes.size, module_let_go, bytes, NULL, &self->module,
                         &error))
    return pjrt_fail_edgert(&error);
  self->bytes = (pjrt_part){bytes, made->bytes.size};
  return NULL;
}

static pjrt_error *load(pjrt_executable *self, const pjrt_made *made) {
  edgert_error error;
  self->name = strdup(made->name);
  self->fingerprint = strdup(made->fingerprint);
  if (!self->name || !self->fingerprint) return pjrt_out_of_memory();
  assign(self);
  if (made->elsewhere) {
    self->elsewhere = strdup(made->elsewhere);
    return self->elsewhere ? describe(self, made) : pjrt_out_of_memory();
  }
  pjrt_error *failed = open_module(self, made);
  if (failed) return failed;
  if (edgert_module_find(self->module, made->function, &self->function, &error) ||
      edgert_session_create(self->module, self->device->device, NULL, &self->session, &error))
    return pjrt_fail_edgert(&error);
  self->function_name = strdup(made->function);
  return self->function_name ? describe(self, made) : pjrt_out_of_memory();
}

static void executable_free(pjrt_executable *self) {
  edgert_session_release(self->session);
  edgert_module_release(self->module);
  free(self->path);
  free(self->function_name);
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

pjrt_error *pjrt_executable_load(pjrt_device *device, const pjrt_made *made,
                                 pjrt_executable **out) {
  *out = NULL;
  pjrt_executable *self = calloc(1, sizeof *self);
  if (!self) return pjrt_out_of_memory();
  atomic_init(&self->references, 1);
  atomic_init(&self->nanoseconds, UINT64_MAX);
  self->client = device->client;
  self->device = self->devices[0] = device;
  pjrt_error *failed = load(self, made);
  if (failed)
    pjrt_executable_release(self);
  else
    *out = self;
  return failed;
}
