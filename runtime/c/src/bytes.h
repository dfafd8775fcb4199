/* `vm.buffer`: bytes in host memory that programs read and write. */
#ifndef EDGERT_BYTES_H
#define EDGERT_BYTES_H

#include "object.h"

typedef struct edgert_bytes {
  edgert_object object;
  uint8_t *data;
  size_t size;
  int writable;
  edgert_object *owner; /* whose memory it is; NULL: its own */
} edgert_bytes;

/* Zeroed, writable bytes; `alignment` 0 is the default, else a power of two up to 64. */
edgert_status edgert_bytes_create(const edgert_allocator *allocator, uint64_t size,
                                  uint32_t alignment, edgert_bytes **out, edgert_error *error);

/* Bytes that another object owns, which is retained. */
edgert_status edgert_bytes_view(const edgert_allocator *allocator, const uint8_t *data, size_t size,
                                edgert_object *owner, edgert_bytes **out, edgert_error *error);

/* The start of a range of `count` elements of `width` bytes at element `index`, or a status. */
edgert_status edgert_bytes_read(edgert_object *object, int64_t index, int64_t count, uint32_t width,
                                const uint8_t **out, edgert_error *error);
edgert_status edgert_bytes_write(edgert_object *object, int64_t index, int64_t count,
                                 uint32_t width, uint8_t **out, edgert_error *error);

/* The bytes as a text; empty for NULL and for anything else. */
edgert_text edgert_bytes_text(edgert_object *object);

/* SipHash-2-4 of the bytes with the key 00 01 ... 0F. */
uint64_t edgert_bytes_hash(const uint8_t *data, size_t size);

#endif
