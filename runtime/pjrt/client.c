/* The client: which devices there are, and the compiler that serves them.
 *
 * Its options are `devices` (drivers of edgert's, with commas between: "cpu,cuda,cuda", or with a
 * device's number: "cuda:1"; without it `$EDGEC_JAX_DEVICES`, or "cpu"), `compiler` (the command of the
 * process that compiles, a word a line; without it `python3 -m edgec.plugins.pjrt.server`, of the
 * `python3` that the system finds), `refused` ("xla": what edgec refuses, XLA's CPU runs in that
 * process), and `nccl` (where NVIDIA's library of collectives may be, a file a line).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

#define PJRT_NAME "edgec"
#define CLIENT_COMPILER "python3\n-m\nedgec.plugins.pjrt.server"

static pjrt_error *client_option(const client_create_args *args, const char *name,
                                 const char *otherwise, char **out) {
  *out = NULL;
  for (size_t i = 0; i < args->num_options; ++i) {
    const pjrt_named_value *value = &args->options[i];
    if (value->name_size != strlen(name) || memcmp(value->name, name, value->name_size)) continue;
    if (value->type != PJRT_STRING)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "the option %s must be a text", name);
    *out = malloc(value->value_size + 1);
    if (!*out) return pjrt_out_of_memory();
    memcpy(*out, value->as.string, value->value_size);
    (*out)[value->value_size] = 0;
    return NULL;
  }
  *out = strdup(otherwise);
  return *out ? NULL : pjrt_out_of_memory();
}

/* `driver`, or `driver:number`. */
static pjrt_error *client_open_device(pjrt_client *client, char *driver) {
  if (client->device_count == PJRT_MAX_DEVICES)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "more than %d devices", PJRT_MAX_DEVICES);
  int id = (int)client->device_count;
  pjrt_device *device = &client->devices[id];
  edgert_error error;
  char *number = strchr(driver, ':');
  if (number) *number++ = 0;
  if (strlen(driver) >= sizeof device->driver)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device %s", driver);
  /* A driver that is named again opens its next device; CPUs are all the same one. */
  edgert_device_options options = {.size = sizeof options};
  for (int i = 0; i < id && strcmp(driver, "cpu") && !number; ++i)
    options.index += !strcmp(client->devices[i].driver, driver);
  if (number) options.index = (uint32_t)strtoul(number, NULL, 10);
  if (edgert_device_create(driver, &options, &device->device, &error))
    return pjrt_fail(PJRT_UNAVAILABLE,
                     "the device %s cannot be opened: edgert: %s; name devices of this machine in "
                     "EDGEC_JAX_DEVICES",
                     driver, error.message);
  pjrt_queue_start(&device->queue);
  device->client = client;
  device->id = id;
  device->memory.device = device;
  device->memories[0] = &device->memory;
  snprintf(device->driver, sizeof device->driver, "%s", driver);
  int64_t capability;
  if (edgert_device_query(device->device, "hal.cuda", "compute_capability", &capability))
    snprintf(device->what, sizeof device->what, "%s:%d", driver, (int)capability);
  else
    snprintf(device->what, sizeof device->what, "%s", driver);
  snprintf(device->kind, sizeof device->kind, "%s", edgert_device_name(device->device));
  snprintf(device->text, sizeof device->text, PJRT_NAME "(id=%d, %s)", id, driver);
  snprintf(device->memory.text, sizeof device->memory.text, PJRT_NAME "(id=%d, %s).memory", id,
           driver);
  client->device_list[id] = device;
  client->memory_list[id] = &device->memory;
  ++client->device_count;
  return NULL;
}

static void client_free(pjrt_client *client) {
  for (size_t i = 0; i < client->device_count; ++i) pjrt_queue_stop(&client->devices[i].queue);
  pjrt_nccl_stop(client);
  for (size_t i = 0; i < client->device_count; ++i)
    edgert_device_release(client->devices[i].device);
  edgert_device_release(client->host);
  pjrt_compiler_stop(&client->compiler); /* which calls may have needed */
  pthread_mutex_destroy(&client->compiler.lock);
  pthread_mutex_destroy(&client->speaking);
  free(client->nccl_files);
  free(client->compiler.command);
  free(client->refused);
  free(client);
}

/* The function's address, as a text; the caller is in this very process. */
static pjrt_error *client_open_python(pjrt_client *client, const client_create_args *args) {
  char *text;
  pjrt_error *failed = client_option(args, "python", "0", &text);
  if (failed) return failed;
  uintptr_t address = (uintptr_t)strtoull(text, NULL, 10);
  memcpy(&client->python, &address, sizeof address);
  free(text);
  return NULL;
}

static pjrt_error *client_fill(pjrt_client *client, const client_create_args *args) {
  char *devices;
  const char *named = getenv("EDGEC_JAX_DEVICES");
  pjrt_error *failed =
      client_option(args, "compiler", CLIENT_COMPILER, &client->compiler.command);
  if (failed) return failed;
  snprintf(client->version, sizeof client->version, "edgert ABI %u", (unsigned)edgert_abi());
  failed = client_option(args, "refused", "error", &client->refused);
  if (failed) return failed;
  failed = client_open_python(client, args);
  if (failed) return failed;
  failed = client_option(args, "nccl", "libnccl.so.2", &client->nccl_files);
  if (failed) return failed;
  failed = client_option(args, "devices", named ? named : "cpu", &devices);
  if (failed) return failed;
  char *rest;
  for (char *driver = strtok_r(devices, ",", &rest); driver && !failed;
       driver = strtok_r(NULL, ",", &rest))
    failed = client_open_device(client, driver);
  free(devices);
  if (failed) return failed;
  if (!client->device_count) return pjrt_fail(PJRT_INVALID_ARGUMENT, "no devices are named");
  return pjrt_compiler_start(&client->compiler);
}

pjrt_error *pjrt_client_create(client_create_args *args) {
  if (args->size < sizeof *args)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "the caller speaks an older PJRT than %d.%d, which edgec's plugin speaks",
                     PJRT_MAJOR, PJRT_MINOR);
  args->client = NULL;
  pjrt_client *client = calloc(1, sizeof *client);
  if (!client) return pjrt_out_of_memory();
  pthread_mutex_init(&client->compiler.lock, NULL);
  pthread_mutex_init(&client->speaking, NULL);
  client->compiler.jobs = client->compiler.answers = -1;
  pjrt_error *failed = client_fill(client, args);
  if (failed) {
    client_free(client);
    return failed;
  }
  args->client = client;
  return NULL;
}

pjrt_error *pjrt_client_destroy(client_destroy_args *args) {
  if (args->client) client_free(args->client);
  return NULL;
}

pjrt_error *pjrt_client_platform_name(client_platform_name_args *args) {
  args->name = PJRT_NAME;
  args->name_size = strlen(PJRT_NAME);
  return NULL;
}

pjrt_error *pjrt_client_platform_version(client_platform_version_args *args) {
  args->version = args->client->version;
  args->version_size = strlen(args->version);
  return NULL;
}

pjrt_error *pjrt_client_process_index(client_process_index_args *args) {
  args->process_index = 0;
  return NULL;
}

pjrt_error *pjrt_client_devices(client_devices_args *args) {
  args->devices = args->client->device_list;
  args->num_devices = args->client->device_count;
  return NULL;
}

pjrt_error *pjrt_client_addressable_devices(client_addressable_devices_args *args) {
  args->devices = args->client->device_list;
  args->num_devices = args->client->device_count;
  return NULL;
}

static pjrt_error *client_find(pjrt_client *client, int id, pjrt_device **out_device) {
  *out_device = NULL;
  if (id < 0 || (size_t)id >= client->device_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device %d: they are 0 to %d", id,
                     (int)client->device_count - 1);
  *out_device = client->device_list[id];
  return NULL;
}

pjrt_error *pjrt_client_lookup_device(client_lookup_device_args *args) {
  return client_find(args->client, args->id, &args->device);
}

pjrt_error *pjrt_client_lookup_addressable_device(client_lookup_addressable_device_args *args) {
  return client_find(args->client, args->id, &args->device);
}

pjrt_error *pjrt_client_addressable_memories(client_addressable_memories_args *args) {
  args->memories = args->client->memory_list;
  args->num_memories = args->client->device_count;
  return NULL;
}

pjrt_error *pjrt_client_default_device_assignment(client_default_device_assignment_args *args) {
  size_t count = (size_t)args->num_replicas * (size_t)args->num_partitions;
  if (count > args->client->device_count || count > args->assignment_size)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu devices are asked for, and there are %zu", count,
                     args->client->device_count);
  for (size_t i = 0; i < count; ++i) args->assignment[i] = (int)i;
  return NULL;
}

/* --- topology: the client, seen as a list of devices ------------------------------------------ */

pjrt_error *pjrt_client_topology(client_topology_args *args) {
  args->topology = (pjrt_topology *)args->client;
  return NULL;
}

pjrt_error *pjrt_topology_destroy(topology_destroy_args *args) {
  (void)args; /* the client's own */
  return NULL;
}

pjrt_error *pjrt_topology_platform_name(topology_platform_name_args *args) {
  args->name = PJRT_NAME;
  args->name_size = strlen(PJRT_NAME);
  return NULL;
}

pjrt_error *pjrt_topology_platform_version(topology_platform_version_args *args) {
  args->version = ((pjrt_client *)args->topology)->version;
  args->version_size = strlen(args->version);
  return NULL;
}

pjrt_error *pjrt_topology_device_descriptions(topology_device_descriptions_args *args) {
  pjrt_client *client = (pjrt_client *)args->topology;
  args->descriptions = client->device_list;
  args->num_descriptions = client->device_count;
  return NULL;
}

pjrt_error *pjrt_topology_attributes(topology_attributes_args *args) {
  args->attributes = NULL;
  args->num_attributes = 0;
  return NULL;
}
