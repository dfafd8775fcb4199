/* Seals: who signed a module, and the hashes of the weights beside it. SPEC.md has the format. */
#ifndef EDGERT_SEAL_H
#define EDGERT_SEAL_H

#include "driver.h"
#include "ed25519.h"

#if EDGERT_WITH_SIGNATURES

enum { EDGERT_LEAF_SIZE = 32 };

/* What a seal says of weights; `size` 0: it knows of none. */
typedef struct edgert_sealed_weights {
  uint64_t size;
  uint32_t page_bits;
  size_t page_count;
  const uint8_t *leaves; /* in the sealed bytes, EDGERT_LEAF_SIZE for each page */
} edgert_sealed_weights;

/* Whether the seal behind `data` is of this kind and by the owner of `key`, and the bytes before it
 * are as they were signed; else EDGERT_UNTRUSTED. */
edgert_status edgert_seal_open(const uint8_t *data, size_t size, const char *kind,
                               const uint8_t key[EDGERT_KEY_SIZE], size_t *out_content_size,
                               edgert_sealed_weights *out_weights, edgert_error *error);

/* A weights file of which a page is believed once it has been compared with its hash. */
typedef struct edgert_pages edgert_pages;

/* `leaves` are copied, `weights` retained. EDGERT_UNTRUSTED where their size is another, or where
 * what says which weights there are is not as it was signed. */
edgert_status edgert_pages_create(const edgert_allocator *allocator,
                                  const edgert_sealed_weights *sealed, edgert_weights *weights,
                                  edgert_pages **out, edgert_error *error);

/* Compare those pages of the file that were not yet, of the ones in which these bytes lie. */
edgert_status edgert_pages_check(edgert_pages *self, uint64_t offset, uint64_t size,
                                 edgert_error *error);

#endif
#endif
