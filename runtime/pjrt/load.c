/* Modules to executables: loaded onto a device by edgert, with what they say of themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* --- what an executable gives ----------------------------------------------------------------- */

static pjrt_error *read_input(pjrt_executable *self, size_t index, pjrt_output *out) {
  edgert_argument argument;
  edgert_error error;
  if (edgert_module_input(self->module, self->function, index, &argument, &error))
    return pjrt_fail_edgert(&error);
  out->type = pjrt_type_of_edgert(argument.type);
  out->rank = argument.rank;
  for (size_t i = 0; i < out->rank; ++i) out->shape[i] = argument.shape[i];
  return NULL;
}

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

/* How many arrays a list of types, ranks and sizes tells of; each is written where that is asked for. */
static size_t read_list(const pjrt_part *list, pjrt_output *outputs) {
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
    self->output_layouts[i] = pjrt_layout_of_rank(output->rank);
    for (size_t j = 0; j < output->rank; ++j) self->output_dims[dims++] = output->shape[j];
  }
}

/* What results are for JAX where their elements are narrower than the module's: in bytes of their own. */
static pjrt_error *narrow_outputs(pjrt_executable *self, const pjrt_part *listed,
                                  pjrt_output *arrays) {
  bool fits = read_list(listed, NULL) == self->output_count;
  if (fits) read_list(listed, arrays);
  for (size_t i = 0; i < self->output_count && fits; ++i) {
    pjrt_output *output = &self->outputs[i];
    fits = arrays[i].rank == output->rank &&
           !memcmp(arrays[i].shape, output->shape, output->rank * sizeof *output->shape) &&
           pjrt_type_bytes(arrays[i].type) == pjrt_type_bytes(output->type);
    if (fits) output->type = arrays[i].type;
  }
  return fits ? NULL : pjrt_fail(PJRT_INTERNAL, "what %s gives is damaged", self->name);
}

/* How arguments and results lie: the module knows them, or what is told of a route, with the arguments
 * first; of a program elsewhere the results are told, and nothing of the arguments. */
static pjrt_error *describe_arrays(pjrt_executable *self, const pjrt_made *made) {
  const pjrt_part *listed = &made->outputs;
  size_t inputs = self->input_count;
  pjrt_output *arrays = calloc(inputs + self->output_count + 1, sizeof *arrays);
  if (!self->elsewhere) self->input_layouts = calloc(inputs + 1, sizeof *self->input_layouts);
  pjrt_error *failed = !arrays || (!self->elsewhere && !self->input_layouts) ? pjrt_out_of_memory() : NULL;
  if (!failed && self->elsewhere) read_list(listed, self->outputs);
  if (!failed && self->route) {
    read_list(listed, arrays);
    memcpy(self->outputs, arrays + inputs, self->output_count * sizeof *arrays);
  }
  for (size_t i = 0; i < inputs && !failed && !self->elsewhere; ++i) {
    if (!self->route) failed = read_input(self, i, &arrays[i]);
    if (!failed) self->input_layouts[i] = pjrt_layout_of_rank(arrays[i].rank);
  }
  for (size_t i = 0; i < self->output_count && !failed && !self->elsewhere && !self->route; ++i)
    failed = read_output(self, i);
  if (!failed && !self->elsewhere && !self->route && listed->size)
    failed = narrow_outputs(self, listed, arrays + inputs);
  if (!failed) failed = pjrt_costs_read(self, made, arrays);
  free(arrays);
  return failed;
}

static pjrt_error *describe(pjrt_executable *self, const pjrt_made *made) {
  const pjrt_part *donated = &made->donated;
  const pjrt_part *listed = &made->outputs;
  size_t count;
  if (self->elsewhere) {
    self->input_count = donated->size;
    count = read_list(listed, NULL);
  } else if (self->route) {
    self->input_count = pjrt_route_inputs(self->route);
    count = pjrt_route_results(self->route);
    if (read_list(listed, NULL) != self->input_count + count)
      return pjrt_fail(PJRT_INTERNAL, "what %s takes and gives is damaged", self->name);
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
  self->output_layouts = calloc(count + 1, sizeof *self->output_layouts);
  if (!self->donated || !self->outputs || !self->output_types || !self->output_dims ||
      !self->output_ranks || !self->output_kinds || !self->output_kind_sizes ||
      !self->output_layouts)
    return pjrt_out_of_memory();
  if (donated->size == self->input_count) memcpy(self->donated, donated->data, donated->size);
  pjrt_error *failed = describe_arrays(self, made);
  if (!failed) show_outputs(self);
  return failed ? failed : pjrt_shardings_read(self, &made->shardings);
}

/* --- loading ---------------------------------------------------------------------------------- */

/* A serialised `DeviceAssignmentProto`: one replica, of which each computation is on one device. */
static void assign(pjrt_executable *self) {
  const char head[] = {0x08, 1, 0x10, (char)self->device_count};
  char *at = self->assignment;
  memcpy(at, head, sizeof head);
  at += sizeof head;
  for (size_t i = 0; i < self->device_count; ++i) {
    const char one[] = {0x1a, 3, 0x0a, 1, (char)self->devices[i]->id};
    memcpy(at, one, sizeof one);
    at += sizeof one;
  }
  self->assignment_size = (size_t)(at - self->assignment);
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

pjrt_error *pjrt_part_keep(pjrt_part *to, const pjrt_part *from) {
  void *data = malloc(from->size + 1);
  if (!data) return pjrt_out_of_memory();
  if (from->size) memcpy(data, from->data, from->size);
  *to = (pjrt_part){data, from->size};
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
  self->function_name = strdup(made->function);
  if (!self->function_name) return pjrt_out_of_memory();
  bool is_spread = made->route.size > 0;
  bool has_module = made->path ? *made->path : made->bytes.size > 0;
  pjrt_error *failed = has_module || !is_spread ? open_module(self, made) : NULL;
  for (size_t i = 0; i < self->device_count && !failed && self->module; ++i)
    if (edgert_session_create(self->module, self->devices[i]->device, NULL, &self->sessions[i],
                              &error))
      failed = pjrt_fail_edgert(&error);
  if (!failed) failed = pjrt_part_keep(&self->outputs_bytes, &made->outputs);
  if (failed) return failed;
  if (is_spread) {
    failed = pjrt_spread_load(self, made);
    return failed ? failed : describe(self, made);
  }
  if (edgert_module_find(self->module, made->function, &self->function, &error))
    return pjrt_fail_edgert(&error);
  return describe(self, made);
}

static void executable_free(pjrt_executable *self) {
  for (size_t i = 0; i < self->device_count; ++i) {
    edgert_session_release(self->sessions[i]);
    edgert_tensor_release(self->numbers[i]);
  }
  edgert_module_release(self->module);
  pjrt_route_free(self->route);
  free((void *)(uintptr_t)self->route_bytes.data);
  free((void *)(uintptr_t)self->outputs_bytes.data);
  free((void *)(uintptr_t)self->costs_bytes.data);
  free((void *)(uintptr_t)self->program.data);
  free((void *)self->shardings);
  free(self->sharding_sizes);
  free(self->sharding_bytes);
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
  free((void *)self->output_layouts);
  free((void *)self->input_layouts);
  free(self);
}

void pjrt_executable_release(pjrt_executable *executable) {
  if (executable && atomic_fetch_sub(&executable->references, 1) == 1)
    executable_free(executable);
}

pjrt_error *pjrt_executable_load(const pjrt_place *place, const pjrt_made *made,
                                 pjrt_executable **out) {
  *out = NULL;
  pjrt_executable *self = calloc(1, sizeof *self);
  if (!self) return pjrt_out_of_memory();
  atomic_init(&self->references, 1);
  atomic_init(&self->nanoseconds, UINT64_MAX);
  self->device = place->devices[0];
  self->client = self->device->client;
  memcpy(self->devices, place->devices, sizeof self->devices);
  self->device_count = place->count;
  pjrt_error *failed = load(self, made);
  if (failed)
    pjrt_executable_release(self);
  else
    *out = self;
  return failed;
}
