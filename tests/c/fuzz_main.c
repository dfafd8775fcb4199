/* A small coverage-guided fuzzer for where libFuzzer is not: changes inputs, keeps those that take
 * a way through the code that no other took, and changes these again.
 *
 *     cc -c -O1 -fsanitize=address,undefined fuzz_main.c
 *     cc -O1 -fsanitize=address,undefined -fsanitize-coverage=trace-pc fuzz.c ... fuzz_main.o
 *     fuzz COUNT SEED CORPUS [OUTPUT]
 *
 * CORPUS is a folder of inputs, read from the smallest to the largest. OUTPUT is a folder to write
 * the kept inputs to, so COUNT 0 leaves the inputs of a corpus that the smaller ones do not make
 * needless. Prints how many ways were taken and how many inputs were kept. What crashes, or runs
 * for more than ten seconds, is written to `fuzz-found` in the current folder. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { WAYS = 1 << 18, MOST_KEPT = 1 << 14, MOST_BYTES = 1 << 16, MOST_SECONDS = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_cov_trace_pc(void);
void __sanitizer_set_death_callback(void (*callback)(void));

static uint8_t taken[WAYS]; /* from one place of the code to the next, by any input so far */
static uintptr_t last_place;
static int is_new; /* whether the input that runs took a new way */
static size_t way_count;

void __sanitizer_cov_trace_pc(void) {
  uintptr_t place = (uintptr_t)__builtin_return_address(0);
  size_t way = (place ^ place >> 18 ^ last_place * 31) & (WAYS - 1);
  last_place = place;
  if (taken[way]) return;
  taken[way] = 1;
  way_count += 1;
  is_new = 1;
}

typedef struct input {
  uint8_t *data;
  size_t size;
} input;

static input kept[MOST_KEPT];
static size_t kept_count;
static input running;
static uint64_t state;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static size_t below(size_t limit) { return limit ? (size_t)(next_random() % limit) : 0; }

static void save_running(void) {
  int file = open("fuzz-found", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  if (write(file, running.data, running.size) < 0) _exit(3);
  close(file);
}

static void give_up(int number) {
  (void)number;
  save_running();
  _exit(4);
}

/* Of the processor's time, so that a machine that is busy, or a run that is held, is no hang. */
static void limit_seconds(int seconds) {
  const struct itimerval limit = {.it_value = {.tv_sec = seconds}};
  if (setitimer(ITIMER_PROF, &limit, NULL)) exit(2);
}

/* Run an input in a block of exactly its size, and keep it where it took a new way. */
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = aligned_alloc(64, (size + 64) / 64 * 64);
  uint8_t *exact = malloc(size ? size : 1);
  if (!copy || !exact) exit(2);
  memcpy(copy, data, size);
  memcpy(exact, data, size);
  is_new = 0;
  last_place = 0;
  running = (input){exact, size};
  limit_seconds(MOST_SECONDS);
  LLVMFuzzerTestOneInput(size % 2 ? copy : exact, size);
  limit_seconds(0);
  free(copy);
  if (is_new && kept_count < MOST_KEPT)
    kept[kept_count++] = (input){exact, size};
  else
    free(exact);
}

static const uint32_t telling[] = {0,      1,          2,          4,          8,          16,
                                   0x7F,   0x80,       0xFF,       0x100,      0x3FFF,     0x4000,
                                   0x7FFF, 0x8000,     0xFFFF,     0x10000,    0x7FFFFFFF, 0x80000000,
                                   0xC000, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000001, 0xFFFFFFF0};

/* One change; the new size. */
static size_t change(uint8_t *data, size_t size) {
  size_t at = below(size), other = below(size);
  size_t length = 1 + below(16);
  uint32_t value = telling[below(sizeof telling / sizeof *telling)];
  const input *donor = &kept[below(kept_count)];
  if (size < 64) return size;
  switch (below(10)) {
    case 0:
      data[at] ^= (uint8_t)(1u << below(8));
      return size;
    case 1:
      data[at] = (uint8_t)next_random();
      return size;
    case 2:
      data[at] = (uint8_t)(data[at] + below(9) - 4);
      return size;
    case 3:
      if (at + 4 <= size) memcpy(data + at, &value, 4);
      return size;
    case 4:
      if (at + 2 <= size) memcpy(data + at, &value, 2);
      return size;
    case 5:
      if (at + length <= size && other + length <= size) memmove(data + at, data + other, length);
      return size;
    case 6:
      if (at + length >= size) return size;
      memmove(data + at, data + at + length, size - at - length);
      return size - length;
    case 7: /* a piece of another input */
      other = below(donor->size);
      if (at + length <= size && other + length <= donor->size)
        memcpy(data + at, donor->data + other, length);
      return size;
    case 8: /* a small number where one was: counts, registers, codes */
      data[at] = (uint8_t)below(24);
      return size;
    default:
      if (size + length > MOST_BYTES) return size;
      memmove(data + at + length, data + at, size - at);
      return size + length;
  }
}

static int is_larger(const void *a, const void *b) {
  size_t first = ((const input *)a)->size, second = ((const input *)b)->size;
  return (first > second) - (first < second);
}

/* All files of a folder, the smallest first; how many. */
static size_t read_corpus(const char *folder, input *out) {
  static uint8_t buffer[MOST_BYTES];
  size_t count = 0;
  DIR *entries = opendir(folder);
  if (!entries || chdir(folder)) return 0;
  for (struct dirent *entry; count < MOST_KEPT && (entry = readdir(entries));) {
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(entry->d_name, "rb");
    if (!file) continue;
    size_t size = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    out[count] = (input){malloc(size ? size : 1), size};
    if (!out[count].data) exit(2);
    memcpy(out[count++].data, buffer, size);
  }
  closedir(entries);
  qsort(out, count, sizeof *out, is_larger);
  return count;
}

static int write_kept(const char *folder) {
  if (chdir(folder)) return 2;
  for (size_t i = 0; i < kept_count; ++i) {
    char name[32];
    snprintf(name, sizeof name, "%05zu", i);
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(kept[i].data, 1, kept[i].size, file) != kept[i].size) return 2;
    if (fclose(file)) return 2;
  }
  return 0;
}

int main(int count, char **arguments) {
  static uint8_t buffer[MOST_BYTES];
  static input corpus[MOST_KEPT];
  if (count < 4) return 2;
  long executions = strtol(arguments[1], NULL, 10);
  state = strtoull(arguments[2], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
  int start = open(".", O_RDONLY);
  size_t corpus_count = read_corpus(arguments[3], corpus);
  if (start < 0 || fchdir(start)) return 2;
  signal(SIGPROF, give_up);
  __sanitizer_set_death_callback(save_running);
  for (size_t i = 0; i < corpus_count; ++i) {
    run(corpus[i].data, corpus[i].size);
    free(corpus[i].data);
  }
  if (!kept_count) return 2;
  for (long i = 0; i < executions; ++i) {
    size_t latest = kept_count - 1 - below(kept_count / 4 + 1);
    const input *chosen = &kept[below(2) ? below(kept_count) : latest];
    memcpy(buffer, chosen->data, chosen->size);
    size_t size = chosen->size;
    for (size_t changes = 1 + below(4); changes > 0; --changes) size = change(buffer, size);
    run(buffer, size);
  }
  printf("%ld executions, %zu ways taken, %zu inputs kept\n", executions, way_count, kept_count);
  int status = count > 4 ? write_kept(arguments[4]) : 0;
  for (size_t i = 0; i < kept_count; ++i) free(kept[i].data);
  close(start);
  return status;
}
