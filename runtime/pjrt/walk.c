/* A call of a program for several devices: every step is made on each of them, one after the other.
 *
 * Processors' devices compute on the same cores, each on all of them, so that taking turns costs
 * nothing, and between two steps nobody waits for anybody. GPUs are given all that they have to do
 * without waiting for it, what they say to each other included, and work side by side. In a loop or
 * branch only some devices may be there: those whose own numbers say so. A collective needs all of
 * its devices, or none.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl.h"
#include "route.h"

#define WALK_TURN 100 /* milliseconds for which one device is waited for before the next is */

/* A route on its way, with what each device has of each value; NULL: not yet, or not any more. */
typedef struct walk {
  pjrt_executable *executable;
  const pjrt_route *route;
  const bool *is_there; /* each device */
  edgert_tensor **values;
  edgert_value *cells;
} walk;

static pjrt_error *walk_route(pjrt_executable *executable, const pjrt_route *route,
                              const bool *is_there, edgert_tensor *const *inputs,
                              edgert_tensor **results);

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
  if (edgert_session_submit(self->executable->sessions[device], step->function, self->cells, count,
                            results, step->output_count, &error))
    return pjrt_fail_edgert(&error);
  for (size_t i = 0; i < step->output_count; ++i) values[step->outputs[i]] = results[i].as.tensor;
  return NULL;
}

/* Whether each group's devices are all there, or none: of a permutation all together. */
static bool groups_are_together(const walk *self, const pjrt_step *step) {
  bool is_seen[2] = {false, false};
  for (size_t i = 0; i < step->group_count; ++i) {
    const pjrt_group *group = &step->groups[i];
    for (size_t j = 0; j < group->count; ++j) is_seen[self->is_there[group->devices[j]]] = true;
    if (is_seen[0] && is_seen[1]) return false;
    if (step->kind != STEP_PERMUTE) is_seen[0] = is_seen[1] = false;
  }
  return true;
}

static pjrt_error *collect(walk *self, const pjrt_step *step) {
  size_t count = self->route->device_count;
  edgert_tensor *given[PJRT_MAX_DEVICES], *made[PJRT_MAX_DEVICES];
  if (!groups_are_together(self, step))
    return pjrt_fail(PJRT_FAILED_PRECONDITION,
                     "in %s some of the devices of a collective are in another round of a loop, or "
                     "in another branch: its condition has to be the same on all of them, such as "
                     "one of a sum over them",
                     self->executable->name);
  for (size_t i = 0; i < count; ++i)
    given[i] = self->is_there[i] ? of_device(self, i)[step->inputs[0]] : NULL;
  pjrt_executable *executable = self->executable;
  pjrt_error *failed = NULL;
  if (step->is_native) {
    failed = pjrt_nccl_collect(executable->client, step, executable->devices, count, given, made);
  } else if (executable->is_on_cpus) {
    edgert_device *devices[PJRT_MAX_DEVICES];
    for (size_t i = 0; i < count; ++i) devices[i] = executable->devices[i]->device;
    failed = pjrt_collect(step, devices, count, given, made);
  } else {
    failed = pjrt_collect_copies(step, executable->client->host, executable->devices, count, given,
                                 made);
  }
  for (size_t i = 0; i < count && !failed; ++i) of_device(self, i)[step->outputs[0]] = made[i];
  return failed;
}

/* --- loops and branches ----------------------------------------------------------------------- */

/* What a loop or branch works on: each device's values for its routes, and what these give. */
typedef struct turns {
  edgert_tensor **given, **made;
  size_t given_count, made_count;
} turns;

static void turns_release(turns *self, size_t devices) {
  for (size_t i = 0; i < devices * self->given_count && self->given; ++i)
    edgert_tensor_release(self->given[i]);
  for (size_t i = 0; i < devices * self->made_count && self->made; ++i)
    edgert_tensor_release(self->made[i]);
  free(self->given);
  free(self->made);
}

/* The inputs of the devices that are there, from `first` on. */
static pjrt_error *turns_start(walk *self, const pjrt_step *step, size_t first, turns *out) {
  size_t devices = self->route->device_count, most = step->output_count + 1;
  *out = (turns){.given_count = step->input_count - first, .made_count = most};
  out->given = calloc(devices * out->given_count + 1, sizeof *out->given);
  out->made = calloc(devices * most, sizeof *out->made);
  if (!out->given || !out->made) return pjrt_out_of_memory();
  for (size_t device = 0; device < devices; ++device)
    for (size_t i = 0; i < out->given_count && self->is_there[device]; ++i)
      out->given[device * out->given_count + i] =
          edgert_tensor_retain(of_device(self, device)[step->inputs[first + i]]);
  return NULL;
}

/* A whole number or a truth without axes. */
static pjrt_error *read_number(const walk *self, const edgert_tensor *tensor, int64_t *out) {
  size_t size = tensor ? (size_t)edgert_tensor_size(tensor) : 0;
  uint8_t truth;
  int32_t number;
  edgert_error error;
  if (size != sizeof truth && size != sizeof number)
    return pjrt_fail(PJRT_INTERNAL, "%s has a loop or branch whose condition is no number",
                     self->executable->name);
  void *read = size == sizeof truth ? (void *)&truth : (void *)&number;
  if (edgert_tensor_read(tensor, read, size, &error)) return pjrt_fail_edgert(&error);
  *out = size == sizeof truth ? truth != 0 : number;
  return NULL;
}

/* A round of a loop: which devices go on, and what these carry then. */
static pjrt_error *go_round(walk *self, const pjrt_step *step, turns *turns, bool *goes_on,
                            bool *any) {
  size_t devices = self->route->device_count;
  pjrt_error *failed =
      walk_route(self->executable, step->ways[0], goes_on, turns->given, turns->made);
  *any = false;
  for (size_t i = 0; i < devices && !failed; ++i) {
    if (!goes_on[i]) continue;
    int64_t answer = 0;
    failed = read_number(self, turns->made[i], &answer);
    goes_on[i] = answer != 0;
    *any = *any || goes_on[i];
  }
  for (size_t i = 0; i < devices; ++i) {
    edgert_tensor_release(turns->made[i]);
    turns->made[i] = NULL;
  }
  if (failed || !*any) return failed;
  failed = walk_route(self->executable, step->ways[1], goes_on, turns->given, turns->made);
  for (size_t device = 0; device < devices && !failed; ++device)
    for (size_t i = 0; i < step->output_count && goes_on[device]; ++i) {
      edgert_tensor **carried = &turns->given[device * turns->given_count + i];
      edgert_tensor **next = &turns->made[device * step->output_count + i];
      edgert_tensor_release(*carried);
      *carried = *next;
      *next = NULL;
    }
  return failed;
}

static pjrt_error *repeat(walk *self, const pjrt_step *step) {
  size_t devices = self->route->device_count;
  bool goes_on[PJRT_MAX_DEVICES], any = true;
  memcpy(goes_on, self->is_there, devices * sizeof *goes_on);
  turns turns;
  pjrt_error *failed = turns_start(self, step, 0, &turns);
  while (any && !failed) failed = go_round(self, step, &turns, goes_on, &any);
  for (size_t device = 0; device < devices && !failed; ++device)
    for (size_t i = 0; i < step->output_count && self->is_there[device]; ++i)
      of_device(self, device)[step->outputs[i]] =
          edgert_tensor_retain(turns.given[device * turns.given_count + i]);
  turns_release(&turns, devices);
  return failed;
}

/* The route that a device takes: of true the first, and of a number that there is not the last. */
static pjrt_error *choose(walk *self, const pjrt_step *step, size_t device, size_t *out) {
  int64_t number;
  pjrt_error *failed = read_number(self, of_device(self, device)[step->inputs[0]], &number);
  if (failed) return failed;
  if (step->kind == STEP_IF) number = number ? 0 : 1;
  *out = number < 0 || (uint64_t)number >= step->way_count ? step->way_count - 1 : (size_t)number;
  return NULL;
}

static pjrt_error *branch(walk *self, const pjrt_step *step) {
  size_t devices = self->route->device_count, chosen[PJRT_MAX_DEVICES] = {0};
  turns turns;
  pjrt_error *failed = turns_start(self, step, 1, &turns);
  for (size_t i = 0; i < devices && !failed; ++i)
    if (self->is_there[i]) failed = choose(self, step, i, &chosen[i]);
  for (size_t way = 0; way < step->way_count && !failed; ++way) {
    bool takes_it[PJRT_MAX_DEVICES] = {false}, any = false;
    for (size_t i = 0; i < devices; ++i) {
      takes_it[i] = self->is_there[i] && chosen[i] == way;
      any = any || takes_it[i];
    }
    if (!any) continue;
    failed = walk_route(self->executable, step->ways[way], takes_it, turns.given, turns.made);
    for (size_t device = 0; device < devices && !failed; ++device)
      for (size_t i = 0; i < step->output_count && takes_it[device]; ++i) {
        edgert_tensor **made = &turns.made[device * step->output_count + i];
        of_device(self, device)[step->outputs[i]] = *made;
        *made = NULL;
      }
  }
  turns_release(&turns, devices);
  return failed;
}

/* --- steps ------------------------------------------------------------------------------------ */

static pjrt_error *call(walk *self, const pjrt_step *step) {
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < self->route->device_count && !failed; ++i)
    if (self->is_there[i]) failed = call_part(self, step, i);
  return failed;
}

/* Python is called by each device that is there, or by the first of them for all. */
static pjrt_error *call_python(walk *self, const pjrt_step *step) {
  pjrt_device *devices[PJRT_MAX_DEVICES];
  size_t places[PJRT_MAX_DEVICES], count = 0;
  for (size_t i = 0; i < self->route->device_count; ++i) {
    if (!self->is_there[i]) continue;
    devices[count] = self->executable->devices[i];
    places[count++] = i;
  }
  size_t together = step->is_each ? 1 : count;
  edgert_tensor **given = calloc(step->input_count + 1, sizeof *given);
  edgert_tensor **made = calloc(together * step->output_count + 1, sizeof *made);
  pjrt_error *failed = given && made ? NULL : pjrt_out_of_memory();
  for (size_t first = 0; first < count && !failed; first += together) {
    edgert_tensor **values = of_device(self, places[first]);
    for (size_t i = 0; i < step->input_count; ++i) given[i] = values[step->inputs[i]];
    failed = pjrt_call_python(self->executable->client, step, given, devices + first, together, made);
    for (size_t i = 0; i < together * step->output_count && !failed; ++i)
      of_device(self, places[first + i / step->output_count])[step->outputs[i % step->output_count]] =
          made[i];
  }
  free(given);
  free(made);
  return failed;
}

static pjrt_error *make_step(walk *self, const pjrt_step *step) {
  size_t count = self->route->device_count;
  pjrt_error *failed;
  switch (step->kind) {
    case STEP_CALL: failed = call(self, step); break;
    case STEP_WHILE: failed = repeat(self, step); break;
    case STEP_CASE:
    case STEP_IF: failed = branch(self, step); break;
    case STEP_PYTHON: failed = call_python(self, step); break;
    default: failed = collect(self, step); break;
  }
  for (size_t i = 0; i < step->gone_count && !failed; ++i)
    for (size_t device = 0; device < count; ++device) {
      edgert_tensor **value = &of_device(self, device)[step->gone[i]];
      edgert_tensor_release(*value);
      *value = NULL;
    }
  return failed;
}

/* Results are the caller's, of the devices that are there, `result_count` of each; all or none. */
static pjrt_error *walk_route(pjrt_executable *executable, const pjrt_route *route,
                              const bool *is_there, edgert_tensor *const *inputs,
                              edgert_tensor **results) {
  size_t all = route->device_count * route->value_count;
  walk self = {.executable = executable,
               .route = route,
               .is_there = is_there,
               .values = calloc(all + 1, sizeof *self.values),
               .cells = calloc(route->most_cells + 1, sizeof *self.cells)};
  pjrt_error *failed = self.values && self.cells ? NULL : pjrt_out_of_memory();
  for (size_t device = 0; device < route->device_count && !failed; ++device)
    for (size_t i = 0; i < route->input_count && is_there[device]; ++i)
      of_device(&self, device)[i] = edgert_tensor_retain(inputs[device * route->input_count + i]);
  for (size_t i = 0; i < route->step_count && !failed; ++i)
    failed = make_step(&self, &route->steps[i]);
  for (size_t device = 0; device < route->device_count && !failed; ++device)
    for (size_t i = 0; i < route->result_count && is_there[device]; ++i)
      results[device * route->result_count + i] =
          edgert_tensor_retain(of_device(&self, device)[route->results[i]]);
  for (size_t i = 0; i < all && self.values; ++i) edgert_tensor_release(self.values[i]);
  free(self.values);
  free(self.cells);
  return failed;
}

/* Wait for what each device gives, looking at all in turns: should one fail, the others may wait for it
 * in a collective, and are let go. */
static pjrt_error *wait_for_all(pjrt_executable *executable, edgert_tensor *const *results,
                                size_t count) {
  size_t done = 0;
  edgert_error error;
  for (uint64_t milliseconds = 0; done < count; milliseconds = WALK_TURN) {
    done = 0;
    for (size_t i = 0; i < count; ++i) {
      edgert_status status = edgert_tensor_wait(results[i], milliseconds, &error);
      done += status == EDGERT_OK;
      if (status == EDGERT_OK || status == EDGERT_TIMED_OUT) continue;
      pjrt_error *failed = pjrt_fail_edgert(&error);
      pjrt_nccl_abort(executable->client);
      return failed;
    }
  }
  return NULL;
}

pjrt_error *pjrt_walk(pjrt_executable *executable, const edgert_value *inputs,
                      edgert_value *results) {
  const pjrt_route *route = executable->route;
  size_t taken = route->device_count * route->input_count;
  size_t given = route->device_count * route->result_count;
  bool is_there[PJRT_MAX_DEVICES];
  for (size_t i = 0; i < route->device_count; ++i) is_there[i] = true;
  edgert_tensor **tensors = calloc(taken + given + 1, sizeof *tensors);
  if (!tensors) return pjrt_out_of_memory();
  for (size_t i = 0; i < taken; ++i) tensors[i] = inputs[i].as.tensor;
  pjrt_error *failed = walk_route(executable, route, is_there, tensors, tensors + taken);
  if (!failed && !executable->is_on_cpus) {
    failed = wait_for_all(executable, tensors + taken, given);
    for (size_t i = 0; i < given && failed; ++i) edgert_tensor_release(tensors[taken + i]);
  }
  for (size_t i = 0; i < given && !failed; ++i)
    results[i] = (edgert_value){.kind = EDGERT_TENSOR, .as = {.tensor = tensors[taken + i]}};
  free(tensors);
  return failed;
}
