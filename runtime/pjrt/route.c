/* A route's numbers, as the compiler's process or a file gives them, to steps; nothing is believed.
 *
 * Devices, values, arguments, results and steps, each a count; the values that are results; then each
 * step: its kind, and of a call the function's place among the names, whether it is numbered, how many
 * values it takes and gives, and these; of a collective the value that it takes and the one that it
 * gives, PJRT's type of the elements, what it reduces by, and the groups: how many, and of each how many
 * devices, and which.
 */
#include <stdlib.h>
#include <string.h>

#include "route.h"

#define ROUTE_MOST ((uint64_t)1 << 24) /* of anything */

typedef struct numbers {
  const char *at;
  size_t left;
  bool is_broken;
} numbers;

/* The next number, which is below `end`; 0 where it is not, and all is broken. */
static size_t next(numbers *self, uint64_t end) {
  int64_t value = -1;
  if (!self->is_broken && self->left) {
    memcpy(&value, self->at, sizeof value);
    self->at += sizeof value;
    --self->left;
  }
  self->is_broken = self->is_broken || value < 0 || (uint64_t)value >= end;
  return self->is_broken ? 0 : (size_t)value;
}

/* A list of values in memory that the numbers fill: there are no more of them than numbers. */
static size_t *take_values(numbers *from, size_t count, size_t end, size_t **room) {
  size_t *list = *room;
  if (count > from->left) from->is_broken = true;
  for (size_t i = 0; i < count && !from->is_broken; ++i) list[i] = next(from, end);
  if (!from->is_broken) *room = list + count;
  return list;
}

static void read_call(numbers *from, const pjrt_route *route, const size_t *functions,
                      size_t function_count, pjrt_step *step, size_t **room) {
  size_t place = next(from, function_count);
  if (!from->is_broken) step->function = functions[place];
  step->is_numbered = next(from, 2) != 0;
  step->input_count = next(from, ROUTE_MOST);
  step->output_count = next(from, ROUTE_MOST);
  step->inputs = take_values(from, step->input_count, route->value_count, room);
  step->outputs = take_values(from, step->output_count, route->value_count, room);
}

/* Every device is in one group; of a permutation at most once a target. */
static bool groups_are_whole(const pjrt_step *step, size_t device_count) {
  size_t seen = 0;
  bool is_seen[PJRT_MAX_DEVICES] = {false};
  for (size_t i = 0; i < step->group_count; ++i) {
    const pjrt_group *group = &step->groups[i];
    bool is_pair = step->kind == STEP_PERMUTE;
    if (!group->count || (is_pair && group->count != 2)) return false;
    for (size_t j = is_pair ? 1 : 0; j < group->count; ++j) {
      if (is_seen[group->devices[j]]) return false;
      is_seen[group->devices[j]] = true;
      ++seen;
    }
  }
  return step->kind == STEP_PERMUTE || seen == device_count;
}

static void read_collective(numbers *from, const pjrt_route *route, pjrt_step *step,
                            size_t **room) {
  step->input_count = step->output_count = 1;
  step->inputs = take_values(from, 1, route->value_count, room);
  step->outputs = take_values(from, 1, route->value_count, room);
  step->type = pjrt_type_to_edgert((pjrt_type)next(from, PJRT_C128 + 1));
  if (!step->type) from->is_broken = true;
  step->reduction = (pjrt_reduction)next(from, REDUCTION_COUNT);
  step->group_count = next(from, PJRT_MAX_DEVICES + 1);
  for (size_t i = 0; i < step->group_count; ++i) {
    pjrt_group *group = &step->groups[i];
    group->count = next(from, PJRT_MAX_DEVICES + 1);
    for (size_t j = 0; j < group->count; ++j) group->devices[j] = next(from, route->device_count);
  }
  if (!from->is_broken && !groups_are_whole(step, route->device_count)) from->is_broken = true;
}

/* Whether a step uses only what is there, and makes only what is not; notes what it makes. */
static bool comes_in_order(const pjrt_step *step, bool *is_made) {
  for (size_t i = 0; i < step->input_count; ++i)
    if (!is_made[step->inputs[i]]) return false;
  for (size_t i = 0; i < step->output_count; ++i) {
    if (is_made[step->outputs[i]]) return false;
    is_made[step->outputs[i]] = true;
  }
  return true;
}

/* Which values are needed no more behind each step; `is_needed` has the results. */
static void find_gone(pjrt_route *route, bool *is_needed, size_t **room) {
  for (size_t at = route->step_count; at-- > 0;) {
    pjrt_step *step = &route->steps[at];
    step->gone = *room;
    for (size_t list = 0; list < 2; ++list) {
      const size_t *values = list ? step->outputs : step->inputs;
      size_t count = list ? step->output_count : step->input_count;
      for (size_t i = 0; i < count; ++i) {
        if (is_needed[values[i]]) continue;
        is_needed[values[i]] = true;
        step->gone[step->gone_count++] = values[i];
      }
    }
    *room += step->gone_count;
  }
}

static bool fill(pjrt_route *route, numbers *from, const size_t *functions, size_t function_count,
                 bool *is_made, bool *is_needed) {
  size_t *room = route->numbers;
  for (size_t i = 0; i < route->input_count; ++i) is_made[i] = true;
  route->results = take_values(from, route->result_count, route->value_count, &room);
  for (size_t i = 0; i < route->step_count && !from->is_broken; ++i) {
    pjrt_step *step = &route->steps[i];
    step->kind = (pjrt_step_kind)next(from, STEP_KIND_COUNT);
    if (step->kind == STEP_CALL)
      read_call(from, route, functions, function_count, step, &room);
    else
      read_collective(from, route, step, &room);
    if (from->is_broken || !comes_in_order(step, is_made)) return false;
    size_t cells = step->input_count + step->is_numbered + step->output_count;
    if (cells > route->most_cells) route->most_cells = cells;
  }
  if (from->is_broken || from->left) return false;
  for (size_t i = 0; i < route->result_count; ++i) {
    if (!is_made[route->results[i]]) return false;
    is_needed[route->results[i]] = true;
  }
  find_gone(route, is_needed, &room);
  return true;
}

void pjrt_route_free(pjrt_route *route) {
  if (!route) return;
  free(route->numbers);
  free(route->steps);
  free(route);
}

pjrt_error *pjrt_route_read(const pjrt_part *part, const size_t *functions, size_t function_count,
                            pjrt_route **out) {
  *out = NULL;
  numbers from = {part->data, part->size / sizeof(int64_t), part->size % sizeof(int64_t) != 0};
  size_t all = from.left;
  pjrt_route *route = calloc(1, sizeof *route);
  if (!route) return pjrt_out_of_memory();
  route->device_count = next(&from, PJRT_MAX_DEVICES + 1);
  route->value_count = next(&from, ROUTE_MOST);
  route->input_count = next(&from, (uint64_t)route->value_count + 1);
  route->result_count = next(&from, ROUTE_MOST);
  route->step_count = next(&from, (uint64_t)all + 1);
  /* A value comes from an argument or a step and goes once: each list is within the numbers. */
  route->numbers = calloc(2 * all + route->value_count + 1, sizeof *route->numbers);
  route->steps = calloc(route->step_count + 1, sizeof *route->steps);
  bool *flags = calloc(2 * route->value_count + 1, sizeof *flags);
  pjrt_error *failed = NULL;
  if (!route->numbers || !route->steps || !flags)
    failed = pjrt_out_of_memory();
  else if (from.is_broken || !route->device_count ||
           !fill(route, &from, functions, function_count, flags, flags + route->value_count))
    failed = pjrt_fail(PJRT_INTERNAL, "what several devices do in this program is damaged");
  free(flags);
  if (failed)
    pjrt_route_free(route);
  else
    *out = route;
  return failed;
}

size_t pjrt_route_inputs(const pjrt_route *route) { return route->input_count; }

size_t pjrt_route_results(const pjrt_route *route) { return route->result_count; }
