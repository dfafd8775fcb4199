/* Read a sound route, and then every one that differs from it by a number or by its length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"

/* Three devices, nine values, two arguments, two results; a call, an all_reduce, a permutation, a loop
 * that carries one value and uses another, a branch of two cases, and Python that gives an array. */
static const int64_t sound[] = {
    3, 9, 2, 2, 6, 4, 7,             /* the counts, and the results */
    0, 1, 1, 2, 2, 0, 1, 2, 3,       /* call the second function with its number */
    1, 2, 4, 11, 0, 2, 2, 0, 2, 1, 1, /* sum of devices 0 and 2, and of 1 by itself */
    5, 3, 5, 4, 0, 2, 2, 0, 1, 2, 1, 0, /* 0 gives 1, which gives 0 */
    7, 2, 1, 2, 5, 4, 6,             /* a loop: inputs, outputs and routes, and which */
    3, 2, 1, 1, 2, 0, 1, 0, 2, 1, 0, 1, 2, /* it goes on by what a call says */
    3, 2, 1, 1, 2, 1, 0, 2, 4, 0, 1, 3, 0, 1, 2, /* a sum over all */
    8, 3, 1, 2, 0, 5, 6, 7,          /* a branch */
    2, 2, 1, 0, 1,                   /* gives what it is given */
    3, 2, 1, 1, 2, 0, 0, 0, 2, 1, 0, 1, 2, /* or what a call makes of it */
    10, 5, 1, 2, 1, 4, 7, 8, 11, 2, 3, 4, /* the sixth, on each device, takes two values */
};
#define COUNT (sizeof sound / sizeof *sound)

static const int64_t others[] = {-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 1 << 20, INT32_MAX,
                                 INT64_MAX, INT64_MIN};

static int tried, taken;

/* In memory of just this size, so that what is read beside it is noticed. */
static void try_one(const int64_t *numbers, size_t bytes) {
  static const size_t functions[] = {7, 3};
  void *data = malloc(bytes ? bytes : 1);
  memcpy(data, numbers, bytes);
  pjrt_part part = {data, bytes};
  pjrt_route *route;
  pjrt_error *failed = pjrt_route_read(&part, functions, 2, &route);
  ++tried;
  taken += !failed;
  if (!failed != !!route) abort();
  pjrt_error_destroy(&(error_destroy_args){.error = failed});
  pjrt_route_free(route);
  free(data);
}

int main(void) {
  int64_t numbers[COUNT];
  try_one(sound, sizeof sound);
  if (!taken) return 1;
  for (size_t bytes = 0; bytes < sizeof sound; ++bytes) try_one(sound, bytes);
  if (taken != 1) return 2;
  for (size_t i = 0; i < COUNT; ++i)
    for (size_t j = 0; j < sizeof others / sizeof *others; ++j) {
      memcpy(numbers, sound, sizeof sound);
      numbers[i] = others[j];
      try_one(numbers, sizeof numbers);
    }
  printf("%d %d\n", tried, taken);
  return 0;
}
