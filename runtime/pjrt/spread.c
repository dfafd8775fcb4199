/* An executable for several devices: its route's calls found in the module, and each device's number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"
#include "route.h"

/* The module's functions of these names, a line each. */
static pjrt_error *find_functions(const pjrt_executable *self, const char *names,
                                  size_t **out_functions, size_t *out_count) {
  size_t count = 0;
  edgert_error error;
  *out_functions = calloc(strlen(names) + 1, sizeof **out_functions);
  char *text = strdup(names), *rest;
  pjrt_error *failed = *out_functions && text ? NULL : pjrt_out_of_memory();
  for (char *name = failed ? NULL : strtok_r(text, "\n", &rest); name && !failed;
       name = strtok_r(NULL, "\n", &rest)) {
    if (!self->module)
      failed = pjrt_fail(PJRT_INTERNAL, "%s has no module with %s", self->name, name);
    else if (edgert_module_find(self->module, name, &(*out_functions)[count++], &error))
      failed = pjrt_fail_edgert(&error);
  }
  free(text);
  *out_count = count;
  return failed;
}

/* Whether each call gives and takes as much as its function does. */
static pjrt_error *check_calls(const pjrt_executable *self, const pjrt_route *route) {
  for (size_t i = 0; i < route->step_count; ++i) {
    const pjrt_step *step = &route->steps[i];
    for (size_t j = 0; j < step->way_count; ++j) {
      pjrt_error *failed = check_calls(self, step->ways[j]);
      if (failed) return failed;
    }
    if (step->kind != STEP_CALL) continue;
    if (step->input_count + step->is_numbered !=
            edgert_module_input_count(self->module, step->function) ||
        step->output_count != edgert_module_output_count(self->module, step->function))
      return pjrt_fail(PJRT_INTERNAL, "%s calls %s with other arguments than it takes", self->name,
                       edgert_module_function_name(self->module, step->function));
  }
  return NULL;
}

static pjrt_error *number_devices(pjrt_executable *self) {
  pjrt_error *failed = NULL;
  for (uint32_t i = 0; i < self->device_count && !failed; ++i)
    failed = pjrt_tensor_make(self->devices[i]->device, EDGERT_U32, 0, NULL, &i, sizeof i,
                              &self->numbers[i]);
  return failed;
}

static bool is_collective(const pjrt_step *step) {
  return step->kind != STEP_CALL && step->kind != STEP_PYTHON && !step->way_count;
}

/* Whether devices say anything to each other. */
static bool has_collectives(const pjrt_route *route) {
  for (size_t i = 0; i < route->step_count; ++i) {
    const pjrt_step *step = &route->steps[i];
    if (is_collective(step)) return true;
    for (size_t j = 0; j < step->way_count; ++j)
      if (has_collectives(step->ways[j])) return true;
  }
  return false;
}

/* How GPUs carry out the collectives of a route: among themselves where NCCL does. */
static pjrt_error *join(pjrt_executable *self, pjrt_route *route) {
  pjrt_error *failed = NULL;
  for (size_t i = 0; i < route->step_count && !failed; ++i) {
    pjrt_step *step = &route->steps[i];
    const char *why;
    for (size_t j = 0; j < step->way_count && !failed; ++j) failed = join(self, step->ways[j]);
    if (!is_collective(step) || failed) continue;
    if (pjrt_nccl_takes(step, &why))
      failed = pjrt_nccl_join(self->client, self->devices, self->device_count, step);
    else
      fprintf(stderr, "edgec: a collective of %s goes through the host's memory: NCCL %s\n",
              self->name, why);
  }
  return failed;
}

static pjrt_error *find_ways_to_speak(pjrt_executable *self) {
  pjrt_client *client = self->client;
  edgert_error error;
  edgert_status status = EDGERT_OK;
  self->is_on_cpus = !strcmp(self->device->driver, "cpu");
  if (self->is_on_cpus || !has_collectives(self->route)) return NULL;
  pthread_mutex_lock(&client->speaking);
  if (!client->host) status = edgert_device_create("cpu", NULL, &client->host, &error);
  pthread_mutex_unlock(&client->speaking);
  if (status) return pjrt_fail_edgert(&error);
  if (!pjrt_nccl_is_for(client, self->devices, self->device_count)) return NULL;
  return join(self, self->route);
}

pjrt_error *pjrt_spread_load(pjrt_executable *executable, const pjrt_made *made) {
  size_t *functions, count;
  pjrt_error *failed = find_functions(executable, made->function, &functions, &count);
  if (!failed) failed = pjrt_route_read(&made->route, functions, count, &executable->route);
  free(functions);
  if (!failed && executable->route->device_count != executable->device_count)
    failed = pjrt_fail(PJRT_INTERNAL, "%s is for %zu devices, and %zu are given", executable->name,
                       executable->route->device_count, executable->device_count);
  if (!failed) failed = check_calls(executable, executable->route);
  if (!failed) failed = pjrt_part_keep(&executable->route_bytes, &made->route);
  if (!failed) failed = find_ways_to_speak(executable);
  return failed ? failed : number_devices(executable);
}
