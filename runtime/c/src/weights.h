/* A file of parameters beside a module. */
#ifndef EDGERT_WEIGHTS_H
#define EDGERT_WEIGHTS_H

#include "object.h"
#include "platform.h"

/* One parameter: bytes in the file, or (`data` NULL) a pattern that repeats. */
typedef struct edgert_weight {
  char *name;
  size_t name_size;
  const uint8_t *data;
  uint64_t size;
  uint8_t pattern[16];
  uint32_t pattern_size;
} edgert_weight;

struct edgert_weights {
  edgert_object object;
  edgert_mapping mapping; /* empty where the bytes are the caller's */
  edgert_text bytes;      /* the whole file */
  void (*release)(void *user);
  void *user;
  edgert_weight *entries; /* sorted by name */
  size_t count, capacity;
};

/* NULL where there is none by that name. */
const edgert_weight *edgert_weights_find(const edgert_weights *self, edgert_text name);

#endif
