/* `hal.buffer_view`: a buffer with a shape and an element type. The public `edgert_tensor`. */
#ifndef EDGERT_TENSOR_H
#define EDGERT_TENSOR_H

#include "driver.h"

#define EDGERT_DENSE 1u /* row major, the only encoding there is */

struct edgert_tensor {
  edgert_object object;
  edgert_buffer *buffer; /* the tensor's bytes and no others */
  uint32_t type;
  uint32_t encoding;
  uint64_t size; /* bytes */
  size_t rank;
  int64_t shape[];
};

/* A tensor over a part of a buffer, which is retained. */
edgert_status edgert_tensor_view(edgert_buffer *buffer, uint64_t offset, uint64_t length,
                                 uint32_t type, uint32_t encoding, size_t rank,
                                 const int64_t *shape, edgert_tensor **out, edgert_error *error);

/* Whether a tensor's memory is the device's own, and nobody has a reference to it beyond so many to
 * the tensor. */
int edgert_tensor_is_alone(const edgert_tensor *self, size_t references);

/* Whether programs may take one type of elements for the other: integers by their width. */
int edgert_type_fits(uint32_t type, uint32_t wanted);

#endif
