/* SHA-512 and the checking of Ed25519 signatures, by Monocypher (third_party/monocypher). */
#ifndef EDGERT_ED25519_H
#define EDGERT_ED25519_H

#include <stddef.h>
#include <stdint.h>

enum { EDGERT_HASH_SIZE = 64, EDGERT_KEY_SIZE = 32, EDGERT_SIGNATURE_SIZE = 64 };

/* The hash of two pieces, one behind the other. */
void edgert_hash(const void *first, size_t first_size, const void *second, size_t second_size,
                 uint8_t out[EDGERT_HASH_SIZE]);

/* Whether `signature` is one of `data` by the owner of `key`. */
int edgert_signature_is_right(const uint8_t signature[EDGERT_SIGNATURE_SIZE],
                              const uint8_t key[EDGERT_KEY_SIZE], const void *data, size_t size);

#endif
