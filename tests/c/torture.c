/* Hurts edgert and looks whether it stays sound: memory that runs out, files cut short, bits
 * flipped. Built with sanitizers; the exit status is 0 where all went well.
 *
 *     torture allocations MODULE   fail every allocation once, on the CPU
 *     torture truncations MODULE   cut the file at every 64 bytes
 *     torture flips MODULE COUNT [SEED]   change a few bytes, COUNT times, without native code
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert.h"

/* An allocator that counts, that refuses the allocation number `fail_at`, and all large ones. */
typedef struct counter {
  long made;
  long live;
  long fail_at;
} counter;

#define LARGEST ((size_t)64 << 20)

static void *counter_allocate(void *user, size_t size, size_t alignment) {
  counter *self = user;
  if (self->made++ == self->fail_at || size > LARGEST) return NULL;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory) self->live += 1;
  return memory;
}

static void counter_release(void *user, void *memory) {
  counter *self = user;
  self->live -= 1;
  free(memory);
}

static int problems = 0;

static void complain(const char *what, const char *detail) {
  fprintf(stderr, "%s: %s\n", what, detail);
  problems += 1;
}

/* Zeros for every argument of a function; every other tensor is given away. */
static edgert_status make_arguments(edgert_device *device, edgert_module *module, size_t function,
                                    edgert_value *out, size_t count, edgert_error *error) {
  for (size_t i = 0; i < count; ++i) {
    edgert_argument spec;
    edgert_status status = edgert_module_input(module, function, i, &spec, error);
    if (status != EDGERT_OK) return status;
    out[i].kind = spec.kind;
    if (spec.kind != EDGERT_TENSOR) continue;
    for (uint32_t d = 0; d < spec.rank; ++d) {
      if (spec.shape[d] < 0) spec.shape[d] = 2;
      if (spec.shape[d] > 4096) spec.shape[d] = 1;
    }
    if (!spec.type) spec.type = EDGERT_F32;
    out[i].kind = EDGERT_NONE;
    status = edgert_tensor_create(device, spec.type, spec.rank, spec.shape, &out[i].as.tensor,
                                  error);
    if (status != EDGERT_OK) return status;
    out[i].kind = EDGERT_TENSOR;
    size_t size = (size_t)edgert_tensor_size(out[i].as.tensor);
    void *zeros = calloc(size + 1, 1);
    if (zeros) status = edgert_tensor_write(out[i].as.tensor, zeros, size, error);
    free(zeros);
    if (status != EDGERT_OK) return status;
    if (i % 2) out[i].kind = EDGERT_GIVEN_TENSOR;
  }
  return EDGERT_OK;
}

static void drop(edgert_value *values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (values[i].kind == EDGERT_TENSOR || values[i].kind == EDGERT_GIVEN_TENSOR)
      edgert_tensor_release(values[i].as.tensor);
}

static edgert_status call(edgert_device *device, edgert_module *module, edgert_session *session,
                          size_t function, edgert_error *error) {
  enum { MOST = 64 };
  edgert_value arguments[MOST] = {{.kind = EDGERT_NONE}}, results[MOST] = {{.kind = EDGERT_NONE}};
  size_t takes = edgert_module_input_count(module, function);
  size_t gives = edgert_module_output_count(module, function);
  if (takes > MOST || gives > MOST) return EDGERT_OK;
  edgert_status status = make_arguments(device, module, function, arguments, takes, error);
  if (status == EDGERT_OK)
    status = edgert_session_call(session, function, arguments, takes, results, gives, error);
  drop(arguments, takes);
  drop(results, gives);
  return status;
}

/* Everything, from a file's bytes to every function; the first failure. */
static edgert_status all(const char *driver, unsigned threads, const void *data, size_t size,
                         counter *memory, edgert_error *error) {
  edgert_allocator allocator = {memory, counter_allocate, counter_release};
  edgert_device_options device_options = {
      .size = sizeof device_options, .threads = threads, .allocator = allocator};
  edgert_module_options module_options = {.size = sizeof module_options, .allocator = allocator};
  edgert_session_options session_options = {
      .size = sizeof session_options, .allocator = allocator, .max_steps = 20000};
  edgert_device *device = NULL;
  edgert_module *module = NULL;
  edgert_session *session = NULL;
  edgert_status status = edgert_device_create(driver, &device_options, &device, error);
  if (status == EDGERT_OK)
    status = edgert_module_wrap(data, size, NULL, NULL, &module_options, &module, error);
  if (status == EDGERT_OK)
    status = edgert_session_create(module, device, &session_options, &session, error);
  if (status == EDGERT_OK) {
    size_t count = edgert_module_function_count(module);
    for (size_t i = 0; i < count && i < 256; ++i) {
      edgert_error own;
      edgert_status one = call(device, module, session, i, &own);
      if (one == EDGERT_OK || status != EDGERT_OK) continue;
      status = one;
      *error = own;
    }
  }
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
  return status;
}

static uint8_t *aligned_copy(const uint8_t *data, size_t size) {
  uint8_t *copy = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
  if (copy) memcpy(copy, data, size);
  return copy;
}

static void fail_allocations(const uint8_t *data, size_t size) {
  long count = 0;
  counter plenty = {0, 0, -1};
  edgert_error error;
  edgert_status usual = all("cpu", 2, data, size, &plenty, &error);
  for (;; ++count) {
    counter memory = {0, 0, count};
    edgert_status status = all("cpu", 2, data, size, &memory, &error);
    if (memory.live) complain("memory is leaked", error.message);
    if (memory.made <= count) {
      if (status != usual) complain("without failures it runs otherwise", error.message);
      break;
    }
    if (status != EDGERT_OUT_OF_MEMORY && status != usual)
      complain("a failed allocation is not reported", error.message);
    if (status == EDGERT_OK && usual == EDGERT_OK)
      complain("a failed allocation is hidden", "");
    if (status != EDGERT_OK && status != error.status)
      complain("the error has another status", error.message);
  }
  printf("%ld allocations failed\n", count);
}

static void truncate_file(const uint8_t *data, size_t size) {
  long refused = 0, count = 0;
  for (size_t length = 0; length < size; length += 64, ++count) {
    counter memory = {0, 0, -1};
    edgert_error error;
    /* A block of exactly that length, so that a sanitizer sees what lies behind. */
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy) return;
    memcpy(copy, data, length);
    edgert_status status = all("null", 1, copy, length, &memory, &error);
    if (status != EDGERT_OK) refused += 1;
    if (memory.live) complain("memory is leaked", error.message);
    free(copy);
  }
  printf("%ld of %ld refused\n", refused, count);
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void flip_bytes(const uint8_t *data, size_t size, long count, uint64_t seed) {
  uint64_t state = 0x9E3779B97F4A7C15u ^ seed * 0x2545F4914F6CDD1Du;
  long refused = 0;
  uint8_t *copy = aligned_copy(data, size);
  if (!copy) return;
  for (long i = 0; i < count; ++i) {
    size_t places[4];
    size_t changes = 1 + next_random(&state) % 4;
    for (size_t c = 0; c < changes; ++c) {
      places[c] = next_random(&state) % size;
      uint64_t kind = next_random(&state) % 4;
      copy[places[c]] = kind == 0   ? (uint8_t)next_random(&state)
                        : kind == 1 ? (uint8_t)(copy[places[c]] + 1)
                        : kind == 2 ? 0xFF
                                    : (uint8_t)(copy[places[c]] ^ 1u << next_random(&state) % 8);
    }
    counter memory = {0, 0, -1};
    edgert_error error;
    if (all("null", 1, copy, size, &memory, &error) != EDGERT_OK) refused += 1;
    if (memory.live) complain("memory is leaked", error.message);
    for (size_t c = 0; c < changes; ++c) copy[places[c]] = data[places[c]];
  }
  printf("%ld of %ld refused\n", refused, count);
  free(copy);
}

int main(int count, char **arguments) {
  if (count < 3) return 2;
  FILE *file = fopen(arguments[2], "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) return 2;
  size_t size = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
  if (!data || fread(data, 1, size, file) != size) return 2;
  fclose(file);
  if (strcmp(arguments[1], "allocations") == 0)
    fail_allocations(data, size);
  else if (strcmp(arguments[1], "truncations") == 0)
    truncate_file(data, size);
  else if (strcmp(arguments[1], "flips") == 0 && count > 3)
    flip_bytes(data, size, strtol(arguments[3], NULL, 10),
               count > 4 ? strtoull(arguments[4], NULL, 10) : 0);
  else
    return 2;
  free(data);
  return problems ? 1 : 0;
}
