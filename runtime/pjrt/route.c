/* A route's numbers, as the compiler's process or a file gives them, to steps; nothing is believed.
 *
 * How many devices there are, and then the route: values, arguments, results and steps, each a count;
 * the values that are results; then each step: its kind, and of a call the function's place among the
 * names, whether it is numbered, how many values it takes and gives, and these; of a collective the
 * value that it takes and the one that it gives, PJRT's type of the elements, what it reduces by, and
 * the groups: how many, and of each how many devices, and which; of a loop or branch how many values it
 * takes and gives and how many routes it has, the values, and the routes one after the other; of Python
 * its number, whether each device calls it, how many values it takes and gives, these, and of each that
 * it gives PJRT's type, the rank and the sizes.
 */
#include <stdlib.h>
#include <string.h>

#include "route.h"

#define ROUTE_MOST ((uint64_t)1 << 24) /* of anything */
#define ROUTE_DEPTH 64                 /* of loops within loops */

typedef struct numbers {
  const char *at;
  size_t left;
  bool is_broken;
  pjrt_error *failed; /* other than for what the numbers say */
} numbers;

/* The functions that calls name. */
typedef struct callees {
  const size_t *functions;
  size_t count;
} callees;

static pjrt_route *read_route(numbers *from, const callees *callees, size_t devices, size_t depth);

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

static void read_call(numbers *from, const pjrt_route *route, const callees *callees,
                      pjrt_step *step, size_t **room) {
  size_t place = next(from, callees->count);
  if (!from->is_broken) step->function = callees->functions[place];
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

/* Whether a route takes and gives as many values as its loop or branch does. */
static bool way_fits(const pjrt_step *step, size_t place) {
  const pjrt_route *way = step->ways[place];
  bool is_loop = step->kind == STEP_WHILE;
  size_t taken = is_loop ? step->input_count : step->input_count - 1;
  size_t given = is_loop && place == 0 ? 1 : step->output_count;
  return way->input_count == taken && way->result_count == given;
}

static void read_ways(numbers *from, const pjrt_route *route, const callees *callees,
                      pjrt_step *step, size_t depth, size_t **room) {
  bool is_case = step->kind == STEP_CASE;
  step->input_count = next(from, ROUTE_MOST);
  step->output_count = next(from, ROUTE_MOST);
  size_t count = next(from, is_case ? (uint64_t)from->left + 1 : 3);
  if (count < (is_case ? 1 : 2) || depth + 1 >= ROUTE_DEPTH ||
      step->input_count < (step->kind == STEP_WHILE ? step->output_count : 1))
    from->is_broken = true;
  step->inputs = take_values(from, step->input_count, route->value_count, room);
  step->outputs = take_values(from, step->output_count, route->value_count, room);
  step->ways = from->is_broken ? NULL : calloc(count, sizeof *step->ways);
  if (!from->is_broken && !step->ways && !from->failed) from->failed = pjrt_out_of_memory();
  for (size_t i = 0; i < count && step->ways && !from->is_broken; ++i) {
    step->ways[i] = read_route(from, callees, route->device_count, depth + 1);
    if (!step->ways[i]) break;
    step->way_count = i + 1;
    if (!way_fits(step, i)) from->is_broken = true;
  }
  if (step->way_count != count) from->is_broken = true;
}

static void read_python(numbers *from, const pjrt_route *route, pjrt_step *step, size_t **room) {
  step->number = (int64_t)next(from, INT64_MAX);
  step->is_each = next(from, 2) != 0;
  step->input_count = next(from, ROUTE_MOST);
  step->output_count = next(from, ROUTE_MOST);
  step->inputs = take_values(from, step->input_count, route->value_count, room);
  step->outputs = take_values(from, step->output_count, route->value_count, room);
  step->arrays = from->is_broken ? NULL : calloc(step->output_count + 1, sizeof *step->arrays);
  if (!from->is_broken && !step->arrays && !from->failed) from->failed = pjrt_out_of_memory();
  for (size_t i = 0; i < step->output_count && step->arrays && !from->is_broken; ++i) {
    pjrt_array *array = &step->arrays[i];
    array->type = pjrt_type_to_edgert((pjrt_type)next(from, PJRT_C128 + 1));
    array->rank = next(from, EDGERT_MAX_RANK + 1);
    if (!array->type) from->is_broken = true;
    for (size_t j = 0; j < array->rank && !from->is_broken; ++j)
      array->shape[j] = (int64_t)next(from, (uint64_t)1 << 40);
  }
  if (!step->arrays) from->is_broken = true;
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

/* Keep no more memory than the lists take: within a loop it was as much as all that came after. */
static void shrink(pjrt_route *route, size_t used) {
  size_t *numbers = malloc((used + 1) * sizeof *numbers), *old = route->numbers;
  if (!numbers) return;
  if (used) memcpy(numbers, old, used * sizeof *numbers);
  route->results = numbers + (route->results - old);
  for (size_t i = 0; i < route->step_count; ++i) {
    pjrt_step *step = &route->steps[i];
    step->inputs = numbers + (step->inputs - old);
    step->outputs = numbers + (step->outputs - old);
    step->gone = numbers + (step->gone - old);
  }
  route->numbers = numbers;
  free(old);
}

static bool fill(pjrt_route *route, numbers *from, const callees *callees, size_t depth,
                 bool *is_made, bool *is_needed) {
  size_t *room = route->numbers;
  for (size_t i = 0; i < route->input_count; ++i) is_made[i] = true;
  route->results = take_values(from, route->result_count, route->value_count, &room);
  for (size_t i = 0; i < route->step_count && !from->is_broken; ++i) {
    pjrt_step *step = &route->steps[i];
    step->kind = (pjrt_step_kind)next(from, STEP_KIND_COUNT);
    if (step->kind == STEP_CALL)
      read_call(from, route, callees, step, &room);
    else if (step->kind == STEP_PYTHON)
      read_python(from, route, step, &room);
    else if (step->kind >= STEP_WHILE)
      read_ways(from, route, callees, step, depth, &room);
    else
      read_collective(from, route, step, &room);
    if (from->is_broken || !comes_in_order(step, is_made)) return false;
    size_t cells = step->input_count + step->is_numbered + step->output_count;
    if (cells > route->most_cells) route->most_cells = cells;
  }
  if (from->is_broken) return false;
  for (size_t i = 0; i < route->result_count; ++i) {
    if (!is_made[route->results[i]]) return false;
    is_needed[route->results[i]] = true;
  }
  find_gone(route, is_needed, &room);
  shrink(route, (size_t)(room - route->numbers));
  return true;
}

void pjrt_route_free(pjrt_route *route) {
  if (!route) return;
  for (size_t i = 0; i < route->step_count && route->steps; ++i) {
    for (size_t j = 0; j < route->steps[i].way_count; ++j) pjrt_route_free(route->steps[i].ways[j]);
    free(route->steps[i].ways);
    free(route->steps[i].arrays);
  }
  free(route->numbers);
  free(route->steps);
  free(route);
}

/* The next route; NULL: the numbers are broken, or there is no memory. */
static pjrt_route *read_route(numbers *from, const callees *callees, size_t devices, size_t depth) {
  size_t all = from->left;
  pjrt_route *route = calloc(1, sizeof *route);
  if (!route) {
    if (!from->failed) from->failed = pjrt_out_of_memory();
    return NULL;
  }
  route->device_count = devices;
  route->value_count = next(from, ROUTE_MOST);
  route->input_count = next(from, (uint64_t)route->value_count + 1);
  route->result_count = next(from, ROUTE_MOST);
  route->step_count = next(from, (uint64_t)all + 1);
  /* A value comes from an argument or a step and goes once: each list is within the numbers. */
  route->numbers = calloc(2 * all + route->value_count + 1, sizeof *route->numbers);
  route->steps = calloc(route->step_count + 1, sizeof *route->steps);
  bool *flags = calloc(2 * route->value_count + 1, sizeof *flags);
  bool is_there = route->numbers && route->steps && flags;
  if (!is_there && !from->failed) from->failed = pjrt_out_of_memory();
  if (is_there && !from->is_broken &&
      !fill(route, from, callees, depth, flags, flags + route->value_count))
    from->is_broken = true;
  free(flags);
  if (is_there && !from->is_broken && !from->failed) return route;
  pjrt_route_free(route);
  return NULL;
}

pjrt_error *pjrt_route_read(const pjrt_part *part, const size_t *functions, size_t function_count,
                            pjrt_route **out) {
  numbers from = {part->data, part->size / sizeof(int64_t), part->size % sizeof(int64_t) != 0, NULL};
  callees callees = {functions, function_count};
  size_t devices = next(&from, PJRT_MAX_DEVICES + 1);
  if (!devices) from.is_broken = true;
  *out = from.is_broken ? NULL : read_route(&from, &callees, devices, 0);
  if (*out && !from.left) return NULL;
  pjrt_route_free(*out);
  *out = NULL;
  return from.failed ? from.failed
                     : pjrt_fail(PJRT_INTERNAL, "what several devices do in this program is damaged");
}

size_t pjrt_route_inputs(const pjrt_route *route) { return route->input_count; }

size_t pjrt_route_results(const pjrt_route *route) { return route->result_count; }

bool pjrt_route_calls_python(const pjrt_route *route) {
  for (size_t i = 0; i < route->step_count; ++i) {
    const pjrt_step *step = &route->steps[i];
    if (step->kind == STEP_PYTHON) return true;
    for (size_t j = 0; j < step->way_count; ++j)
      if (pjrt_route_calls_python(step->ways[j])) return true;
  }
  return false;
}
