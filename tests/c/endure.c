/* Calls and sessions without end on one device: nothing may be left of them.
 *
 *     endure MODULE DRIVER CALLS SESSIONS [CACHE]
 *
 * Calls function 0 on zeros. The exit status is 0 where every call gave the same bits, and memory,
 * what the process has resident, and its open files are at the end what they were after the first
 * calls. CACHE is where the driver keeps compiled kernels. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "edgert/edgert.h"

enum { MOST = 16, WARM = 300, MOST_GROWTH_KB = 4096 };

static atomic_long live, live_bytes;

static void *allocate(void *user, size_t size, size_t alignment) {
  (void)user;
  size_t room = (size + 127) / 64 * 64;
  char *memory = aligned_alloc(64, room);
  (void)alignment; /* at most 64 */
  if (!memory) return NULL;
  memcpy(memory, &size, sizeof size);
  atomic_fetch_add(&live, 1);
  atomic_fetch_add(&live_bytes, (long)size);
  return memory + 64;
}

static void release(void *user, void *memory) {
  (void)user;
  if (!memory) return;
  size_t size;
  memcpy(&size, (char *)memory - 64, sizeof size);
  atomic_fetch_sub(&live, 1);
  atomic_fetch_sub(&live_bytes, (long)size);
  free((char *)memory - 64);
}

static const edgert_allocator allocator = {NULL, allocate, release};
static edgert_error error;
static edgert_device *device;
static edgert_module *module;

static void need(edgert_status status, const char *what) {
  if (status == EDGERT_OK) return;
  fprintf(stderr, "%s: %s\n", what, error.message);
  exit(1);
}

static edgert_session *open_session(void) {
  edgert_session_options options = {.size = sizeof options, .allocator = allocator};
  edgert_session *session;
  need(edgert_session_create(module, device, &options, &session, &error), "session");
  return session;
}

static unsigned long long bits_of(const edgert_value *result) {
  size_t size = (size_t)edgert_tensor_size(result->as.tensor);
  unsigned char *data = malloc(size + 1);
  unsigned long long sum = size;
  if (!data) exit(2);
  need(edgert_tensor_read(result->as.tensor, data, size, &error), "read");
  for (size_t i = 0; i < size; ++i) sum = sum * 31 + data[i];
  free(data);
  return sum;
}

static unsigned long long call(edgert_session *session, int is_read) {
  edgert_value inputs[MOST] = {{.kind = EDGERT_NONE}}, outputs[MOST] = {{.kind = EDGERT_NONE}};
  size_t takes = edgert_module_input_count(module, 0), gives = edgert_module_output_count(module, 0);
  unsigned long long sum = 0;
  for (size_t i = 0; i < takes && i < MOST; ++i) {
    edgert_argument spec;
    need(edgert_module_input(module, 0, i, &spec, &error), "input");
    inputs[i].kind = EDGERT_TENSOR;
    need(edgert_tensor_create(device, spec.type, spec.rank, spec.shape, &inputs[i].as.tensor, &error),
         "tensor");
    size_t size = (size_t)edgert_tensor_size(inputs[i].as.tensor);
    void *zeros = calloc(size + 1, 1);
    if (!zeros) exit(2);
    need(edgert_tensor_write(inputs[i].as.tensor, zeros, size, &error), "write");
    free(zeros);
  }
  need(edgert_session_call(session, 0, inputs, takes, outputs, gives, &error), "call");
  for (size_t i = 0; is_read && i < gives; ++i) sum = sum * 131 + bits_of(&outputs[i]);
  for (size_t i = 0; i < takes; ++i) edgert_tensor_release(inputs[i].as.tensor);
  for (size_t i = 0; i < gives; ++i) edgert_tensor_release(outputs[i].as.tensor);
  return sum;
}

static long resident_kb(void) {
  long pages = 0, all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) exit(2);
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static long count_of(const char *folder) {
  long count = 0;
  DIR *entries = opendir(folder);
  if (!entries) exit(2);
  while (readdir(entries)) ++count;
  closedir(entries);
  return count;
}

int main(int count, char **words) {
  if (count < 5) return 2;
  long calls = atol(words[3]), sessions = atol(words[4]);
  edgert_device_options options = {.size = sizeof options, .threads = 1, .allocator = allocator};
  options.cache_file = count > 5 ? words[5] : NULL;
  edgert_module_options module_options = {.size = sizeof module_options, .allocator = allocator};
  need(edgert_device_create(words[2], &options, &device, &error), "device");
  need(edgert_module_open(words[1], &module_options, &module, &error), "module");
  edgert_session *session = open_session();
  unsigned long long expected = call(session, 1), wrong = 0;
  for (int i = 0; i < WARM; ++i) call(session, 0);
  for (int i = 0; i < WARM / 10; ++i) {
    edgert_session *other = open_session();
    call(other, 0);
    edgert_session_release(other);
  }
  long before[] = {live, live_bytes, resident_kb(), count_of("/proc/self/fd"),
                   count_of("/proc/self/task")};
  for (long i = 0; i < calls; ++i) wrong += i % 100 ? call(session, 0) != 0 : call(session, 1) != expected;
  for (long i = 0; i < sessions; ++i) {
    edgert_session *other = open_session();
    wrong += call(other, 1) != expected;
    edgert_session_release(other);
  }
  long after[] = {live, live_bytes, resident_kb(), count_of("/proc/self/fd"),
                  count_of("/proc/self/task")};
  printf("%s: %ld calls, %ld sessions, %llu wrong; blocks %ld to %ld, bytes %ld to %ld, resident %ld to "
         "%ld KB, files %ld to %ld, threads %ld to %ld\n",
         edgert_device_name(device), calls, sessions, wrong, before[0], after[0], before[1], after[1],
         before[2], after[2], before[3], after[3], before[4], after[4]);
  int is_same = after[0] <= before[0] && after[1] <= before[1] && after[3] <= before[3] &&
                after[4] <= before[4] && after[2] <= before[2] + MOST_GROWTH_KB;
  edgert_session_release(session);
  edgert_module_release(module);
  edgert_device_release(device);
  if (live) fprintf(stderr, "%ld blocks were not given back\n", (long)live);
  return wrong || !is_same || live;
}
