/* A small coverage-guided fuzzer for where libFuzzer is not: changes inputs, keeps those that reach
 * code that no other reached, and changes these again.
 *
 *     cc -c -O1 -fsanitize=address,undefined fuzz_main.c
 *     cc -O1 -fsanitize=address,undefined -fsanitize-coverage=trace-pc fuzz.c ... fuzz_main.o
 *     fuzz COUNT SEED FILE...
 *
 * Prints how many places were reached and how many inputs were kept. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 16, MOST_KEPT = 8192, MOST_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_cov_trace_pc(void);

static uint8_t reached[PLACES]; /* by any input so far */
static int is_new;              /* whether the input that runs reached a new place */
static size_t place_count;

void __sanitizer_cov_trace_pc(void) {
  uintptr_t at = (uintptr_t)__builtin_return_address(0);
  size_t place = (at ^ at >> 16) & (PLACES - 1);
  if (reached[place]) return;
  reached[place] = 1;
  place_count += 1;
  is_new = 1;
}

typedef struct input {
  uint8_t *data;
  size_t size;
} input;

static input kept[MOST_KEPT];
static size_t kept_count;
static uint64_t state;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static size_t below(size_t limit) { return limit ? (size_t)(next_random() % limit) : 0; }

/* Run an input in a block of exactly its size, and keep it where it reached something new. */
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = aligned_alloc(64, (size + 64) / 64 * 64);
  uint8_t *exact = malloc(size ? size : 1);
  if (!copy || !exact) exit(2);
  memcpy(copy, data, size);
  memcpy(exact, data, size);
  is_new = 0;
  LLVMFuzzerTestOneInput(size % 2 ? copy : exact, size);
  free(copy);
  if (is_new && kept_count < MOST_KEPT)
    kept[kept_count++] = (input){exact, size};
  else
    free(exact);
}

static const uint32_t telling[] = {0,      1,          2,          4,          8,         16,
                                   0x7F,   0x80,       0xFF,       0x100,      0x3FFF,    0x4000,
                                   0x7FFF, 0x8000,     0xFFFF,     0x10000,    0x7FFFFFFF, 0x80000000,
                                   0xC000, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000001, 0xFFFFFFF0};

/* One change; the new size. */
static size_t change(uint8_t *data, size_t size) {
  size_t at = below(size), other = below(size);
  size_t length = 1 + below(16);
  uint32_t value = telling[below(sizeof telling / sizeof *telling)];
  if (size < 64) return size;
  switch (below(8)) {
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
    default:
      if (size + length > MOST_BYTES) return size;
      memmove(data + at + length, data + at, size - at);
      return size + length;
  }
}

int main(int count, char **arguments) {
  static uint8_t buffer[MOST_BYTES];
  if (count < 4) return 2;
  long executions = strtol(arguments[1], NULL, 10);
  state = strtoull(arguments[2], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
  for (int i = 3; i < count; ++i) {
    FILE *file = fopen(arguments[i], "rb");
    if (!file) return 2;
    size_t size = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    run(buffer, size);
  }
  if (!kept_count) return 2;
  for (long i = 0; i < executions; ++i) {
    const input *chosen = &kept[below(2) ? below(kept_count) : kept_count - 1 - below(kept_count / 4 + 1)];
    memcpy(buffer, chosen->data, chosen->size);
    size_t size = chosen->size;
    for (size_t changes = 1 + below(4); changes > 0; --changes) size = change(buffer, size);
    run(buffer, size);
  }
  printf("%ld executions, %zu places reached, %zu inputs kept\n", executions, place_count,
         kept_count);
  for (size_t i = 0; i < kept_count; ++i) free(kept[i].data);
  return 0;
}
