/* Executables as bytes, for another process: the module, and what is told of it.
 *
 * A mark, and then parts as `compiler.c` sends them: a size (8 bytes) and the bytes. A module is
 * machine code: take bytes from whom you would run programs of.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define SERIAL_MARK "edgec's executable 3\n"
#define SERIAL_MARK_SIZE (sizeof SERIAL_MARK - 1)

enum {
  SERIAL_WHAT, /* what it was compiled for */
  SERIAL_NAME,
  SERIAL_FINGERPRINT,
  SERIAL_FUNCTION,
  SERIAL_DONATED,
  SERIAL_MODULE, /* empty where devices only speak to each other */
  SERIAL_ROUTE,  /* of several devices */
  SERIAL_OUTPUTS,
  SERIAL_SHARDINGS, /* of several devices */
  SERIAL_COSTS,
  SERIAL_DEVICES, /* how many */
  SERIAL_COUNT
};

/* --- to bytes --------------------------------------------------------------------------------- */

/* All of a file, in memory of its own. */
static pjrt_error *read_file(const char *path, pjrt_part *out) {
  *out = (pjrt_part){0};
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file && !fseek(file, 0, SEEK_END)) size = ftell(file);
  char *data = size >= 0 ? malloc((size_t)size + 1) : NULL;
  bool is_read = data && !fseek(file, 0, SEEK_SET) && fread(data, 1, (size_t)size, file) == (size_t)size;
  if (file) fclose(file);
  if (is_read) {
    *out = (pjrt_part){data, (size_t)size};
    return NULL;
  }
  free(data);
  return pjrt_fail(PJRT_NOT_FOUND, "edgec's cache has no module of this program any more: %s",
                   path);
}

static pjrt_part text(const char *value) {
  return (pjrt_part){value, strlen(value) + 1}; /* with its end, so that it can be read in place */
}

pjrt_error *pjrt_executable_serialize(executable_serialize_args *args) {
  pjrt_executable *self = args->executable;
  args->bytes = NULL;
  args->serialized = NULL;
  if (self->elsewhere)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "%s was refused by edgec and runs on XLA's CPU in the process that compiles: "
                     "it has no module to keep",
                     self->name);
  if (self->route && pjrt_route_calls_python(self->route))
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "%s calls Python of this process, which bytes do not hold: leave the callback "
                     "out",
                     self->name);
  uint64_t devices = self->device_count;
  pjrt_part module = self->bytes, file = {0};
  pjrt_error *failed = self->path ? read_file(self->path, &file) : NULL;
  if (failed) return failed;
  if (self->path) module = file;
  const pjrt_part parts[SERIAL_COUNT] = {
      [SERIAL_WHAT] = text(self->device->what), [SERIAL_NAME] = text(self->name),
      [SERIAL_FINGERPRINT] = text(self->fingerprint),
      [SERIAL_FUNCTION] = text(self->function_name),
      [SERIAL_DONATED] = {self->donated, self->input_count}, [SERIAL_MODULE] = module,
      [SERIAL_ROUTE] = self->route_bytes, [SERIAL_OUTPUTS] = self->outputs_bytes,
      [SERIAL_COSTS] = self->costs_bytes,
      [SERIAL_SHARDINGS] = {self->sharding_bytes, self->sharding_bytes_size},
      [SERIAL_DEVICES] = {&devices, sizeof devices}};
  size_t size = SERIAL_MARK_SIZE;
  for (int i = 0; i < SERIAL_COUNT; ++i) size += sizeof(uint64_t) + parts[i].size;
  char *bytes = malloc(size), *at = bytes;
  if (bytes) {
    memcpy(at, SERIAL_MARK, SERIAL_MARK_SIZE);
    at += SERIAL_MARK_SIZE;
    for (int i = 0; i < SERIAL_COUNT; ++i) {
      uint64_t count = parts[i].size;
      memcpy(at, &count, sizeof count);
      if (count) memcpy(at + sizeof count, parts[i].data, parts[i].size);
      at += sizeof count + parts[i].size;
    }
  }
  free((void *)(uintptr_t)file.data);
  if (!bytes) return pjrt_out_of_memory();
  args->bytes = args->serialized = bytes;
  args->bytes_size = size;
  args->deleter = free;
  return NULL;
}

/* --- from bytes ------------------------------------------------------------------------------- */

/* The parts, in place; false: the bytes are no executable of this plugin's. */
static bool read_parts(const char *bytes, size_t size, pjrt_part *parts) {
  if (size < SERIAL_MARK_SIZE || memcmp(bytes, SERIAL_MARK, SERIAL_MARK_SIZE)) return false;
  size_t at = SERIAL_MARK_SIZE;
  for (int i = 0; i < SERIAL_COUNT; ++i) {
    uint64_t count;
    if (size - at < sizeof count) return false;
    memcpy(&count, bytes + at, sizeof count);
    at += sizeof count;
    if (count > size - at) return false;
    parts[i] = (pjrt_part){bytes + at, (size_t)count};
    bool is_text = i <= SERIAL_FUNCTION;
    if (is_text && (!count || bytes[at + count - 1])) return false;
    at += (size_t)count;
  }
  return at == size;
}

pjrt_error *pjrt_executable_deserialize_and_load(executable_deserialize_and_load_args *args) {
  pjrt_part parts[SERIAL_COUNT];
  args->executable = NULL;
  if (!read_parts(args->bytes, args->bytes_size, parts))
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "these bytes are no executable of this version of edgec's: compile it anew");
  uint64_t count = 0;
  if (parts[SERIAL_DEVICES].size == sizeof count)
    memcpy(&count, parts[SERIAL_DEVICES].data, sizeof count);
  pjrt_place place = {.count = (size_t)count};
  if (!count || count > args->client->device_count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the executable is for %d devices, and there are %zu",
                     (int)count, args->client->device_count);
  memcpy(place.devices, args->client->device_list, place.count * sizeof *place.devices);
  pjrt_error *failed = NULL;
  if (args->options_size)
    failed = pjrt_client_place(args->client, args->options, args->options_size, &place);
  if (failed) return failed;
  if (place.count != count)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the executable is for %d devices, not %zu",
                     (int)count, place.count);
  const char *what = parts[SERIAL_WHAT].data;
  for (size_t i = 0; i < place.count; ++i)
    if (strcmp(what, place.devices[i]->what))
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "the executable was compiled for %s, and %s is %s",
                       what, place.devices[i]->text, place.devices[i]->what);
  const pjrt_made made = {.name = parts[SERIAL_NAME].data,
                          .fingerprint = parts[SERIAL_FINGERPRINT].data,
                          .function = parts[SERIAL_FUNCTION].data,
                          .bytes = parts[SERIAL_MODULE],
                          .donated = parts[SERIAL_DONATED],
                          .route = parts[SERIAL_ROUTE],
                          .outputs = parts[SERIAL_OUTPUTS],
                          .costs = parts[SERIAL_COSTS],
                          .shardings = parts[SERIAL_SHARDINGS]};
  return pjrt_executable_load(&place, &made, &args->executable);
}
