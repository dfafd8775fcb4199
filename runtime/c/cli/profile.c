/* `edgert profile`: which kernels of a function take the time. */
#include <stdlib.h>
#include <string.h>

#include "work.h"

/* What ran under one name. */
typedef struct row {
  edgert_timing of;
  size_t count;
  double total, least, most; /* seconds */
} row; /* `of` has what a GPU was idle before all of them */

typedef struct table {
  row *rows;
  size_t count, capacity;
  int is_full; /* there was no memory for all */
  int is_told;
} table;

static void table_note(void *user, const edgert_timing *timing) {
  table *self = user;
  double seconds = (double)timing->nanoseconds * 1e-9;
  size_t i = 0;
  if (!self->is_told) return;
  while (i < self->count && strcmp(self->rows[i].of.kernel, timing->kernel) != 0) ++i;
  if (i == self->count) {
    if (self->count == self->capacity) {
      size_t capacity = self->capacity ? 2 * self->capacity : 64;
      row *rows = realloc(self->rows, capacity * sizeof *rows);
      if (!rows) {
        self->is_full = 1;
        return;
      }
      self->rows = rows;
      self->capacity = capacity;
    }
    self->rows[self->count] = (row){.of = *timing, .least = seconds};
    self->rows[self->count++].of.idle_nanoseconds = 0;
  }
  row *found = &self->rows[i];
  found->of.idle_nanoseconds += timing->idle_nanoseconds;
  found->count += 1;
  found->total += seconds;
  if (seconds < found->least) found->least = seconds;
  if (seconds > found->most) found->most = seconds;
}

static int compare_rows(const void *a, const void *b) {
  double first = ((const row *)a)->total, second = ((const row *)b)->total;
  return first > second ? -1 : first < second;
}

/* Letters as JSON has them between quotes. */
static void print_quoted(const char *text, size_t size) {
  putchar('"');
  for (size_t i = 0; i < size; ++i) {
    unsigned char letter = (unsigned char)text[i];
    if (letter < 0x20)
      printf("\\u%04x", letter);
    else if (letter == '"' || letter == '\\')
      printf("\\%c", letter);
    else
      putchar(letter);
  }
  putchar('"');
}

static void print_json(work *self, const table *table, size_t calls, double seconds) {
  printf("{\"calls\": %zu, \"seconds\": %.9f, \"threads\": %lu, \"dispatches\": [", calls, seconds,
         thread_count(self));
  for (size_t i = 0; i < table->count; ++i) {
    const row *row = &table->rows[i];
    printf("%s{\"name\": ", i ? ", " : "");
    print_quoted(row->of.kernel, strlen(row->of.kernel));
    printf(", \"file\": ");
    print_quoted(row->of.file ? row->of.file : "", row->of.file ? row->of.file_size : 0);
    printf(", \"line\": %lu, \"count\": %zu, \"total\": %.9f, \"min\": %.9f, \"max\": %.9f}",
           (unsigned long)row->of.line, row->count, row->total, row->least, row->most);
  }
  printf("]}\n");
}

static void print_table(const table *table, size_t calls, double seconds) {
  double inside = 0, idle = 0;
  printf("%8s %12s %7s  %s\n", "count", "total s", "share", "kernel");
  for (size_t i = 0; i < table->count; ++i) {
    const row *row = &table->rows[i];
    inside += row->total;
    idle += (double)row->of.idle_nanoseconds * 1e-9;
    printf("%8zu %12.6f %6.1f%%  %s", row->count, row->total, 100 * row->total / seconds,
           row->of.kernel);
    if (row->of.file && row->of.line)
      printf(" (%.*s:%lu)", (int)row->of.file_size, row->of.file, (unsigned long)row->of.line);
    printf("\n");
  }
  if (idle > 0)
    printf("%8zu %12.6f %6.1f%%  calls, between these\n", calls, idle, 100 * idle / seconds);
  printf("%8zu %12.6f %6.1f%%  calls, outside of these\n", calls, seconds - inside - idle,
         100 * (seconds - inside - idle) / seconds);
}

int verb_profile(work *self) {
  table found = {.is_told = 0};
  self->timed = table_note;
  self->timed_user = &found;
  if (open_session(self) != 0) return 1;
  size_t calls = self->options.iterations ? self->options.iterations : 10;
  int result = bind_inputs(self, 1);
  if (result == 0) result = call(self); /* the pool learns what each kernel costs */
  found.is_told = 1;
  double begin = now();
  for (size_t i = 0; i < calls && result == 0; ++i) result = call(self);
  double seconds = now() - begin;
  found.is_told = 0;
  if (result == 0 && found.is_full) result = fail("out of memory");
  if (found.count) qsort(found.rows, found.count, sizeof *found.rows, compare_rows);
  if (result == 0 && self->options.json)
    print_json(self, &found, calls, seconds);
  else if (result == 0)
    print_table(&found, calls, seconds);
  free(found.rows);
  return result;
}
