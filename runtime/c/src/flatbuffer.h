/* Reads FlatBuffers that nobody vouches for: every offset is checked when it is followed.
 *
 * A reader that meets damage turns `broken` and gives zeros and empty things from then on, so that
 * a caller may read on and look once at the end. */
#ifndef EDGERT_FLATBUFFER_H
#define EDGERT_FLATBUFFER_H

#include "memory.h"

typedef struct edgert_flatbuffer {
  const uint8_t *data;
  uint32_t size;
  int broken;
} edgert_flatbuffer;

/* A table's place; 0: absent. */
typedef struct edgert_table {
  uint32_t at;
  uint32_t vtable;
  uint32_t vtable_size;
  uint32_t size;
} edgert_table;

typedef struct edgert_vector {
  uint32_t at; /* of the first element */
  uint32_t count;
} edgert_vector;

edgert_table edgert_flatbuffer_root(edgert_flatbuffer *self);

/* Fields by their number; an absent one is `otherwise`, empty or a table at 0. */
uint64_t edgert_table_number(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                             uint32_t width, uint64_t otherwise);
edgert_table edgert_table_table(edgert_flatbuffer *self, edgert_table table, uint32_t field);
edgert_vector edgert_table_vector(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                                  uint32_t width);

/* A structure that lies in the table, of `width` bytes; absent: NULL. For the driver `cuda`. */
const uint8_t *edgert_table_bytes(edgert_flatbuffer *self, edgert_table table, uint32_t field,
                                  uint32_t width);

/* A string, which is followed by a zero byte; absent: `data` is NULL. */
edgert_text edgert_table_text(edgert_flatbuffer *self, edgert_table table, uint32_t field);

/* An element of a vector of tables. */
edgert_table edgert_vector_table(edgert_flatbuffer *self, edgert_vector vector, uint32_t index);

#endif
