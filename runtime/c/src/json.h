/* Reads JSON that nobody vouches for, in place and in one pass.
 *
 * A cursor that meets damage turns `broken` and gives nothing from then on. */
#ifndef EDGERT_JSON_H
#define EDGERT_JSON_H

#include "status.h"

typedef struct edgert_json {
  const char *at;
  const char *end;
  int broken;
} edgert_json;

/* A position inside an object or array: how many members were read. */
typedef struct edgert_json_scope {
  int entered;
  size_t count;
} edgert_json_scope;

edgert_json edgert_json_begin(const char *data, size_t size);

/* The next key of an object, with the cursor on its value; 0 behind the last. A key is as written,
 * with its escapes. */
int edgert_json_member(edgert_json *self, edgert_json_scope *scope, edgert_text *out_key);

/* Go to the next element of an array; 0 behind the last. */
int edgert_json_element(edgert_json *self, edgert_json_scope *scope);

/* The value under the cursor. */
edgert_text edgert_json_string(edgert_json *self);
int64_t edgert_json_integer(edgert_json *self);
void edgert_json_skip(edgert_json *self);
char edgert_json_peek(edgert_json *self); /* its first letter, 0 at the end */

/* A string without its escapes, as UTF-8, terminated and cut at `size`; its length. */
size_t edgert_json_decode(edgert_text text, char *out, size_t size);

#endif
