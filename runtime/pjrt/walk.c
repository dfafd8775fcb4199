/* A call of a program for several devices: every step is made on each of them, one after the other.
 *
 * Processors' devices compute on the same cores, each on all of them, so that taking turns costs
 * nothing, and between two steps nobody waits for anybody.
 */
#include <stdlib.h>

#include "route.h"

/* What each device has of each value; NULL: not yet, or not any more. */
typedef struct walk {
  pjrt_executable *executable;
  const pjrt_route *route;
  edgert_tensor **values;
  edgert_value *cells;
} walk;

static edgert_tensor **of_device(const walk *self, size_t device) {
  return self->values + device * self->route->value_count;
}

static pjrt_error *call_part(walk *self, const pjrt_step *step, size_t device) {
  edgert_error error;
  edgert_tensor **values = of_device(self, device);
  size_t count = 0;
  for (; count < step->input_count; ++count)
    self->cells[count] =
        (edgert_value){.kind = EDGERT_TENSOR, .as = {.tensor = values[step->inputs[count]]}};
  if (step->is_numbered)
    self->cells[count++] =
        (edgert_value){.kind = EDGERT_TENSOR, .as = {.tensor = self->executable->numbers[device]}};
  edgert_value *results = self->cells + count;
  if (edgert_session_call(self->executable->sessions[device], step->function, self->cells, count,
                          results, step->output_count, &error))
    return pjrt_fail_edgert(&error);
  for (size_t i = 0; i < step->output_count; ++i) values[step->outputs[i]] = results[i].as.tensor;
  return NULL;
}

static pjrt_error *collect(walk *self, const pjrt_step *step) {
  size_t count = self->route->device_count;
  edgert_tensor *given[PJRT_MAX_DEVICES], *made[PJRT_MAX_DEVICES];
  for (size_t i = 0; i < count; ++i) given[i] = of_device(self, i)[step->inputs[0]];
  pjrt_error *failed = pjrt_collect(step, self->executable->devices, count, given, made);
  for (size_t i = 0; i < count && !failed; ++i) of_device(self, i)[step->outputs[0]] = made[i];
  return failed;
}

static pjrt_error *make_step(walk *self, const pjrt_step *step) {
  size_t count = self->route->device_count;
  pjrt_error *failed = NULL;
  if (step->kind == STEP_CALL)
    for (size_t i = 0; i < count && !failed; ++i) failed = call_part(self, step, i);
  else
    failed = collect(self, step);
  for (size_t i = 0; i < step->gone_count && !failed; ++i)
    for (size_t device = 0; device < count; ++device) {
      edgert_tensor **value = &of_device(self, device)[step->gone[i]];
      edgert_tensor_release(*value);
      *value = NULL;
    }
  return failed;
}

pjrt_error *pjrt_walk(pjrt_executable *executable, const edgert_value *inputs,
                      edgert_value *results) {
  const pjrt_route *route = executable->route;
  size_t all = route->device_count * route->value_count;
  walk self = {.executable = executable,
               .route = route,
               .values = calloc(all + 1, sizeof *self.values),
               .cells = calloc(route->most_cells + 1, sizeof *self.cells)};
  pjrt_error *failed = self.values && self.cells ? NULL : pjrt_out_of_memory();
  for (size_t device = 0; device < route->device_count && !failed; ++device)
    for (size_t i = 0; i < route->input_count; ++i)
      of_device(&self, device)[i] =
          edgert_tensor_retain(inputs[device * route->input_count + i].as.tensor);
  for (size_t i = 0; i < route->step_count && !failed; ++i)
    failed = make_step(&self, &route->steps[i]);
  for (size_t device = 0; device < route->device_count && !failed; ++device)
    for (size_t i = 0; i < route->result_count; ++i)
      results[device * route->result_count + i] = (edgert_value){
          .kind = EDGERT_TENSOR,
          .as = {.tensor = edgert_tensor_retain(of_device(&self, device)[route->results[i]])}};
  for (size_t i = 0; i < all && self.values; ++i) edgert_tensor_release(self.values[i]);
  free(self.values);
  free(self.cells);
  return failed;
}
