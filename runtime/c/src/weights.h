/* A file of parameters beside a module. */
#ifndef EDGERT_WEIGHTS_H
#define EDGERT_WEIGHTS_H

#include "object.h"
#include "platform.h"

/* Files whose bytes an app gives by callbacks; pages have none. */
#if !defined(EDGERT_WITH_READERS)
#if defined(__wasm__)
#define EDGERT_WITH_READERS 0
#else
#define EDGERT_WITH_READERS 1
#endif
#endif

/* One parameter: bytes in the file, or (with a `pattern_size`) a pattern that repeats. */
typedef struct edgert_weight {
  char *name;
  size_t name_size;
  const uint8_t *data; /* NULL: a pattern, or to be asked of the reader */
  uint64_t place;      /* in the file */
  uint64_t size;
  uint8_t pattern[16];
  uint32_t pattern_size;
} edgert_weight;

struct edgert_weights {
  edgert_object object;
  edgert_mapping mapping; /* empty where the bytes are the caller's */
  edgert_text bytes;      /* the file; with a reader only its beginning can be looked at */
  edgert_reader reader;   /* `read` NULL: all is in memory */
  void *head;             /* what was read of it */
  size_t head_size;       /* of what says which weights there are */
  edgert_weight *entries; /* sorted by name */
  size_t count, capacity;
};

/* Whether its bytes are asked of a reader. */
static inline int edgert_weights_are_read(const edgert_weights *self) {
  return EDGERT_WITH_READERS && self->reader.read;
}

/* Bytes of a weight that is no pattern, all inside of it. */
edgert_status edgert_weights_copy(const edgert_weights *self, const edgert_weight *weight,
                                  uint64_t offset, void *data, size_t size, edgert_error *error);

/* NULL where there is none by that name. */
const edgert_weight *edgert_weights_find(const edgert_weights *self, edgert_text name);

#endif
