/* A call: buffers in, buffers out, now or in the background.
 *
 * A call that was short the last time, and whose arguments are there, is made where it is asked for:
 * to hand it to another thread would cost more. Any other goes behind those that its device has yet
 * to do, and its results come later.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin.h"

/* Arguments and results of a call; the first few without memory of their own. */
#define EXECUTE_FEW 16

/* Calls that take no longer are made at once. Waking a thread, and being woken, costs some 10 to 50. */
#define EXECUTE_SHORT_NANOSECONDS 100000

/* What is held of a call until it has ended. */
typedef struct execute_call {
  pjrt_job job;
  pjrt_executable *executable;
  pjrt_event *ended;   /* NULL: the caller waits */
  pjrt_value **values; /* arguments, and, where the caller does not wait, results */
  edgert_value *cells; /* the same as edgert has them */
} execute_call;

static bool is_kept(const pjrt_execute_options *options, size_t index) {
  if (!options) return false;
  for (size_t i = 0; i < options->not_donated_count; ++i)
    if (options->not_donated[i] == (int64_t)index) return true;
  return false;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* --- a call, by whom it is made ---------------------------------------------------------------- */

/* Arguments, and results, of all devices. */
static size_t inputs_of(const pjrt_executable *self) {
  return self->input_count * self->device_count;
}

static size_t outputs_of(const pjrt_executable *self) {
  return self->output_count * self->device_count;
}

/* Compute the results' tensors, all or none, from arguments that are waited for. */
static pjrt_error *compute(execute_call *call) {
  pjrt_executable *self = call->executable;
  edgert_value *inputs = call->cells, *results = inputs + inputs_of(self);
  edgert_error error;
  for (size_t i = 0; i < inputs_of(self); ++i) {
    edgert_tensor *tensor;
    pjrt_error *failed = pjrt_value_wait(call->values[i], &tensor);
    if (failed) return failed;
    bool is_given = pjrt_value_is_alone(call->values[i]);
    inputs[i] = (edgert_value){.kind = is_given ? EDGERT_GIVEN_TENSOR : EDGERT_TENSOR,
                               .as = {.tensor = tensor}};
  }
  if (self->elsewhere) return pjrt_elsewhere_call(self, inputs, results);
  uint64_t start = now();
  pjrt_error *failed = NULL;
  if (self->route)
    failed = pjrt_walk(self, inputs, results);
  else if (edgert_session_call(self->sessions[0], self->function, inputs, self->input_count,
                               results, self->output_count, &error))
    failed = pjrt_fail_edgert(&error);
  if (!failed) atomic_store(&self->nanoseconds, now() - start);
  return failed;
}

/* Take the arguments' values, each held once. */
static pjrt_error *take_arguments(pjrt_executable *self, pjrt_buffer *const *const *lists,
                                  pjrt_value **values, size_t *out_count, bool *out_are_there) {
  *out_count = 0;
  *out_are_there = true;
  for (size_t at = 0; at < inputs_of(self); ++at) {
    size_t device = at / self->input_count, i = at % self->input_count;
    pjrt_buffer *buffer = lists[device][i];
    if (buffer->device != self->devices[device])
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "argument %zu of %s is on %s, and the program on %s",
                       i, self->name, buffer->device->text, self->devices[device]->text);
    values[at] = pjrt_buffer_hold(buffer);
    if (!values[at])
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "argument %zu of %s has been deleted or donated", i,
                       self->name);
    *out_count = at + 1;
    *out_are_there = *out_are_there && pjrt_value_is_there(values[at]);
  }
  return NULL;
}

static void release_values(pjrt_value **values, size_t count) {
  for (size_t i = 0; i < count; ++i) pjrt_value_release(values[i]);
}

/* A buffer for each result; all or none. Takes the values. */
static pjrt_error *show_results(pjrt_executable *self, pjrt_value **values,
                                pjrt_buffer **const *lists) {
  bool is_whole = true;
  for (size_t at = 0; at < outputs_of(self); ++at) {
    size_t device = at / self->output_count, i = at % self->output_count;
    const pjrt_output *output = &self->outputs[i];
    lists[device][i] = pjrt_buffer_make(self->devices[device], values[at], output->type,
                                        output->rank, output->shape);
    is_whole = is_whole && lists[device][i];
  }
  if (is_whole) return NULL;
  for (size_t at = 0; at < outputs_of(self); ++at) {
    pjrt_buffer **buffer = &lists[at / self->output_count][at % self->output_count];
    pjrt_buffer_destroy(&(buffer_destroy_args){.buffer = *buffer});
    *buffer = NULL;
  }
  return pjrt_out_of_memory();
}

/* --- now -------------------------------------------------------------------------------------- */

static pjrt_error *call_now(execute_call *call, pjrt_buffer **const *lists) {
  pjrt_executable *self = call->executable;
  pjrt_error *failed = compute(call);
  if (failed) return failed;
  pjrt_value **results = call->values + inputs_of(self);
  for (size_t i = 0; i < outputs_of(self); ++i)
    results[i] = pjrt_value_make(call->cells[inputs_of(self) + i].as.tensor, NULL);
  return show_results(self, results, lists);
}

/* --- later ------------------------------------------------------------------------------------ */

static void call_free(execute_call *call) {
  pjrt_executable *executable = call->executable;
  if (executable->route) pjrt_route_keep_python(executable->client, executable->route, false);
  release_values(call->values, inputs_of(executable) + outputs_of(executable));
  free(call->values);
  free(call->cells);
  free(call);
  pjrt_executable_release(executable);
}

static void call_run(pjrt_job *job) {
  execute_call *call = (execute_call *)job;
  pjrt_executable *self = call->executable;
  pjrt_event *ended = call->ended;
  pjrt_error *failed = compute(call);
  for (size_t i = inputs_of(self); i < inputs_of(self) + outputs_of(self) && !failed; ++i)
    pjrt_value_fill(call->values[i], call->cells[i].as.tensor);
  call_free(call); /* memory that was lent to the call is given back before its end is told */
  pjrt_event_set(ended, failed);
}

/* Have the call made in the background, which takes its arguments; its buffers are given at once. */
static pjrt_error *call_later(execute_call *what, pjrt_buffer **const *lists,
                              pjrt_event **out_ended) {
  pjrt_executable *self = what->executable;
  size_t inputs = inputs_of(self), outputs = outputs_of(self);
  execute_call *call = calloc(1, sizeof *call);
  pjrt_event *ended = pjrt_event_make();
  pjrt_value **shown = calloc(outputs + 1, sizeof *shown);
  bool is_whole = call && ended && shown;
  if (call) {
    call->job.run = call_run;
    call->executable = self;
    call->ended = ended;
    call->values = calloc(inputs + outputs + 1, sizeof *call->values);
    call->cells = calloc(inputs + outputs + 1, sizeof *call->cells);
    is_whole = is_whole && call->values && call->cells;
  }
  for (size_t i = 0; i < outputs && is_whole; ++i) {
    shown[i] = pjrt_value_make(NULL, ended);
    is_whole = shown[i] != NULL;
    if (is_whole) call->values[inputs + i] = pjrt_value_retain(shown[i]);
  }
  if (!is_whole) {
    if (shown) release_values(shown, outputs);
    free(shown);
    if (call && call->values) release_values(call->values, inputs + outputs);
    if (call) free(call->values);
    if (call) free(call->cells);
    free(call);
    pjrt_event_release(ended);
    pjrt_event_release(ended);
    return pjrt_out_of_memory();
  }
  memcpy(call->values, what->values, inputs * sizeof *call->values);
  memset(what->values, 0, inputs * sizeof *what->values);
  atomic_fetch_add(&self->references, 1);
  if (self->route) pjrt_route_keep_python(self->client, self->route, true);
  pjrt_error *failed = show_results(self, shown, lists);
  free(shown);
  if (failed) {
    call_free(call);
    pjrt_event_release(ended);
    pjrt_event_release(ended);
    return failed;
  }
  if (!pjrt_queue_add(&self->device->queue, &call->job)) call_run(&call->job);
  *out_ended = ended;
  return NULL;
}

/* --- PJRT's functions ------------------------------------------------------------------------- */

/* The memory of donated arguments is the call's alone: nothing may read them after it. */
static void donate(pjrt_executable *self, const pjrt_execute_options *options,
                   pjrt_buffer *const *const *lists) {
  for (size_t i = 0; i < self->input_count; ++i)
    for (size_t device = 0; device < self->device_count; ++device)
      if (self->donated[i] && !is_kept(options, i))
        pjrt_buffer_delete(&(buffer_delete_args){.buffer = lists[device][i]});
}

static pjrt_error *execute(execute_call *call, loaded_execute_args *args) {
  pjrt_executable *self = call->executable;
  size_t taken;
  bool are_there;
  pjrt_event *ended = NULL;
  pjrt_error *failed =
      take_arguments(self, args->argument_lists, call->values, &taken, &are_there);
  if (!failed) {
    donate(self, args->options, args->argument_lists);
    bool is_short = atomic_load(&self->nanoseconds) <= EXECUTE_SHORT_NANOSECONDS;
    failed = is_short && are_there ? call_now(call, args->output_lists)
                                   : call_later(call, args->output_lists, &ended);
  }
  release_values(call->values, taken);
  if (failed) return failed;
  for (size_t i = 0; i < self->device_count && args->complete_events; ++i)
    args->complete_events[i] = ended ? pjrt_event_retain(ended) : pjrt_event_ready();
  pjrt_event_release(ended);
  return NULL;
}

pjrt_error *pjrt_loaded_execute(loaded_execute_args *args) {
  pjrt_executable *self = args->executable;
  if (args->num_devices != self->device_count || args->num_args != self->input_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "%s takes %zu arguments on %zu devices, not %zu on %zu", self->name,
                     self->input_count, self->device_count, args->num_args, args->num_devices);
  if (args->options && (args->options->num_send_ops || args->options->num_receive_ops))
    return pjrt_fail(PJRT_UNIMPLEMENTED, "edgec's plugin neither sends nor receives in a program");
  if (atomic_load(&self->is_deleted))
    return pjrt_fail(PJRT_FAILED_PRECONDITION, "%s has been deleted", self->name);
  size_t count = inputs_of(self) + outputs_of(self);
  edgert_value few_cells[EXECUTE_FEW] = {{0}};
  pjrt_value *few_values[EXECUTE_FEW] = {0};
  execute_call call = {.executable = self, .cells = few_cells, .values = few_values};
  if (count > EXECUTE_FEW) {
    call.cells = calloc(count, sizeof *call.cells);
    call.values = calloc(count, sizeof *call.values);
  }
  pjrt_error *failed =
      call.cells && call.values ? execute(&call, args) : pjrt_out_of_memory();
  if (count > EXECUTE_FEW) {
    free(call.cells);
    free(call.values);
  }
  return failed;
}
