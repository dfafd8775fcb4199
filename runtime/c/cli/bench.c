/* `edgert bench`: how long a function takes. */
#include <stdlib.h>

#include "work.h"

static int compare_times(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return first < second ? -1 : first > second;
}

/* What times were measured, in seconds and in order. */
typedef struct times {
  double *values;
  size_t count, capacity;
} times;

static int times_add(times *self, double value) {
  if (self->count == self->capacity) {
    size_t capacity = self->capacity ? 2 * self->capacity : 1024;
    double *values = realloc(self->values, capacity * sizeof *values);
    if (!values) return fail("out of memory");
    self->values = values;
    self->capacity = capacity;
  }
  self->values[self->count++] = value;
  return 0;
}

/* The value that a part of the times, 0 to 1, is at most; between two of them where it falls so. */
static double times_quantile(const times *self, double part) {
  double at = part * (double)(self->count - 1);
  size_t low = (size_t)at;
  if (low + 1 >= self->count) return self->values[self->count - 1];
  return self->values[low] + (at - (double)low) * (self->values[low + 1] - self->values[low]);
}

static int goes_on(const options *options, size_t count, double elapsed) {
  enum { MAX_CALLS = 1000000 };
  if (options->iterations) return count < options->iterations;
  return count < MAX_CALLS && (count < 3 || elapsed < options->seconds);
}

int verb_bench(work *self) {
  double start = now();
  if (open_session(self) != 0) return 1;
  double load = now() - start;
  if (bind_inputs(self, 1) != 0) return 1;
  start = now();
  if (call(self) != 0) return 1;
  double first = now() - start;
  times found = {NULL, 0, 0};
  int result = 0;
  double begin = now(), end = begin;
  while (result == 0 && goes_on(&self->options, found.count, end - begin)) {
    start = now();
    result = call(self);
    end = now();
    if (result == 0) result = times_add(&found, end - start);
  }
  if (result == 0) {
    double sum = 0;
    for (size_t i = 0; i < found.count; ++i) sum += found.values[i];
    qsort(found.values, found.count, sizeof *found.values, compare_times);
    const char *format =
        self->options.json
            ? "{\"load\": %.9f, \"first\": %.9f, \"min\": %.9f, \"mean\": %.9f, \"p50\": %.9f, "
              "\"p90\": %.9f, \"p99\": %.9f, \"calls\": %zu, \"per_second\": %.3f, "
              "\"threads\": %lu, \"peak\": %.0f}\n"
            : "load %.6f s, first call %.6f s, then min %.6f, mean %.6f, p50 %.6f, p90 %.6f, "
              "p99 %.6f s over %zu calls, %.1f a second on %lu threads, peak memory %.0f bytes\n";
    printf(format, load, first, found.values[0], sum / (double)found.count,
           times_quantile(&found, 0.5), times_quantile(&found, 0.9), times_quantile(&found, 0.99),
           found.count, (double)found.count / (end - begin), thread_count(self), peak_memory());
  }
  free(found.values);
  return result;
}
