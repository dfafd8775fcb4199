/* Arrays as the command line has them: numbers, `.npy` files, `.npz` archives. */
#ifndef EDGERT_CLI_ARRAY_H
#define EDGERT_CLI_ARRAY_H

#include <stdio.h>

#include "edgert/edgert.h"

/* A tensor's elements in memory at EDGERT_ALIGNMENT, made by `array_reserve`. */
typedef struct array {
  uint32_t type;
  uint32_t rank;
  int64_t shape[EDGERT_MAX_RANK];
  size_t size; /* bytes */
  void *data;
} array;

/* All of these return 0, or -1 with a sentence in `problem`. */
enum { ARRAY_PROBLEM_SIZE = 256 };

/* Memory for the type and shape that are set, zeroed. */
int array_reserve(array *self, char *problem);
void array_free(array *self);

/* `2x3xf32` into type and shape; the letters that were read, 0 where it is none. */
size_t array_parse_type(array *self, const char *text);

/* Numbers separated by commas, blanks and brackets; one number fills the array. */
int array_parse_values(array *self, const char *text, char *problem);

/* A whole `.npy` file, or raw bytes of the type and shape that are set. */
int array_read_npy(array *self, const char *path, char *problem);
int array_read_raw(array *self, const char *path, char *problem);

/* One array as `.npy`, or several with their names as `.npz` (told apart by the path's end). */
int array_write(const char *path, const array *arrays, const char *const *names, size_t count,
                char *problem);

/* `name: f32[2, 3] = [...]` with at most some dozen numbers. */
void array_print(FILE *stream, const char *name, const array *self);

#endif
