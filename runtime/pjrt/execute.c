/* A call: buffers in, buffers out. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* Arguments and results of a call; the first few without memory of their own. */
#define EXECUTE_FEW 16

static bool is_kept(const pjrt_execute_options *options, size_t index) {
  if (!options) return false;
  for (size_t i = 0; i < options->not_donated_count; ++i)
    if (options->not_donated[i] == (int64_t)index) return true;
  return false;
}

/* Take the arguments' tensors, each held once. */
static pjrt_error *take_arguments(pjrt_executable *self, pjrt_buffer *const *buffers,
                                  edgert_value *values, size_t *out_count) {
  *out_count = 0;
  for (size_t i = 0; i < self->input_count; ++i) {
    if (buffers[i]->device != self->device)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "argument %zu of %s is on %s, and the program on %s",
                       i, self->name, buffers[i]->device->text, self->device->text);
    edgert_tensor *tensor = pjrt_buffer_hold(buffers[i]);
    if (!tensor)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "argument %zu of %s has been deleted or donated", i,
                       self->name);
    values[i] = (edgert_value){.kind = EDGERT_TENSOR, .as = {.tensor = tensor}};
    *out_count = i + 1;
  }
  return NULL;
}

static void release_values(edgert_value *values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (values[i].kind == EDGERT_TENSOR) edgert_tensor_release(values[i].as.tensor);
}

/* Results to buffers; all or none. */
static pjrt_error *give_results(pjrt_executable *self, edgert_value *values,
                                pjrt_buffer **buffers) {
  for (size_t i = 0; i < self->output_count; ++i) {
    const pjrt_output *output = &self->outputs[i];
    pjrt_buffer *made = NULL;
    if (values[i].kind == EDGERT_TENSOR) {
      made = pjrt_buffer_make(self->device, values[i].as.tensor, output->type, output->rank,
                              output->shape);
      values[i].kind = EDGERT_NONE;
    }
    buffers[i] = made;
    if (made) continue;
    for (size_t j = 0; j < i; ++j) {
      pjrt_buffer_destroy(&(buffer_destroy_args){.buffer = buffers[j]});
      buffers[j] = NULL;
    }
    return pjrt_out_of_memory();
  }
  return NULL;
}

static pjrt_error *call(pjrt_executable *self, pjrt_buffer *const *arguments,
                        edgert_value *inputs, edgert_value *results, pjrt_buffer **outputs) {
  size_t taken;
  edgert_error error;
  pjrt_error *failed = take_arguments(self, arguments, inputs, &taken);
  if (!failed && self->elsewhere)
    failed = pjrt_elsewhere_call(self, inputs, results);
  else if (!failed && edgert_session_call(self->session, self->function, inputs, self->input_count,
                                     results, self->output_count, &error))
    failed = pjrt_fail_edgert(&error);
  release_values(inputs, taken);
  if (failed) return failed;
  failed = give_results(self, results, outputs);
  release_values(results, self->output_count);
  return failed;
}

/* The memory of donated arguments is given back: nothing may read them after the call. */
static void donate(pjrt_executable *self, const pjrt_execute_options *options,
                   pjrt_buffer *const *arguments) {
  for (size_t i = 0; i < self->input_count; ++i)
    if (self->donated[i] && !is_kept(options, i))
      pjrt_buffer_delete(&(buffer_delete_args){.buffer = arguments[i]});
}

pjrt_error *pjrt_loaded_execute(loaded_execute_args *args) {
  pjrt_executable *self = args->executable;
  if (args->num_devices != 1 || args->num_args != self->input_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%s takes %zu arguments on one device, not %zu on %zu",
                     self->name, self->input_count, args->num_args, args->num_devices);
  if (args->options && (args->options->num_send_ops || args->options->num_receive_ops))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's plugin neither sends nor receives in a program");
  if (atomic_load(&self->is_deleted))
    return pjrt_fail(PJRT_FAILED_PRECONDITION, "%s has been deleted", self->name);
  size_t count = self->input_count + self->output_count;
  edgert_value few[EXECUTE_FEW] = {{0}}, *values = few;
  if (count > EXECUTE_FEW) values = calloc(count, sizeof *values);
  if (!values) return pjrt_out_of_memory();
  pjrt_error *failed = call(self, args->argument_lists[0], values, values + self->input_count,
                            args->output_lists[0]);
  if (values != few) free(values);
  if (failed) return failed;
  donate(self, args->options, args->argument_lists[0]);
  if (args->complete_events) args->complete_events[0] = pjrt_event_ready();
  return NULL;
}

pjrt_error *pjrt_executable_memory_stats(executable_memory_stats_args *args) {
  pjrt_executable *self = args->executable;
  size_t outputs = 0;
  for (size_t i = 0; i < self->output_count; ++i) {
    size_t bytes = pjrt_type_bytes(self->outputs[i].type);
    for (size_t j = 0; j < self->outputs[i].rank; ++j) bytes *= (size_t)self->outputs[i].shape[j];
    outputs += bytes;
  }
  size_t head = offsetof(executable_memory_stats_args, code);
  if (args->size > head) memset(&args->code, 0, args->size < sizeof *args ? args->size - head
                                                                         : sizeof *args - head);
  args->outputs = (int64_t)outputs;
  return NULL;
}
