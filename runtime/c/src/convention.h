/* Calling conventions: which values a function takes and gives, as in `0rIi_r`.
 *
 * An optional version `0`, the codes of the arguments, `_`, the codes of the results: i and I are
 * integers of 32 and 64 bits, f and F floats, r a reference, v nothing, C...D a repeated group. */
#ifndef EDGERT_CONVENTION_H
#define EDGERT_CONVENTION_H

#include "status.h"

/* One side of a convention, without `v`. */
typedef struct edgert_codes {
  const char *data;
  uint32_t count;
} edgert_codes;

typedef struct edgert_convention {
  edgert_codes arguments;
  edgert_codes results;
  int has_spans;
} edgert_convention;

/* 1, or 0 where the text is no convention. */
int edgert_convention_parse(edgert_text text, edgert_convention *out);

/* The registers that values without spans fill: words (64-bit values at even ones) and refs. */
void edgert_codes_registers(edgert_codes codes, uint32_t *out_words, uint32_t *out_refs);

#endif
