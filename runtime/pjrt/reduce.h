/* Arrays of several devices to one, element by element, in the devices' order. */
#ifndef EDGEC_PJRT_REDUCE_H
#define EDGEC_PJRT_REDUCE_H

#include "route.h"

/* Reduce `size` bytes from byte `begin` on of `count` arrays of edgert's `type` into `out`. False:
 * elements of that type are not reduced so. */
bool pjrt_reduce(pjrt_reduction reduction, uint32_t type, const void *const *arrays, size_t count,
                 size_t begin, size_t size, void *out);

#endif
